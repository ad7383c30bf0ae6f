//! The server's errors as reasons of ours.

use postgres::error::{Severity, SqlState};

use crate::call::Run;
use crate::driver::sql::ended;
use crate::outcome::{Executed, Failure, FailureReason};

/// Tells what the server, or the way to it, made of a call from what became of it because it was
/// `ending`.
pub(super) fn by_whom(failure: Failure, ending: Option<FailureReason>, run: &Run) -> Failure {
    let verdict = matches!(
        failure.reason,
        FailureReason::QueryFailed | FailureReason::InvalidCall | FailureReason::TooLarge
    );
    let over = || run.remaining().is_zero().then_some(FailureReason::Limit);
    match ending.or_else(over) {
        Some(reason) if !verdict => ended(reason, failure.executed),
        _ => failure,
    }
}

/// Why there is no connection. Nothing was executed.
pub(super) fn connecting(error: &postgres::Error) -> Failure {
    let reason = match error.code() {
        Some(&SqlState::TOO_MANY_CONNECTIONS | &SqlState::CONFIGURATION_LIMIT_EXCEEDED) => {
            FailureReason::PoolExhausted
        }
        Some(
            &SqlState::CANNOT_CONNECT_NOW | &SqlState::ADMIN_SHUTDOWN | &SqlState::CRASH_SHUTDOWN,
        ) => FailureReason::ServerDown,
        _ => FailureReason::Connect,
    };
    Failure::new(reason, words(error)).executed(Executed::No)
}

/// Why a statement failed; `executed` says how far it had come.
pub(super) fn querying(error: &postgres::Error, executed: Executed) -> Failure {
    let reason = match error.code() {
        Some(&SqlState::QUERY_CANCELED) => FailureReason::QueryCancelled,
        Some(_) if leaves_connection(error) => FailureReason::QueryFailed,
        _ => FailureReason::ServerDown,
    };
    let lost = reason == FailureReason::ServerDown && executed != Executed::No;
    let failure = Failure::new(reason, words(error));
    let refusal = failure.is_refusal() && !is_ill(error);
    failure.refusal(refusal).executed(if lost { Executed::Unknown } else { executed })
}

/// Whether the server fails at its own work: no memory or disk, a system error, a bug. Classes 53,
/// 58 and XX of <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
fn is_ill(error: &postgres::Error) -> bool {
    let ill =
        |code: &SqlState| ["53", "58", "XX"].iter().any(|class| code.code().starts_with(class));
    error.code().is_some_and(ill)
}

/// The server's own message and code, or what the client says; neither holds a password.
fn words(error: &postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(said), _) => format!("{} ({})", said.message(), said.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// Whether the server goes on serving the connection.
pub(super) fn leaves_connection(error: &postgres::Error) -> bool {
    error.as_db_error().is_some_and(|said| said.parsed_severity() == Some(Severity::Error))
}

/// Whether the statement must be prepared anew because its tables have changed. The code alone
/// stands for anything that is not supported.
pub(super) fn is_stale(error: &postgres::Error) -> bool {
    error.as_db_error().is_some_and(|said| {
        said.routine() == Some("RevalidateCachedQuery")
            || *said.code() == SqlState::INVALID_SQL_STATEMENT_NAME
    })
}

/// The parameter (from 0) that the server could not read, if it says so: `… parameter $2 = '…'`.
pub(super) fn parameter(error: &postgres::Error) -> Option<usize> {
    let context = error.as_db_error()?.where_()?;
    let (_, after) = context.split_once('$')?;
    let digits = after.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse::<usize>().ok()?.checked_sub(1)
}
