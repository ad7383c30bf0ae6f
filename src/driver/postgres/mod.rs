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
//!
//! # How a call ends
//!
//! At its run limit, or when it is cancelled, the server is asked to cancel the query; 50 ms later
//! the connection's socket is shut down, which ends every wait for a server that does not answer.
//! The server notices within half a second and ends the query there, too. A connection that was
//! told to stop serves nobody else; the next call makes a new one, within its own limit.
//! `statement_timeout` is the partition's run limit, for the case that this process is gone.
//!
//! The socket can be shut down on Linux and over TCP. Over a Unix socket, and on other systems, a
//! call on a server that does not answer holds its slot until the server goes away. A TCP connect
//! that is not answered cannot be called off: a cancelled call leaves it behind, on a thread that
//! `connect_timeout`, 5 s by default, ends. While as many are left behind as there are connections, a
//! cancel does not end the connects after them before that.
//!
//! # Roles
//!
//! A primary and a read replica are two partitions with two URLs, so that neither waits for the
//! other.
//!
//! # Out of scope
//!
//! `LISTEN` and `COPY` are conversations, not calls, and are refused; so are statements that would
//! change the connection for the calls after them.

mod aside;
mod cancel;
mod connect;
mod decode;
mod error;
mod param;
mod resolve;
mod session;
mod socket;
mod temporal;
mod tls;
mod url;
mod watch;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::call::Run;
use crate::driver::sql::{BuildError, Dialect, Plan, Pool, Query, ended};
use crate::driver::{Args, Operation, Response, Sizing, Tool};
use crate::outcome::{Executed, Failure, FailureReason};
use connect::Connector;
use decode::Answer;
use error::by_whom;
use resolve::Resolver;
use session::Session;
use url::Target;
use watch::{Watch, Watched};

/// A PostgreSQL database, not opened yet.
#[derive(Clone)]
pub struct Postgres {
    url: String,
}

/// An opened database: a pool of connections for one partition. Clones are the same database.
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    connector: Connector,
    pool: Pool<Session>,
    watch: Watch,
}

impl Postgres {
    /// The database at `url`: `postgres://user:password@host:5432/database?option=value`, with the
    /// options of libpq. Several hosts, separated by commas, are tried in order.
    ///
    /// `sslmode` is `disable`; `prefer`, the default: encrypted if the server can; `require`:
    /// encrypted, whoever the server is; `verify-ca`: by a server with a certificate issued under
    /// `sslrootcert`, or under the roots that browsers trust; `verify-full`: and issued to this
    /// host. `sslcert` and `sslkey` are the client's own. Certificates are in PEM files.
    pub fn new(url: impl Into<String>) -> Postgres {
        Postgres { url: url.into() }
    }

    /// Makes the pool, one seat for each call of the partition, and starts its three threads. Needs
    /// no server: the first call of a seat connects.
    ///
    /// # Errors
    ///
    /// A URL that is none, a certificate that cannot be read, no connections, no thread. No error
    /// shows a part of the URL.
    pub fn open(self, sizing: &Sizing) -> Result<Database, BuildError> {
        let target = Target::parse(&self.url, sizing)?;
        let pool = Pool::open(sizing)?;
        let calls_max = usize::try_from(sizing.connections).unwrap_or(usize::MAX);
        let watch = Watch::start(&sizing.partition, calls_max)
            .map_err(|error| BuildError::new("connections", format!("no thread: {error}")))?;
        let resolver = Resolver::new(pool.housekeeping(), calls_max);
        let connector = Connector::new(target, resolver, &sizing.partition, calls_max);
        Ok(Database(Arc::new(Inner { connector, pool, watch })))
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
    /// Arguments are bound by the server's types: whole numbers to `int2`, `int4`, `int8`, numbers
    /// to `float4`, `float8` and `numeric` (which takes a string with digits, too), booleans to
    /// `bool`, anything to `json` and `jsonb`, lists to arrays, one of their labels to enums, and
    /// strings to all other types, which the server reads as in SQL.
    ///
    /// Rows come back as JSON: integers, floats and booleans as such, `json` as it is, arrays as
    /// lists; `numeric` as a string, since a JSON number would lose digits; dates and times in
    /// ISO 8601; `bytea` as `\x` and hexadecimal digits; `uuid`, `inet`, enums and texts as text. A
    /// column of a type without such a form fails the call before it runs, and says to cast it.
    ///
    /// # Errors
    ///
    /// Placeholders and params that do not match, and what is not one plain statement.
    pub fn tool(&self, query: Query) -> Result<Arc<dyn Tool>, BuildError> {
        let plan = Arc::new(query.plan(Dialect::Postgres)?);
        Ok(Arc::new(PostgresTool { database: self.clone(), plan }))
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("pool", &self.0.pool).finish_non_exhaustive()
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
        Ok(Box::new(move |run| database.0.query(&plan, &plan.with_key(&values, run), run)))
    }
}

impl Inner {
    fn query(&self, plan: &Plan, values: &[Value], run: &Run) -> Result<Response, Failure> {
        let mut seat = self.pool.seat(run)?;
        let call = self.watch.begin(run);
        let result = self.serve(&mut seat, &call, plan, values, run);
        let ending = call.finish();
        if ending.is_some() || seat.as_ref().is_some_and(|session| !session.is_at_rest()) {
            *seat = None;
        }
        drop(seat);
        match result {
            Ok(answer) => Ok(Response::new(move || answer.decode())),
            Err(failure) => Err(by_whom(failure, ending, run)),
        }
    }

    fn serve(
        &self,
        seat: &mut Option<Session>,
        call: &Watched,
        plan: &Plan,
        values: &[Value],
        run: &Run,
    ) -> Result<Answer, Failure> {
        if run.remaining().is_zero() {
            return Err(ended(FailureReason::Limit, Executed::No));
        }
        let fit = seat
            .as_mut()
            .is_some_and(|session| session.is_held_by(call) && session.is_fit(call.began()));
        if !fit {
            *seat = None;
        }
        let session = match seat {
            Some(session) => session,
            None => seat.insert(self.connector.connect(call, run)?),
        };
        if !call.asks(session.cancel_request()) {
            let reason = call.ending().unwrap_or(FailureReason::Limit);
            return Err(ended(reason, Executed::No));
        }
        session.query(plan, values)
    }
}
