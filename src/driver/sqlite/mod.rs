//! SQL tools on SQLite: no server, one file or one database in memory.
//!
//! ```
//! use std::time::Duration;
//! use serde_json::json;
//! use watertight::call::{CancelToken, Run};
//! use watertight::driver::{Args, Sizing};
//! use watertight::driver::sql::Query;
//! use watertight::driver::sqlite::Sqlite;
//!
//! let sizing = Sizing {
//!     partition: "tickets".into(),
//!     connections: 2,
//!     run_limit: Duration::from_secs(5),
//! };
//! let db = Sqlite::new("sqlite::memory:").open(&sizing)?;
//! let tool = db.tool(Query::new("select $1 as id, upper($2) as title").param("{id}").param("{t}"))?;
//!
//! let args: Args = serde_json::from_str(r#"{"id": 7, "t": "leak"}"#)?;
//! let run = Run::detached(sizing.run_limit, CancelToken::new());
//! let response = tool.prepare(&args).and_then(|mut operation| operation(&run)).unwrap();
//! assert_eq!(response.decode().unwrap(), json!([{"id": 7, "title": "LEAK"}]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A query ends at the run limit and on cancel, a wait for another writer's lock as well; a statement
//! that did not end has changed nothing, and the connection goes on serving. What cannot be ended is
//! a file system that does not answer.

mod connection;
mod value;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::call::Run;
use crate::driver::sql::{BuildError, Dialect, Plan, Pool, Query};
use crate::driver::{Args, Operation, Response, Sizing, Tool};
use crate::outcome::Failure;

/// A SQLite database, not opened yet.
#[derive(Clone, Debug)]
pub struct Sqlite {
    url: String,
    read_only: bool,
    create: bool,
}

/// An opened database: a pool of connections for one partition. Clones are the same database.
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    source: Source,
    pool: Pool<rusqlite::Connection>,
    /// A database in memory lives as long as a connection to it.
    _anchor: Option<parking_lot::Mutex<rusqlite::Connection>>,
}

/// What a connection is opened on.
#[derive(Clone, Debug)]
struct Source {
    place: Place,
    read_only: bool,
    create: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    File(PathBuf),
    /// The URI of a database in memory that the connections of one pool share.
    Memory(String),
}

impl Sqlite {
    /// The database at `url`: `sqlite:tickets.db`, `sqlite:///var/lib/tickets.db`, a plain path, or
    /// `sqlite::memory:` for an empty one that all connections of this [`Database`] share, that
    /// nobody else sees, and that is gone with it.
    pub fn new(url: impl Into<String>) -> Sqlite {
        Sqlite { url: url.into(), read_only: false, create: false }
    }

    /// Refuses every write. Defaults to false.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Sqlite {
        self.read_only = read_only;
        self
    }

    /// Creates the file if there is none. Defaults to false: a call to a database that is not there
    /// fails with [`Connect`](crate::outcome::FailureReason::Connect), rather than to find an empty
    /// one.
    #[must_use]
    pub fn create(mut self, create: bool) -> Sqlite {
        self.create = create;
        self
    }

    /// Makes the pool, one seat for each call of the partition. Touches no file: the first call of
    /// a seat opens its connection.
    ///
    /// # Errors
    ///
    /// A URL that names no database, both `read_only` and `create`, and no connections.
    pub fn open(self, sizing: &Sizing) -> Result<Database, BuildError> {
        if self.read_only && self.create {
            let rule = "cannot be set on a read-only database: nothing could be put into it";
            return Err(BuildError::new("create", rule));
        }
        let place = place(&self.url)?;
        let source = Source { place, read_only: self.read_only, create: self.create };
        let anchor = match source.place {
            Place::Memory(_) => Some(
                connection::open(&source)
                    .map_err(|failure| BuildError::new("url", failure.message))?
                    .into(),
            ),
            Place::File(_) => None,
        };
        Ok(Database(Arc::new(Inner { source, pool: Pool::open(sizing)?, _anchor: anchor })))
    }
}

fn place(url: &str) -> Result<Place, BuildError> {
    let path = url.strip_prefix("sqlite:").unwrap_or(url);
    let path = path.strip_prefix("//").unwrap_or(path);
    if path == ":memory:" {
        // Names that begin with a slash are shared by the connections of this process.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        return Ok(Place::Memory(format!("file:/watertight-{number}?vfs=memdb")));
    }
    if path.is_empty() || path.contains(['?', '\0']) {
        let rule = "names no database file; it is `sqlite:<path>` without options, or \
                    `sqlite::memory:`";
        return Err(BuildError::new("url", rule));
    }
    Ok(Place::File(path.into()))
}

impl Database {
    /// A tool that runs `query` on this database.
    ///
    /// Arguments are bound as they are: a boolean as 1 or 0, lists and objects as their JSON text.
    /// Rows come back with the types that SQLite stores: integers, floats, text and null, blobs as
    /// `\x` and hexadecimal digits.
    ///
    /// # Errors
    ///
    /// Placeholders and params that do not match, and what is not one plain statement.
    pub fn tool(&self, query: Query) -> Result<Arc<dyn Tool>, BuildError> {
        let plan = Arc::new(query.plan(Dialect::Sqlite)?);
        Ok(Arc::new(SqliteTool { database: self.clone(), plan }))
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("source", &self.0.source)
            .field("pool", &self.0.pool)
            .finish()
    }
}

struct SqliteTool {
    database: Database,
    plan: Arc<Plan>,
}

impl Tool for SqliteTool {
    fn prepare(&self, args: &Args) -> Result<Operation, Failure> {
        let values = self.plan.bind(args)?;
        let params = values
            .iter()
            .enumerate()
            .map(|(at, value)| value::bind(value, || self.plan.argument(at)))
            .collect::<Result<Vec<_>, _>>()?;
        let (database, plan) = (self.database.clone(), Arc::clone(&self.plan));
        Ok(Box::new(move |run| database.0.query(&plan, &plan.with_key(&params, run), run)))
    }
}

impl Inner {
    fn query(
        &self,
        plan: &Plan,
        params: &[rusqlite::types::Value],
        run: &Run,
    ) -> Result<Response, Failure> {
        let mut seat = self.pool.seat(run)?;
        let connection = match &mut *seat {
            Some(connection) => connection,
            empty => empty.insert(connection::open(&self.source)?),
        };
        let answer = connection::query(connection, plan, params, run)?;
        Ok(Response::new(move || answer.decode()))
    }
}
