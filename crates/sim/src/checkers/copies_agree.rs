//! Copies agree: when all is quiet, every copy of a partition has the master's version, and holds
//! exactly the rows that all commits add up to.

use crate::history::{Copy, History, Value};
use isomer_design::Key;
use std::collections::{BTreeMap, BTreeSet};

/// See the [module documentation](self).
///
/// # Errors
/// A sentence that names the copy and the row or version that differs.
pub fn copies_agree(history: &History) -> Result<(), String> {
    for copy in &history.copies {
        let expected = expected(history, copy);
        if expected != copy.rows {
            let (site, table, range) = (copy.site, copy.table, &copy.range);
            let differs = difference(&expected, &copy.rows);
            return Err(format!("the copy of {table}{range} at {site} {differs}"));
        }
        let Some(source) = copy.source else { continue };
        let same = |other: &&Copy| {
            other.site == source && other.table == copy.table && other.range == copy.range
        };
        let Some(master) = history.copies.iter().find(same) else {
            let (site, table, range) = (copy.site, copy.table, &copy.range);
            return Err(format!(
                "{site} follows {source} for {table}{range}, which has no such copy"
            ));
        };
        if master.version != copy.version {
            return Err(format!(
                "the copy of {}{} at {} has version {}, its master's has {}",
                copy.table, copy.range, copy.site, copy.version, master.version
            ));
        }
    }
    placed_as_designed(history)
}

/// The router's design lists exactly the copies there are.
fn placed_as_designed(history: &History) -> Result<(), String> {
    for (table, range, placement) in &history.placements {
        let holders: BTreeSet<_> = history
            .copies
            .iter()
            .filter(|copy| copy.table == *table && copy.range.overlaps(range))
            .map(|copy| copy.site)
            .collect();
        let designed: BTreeSet<_> = placement.holders().iter().collect();
        if holders != designed && !history.copies.is_empty() {
            return Err(format!(
                "{table}{range} is to have {placement}, but is held by {holders:?}"
            ));
        }
    }
    Ok(())
}

fn expected(history: &History, copy: &Copy) -> Vec<(Key, Value)> {
    let writes = history.installed().iter().flat_map(|commit| &commit.writes);
    let own = writes.filter(|write| write.table == copy.table && copy.range.contains(&write.key));
    // In the order of time, so the last one counts.
    let last: BTreeMap<&Key, Option<Value>> = own.map(|write| (&write.key, write.value)).collect();
    last.into_iter().filter_map(|(key, value)| Some((key.clone(), value?))).collect()
}

fn difference(expected: &[(Key, Value)], found: &[(Key, Value)]) -> String {
    let lacking = expected.iter().find(|row| !found.contains(row));
    let strange = found.iter().find(|row| !expected.contains(row));
    match (strange, lacking) {
        (Some((key, value)), Some((_, wanted))) => {
            format!("has {key} = {value}, and not {wanted}")
        }
        (Some((key, value)), None) => format!("has {key} = {value}, which is no longer there"),
        (None, Some((key, value))) => format!("lacks {key} = {value}"),
        (None, None) => "is out of order".into(),
    }
}
