//! `[partition.….sql]` and its tools.

use std::sync::Arc;

use super::args::Declared;
use super::driver::{Context, Driver, Opened};
use super::fault::Faults;
use super::raw::{Bytes, Field, Table};
use crate::driver::Sizing;
#[cfg(feature = "postgres")]
use crate::driver::postgres::Postgres;
use crate::driver::sql::Query;
#[cfg(feature = "sqlite")]
use crate::driver::sqlite::Sqlite;

/// A SQL partition's driver and tools.
#[derive(Clone, Debug)]
struct SqlPlan {
    database: Database,
    tools: Vec<(Arc<str>, Query)>,
}

#[derive(Clone, Debug)]
enum Database {
    #[cfg(feature = "sqlite")]
    Sqlite {
        sqlite: Sqlite,
        /// A file that must be there before the first call.
        file: Option<String>,
    },
    #[cfg(feature = "postgres")]
    Postgres(Postgres),
}

/// Reads the driver's table. The URL's scheme says which engine it is.
pub(super) fn read(
    table: &mut Table<'_>,
    context: &Context<'_>,
    faults: &mut Faults<'_>,
) -> Option<Box<dyn Driver>> {
    table.hide("url");
    let fix = "give the database, as in url = \"sqlite:tickets.db\" or url = \"postgres://…\"";
    let url = table.require::<String>("url", fix, faults);
    let expanded = url.as_ref().and_then(|url| context.expand(url, faults));
    let (Some(Field { place, .. }), Some(expanded)) = (url, expanded) else {
        // Asked for, so that they are known.
        let _ = (table.node("read_only"), table.node("create"));
        return None;
    };
    let database = match expanded.split_once(':').map(|(scheme, _)| scheme) {
        #[cfg(feature = "sqlite")]
        Some("sqlite") => sqlite(&expanded, table, context, faults)?,
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => Database::Postgres(Postgres::new(expanded)),
        _ => {
            let _ = (table.node("read_only"), table.node("create"));
            let rule = "names no database this build can open";
            let fix = "begin it with `sqlite:` or `postgres://`";
            faults.add(&place, rule, fix);
            return None;
        }
    };
    let tools = Vec::new();
    Some(Box::new(SqlPlan { database, tools }))
}

#[cfg(feature = "sqlite")]
fn sqlite(
    url: &str,
    table: &mut Table<'_>,
    context: &Context<'_>,
    faults: &mut Faults<'_>,
) -> Option<Database> {
    let place = table.place_of("url");
    let read_only = table.take::<bool>("read_only", faults);
    let create = table.take::<bool>("create", faults);
    let path = url.trim_start_matches("sqlite:");
    let path = path.strip_prefix("//").unwrap_or(path);
    let is_file = !path.is_empty() && path != ":memory:";
    let full = if is_file { context.path(path, &place, faults)? } else { path.to_owned() };
    let create = create.is_some_and(|create| create.value);
    let sqlite = Sqlite::new(format!("sqlite:{full}"))
        .read_only(read_only.is_some_and(|read_only| read_only.value))
        .create(create);
    let file = (is_file && !create).then_some(full);
    Some(Database::Sqlite { sqlite, file })
}

impl Driver for SqlPlan {
    fn kind(&self) -> &'static str {
        match self.database {
            #[cfg(feature = "sqlite")]
            Database::Sqlite { .. } => "sqlite",
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => "postgres",
        }
    }

    fn read_tool(
        &mut self,
        name: &Arc<str>,
        table: &mut Table<'_>,
        _context: &Context<'_>,
        faults: &mut Faults<'_>,
    ) {
        let mut args = Declared::read(table, faults);
        let fix = "give the statement, as in sql = \"select … where id = $1\"";
        let sql = table.require::<String>("sql", fix, faults);
        let mut query = Query::new(sql.map(|sql| sql.value).unwrap_or_default());
        for param in table.list::<String>("params", faults).unwrap_or_default() {
            args.template(&param.value, &param.place, faults);
            query = query.param(param.value);
        }
        if let Some(number) = table.take::<u32>("idempotency_param", faults) {
            query = query.idempotency_param(number.value as usize);
        }
        if let Some(most) = table.take::<u32>("max_rows", faults) {
            query = query.max_rows(most.value as usize);
        }
        if let Some(Field { value: Bytes(most), .. }) = table.take("max_bytes", faults) {
            query = query.max_bytes(usize::try_from(most).unwrap_or(usize::MAX));
        }
        query = args.finish(faults).into_iter().fold(query, Query::arg);
        self.tools.push((Arc::clone(name), query));
    }

    fn open(&self, sizing: &Sizing, opened: &mut Opened) {
        match &self.database {
            #[cfg(feature = "sqlite")]
            Database::Sqlite { sqlite, .. } => match sqlite.clone().open(sizing) {
                Ok(database) => self.make(opened, |query| database.tool(query)),
                Err(error) => opened.complain(None, &error),
            },
            #[cfg(feature = "postgres")]
            Database::Postgres(postgres) => match postgres.clone().open(sizing) {
                Ok(database) => self.make(opened, |query| database.tool(query)),
                Err(error) => opened.complain(None, &error),
            },
        }
    }

    fn copy(&self) -> Box<dyn Driver> {
        Box::new(self.clone())
    }

    fn advice(&self) -> Vec<String> {
        match &self.database {
            #[cfg(feature = "sqlite")]
            Database::Sqlite { file: Some(file), .. } if !std::path::Path::new(file).exists() => {
                vec![format!(
                    "there is no file `{file}`: its tools fail until there is one, or set create = true"
                )]
            }
            _ => Vec::new(),
        }
    }
}

impl SqlPlan {
    fn make(
        &self,
        opened: &mut Opened,
        tool: impl Fn(Query) -> Result<Arc<dyn crate::driver::Tool>, crate::driver::sql::BuildError>,
    ) {
        for (name, query) in &self.tools {
            opened.add(name, tool(query.clone()));
        }
    }
}
