//! `[reserve]`: the slots that partitions may use above their own.

use super::Draft;
use super::fault::Faults;
use super::raw::{Field, Table};
use crate::admission::Policy;

/// The reserve's slots; 0 if there is none, and then nobody may want any.
pub(super) fn read(root: &mut Table<'_>, drafts: &[Draft<'_>], faults: &mut Faults<'_>) -> u32 {
    let slots = root.table("reserve", faults).map(|table| slots(table, faults));
    let borrowers = drafts.iter().filter(|draft| draft.section.spec.policy().reserve_max > 0);
    if slots.unwrap_or(0) == 0 {
        for draft in borrowers {
            let rule = "has no reserve to borrow from";
            let fix = "add `[reserve]` with `slots`, or leave reserve_max out";
            faults.add(&draft.reserve_max, rule, fix);
        }
    }
    slots.unwrap_or(0)
}

fn slots(mut table: Table<'_>, faults: &mut Faults<'_>) -> u32 {
    let fix = "say how many slots may be lent, as in `slots = 4`";
    let slots = table.require::<u32>("slots", fix, faults);
    table.finish(faults);
    let Some(Field { value, place }) = slots else {
        return Policy::SLOTS_MAX;
    };
    if value > Policy::SLOTS_MAX {
        let fix = "a few are enough; give partitions slots of their own instead";
        faults.add(&place, "must be 0 to 4096", fix);
    }
    value
}
