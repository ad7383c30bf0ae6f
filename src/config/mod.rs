//! Partitions and tools from a TOML file.
//!
//! ```toml
//! [partition.search]
//! slots = 4
//! max_wait = "50ms"
//! run_limit = "29s"
//! [partition.search.http]
//! base_url = "https://search.example"
//! headers = { Authorization = "Bearer ${SEARCH_TOKEN}" }
//!
//! [tool.search_docs]
//! partition = "search"
//! path = "/search"
//! query = { q = "{q}", limit = "{limit}" }
//! args = { limit = { type = "integer", default = 10 } }
//! ```
//!
//! # Keys
//!
//! | table | keys |
//! | --- | --- |
//! | `reserve` | `slots`: those that partitions may use above their own |
//! | `partition.NAME` | `slots`, `queue`, `max_wait`, `run_limit`, `cancel_grace`, `replace_overdue`, `reserve_max`, `dispatch`, `tenant_max`, `tenant_queue`, `tenant_slots`, `tenant_weights`, `min_run` (or `"auto"`), `rate` (`"20/s"`), `burst`, `throttle_max`, as [`PartitionSpec`] has them, `backend_max` (calls at once that the backend allows: `watertight check` warns if there may be more), and one driver |
//! | `partition.NAME`, a family | `by`, the knobs, and `members`: for each key a driver's table |
//! | `….breaker` | `window` (calls, or a span of time), `minimum_calls`, `failure_rate`, `slow_call`, `slow_call_rate`, `cool_down`, `cool_down_growth`, `cool_down_max`, `cool_down_jitter`, `probes`, `count_timeouts`, `count_refusals`, as a [breaker's policy](crate::resilience::breaker::Policy) has them |
//! | `….retry_budget` | `ratio`, `floor`, `window`, as a [budget](crate::resilience::budget::Policy) has them |
//! | `….http` | `base_url`, `headers`, `connect_timeout`, `body_max`, `redirects`, `quota_headers` |
//! | `….sql` | `url` (`sqlite:…` or `postgres://…`), and for SQLite `read_only`, `create` |
//! | `….process` | `dir`, `env`, `env_allow`, `term_grace`, `shim`, `cgroup`, and the bounds `memory`, `cpu_seconds`, `file_size`, `open_files`, `nice`, `cpus`, `output_kept`, `output_max` |
//! | `tool.NAME` | `partition`, `args`, `idempotent`, `retry`: a table with `attempts`, `backoff`, `backoff_max`, `on` (words such as `"busy"`), as a [retry policy](crate::resilience::retry::Policy) has them; and those of its partition's driver: |
//! | http | `method` (`GET`), `path`, `query`, `headers`, `body`, `accept`, `keep_headers`, `idempotency_header` |
//! | sql | `sql`, `params`, `max_rows`, `max_bytes`, `idempotency_param` |
//! | process | `command`, `stdin`, `dir`, `env`, `env_allow`, `ok_exit_codes`, `idempotency_env`, and the bounds |
//!
//! - Spans of time are strings with a unit, `"50ms"`; sizes are numbers of bytes or `"64KiB"`.
//! - `{name}` stands for an argument of the call, `{{` and `}}` for braces.
//! - `idempotency_header = "Idempotency-Key"`, `idempotency_param = 3` (`$3`, the placeholder after
//!   those of two `params`) and `idempotency_env = "IDEMPOTENCY_KEY"` say where the backend finds
//!   the call's idempotency key: the caller's own, or one that is minted once the call has a slot.
//! - `quota_headers = { remaining = "x-ratelimit-remaining", reset = "x-ratelimit-reset" }` names the
//!   headers that say how many calls are left and when there are more; one header that has both is
//!   named by itself, `"RateLimit"`; several are a list. With none left, nothing is sent until then,
//!   at most for `throttle_max`.
//! - `args` declares arguments: a type (`string`, `integer`, `number`, `boolean`, `scalar`, `any`),
//!   or a table with `type`, `default` and `optional`.
//! - `${NAME}` in headers, urls and env values comes from the environment, `$${` is a plain `${`.
//! - Relative paths start from the file's folder.
//! - `tenant_slots = { gold = 4, "*" = 4 }` gives tenants home slots; `"*"` is everybody else. It may
//!   be left out unless it is 0.
//!
//! A **family** is one partition for each shard, region or credential, so that a shard that hangs
//! leaves the others as they were. `by` names the argument of its tools that picks the member, and
//! that they are not given themselves; the knobs are each member's:
//!
//! ```toml
//! [partition.orders]
//! by = "shard"
//! slots = 4
//! [partition.orders.members]
//! eu.sql.url = "postgres://app:${EU_PASSWORD}@eu.example/orders"
//! us.sql.url = "postgres://app:${US_PASSWORD}@us.example/orders"
//! ```
//!
//! The members are the partitions `orders.eu` and `orders.us`, each with its own threads,
//! connections and counters. A call that names none of them is `failed`.
//!
//! Whatever is wrong is told at once, each fault with its place, and nothing is started then.

