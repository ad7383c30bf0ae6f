//! `backend_max`: what a partition's backend allows, which the partition should not exceed.

use super::Draft;
use super::fault::Faults;
use super::raw::{Field, Table};
use crate::admission::Policy;

/// Reads the most calls at once that the backend allows.
pub(super) fn read(table: &mut Table<'_>, faults: &mut Faults<'_>) -> Option<Field<u32>> {
    let most = table.take::<u32>("backend_max", faults)?;
    if most.value == 0 {
        let fix = "give what the vendor allows, or leave it out";
        faults.add(&most.place, "must be at least 1", fix);
        return None;
    }
    Some(most)
}

/// Warns of a partition that may call its backend more often at once than that allows.
pub(super) fn advise(draft: &Draft<'_>, warnings: &mut Faults<'_>) {
    let Some(Field { value: most, place }) = &draft.backend_max else {
        return;
    };
    let spec = &draft.section.spec;
    let Policy { slots, reserve_max, replace_overdue, .. } = *spec.policy();
    if spec.capacity() <= *most {
        return;
    }
    let shares =
        [("slots", slots), ("reserve_max", reserve_max), ("replace_overdue", replace_overdue)];
    let shares = shares.into_iter().filter(|(_, share)| *share > 0);
    let shares: Vec<_> = shares.map(|(key, share)| format!("{key} {share}")).collect();
    let rule = format!(
        "is less than the {} calls that the partition may make at once ({})",
        spec.capacity(),
        shares.join(" + ")
    );
    let fix =
        format!("lower them to {most} in all, or correct it: the backend will refuse the rest");
    warnings.add(place, rule, fix);
}
