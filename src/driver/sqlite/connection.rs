//! One connection: opened without surprises, and a query on it that ends when its run does.

use std::time::Duration;

use rusqlite::types::Value as Bound;
use rusqlite::{Connection, ErrorCode, OpenFlags, Statement};

use super::value::{Answer, Cell, Rows};
use super::{Place, Source};
use crate::call::{CancelToken, Run};
use crate::driver::sql::{Allowance, Plan, distinct, ended};
use crate::outcome::{Executed, Failure, FailureReason};
use crate::time::{Clock, Time};

/// How many steps of SQLite's virtual machine pass between two looks at the clock: some 20 µs.
const STEPS: i32 = 1_000;
/// Waits between two tries for another connection's lock; a cancel ends them at once.
const LOCK_WAIT_MIN: Duration = Duration::from_millis(1);
const LOCK_WAIT_MAX: Duration = Duration::from_millis(25);
/// Compiled statements that a connection keeps.
const STATEMENTS: usize = 64;

/// Opens a connection; the file is created only if the source says so.
pub(super) fn open(source: &Source) -> Result<Connection, Failure> {
    let mut flags = if source.read_only {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    } else {
        OpenFlags::SQLITE_OPEN_READ_WRITE
    };
    flags |= OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = match &source.place {
        Place::Memory(uri) => {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
                | OpenFlags::SQLITE_OPEN_CREATE
                | OpenFlags::SQLITE_OPEN_NO_MUTEX
                | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(uri, flags)
        }
        Place::File(path) => {
            if source.create {
                flags |= OpenFlags::SQLITE_OPEN_CREATE;
            } else if !path.exists() {
                return Err(no_database(format!("there is no database file `{}`", path.display())));
            }
            Connection::open_with_flags(path, flags)
        }
    };
    let connection = opened.map_err(|error| no_database(error.to_string()))?;
    if source.read_only {
        connection
            .pragma_update(None, "query_only", true)
            .map_err(|error| no_database(error.to_string()))?;
    }
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

fn no_database(message: String) -> Failure {
    Failure::new(FailureReason::Connect, message).executed(Executed::No)
}

/// Runs `plan` and keeps what comes back. Blocks until it has ended, at most until the run's limit
/// or cancel.
pub(super) fn query(
    connection: &mut Connection,
    plan: &Plan,
    params: &[Bound],
    run: &Run,
) -> Result<Answer, Failure> {
    let end = End::of(run);
    if let Some(reason) = end.reason() {
        return Err(ended(reason, Executed::No));
    }
    let (running, waiting) = (end.clone(), end.clone());
    connection
        .progress_handler(STEPS, Some(move || running.reason().is_some()))
        .map_err(|error| broken(&error))?;
    connection
        .busy_handler(Some(move |tries| waiting.wait_for_lock(tries)))
        .map_err(|error| broken(&error))?;
    let result = step(connection, plan, params);
    // The handlers go with the run: a connection at rest holds nothing of a call.
    let _ = connection.progress_handler(0, None::<fn() -> bool>);
    let _ = connection.busy_handler(None::<fn(i32) -> bool>);
    result.map_err(|no| no.into_failure(&end))
}

fn step(connection: &Connection, plan: &Plan, params: &[Bound]) -> Result<Answer, No> {
    let mut statement = connection.prepare_cached(&plan.sql).map_err(No::Unprepared)?;
    distinct(statement.column_names()).map_err(No::Failure)?;
    bind(&mut statement, params).map_err(No::Unprepared)?;
    let has_rows = statement.column_count() > 0;
    let changes_before = connection.total_changes();
    let rows = collect(statement.raw_query(), plan.allowance())?;
    drop(statement);
    if has_rows {
        return Ok(Answer::Rows(rows));
    }
    // Statements that change no rows leave the count of the one before them.
    let changed = connection.total_changes() != changes_before;
    Ok(Answer::Affected(if changed { connection.changes() } else { 0 }))
}

fn bind(statement: &mut Statement<'_>, params: &[Bound]) -> rusqlite::Result<()> {
    for (at, value) in params.iter().enumerate() {
        // SQLite takes `$1` for a name.
        if let Some(index) = statement.parameter_index(&format!("${}", at + 1))? {
            statement.raw_bind_parameter(index, value)?;
        }
    }
    Ok(())
}

fn collect(mut rows: rusqlite::Rows<'_>, mut allowance: Allowance) -> Result<Rows, No> {
    let mut kept = Rows::default();
    while let Some(row) = rows.next().map_err(No::Failed)? {
        if kept.columns.is_empty() {
            // Only now: the first step prepares the statement anew if its tables have changed.
            let statement: &Statement<'_> = row.as_ref();
            distinct(statement.column_names()).map_err(No::Failure)?;
            kept.columns = statement.column_names().map(str::to_owned).collect();
        }
        let cells = 0..kept.columns.len();
        let mut size = 0;
        for at in cells.clone() {
            size += Cell::size(row.get_ref(at).map_err(No::Failed)?);
        }
        allowance.take_row(size).map_err(No::Failure)?;
        for at in cells {
            let cell = Cell::of(row.get_ref(at).map_err(No::Failed)?);
            kept.cells.push(cell);
        }
    }
    Ok(kept)
}

/// When a run ends, for handlers that outlive the borrow of it.
#[derive(Clone)]
struct End {
    clock: Clock,
    limit_at: Time,
    cancel: CancelToken,
}

impl End {
    fn of(run: &Run) -> End {
        End { clock: run.clock.clone(), limit_at: run.limit_at, cancel: run.cancel.clone() }
    }

    fn reason(&self) -> Option<FailureReason> {
        if self.cancel.is_cancelled() {
            Some(FailureReason::Cancelled)
        } else if self.clock.now() >= self.limit_at {
            Some(FailureReason::Limit)
        } else {
            None
        }
    }

    /// Waits a little for another connection's lock; `false`: give up. SQLite's own wait would not
    /// notice a cancel.
    fn wait_for_lock(&self, tries: i32) -> bool {
        let factor = 1 << tries.clamp(0, 5);
        let wait =
            (LOCK_WAIT_MIN * factor).min(LOCK_WAIT_MAX).min(self.limit_at - self.clock.now());
        !self.cancel.wait(wait) && self.reason().is_none()
    }
}

/// Why a statement did not end well.
enum No {
    /// It was not begun.
    Unprepared(rusqlite::Error),
    /// It was begun.
    Failed(rusqlite::Error),
    /// Something of ours.
    Failure(Failure),
}

impl No {
    fn into_failure(self, end: &End) -> Failure {
        let (error, executed) = match self {
            No::Failure(failure) => return failure,
            No::Unprepared(error) => (error, Executed::No),
            No::Failed(error) => (error, Executed::Yes),
        };
        let reason = end.reason();
        match (error.sqlite_error_code(), reason) {
            (Some(ErrorCode::OperationInterrupted), Some(reason)) => ended(reason, executed),
            (Some(ErrorCode::DatabaseBusy), Some(reason)) => {
                let mut failure = ended(reason, Executed::No);
                failure.message += ", waiting for another connection's lock";
                failure
            }
            (Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked), None) => {
                Failure::new(FailureReason::QueryFailed, error.to_string()).executed(Executed::No)
            }
            (Some(ErrorCode::CannotOpen | ErrorCode::NotADatabase), _) => {
                no_database(error.to_string())
            }
            (Some(ErrorCode::TooBig), _) => {
                Failure::new(FailureReason::TooLarge, error.to_string()).executed(executed)
            }
            (code, _) => {
                let failure = Failure::new(FailureReason::QueryFailed, error.to_string());
                failure.refusal(!code.is_some_and(is_ill)).executed(executed)
            }
        }
    }
}

/// Whether the database fails at its own work, not at this statement.
fn is_ill(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::SystemIoFailure
            | ErrorCode::DiskFull
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::OutOfMemory
            | ErrorCode::InternalMalfunction
    )
}

fn broken(error: &rusqlite::Error) -> Failure {
    Failure::new(FailureReason::QueryFailed, error.to_string()).executed(Executed::No)
}
