//! PostgreSQL and SQLite, both seen by a connection of the test's own.

use std::cell::RefCell;
use std::sync::Arc;

use postgres::Client;
use rusqlite::Connection;
use watertight::driver::Tool;
use watertight::driver::postgres::Postgres;
use watertight::driver::sql::Query;
use watertight::driver::sqlite::Sqlite;
use watertight::{PartitionSpec, Runtime};

use crate::server::Cluster;
use crate::suite::{Driver, HOME, Work, alone, hold};

fn runtime(spec: PartitionSpec, hang: Arc<dyn Tool>, quick: Arc<dyn Tool>) -> Runtime {
    Runtime::builder()
        .partition(spec)
        .tool("hang", HOME, hang)
        .tool("quick", HOME, quick)
        .build()
        .expect("threads")
}

struct Postgresql {
    cluster: Cluster,
    outside: RefCell<Client>,
}

/// All our connections, and those that run a query.
const ACTIVITY: &str = "select count(*), count(*) filter (where state = 'active') \
                        from pg_stat_activity where application_name = 'watertight/home'";

impl Postgresql {
    fn activity(&self) -> (i64, i64) {
        let row = self.outside.borrow_mut().query_one(ACTIVITY, &[]);
        let row = row.expect("the server runs");
        (row.get(0), row.get(1))
    }
}

impl Driver for Postgresql {
    fn open(&self, spec: PartitionSpec) -> Runtime {
        let db = Postgres::new(self.cluster.url()).open(&spec.sizing());
        let db = db.expect("a URL");
        let tool = |sql: &str| db.tool(Query::new(sql)).expect("a query");
        runtime(spec, tool("select pg_sleep(600)"), tool("select 1"))
    }

    fn work(&self) -> Work {
        match self.activity() {
            (_, 0) => Work::None,
            _ => Work::Full,
        }
    }

    fn connections(&self) -> usize {
        self.activity().0.try_into().expect("a count")
    }
}

#[test]
fn postgres() {
    let _alone = alone();
    let cluster = Cluster::start(&[]);
    let outside = RefCell::new(cluster.client());
    hold(&Postgresql { cluster, outside });
}

/// A file. A query that reads it holds a lock, which whoever wants to write alone is refused for.
struct Lite {
    folder: tempfile::TempDir,
    outside: Connection,
}

impl Lite {
    fn new() -> Lite {
        let folder = tempfile::tempdir().expect("a folder");
        let outside = Connection::open(folder.path().join("contract.db")).expect("a file");
        let schema = "create table seeds (i int); insert into seeds values (1)";
        outside.execute_batch(schema).expect("a table");
        outside.busy_timeout(std::time::Duration::ZERO).expect("set");
        Lite { folder, outside }
    }
}

impl Driver for Lite {
    fn open(&self, spec: PartitionSpec) -> Runtime {
        let path = self.folder.path().join("contract.db");
        let db = Sqlite::new(format!("sqlite:{}", path.display())).open(&spec.sizing());
        let db = db.expect("a file");
        let tool = |sql: &str| db.tool(Query::new(sql)).expect("a query");
        let endless = "with recursive n(i) as (select i from seeds union all select i + 1 from n) \
                       select count(*) from n";
        runtime(spec, tool(endless), tool("select i from seeds"))
    }

    fn work(&self) -> Work {
        let alone = self.outside.execute_batch("begin exclusive; rollback");
        if alone.is_ok() { Work::None } else { Work::Full }
    }
}

#[test]
fn sqlite() {
    let _alone = alone();
    hold(&Lite::new());
}