#![cfg_attr(
    not(all(feature = "http", feature = "postgres", feature = "sqlite", feature = "process")),
    allow(dead_code, unused_variables, reason = "each driver reads with a part of it")
)]

mod args;
mod backend;
mod door;
mod driver;
mod env;
mod family;
mod fault;
#[cfg(feature = "http")]
mod http;
mod partition;
mod policy;
#[cfg(all(feature = "process", unix))]
mod process;
mod raw;
mod reserve;
mod retry;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod sql;
mod tool;

use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

pub use fault::{ConfigError, Fault};

use crate::resilience::retry::Policy;
use crate::runtime::{Builder, PartitionSpec, Runtime, SpecError};
use driver::{Context, Driver, Opened};
use family::Membership;
use fault::{Faults, Place};
use raw::{Field, Table};

/// The largest file that is read, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// A configuration that is valid by construction: every knob is allowed, every tool has a partition
/// whose driver can make it. It may be built any number of times; each runtime has resources of its
/// own.
///
/// ```
/// use watertight::config::Config;
///
/// let config = Config::from_str("[partition.search]\nslots = 2\n", "watertight.toml")?;
/// let runtime = config.build()?;
/// assert_eq!(runtime.partitions().count(), 1);
/// # Ok::<(), watertight::config::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    file: String,
    reserve: u32,
    sections: Vec<Section>,
    /// Tools whose calls are attempted again.
    retries: Vec<(Arc<str>, Policy)>,
    /// What is allowed and does not fit together.
    warnings: Vec<Fault>,
}

/// One partition: its knobs, its driver, the names of its tools.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) spec: PartitionSpec,
    /// The family it is a member of.
    family: Option<Membership>,
    driver: Option<Box<dyn Driver>>,
    pub(crate) tools: Vec<Arc<str>>,
}

impl Config {
    /// Reads the file at `path`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it; a file that cannot be read, or is larger than 1 MiB.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Config, ConfigError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let text = read(path).map_err(|rule| {
            let mut faults = Faults::new(&name, "");
            faults.add(&Place::file(), rule, "give the path of a TOML file");
            faults.into_result().expect_err("one fault was added")
        })?;
        Config::from_str(&text, &name)
    }

    /// Reads `text`. `name` is the file's in errors, and the paths in it start from its folder.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn from_str(text: &str, name: &str) -> Result<Config, ConfigError> {
        Config::from_str_with(text, name, |variable| std::env::var_os(variable))
    }

    /// The same with variables that `lookup` knows, instead of the environment's.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn from_str_with(
        text: &str,
        name: &str,
        lookup: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Config, ConfigError> {
        let mut root = raw::parse(text, name)?;
        let mut faults = Faults::new(name, text);
        let context =
            Context { dir: Path::new(name).parent().unwrap_or(Path::new("")), lookup: &lookup };
        let mut drafts = drafts(&mut root, &context, &mut faults);
        let reserve = reserve::read(&mut root, &drafts, &mut faults);
        let retries = tool::read(&mut root, &mut drafts, &context, &mut faults);
        root.finish(&mut faults);
        for draft in &drafts {
            draft.check(&mut faults);
        }
        faults.into_result()?;
        let mut warnings = Faults::new(name, text);
        drafts.iter().for_each(|draft| backend::advise(draft, &mut warnings));
        let warnings = warnings.into_found();
        let sections = drafts.into_iter().map(|draft| draft.section).collect();
        let file = name.to_owned();
        Ok(Config { file, reserve, sections, retries, warnings })
    }

    /// Opens every driver and starts the partitions. Connects to nothing: the first call does.
    ///
    /// # Errors
    ///
    /// What the system refuses now: threads, and what has changed since the file was read.
    pub fn build(&self) -> Result<Runtime, ConfigError> {
        self.builder()?.build().map_err(|refused: SpecError| {
            let (place, error) = (refused.place(), refused.error);
            self.late(format!("{place}.{}", error.key), error.rule, error.fix)
        })
    }

    /// The same up to the last step, to add partitions and tools in code.
    ///
    /// # Errors
    ///
    /// As [`Config::build`].
    pub fn builder(&self) -> Result<Builder, ConfigError> {
        let mut builder = Runtime::builder().reserve(self.reserve);
        let mut families = family::Tools::default();
        for Section { spec, driver, family, .. } in &self.sections {
            builder = builder.partition(spec.clone());
            let Some(driver) = driver else { continue };
            let mut opened = Opened::default();
            driver.open(&spec.sizing(), &mut opened);
            if let Some(complaint) = opened.complaints.pop() {
                let key = format!("partition.{}.{}", spec.name(), complaint.key);
                return Err(self.late(key, &complaint.rule, &complaint.fix));
            }
            for (name, tool) in opened.tools {
                match family {
                    Some(family) => families.add(name, family, spec.name(), tool),
                    None => builder = builder.tool(name, spec.name(), tool),
                }
            }
        }
        let builder = families.into_builder(builder);
        let retries = self.retries.iter().cloned();
        Ok(retries.fold(builder, |builder, (tool, policy)| builder.retry(tool, policy)))
    }

    /// A fault that was none when the file was read.
    fn late(&self, key: String, rule: &str, fix: &str) -> ConfigError {
        let mut faults = Faults::new(&self.file, "");
        let place = Place { key, ..Place::file() };
        faults.add(&place, rule, fix);
        faults.into_result().expect_err("one fault was added")
    }

    /// What is allowed and probably not meant, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let placed = self.warnings.iter().map(Fault::to_string);
        placed.chain(self.sections.iter().flat_map(Section::warnings)).collect()
    }

    #[cfg(feature = "cli")]
    pub(crate) fn sections(&self) -> &[Section] {
        &self.sections
    }
}

