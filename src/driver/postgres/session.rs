//! One connection and what it remembers.

use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use postgres::fallible_iterator::FallibleIterator;
use postgres::{Client, Statement};
use serde_json::Value;

use super::cancel::CancelRequest;
use super::decode::{self, Answer};
use super::watch::{Watched, shut};
use super::{error, param};
use crate::driver::args::invalid;
use crate::driver::sql::{Plan, distinct};
use crate::outcome::{Executed, Failure, FailureReason};
use crate::time::Time;

/// Prepared statements that a connection keeps.
const STATEMENTS: usize = 256;
/// A connection that served a call so recently is not asked whether it still does.
const FRESH: Duration = Duration::from_millis(500);
/// One that did only just now is not even looked at: what goes wrong meanwhile may as well during the
/// next call, and a look costs a fiftieth of a short query.
const HOT: Duration = Duration::from_millis(1);
/// How long it has for the answer, before it is replaced. Long enough for a busy server, which new
/// connections would make busier.
const TEST_LIMIT: Duration = Duration::from_millis(200);
/// How often the server looks whether its client is still there while it runs a query.
const CLIENT_CHECK_MS: u32 = 500;

/// A connection with its prepared statements. Dropping it does not wait for the server.
pub(super) struct Session {
    client: Client,
    socket: Option<Arc<TcpStream>>,
    request: Arc<CancelRequest>,
    statements: HashMap<Arc<str>, Statement>,
    used_at: Time,
    /// Nothing is under way on it: false while a query runs, and for good if it did not end.
    at_rest: bool,
}

impl Session {
    /// Sets a new connection up.
    pub(super) fn new(
        client: Client,
        socket: Option<Arc<TcpStream>>,
        request: CancelRequest,
        statement_timeout: Duration,
        now: Time,
    ) -> Result<Session, Failure> {
        let mut session = Session {
            client,
            socket,
            request: Arc::new(request),
            statements: HashMap::new(),
            used_at: now,
            at_rest: true,
        };
        let millis = statement_timeout.as_millis().clamp(1, i32::MAX.unsigned_abs().into());
        let limit = format!("set statement_timeout = {millis}");
        session.client.batch_execute(&limit).map_err(|error| error::connecting(&error))?;
        // Servers before version 14 and some systems cannot; their queries end a little later.
        let check = format!("set client_connection_check_interval = {CLIENT_CHECK_MS}");
        match session.client.batch_execute(&check) {
            Err(error) if !error::leaves_connection(&error) => Err(error::connecting(&error)),
            _ => Ok(session),
        }
    }

    /// Lets the end of `call` end what happens on this connection; `false`: the call has ended.
    pub(super) fn is_held_by(&self, call: &Watched) -> bool {
        self.socket.as_ref().is_none_or(|socket| call.holds(socket))
    }

    /// Whether it can serve a call that began `now`. Unless it is hot, looks at the socket, and asks
    /// the server if that does not tell. Blocks for [`TEST_LIMIT`] at most.
    pub(super) fn is_fit(&mut self, now: Time) -> bool {
        if !self.at_rest || self.client.is_closed() {
            return false;
        }
        let idle = now - self.used_at;
        let quiet = match &self.socket {
            Some(socket) if idle >= HOT => match socket.peek(&mut [0]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
                Ok(1..) => false,
                Ok(0) | Err(_) => return false,
            },
            _ => true,
        };
        let fresh = quiet && idle < FRESH;
        self.used_at = now;
        fresh || self.client.is_valid(TEST_LIMIT).is_ok()
    }

    /// Whether nothing is under way on it.
    pub(super) fn is_at_rest(&self) -> bool {
        self.at_rest
    }

    /// How to ask the server to cancel what runs on it.
    pub(super) fn cancel_request(&self) -> Arc<CancelRequest> {
        Arc::clone(&self.request)
    }

    /// Runs `plan` and keeps what comes back. Blocks until the server has answered.
    pub(super) fn query(&mut self, plan: &Plan, values: &[Value]) -> Result<Answer, Failure> {
        self.at_rest = false;
        let result = match self.run(plan, values) {
            // Its table has changed since it was prepared; nothing was executed.
            Err(No::Stale) => {
                self.statements.remove(&plan.sql);
                self.run(plan, values)
            }
            result => result,
        };
        self.at_rest = match &result {
            Ok(_) | Err(No::Refused(_)) => true,
            Err(No::Server(error, _)) => error::leaves_connection(error),
            Err(No::Stale | No::TooLarge(_)) => false,
        };
        result.map_err(|no| match no {
            No::Refused(failure) | No::TooLarge(failure) => failure,
            No::Server(error, executed) => error::querying(&error, executed),
            No::Stale => Failure::new(
                FailureReason::QueryFailed,
                "the statement's tables change faster than it can be prepared",
            )
            .executed(Executed::No),
        })
    }

    fn run(&mut self, plan: &Plan, values: &[Value]) -> Result<Answer, No> {
        let statement = self.prepared(plan)?;
        let mut params = Vec::with_capacity(values.len());
        for (at, (value, ty)) in values.iter().zip(statement.params()).enumerate() {
            let param = param::encode(value, ty);
            let named = |rule| No::Refused(invalid(format!("{} {rule}", plan.argument(at))));
            params.push(param.map_err(named)?);
        }
        let mut rows = self.client.query_raw(&statement, params).map_err(|error| {
            if error::is_stale(&error) {
                No::Stale
            } else if let Some(at) = error::parameter(&error).filter(|at| *at < values.len()) {
                let ty = statement.params()[at].name();
                No::Refused(invalid(format!("{} is no valid {ty}", plan.argument(at))))
            } else if error::leaves_connection(&error) {
                No::Server(error, Executed::No)
            } else {
                No::Server(error, Executed::Unknown)
            }
        })?;
        let mut allowance = plan.allowance();
        let mut kept = Vec::new();
        while let Some(row) = rows.next().map_err(|error| No::Server(error, Executed::Yes))? {
            allowance.take_row(row.raw_size_bytes()).map_err(No::TooLarge)?;
            kept.push(row);
        }
        if statement.columns().is_empty() {
            return Ok(Answer::Affected(rows.rows_affected().unwrap_or(0)));
        }
        Ok(Answer::Rows(kept))
    }

    fn prepared(&mut self, plan: &Plan) -> Result<Statement, No> {
        if let Some(statement) = self.statements.get(&plan.sql) {
            return Ok(statement.clone());
        }
        let prepared = self.client.prepare(&plan.sql);
        let statement = prepared.map_err(|error| No::Server(error, Executed::No))?;
        decode::check(statement.columns()).map_err(No::Refused)?;
        distinct(statement.columns().iter().map(postgres::Column::name)).map_err(No::Refused)?;
        if self.statements.len() >= STATEMENTS {
            self.statements.clear();
        }
        self.statements.insert(Arc::clone(&plan.sql), statement.clone());
        Ok(statement)
    }
}

/// The client says goodbye and waits for the answer, which a stopped server never gives.
impl Drop for Session {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            shut(socket);
        }
    }
}

/// Why a statement did not end well.
enum No {
    /// By us, before anything was sent.
    Refused(Failure),
    /// The prepared statement no longer fits its tables.
    Stale,
    /// By the server, or the way to it.
    Server(postgres::Error, Executed),
    /// By us, with rows still to come.
    TooLarge(Failure),
}
