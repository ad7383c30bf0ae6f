//! `[tool.…]`: which partition a tool belongs to, and the keys that its driver knows.

use std::sync::Arc;

use super::Draft;
use super::driver::{self, Context};
use super::fault::Faults;
use super::raw::{Table, nearest};
use super::retry;
use crate::resilience::retry::Policy;

/// A tool that has been read.
pub(super) struct Read<'t> {
    pub(super) name: Arc<str>,
    pub(super) table: Table<'t>,
    /// Whether no fault was found so far.
    pub(super) sound: bool,
}

/// Reads all tools into the drafts of their partitions, and which of them are attempted again how.
pub(super) fn read<'t>(
    root: &mut Table<'t>,
    drafts: &mut [Draft<'t>],
    context: &Context<'_>,
    faults: &mut Faults<'_>,
) -> Vec<(Arc<str>, Policy)> {
    let mut retries = Vec::new();
    for (name, node) in root.entries("tool", faults).unwrap_or_default() {
        if let Some(mut table) = node.table(faults) {
            let policy = retry::read(&mut table, faults);
            retries.extend(policy.map(|policy| (Arc::from(&*name), policy)));
            read_one(&name, table, drafts, context, faults);
        }
    }
    retries
}

fn read_one<'t>(
    name: &str,
    mut table: Table<'t>,
    drafts: &mut [Draft<'t>],
    context: &Context<'_>,
    faults: &mut Faults<'_>,
) {
    let before = faults.len();
    check_name(name, &table, faults);
    let homes = partitions_of(&mut table, drafts, faults);
    for (at, draft) in homes.into_iter().enumerate() {
        let copy = table.clone();
        // What is wrong is told once for all members of a family.
        if at == 0 || faults.len() == before {
            read_into(draft, name, copy, context, before, faults);
        }
    }
}

/// Reads the tool's other keys as the driver of its partition knows them.
fn read_into<'t>(
    draft: &mut Draft<'t>,
    name: &str,
    mut table: Table<'t>,
    context: &Context<'_>,
    before: usize,
    faults: &mut Faults<'_>,
) {
    let Some(driver) = &mut draft.section.driver else {
        if !draft.broken {
            let rule = format!("partition `{}` has no driver", draft.section.spec.name());
            let fix = "add its http, sql or process table";
            faults.add(&table.place_of("partition"), rule, fix);
        }
        return;
    };
    let name: Arc<str> = name.into();
    driver::foreign_keys(driver.kind(), &mut table, faults);
    if faults.len() == before {
        driver.read_tool(&name, &mut table, context, faults);
        table.finish(faults);
    }
    draft.section.tools.push(Arc::clone(&name));
    draft.tools.push(Read { name, table, sound: faults.len() == before });
}

/// The drafts of the partition that the tool names: one, or all members of a family.
fn partitions_of<'d, 't>(
    table: &mut Table<'_>,
    drafts: &'d mut [Draft<'t>],
    faults: &mut Faults<'_>,
) -> Vec<&'d mut Draft<'t>> {
    let fix = "name one of the file's partitions, as in partition = \"search\"";
    let Some(named) = table.require::<String>("partition", fix, faults) else {
        return Vec::new();
    };
    let names: Vec<_> = drafts.iter().map(|draft| draft.section.home()).collect();
    if !names.contains(&&*named.value) {
        let fix = match nearest(&named.value, &names) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("add `[partition.{}]`, or correct the name", named.value),
        };
        faults.add(&named.place, "is no partition of this file", fix);
    }
    drafts.iter_mut().filter(|draft| draft.section.home() == named.value).collect()
}

fn check_name(name: &str, table: &Table<'_>, faults: &mut Faults<'_>) {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !(1..=64).contains(&name.len()) || !name.chars().all(plain) {
        let rule = "must be named with 1 to 64 letters, digits, `_`, `-` or `.`";
        faults.add(&table.place, rule, "name it as a model would call it, such as `read_ticket`");
    }
}
