//! Backups: when a client is told of a commit, it is on the disks of enough other sites.

use crate::history::{Commit, CopiedWhat, History, Written};
use isomer_design::{Key, SiteId, SiteSet, TableId, Time};
use isomer_log::Position;
use std::collections::BTreeMap;

/// The sites that have a row of a commit, and its position in their logs.
type Rows<'h> = BTreeMap<(TableId, &'h Key, Time), Vec<(SiteId, Position)>>;

/// See the [module documentation](self).
///
/// # Errors
/// A sentence.
pub fn backed_up(history: &History) -> Result<(), String> {
    let mut rows = Rows::new();
    for copied in &history.copied {
        if let CopiedWhat::Row(key, time) = &copied.what {
            let place = (copied.table, key, *time);
            rows.entry(place).or_default().push((copied.site, copied.position));
        }
    }
    let commits: BTreeMap<(SiteId, Time), &Commit> =
        history.installed().iter().map(|commit| ((commit.site, commit.time), commit)).collect();
    for ack in &history.acks {
        let Some(commit) = commits.get(&(ack.site, ack.time)) else { continue };
        let durable: BTreeMap<SiteId, Position> = ack.durable.iter().copied().collect();
        let is_durable = |site: SiteId, position: Position| {
            durable.get(&site).is_some_and(|durable| position < *durable)
        };
        for (master, write) in commit
            .parts
            .iter()
            .flat_map(|(site, part)| part.iter().map(move |write| (*site, write)))
        {
            let backups = ack.backups.get(&write.table).copied().unwrap_or_default();
            if !backups.on_disk {
                continue;
            }
            let at = sites_with(history, &rows, write, ack.time, is_durable);
            let (others, count) = (at.without(master), usize::from(backups.count));
            let processes = |sites: &SiteSet| history.domains.beyond(master, sites);
            let all: SiteSet = durable.keys().copied().collect();
            if others.len() < count || processes(&others) < count.min(processes(&all)) {
                let Written { table, key, .. } = write;
                return Err(format!(
                    "{table}[{key}] of the commit at {} was acknowledged by {master} with the backups {others}, not {}",
                    ack.time, backups.count
                ));
            }
        }
    }
    Ok(())
}

/// The sites that have a row of a commit on disk, as a row or in a copy of its partition.
fn sites_with(
    history: &History,
    rows: &Rows<'_>,
    write: &Written,
    time: Time,
    is_durable: impl Fn(SiteId, Position) -> bool,
) -> SiteSet {
    let single = rows.get(&(write.table, &write.key, time)).into_iter().flatten();
    let single = single.filter(|(site, position)| is_durable(*site, *position));
    let mut at: SiteSet = single.map(|(site, _)| *site).collect();
    for copied in history.copied.iter().filter(|copied| copied.table == write.table) {
        if let CopiedWhat::Range(range, last) = &copied.what
            && range.contains(&write.key)
            && *last >= time
            && is_durable(copied.site, copied.position)
        {
            at.insert(copied.site);
        }
    }
    at
}