impl Section {
    /// What its tools call it: its own name, or its family's.
    pub(crate) fn home(&self) -> &str {
        self.family.as_ref().map_or(self.spec.name(), |family| &family.family)
    }

    /// `http`, `sqlite`, `postgres` or `process`, if it has a driver.
    #[cfg(feature = "cli")]
    pub(crate) fn driver(&self) -> Option<&'static str> {
        self.driver.as_ref().map(|driver| driver.kind())
    }

    fn warnings(&self) -> impl Iterator<Item = String> {
        let name = self.spec.name();
        let mut found = self.driver.as_ref().map(|driver| driver.advice()).unwrap_or_default();
        if self.tools.is_empty() {
            found.push("no tool uses it".to_owned());
        }
        let (wait, run) = (self.spec.wait_limit(), self.spec.policy().run_limit);
        if wait >= run {
            found.push(format!(
                "calls may wait as long as they may run ({wait:?}): a shorter max_wait says busy \
                 while a retry still helps"
            ));
        }
        let text = move |sentence| format!("partition.{name}: {sentence}");
        found.into_iter().map(text)
    }
}

/// A partition while the file is read.
struct Draft<'t> {
    section: Section,
    /// Its driver's table.
    table: Option<Table<'t>>,
    /// Where its share of the reserve stands.
    reserve_max: Place,
    /// The most calls at once that its backend allows.
    backend_max: Option<Field<u32>>,
    /// Whether its driver is there and faulty, so that its tools cannot be checked.
    broken: bool,
    tools: Vec<tool::Read<'t>>,
}

fn drafts<'t>(
    root: &mut Table<'t>,
    context: &Context<'_>,
    faults: &mut Faults<'_>,
) -> Vec<Draft<'t>> {
    let partitions = root.entries("partition", faults).unwrap_or_default();
    let mut drafts = Vec::new();
    for (name, node) in partitions {
        let Some(mut table) = node.table(faults) else {
            continue;
        };
        let reserve_max = table.place_of("reserve_max");
        if let Some(by) = family::by(&mut table, faults) {
            drafts.extend(family::read(&name, &by, table, context, faults));
            continue;
        }
        let spec = partition::read(&name, &mut table, faults);
        let backend_max = backend::read(&mut table, faults);
        let wanted = driver::is_wanted(&table);
        let (driver, driver_table) = driver::read(&mut table, context, faults).unzip();
        table.finish(faults);
        drafts.push(Draft {
            broken: wanted && driver.is_none(),
            section: Section { spec, family: None, driver, tools: Vec::new() },
            table: driver_table,
            reserve_max,
            backend_max,
            tools: Vec::new(),
        });
    }
    if drafts.is_empty() && faults.len() == 0 {
        let fix = "begin with `[partition.NAME]` and `slots = 4`";
        faults.add(&Place::file(), "names no partition", fix);
    }
    drafts
}

impl Draft<'_> {
    /// Opens the driver once, to hear what it says of its settings and tools.
    fn check(&self, faults: &mut Faults<'_>) {
        let (Some(driver), Some(table)) = (&self.section.driver, &self.table) else {
            return;
        };
        let mut opened = Opened::default();
        driver.open(&self.section.spec.sizing(), &mut opened);
        for complaint in opened.complaints {
            let place = match &complaint.tool {
                None => table.place_of(&complaint.key),
                Some(name) => match self.tools.iter().find(|tool| tool.name == *name) {
                    Some(tool) if tool.sound => tool.table.place_of(&complaint.key),
                    // Its own fault has been told.
                    _ => continue,
                },
            };
            faults.add(&place, complaint.rule, complaint.fix);
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
    let mut text = String::new();
    let mut bounded = file.take(FILE_MAX + 1);
    bounded.read_to_string(&mut text).map_err(|error| format!("cannot be read: {error}"))?;
    if text.len() as u64 > FILE_MAX {
        return Err("is larger than 1 MiB".to_owned());
    }
    Ok(text)
}
