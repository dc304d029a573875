//! One order: all sites have the same batches, each with the same outcome. The rows that sites have
//! installed for a batch are those of its applied commits, and replicas got no others. So no site
//! runs a batch that is not durable, or twice, and no two sites decide it differently.

use crate::history::{Batch, History};
use isomer_design::{Key, TableId};
use isomer_site::RowWrite;
use std::collections::BTreeMap;

/// The value of each row.
type Rows<'b> = BTreeMap<(TableId, &'b Key), Option<&'b [u8]>>;

/// See the [module documentation](self).
///
/// # Errors
/// A sentence that names the batch, and the sites or the row that differ.
pub fn one_order(history: &History) -> Result<(), String> {
    for batch in &history.batches {
        judge(batch).map_err(|what| format!("batch {}: {what}", batch.number))?;
    }
    Ok(())
}

fn judge(batch: &Batch) -> Result<(), String> {
    let Some(commits) = batch.commits else {
        return Err("it is not in the order, and a site has its outcome".to_owned());
    };
    let Some((first, time, applied)) = batch.outcomes.first() else { return Ok(()) };
    if applied.len() != commits {
        return Err(format!("it has {commits} commits, and its outcome is {applied:?}"));
    }
    let differs = batch.outcomes.iter().find(|(_, at, did)| (at, did) != (time, applied));
    if let Some((site, at, did)) = differs {
        return Err(format!(
            "it was decided twice: {first} has {applied:?} {time}, and {site} has {did:?} {at}"
        ));
    }
    let ordered = rows(batch.ordered.iter());
    let installed = rows(batch.installed.iter().map(|(_, row)| row));
    let lacking = ordered.iter().find(|(place, row)| installed.get(place) != Some(row));
    if let Some(((table, key), row)) = lacking {
        let found = installed.get(&(*table, *key));
        return Err(format!("{table}[{key}] is to be {row:?}, and the sites have {found:?}"));
    }
    if let Some((table, key)) = installed.keys().find(|place| !ordered.contains_key(place)) {
        return Err(format!("{table}[{key}] was installed, and nobody wrote it"));
    }
    let copied = batch.copied.iter();
    let mut copied = copied.map(|(site, row)| (site, (row.table, &row.key), row.value.as_deref()));
    match copied.find(|(_, place, row)| ordered.get(place) != Some(row)) {
        Some((site, (table, key), row)) => {
            Err(format!("{table}[{key}] is {row:?} at the replica {site}, not what was ordered"))
        }
        None => Ok(()),
    }
}

fn rows<'b>(writes: impl Iterator<Item = &'b RowWrite>) -> Rows<'b> {
    writes.map(|row| ((row.table, &row.key), row.value.as_deref())).collect()
}
