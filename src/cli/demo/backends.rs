//! The demo's backends, and the harness over them with walls or without.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use crate::driver::Tool;
use crate::driver::http::{Http, Request};
use crate::driver::process::{Command, Process};
use crate::driver::sql::Query;
use crate::driver::sqlite::Sqlite;
use crate::testing::{Behaviour, Reply, Vendor};
use crate::{PartitionSpec, Runtime};

/// How long a healthy search takes, and how long one that hangs.
const SEARCH: Duration = Duration::from_millis(40);
const HANG: Duration = Duration::from_millis(1_450);
/// The hung vendor answers just under this limit, so that no error ever tells of it.
const LIMIT: Duration = Duration::from_millis(1_500);
const RUNBOOK: Duration = Duration::from_millis(15);
/// The slots of the one pool.
const SHARED_SLOTS: u32 = 8;

/// Whether each dependency has a partition of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wall {
    None,
    Stands,
}

impl Wall {
    pub(super) fn title(self) -> &'static str {
        match self {
            Wall::None => "one shared pool of 8 slots",
            Wall::Stands => "a partition for each dependency",
        }
    }
}

/// The tools of the agent, in the order of its turn.
pub(super) const TOOLS: [&str; 5] =
    ["search_docs", "read_ticket", "list_deployments", "fetch_runbook", "check_config"];

pub(super) struct Backends {
    search: Vendor,
    runbooks: Vendor,
    files: tempfile::TempDir,
}

impl Backends {
    pub(super) fn start() -> Result<Backends, Box<dyn Error>> {
        let files = tempfile::tempdir()?;
        std::fs::write(files.path().join("watertight.toml"), "[partition.search]\nslots = 4\n")?;
        fill(&rusqlite::Connection::open(files.path().join("tickets.db"))?)?;
        let backends = Backends { search: Vendor::start()?, runbooks: Vendor::start()?, files };
        backends.search.set(answer_after(SEARCH));
        backends.runbooks.set(answer_after(RUNBOOK));
        Ok(backends)
    }

    /// 14:03: the vendor deploys a bad build.
    pub(super) fn hang_search(&self) {
        self.search.set(answer_after(HANG));
    }

    pub(super) fn harness(&self, wall: Wall) -> Result<Runtime, Box<dyn Error>> {
        let specs = match wall {
            // What harnesses do without walls: everybody waits in one line for as long as it takes.
            Wall::None => vec![
                PartitionSpec::new("shared")
                    .slots(SHARED_SLOTS)
                    .queue(10_000)
                    .max_wait(Duration::from_secs(60))
                    .run_limit(LIMIT),
            ],
            Wall::Stands => ["search", "database", "runbooks", "local"]
                .map(|name| PartitionSpec::new(name).slots(slots(name)).run_limit(LIMIT))
                .to_vec(),
        };
        let home = |name| specs.iter().find(|spec| spec.name() == name).unwrap_or(&specs[0]);
        let mut builder = Runtime::builder();
        for tool in TOOLS {
            let spec = home(partition_of(tool));
            builder = builder.tool(tool, spec.name(), self.tool(tool, spec)?);
        }
        for spec in specs {
            builder = builder.partition(spec);
        }
        Ok(builder.build()?)
    }

    fn tool(&self, name: &str, spec: &PartitionSpec) -> Result<Arc<dyn Tool>, Box<dyn Error>> {
        let sizing = spec.sizing();
        let sqlite = |sql, param| -> Result<_, Box<dyn Error>> {
            let file = self.files.path().join("tickets.db");
            let database = Sqlite::new(format!("sqlite:{}", file.display())).open(&sizing)?;
            Ok(database.tool(Query::new(sql).param(param))?)
        };
        match name {
            "search_docs" => {
                let request = Request::get("/search").query("q", "{q}");
                Ok(Http::new(self.search.url()).open(&sizing)?.tool(request)?)
            }
            "fetch_runbook" => {
                let request = Request::get("/runbooks/{name}");
                Ok(Http::new(self.runbooks.url()).open(&sizing)?.tool(request)?)
            }
            "read_ticket" => sqlite("select id, title, body from tickets where id = $1", "{id}"),
            "list_deployments" => sqlite(
                "select id, service, at from deployments order by at desc limit $1",
                "{limit}",
            ),
            _ => {
                let own = std::env::current_exe()?.display().to_string();
                let command = Command::new([own.as_str(), "check", "--config", "watertight.toml"]);
                let local = Process::new().dir(self.files.path()).open(&sizing)?;
                Ok(local.tool(command)?)
            }
        }
    }
}

fn partition_of(tool: &str) -> &'static str {
    match tool {
        "search_docs" => "search",
        "read_ticket" | "list_deployments" => "database",
        "fetch_runbook" => "runbooks",
        _ => "local",
    }
}

fn slots(partition: &str) -> u32 {
    if partition == "local" { 2 } else { 6 }
}

fn answer_after(delay: Duration) -> Behaviour {
    Behaviour::Delay(delay, Reply::json(r#"{"found": 3}"#))
}

fn fill(database: &rusqlite::Connection) -> rusqlite::Result<()> {
    database.execute_batch(
        "create table tickets (id integer primary key, title text, body text);
         create table deployments (id integer primary key, service text, at integer);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)
         insert into tickets select i, 'Ticket ' || i, 'It was slow at ' || i from n;
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)
         insert into deployments select i, 'service-' || (i % 7), 1700000000 + i from n;
         create index deployments_at on deployments (at);",
    )
}
