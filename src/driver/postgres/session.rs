//! One connection and what it remembers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use postgres::fallible_iterator::FallibleIterator;
use postgres::{Client, Config, NoTls, Statement};
use r2d2::ManageConnection;
use r2d2_postgres::PostgresConnectionManager;
use serde_json::Value;

use super::decode::{self, Answer};
use super::{error, param};
use crate::driver::args::invalid;
use crate::driver::sql::{Plan, distinct};
use crate::outcome::{Executed, Failure, FailureReason};

/// Prepared statements that a connection keeps.
const STATEMENTS: usize = 256;

/// A connection with its prepared statements.
pub(super) struct Session {
    client: Client,
    statements: HashMap<Arc<str>, Statement>,
    /// Nothing is under way on it: false while a query runs, and for good if it did not end.
    at_rest: bool,
}

impl Session {
    /// Connects; every statement is bounded by `run_limit` on the server, too.
    pub(super) fn connect(config: &Config, run_limit: Duration) -> Result<Session, Failure> {
        let manager = PostgresConnectionManager::new(config.clone(), NoTls);
        let mut client = manager
            .connect()
            .map_err(|error| error::connecting(&error))?;
        let set = format!("set statement_timeout = {}", run_limit.as_millis().max(1));
        client
            .batch_execute(&set)
            .map_err(|error| error::connecting(&error))?;
        Ok(Session {
            client,
            statements: HashMap::new(),
            at_rest: true,
        })
    }

    /// Whether it may serve another call.
    pub(super) fn is_usable(&self) -> bool {
        self.at_rest && !self.client.is_closed()
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
        while let Some(row) = rows
            .next()
            .map_err(|error| No::Server(error, Executed::Yes))?
        {
            allowance
                .take_row(row.raw_size_bytes())
                .map_err(No::TooLarge)?;
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
        self.statements
            .insert(Arc::clone(&plan.sql), statement.clone());
        Ok(statement)
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
