//! SQL tools on PostgreSQL.
//!
//! ```no_run
//! use std::time::Duration;
//! use watertight::driver::Sizing;
//! use watertight::driver::postgres::Postgres;
//! use watertight::driver::sql::Query;
//!
//! let sizing = Sizing {
//!     partition: "tickets".into(),
//!     connections: 4,
//!     run_limit: Duration::from_secs(5),
//! };
//! let db = Postgres::new("postgres://agent@db.example/support").open(&sizing)?;
//! let tool = db.tool(Query::new("select id, title from tickets where id = $1").param("{id}"))?;
//! # Ok::<(), watertight::driver::sql::BuildError>(())
//! ```

mod decode;
mod error;
mod param;
mod session;
mod temporal;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::call::Run;
use crate::driver::sql::{BuildError, Dialect, Plan, Pool, Query};
use crate::driver::{Args, Operation, Response, Sizing, Tool};
use crate::outcome::Failure;
use session::Session;

/// A PostgreSQL database, not opened yet.
#[derive(Clone)]
pub struct Postgres {
    url: String,
}

/// An opened database: a pool of connections for one partition. Clones are the same database.
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    config: ::postgres::Config,
    run_limit: Duration,
    pool: Pool<Session>,
}

impl Postgres {
    /// The database at `url`: `postgres://user:password@host:5432/database`.
    pub fn new(url: impl Into<String>) -> Postgres {
        Postgres { url: url.into() }
    }

    /// Makes the pool, one seat for each call of the partition. Needs no server: the first call of
    /// a seat connects.
    ///
    /// # Errors
    ///
    /// A URL that is none, and no connections.
    pub fn open(self, sizing: &Sizing) -> Result<Database, BuildError> {
        let config: ::postgres::Config = self.url.parse().map_err(|_| {
            let rule = "is no PostgreSQL URL; it is \
                        `postgres://user:password@host:5432/database?option=value`, with other \
                        characters in it percent-encoded";
            BuildError::new("url", rule)
        })?;
        Ok(Database(Arc::new(Inner {
            config,
            run_limit: sizing.run_limit,
            pool: Pool::open(sizing)?,
        })))
    }
}

/// Without the URL, which may hold a password.
impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").finish_non_exhaustive()
    }
}

impl Database {
    /// A tool that runs `query` on this database.
    ///
    /// # Errors
    ///
    /// Placeholders and params that do not match, and what is not one plain statement.
    pub fn tool(&self, query: Query) -> Result<Arc<dyn Tool>, BuildError> {
        let plan = Arc::new(query.plan(Dialect::Postgres)?);
        Ok(Arc::new(PostgresTool {
            database: self.clone(),
            plan,
        }))
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("pool", &self.0.pool)
            .finish_non_exhaustive()
    }
}

struct PostgresTool {
    database: Database,
    plan: Arc<Plan>,
}

impl Tool for PostgresTool {
    fn prepare(&self, args: &Args) -> Result<Operation, Failure> {
        let values = self.plan.bind(args)?;
        let (database, plan) = (self.database.clone(), Arc::clone(&self.plan));
        Ok(Box::new(move |run| database.0.query(&plan, &values, run)))
    }
}

impl Inner {
    fn query(&self, plan: &Plan, values: &[Value], run: &Run) -> Result<Response, Failure> {
        let mut seat = self.pool.seat(run)?;
        if seat.as_ref().is_some_and(|session| !session.is_usable()) {
            *seat = None;
        }
        let session = match &mut *seat {
            Some(session) => session,
            empty => empty.insert(Session::connect(&self.config, self.run_limit)?),
        };
        let answer = session.query(plan, values)?;
        Ok(Response::new(move || answer.decode()))
    }
}
