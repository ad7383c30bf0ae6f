//! `by` and `members`: one partition for each shard, region or credential.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::driver::{self, Context};
use super::fault::Faults;
use super::raw::{Field, Table};
use super::{Draft, Section, backend, partition};
use crate::driver::Tool;
use crate::runtime::Builder;

/// Whose member a partition is, and by which key.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(super) family: Arc<str>,
    /// The argument that picks the member.
    by: Arc<str>,
    key: Arc<str>,
}

/// The argument that picks the member, if the partition is a family.
pub(super) fn by(table: &mut Table<'_>, faults: &mut Faults<'_>) -> Option<Field<String>> {
    if !table.has("by") && table.has("members") {
        let rule = "needs `by`, the argument of its tools that picks the member";
        let place = table.place_of("members");
        faults.add(&place, rule, "add it, as in by = \"shard\"");
        return Some(Field { value: "key".to_owned(), place });
    }
    table.take::<String>("by", faults)
}

/// The members of the family called `name`, each a partition with the family's knobs.
pub(super) fn read<'t>(
    name: &str,
    by: &Field<String>,
    mut table: Table<'t>,
    context: &Context<'_>,
    faults: &mut Faults<'_>,
) -> Vec<Draft<'t>> {
    if !is_argument(&by.value) {
        let rule = "must be an argument's name: letters, digits and `_`";
        faults.add(&by.place, rule, "name the argument as a model would, such as `shard`");
    }
    let (place, before) = (table.place.clone(), faults.len());
    let entries = table.entries("members", faults).unwrap_or_default();
    if entries.is_empty() && faults.len() == before {
        let fix = "add `[partition.….members]` with a line such as `eu.sql.url = \"…\"`";
        faults.add(&place, "is a family without members", fix);
    }
    let reserve_max = table.place_of("reserve_max");
    let spec = partition::read(name, &mut table, faults);
    let backend_max = backend::read(&mut table, faults);
    table.finish(faults);
    let draft = |spec, family, driver: Option<_>, table| Draft {
        broken: driver.is_none(),
        section: Section { spec, family, driver, tools: Vec::new() },
        table,
        reserve_max: reserve_max.clone(),
        backend_max: backend_max.clone(),
        tools: Vec::new(),
    };
    let mut drafts = Vec::new();
    for (key, node) in entries {
        let place = node.place.clone();
        let Some(mut member) = node.table(faults) else { continue };
        let renamed = spec.clone().renamed(format!("{name}.{key}"));
        if renamed.check().is_err() {
            let rule = "must be a key of letters, digits, `_`, `-` or `.`, and not too long";
            faults.add(&place, rule, "its partition is called by the family's name and the key");
            continue;
        }
        if !driver::is_wanted(&member) {
            let fix = "add its http, sql or process table";
            faults.add(&place, "is a member without a driver", fix);
        }
        let (driver, table) = driver::read(&mut member, context, faults).unzip();
        member.finish(faults);
        let by = by.value.as_str().into();
        let family = Membership { family: name.into(), by, key: key.into() };
        drafts.push(draft(renamed, Some(family), driver, table));
    }
    if drafts.is_empty() {
        // So that its tools are not said to have no partition.
        drafts.push(draft(spec, None, None, None));
    }
    drafts
}

fn is_argument(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The tools of families, until all members have made theirs.
#[derive(Default)]
pub(super) struct Tools(BTreeMap<Arc<str>, Vec<Made>>);

/// A tool as one member's driver makes it.
struct Made {
    member: Membership,
    partition: String,
    tool: Arc<dyn Tool>,
}

impl Tools {
    /// Adds the tool called `name` as one member's driver makes it.
    pub(super) fn add(
        &mut self,
        name: Arc<str>,
        member: &Membership,
        partition: &str,
        tool: Arc<dyn Tool>,
    ) {
        let members = self.0.entry(name).or_default();
        members.push(Made { member: member.clone(), partition: partition.to_owned(), tool });
    }

    /// Adds all of them to `builder`.
    pub(super) fn into_builder(self, builder: Builder) -> Builder {
        self.0.into_iter().fold(builder, |builder, (name, members)| {
            let Some(Made { member: Membership { family, by, .. }, .. }) = members.first() else {
                return builder;
            };
            let (family, by) = (Arc::clone(family), Arc::clone(by));
            let members =
                members.into_iter().map(|made| (made.member.key, made.partition, made.tool));
            builder.family_tool(name, family, by, members)
        })
    }
}
