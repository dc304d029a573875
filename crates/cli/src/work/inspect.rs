//! A look at every row of every copy, at rest: what masters hold in all, and whether replicas hold
//! the same.

use crate::clock;
use crate::progress::Progress;
use isomer_cluster::{Database, Error, Session};
use isomer_design::{KeyRange, SiteId, TableId};
use isomer_workload::Totals;
use std::time::Duration;

/// A replica that differs is read again after so much time, and so often: it may be behind. Of a
/// database that has just been opened nobody knows what its replicas must have.
const AGAIN: Duration = Duration::from_millis(20);
const AGAIN_MAX: usize = 100;
/// Nothing changes any more if nothing was being changed for so many looks, and it is not looked for longer than this.
const STILL: usize = 10;
const LOOKS_MAX: usize = 3000;
/// Differences beyond these are only counted.
const DIFFERENCES_KEPT: usize = 5;

/// What is shown every row: its table, key and value.
pub(super) type See<'s> = &'s mut dyn FnMut(TableId, &[u8], &[u8]);

/// What was found.
#[derive(Default, Debug)]
pub struct Inspection {
    /// Over the rows of all masters.
    pub totals: Totals,
    pub partitions: usize,
    pub replicas: usize,
    /// Replicas that differ from their master.
    pub differ: usize,
    /// The first of them, in words.
    pub differences: Vec<String>,
}

/// Reads every partition at its master, and compares its replicas. `session` has seen what they must
/// have.
pub fn inspect(db: &Database, session: &Session) -> Result<Inspection, Error> {
    inspect_with(db, session, &mut |_, _, _| {})
}

/// The same, and shows every row of a master to `see`.
pub fn inspect_with(db: &Database, session: &Session, see: See<'_>) -> Result<Inspection, Error> {
    wait_until_still(db);
    let design = db.design();
    let mut found = Inspection { partitions: design.partition_count(), ..Inspection::default() };
    let mut progress = Progress::new("reading partitions", found.partitions as u64);
    for (id, table) in design.tables() {
        for (range, placement) in table.partitions_in(&KeyRange::all()) {
            let master = Copy::read(db, placement.master, session, id, &range, see)?;
            found.totals = found.totals + master.totals;
            for site in placement.replicas.iter() {
                found.replicas += 1;
                let replica = || Copy::read(db, site, session, id, &range, &mut |_, _, _| {});
                if let Some(difference) = master.compare(replica)? {
                    found.differ += 1;
                    let name = table.schema().partition_name(&range.start);
                    found.differences.push(format!(
                        "{name} at {site} differs from its master at {}: {difference}",
                        placement.master
                    ));
                    found.differences.truncate(DIFFERENCES_KEPT);
                }
            }
            progress.add(1);
        }
    }
    Ok(found)
}

/// Waits until the changes of the design are made that are on their way, as they go on when transactions have ended.
fn wait_until_still(db: &Database) {
    let mut still = 0;
    for _ in 0..LOOKS_MAX {
        still = if db.jobs().is_empty() { still + 1 } else { 0 };
        if still == STILL {
            break;
        }
        clock::sleep(AGAIN);
    }
}

/// One copy of a partition, as it was read.
#[derive(Default)]
struct Copy {
    totals: Totals,
    /// Keys and rows, each with its length.
    bytes: Vec<u8>,
}

impl Copy {
    fn read(
        db: &Database,
        site: SiteId,
        session: &Session,
        table: TableId,
        range: &KeyRange,
        see: See<'_>,
    ) -> Result<Copy, Error> {
        let mut copy = Copy::default();
        db.read_at(site, session, table, range, |key, row| {
            copy.totals.count(row);
            see(table, key, row);
            for part in [key, row] {
                copy.bytes.extend((part.len() as u64).to_le_bytes());
                copy.bytes.extend(part);
            }
        })?;
        Ok(copy)
    }

    /// What is different about a replica, again and again until nothing is.
    fn compare(&self, replica: impl Fn() -> Result<Copy, Error>) -> Result<Option<String>, Error> {
        let mut found = replica()?;
        for _ in 0..AGAIN_MAX {
            if found.bytes == self.bytes {
                return Ok(None);
            }
            clock::sleep(AGAIN);
            found = replica()?;
        }
        let (rows, there) = (self.totals.rows, found.totals.rows);
        let is_other = rows == there;
        Ok(Some(if is_other { "other rows".into() } else { format!("{there} rows, not {rows}") }))
    }
}
