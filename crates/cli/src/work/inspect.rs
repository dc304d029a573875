//! Reads every row of every copy, when no client runs: the sums of the masters' rows, and whether
//! replicas have the same rows.

use crate::clock;
use crate::progress::Progress;
use isomer_cluster::{Database, Error, Session};
use isomer_design::{KeyRange, SiteId, TableId};
use isomer_workload::Totals;
use std::time::Duration;

/// Pause before a replica that differs is read again, because it may lag, and the most repetitions.
/// A session of a database that has just been opened does not know what replicas must have.
const AGAIN: Duration = Duration::from_millis(20);
const AGAIN_MAX: usize = 100;
/// The design is stable if there were no changes for `STILL` looks in a row. The most looks are
/// `LOOKS_MAX`.
const STILL: usize = 10;
const LOOKS_MAX: usize = 3000;
/// Differences that are kept with their texts; the others are only counted.
const DIFFERENCES_KEPT: usize = 5;

/// A function that gets every row: its table, key and value.
pub(super) type See<'s> = &'s mut dyn FnMut(TableId, &[u8], &[u8]);

/// The result of reading all copies.
#[derive(Default, Debug)]
pub struct Inspection {
    /// Over the rows of all masters.
    pub totals: Totals,
    pub partitions: usize,
    pub replicas: usize,
    /// Replicas that differ from their master.
    pub differ: usize,
    /// The first of the differences, as text.
    pub differences: Vec<String>,
}

/// Reads every partition at its master, and compares its replicas with it. The copies must have
/// everything that `session` has seen.
pub fn inspect(db: &Database, session: &Session) -> Result<Inspection, Error> {
    inspect_with(db, session, &mut |_, _, _| {})
}

/// Like [`inspect`], but also passes every row of a master to `see`.
pub fn inspect_with(db: &Database, session: &Session, see: See<'_>) -> Result<Inspection, Error> {
    wait_until_still(db);
    let design = db.design();
    let mut found = Inspection { partitions: design.partition_count(), ..Inspection::default() };
    let mut progress = Progress::new("reading partitions", found.partitions as u64);
    for (id, table) in design.tables() {
        for (range, placement) in table.partitions_in(&KeyRange::all()) {
            let (at, master) = Copy::of_master(db, placement.master, session, id, &range, see)?;
            found.totals = found.totals + master.totals;
            for site in placement.replicas.iter().filter(|site| *site != at) {
                let replica = || Copy::read(db, site, session, id, &range, &mut |_, _, _| {});
                let compared = match master.compare(replica) {
                    // It was dropped meanwhile.
                    Err(error) if is_moved(&error) && !holds(db, site, id, &range) => continue,
                    compared => compared?,
                };
                found.replicas += 1;
                if let Some(difference) = compared {
                    found.differ += 1;
                    let name = table.schema().partition_name(&range.start);
                    found.differences.push(format!(
                        "{name} at {site} differs from its master at {at}: {difference}"
                    ));
                    found.differences.truncate(DIFFERENCES_KEPT);
                }
            }
            progress.add(1);
        }
    }
    Ok(found)
}

/// True if a site had no copy to read.
fn is_moved(error: &Error) -> bool {
    matches!(error, Error::Failure(failure) if failure.is_stale_route())
}

/// True if a site has a copy of the partition in which a range begins.
fn holds(db: &Database, site: SiteId, table: TableId, range: &KeyRange) -> bool {
    let design = db.design();
    let partition = design.partition_of(table, &range.start);
    partition.is_some_and(|(_, placement)| placement.holders().contains(site))
}

/// Waits until no change of the design is under way. Deferred changes may outlive the transactions,
/// and the autopilot may begin more of them later.
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

/// The content of one copy of a partition.
#[derive(Default)]
struct Copy {
    totals: Totals,
    /// Keys and rows, each with its length.
    bytes: Vec<u8>,
}

impl Copy {
    /// Reads a partition at its master, which was `site` a moment ago. Returns the site as well.
    fn of_master(
        db: &Database,
        mut site: SiteId,
        session: &Session,
        table: TableId,
        range: &KeyRange,
        see: See<'_>,
    ) -> Result<(SiteId, Copy), Error> {
        for _ in 0..AGAIN_MAX {
            match Copy::read(db, site, session, table, range, see) {
                // No row was shown.
                Err(error) if is_moved(&error) && !holds(db, site, table, range) => {
                    let design = db.design();
                    let now = design.partition_of(table, &range.start);
                    site = now.map_or(site, |(_, placement)| placement.master);
                }
                read => return read.map(|copy| (site, copy)),
            }
        }
        Copy::read(db, site, session, table, range, see).map(|copy| (site, copy))
    }

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

    /// Compares a replica with this copy until they agree or [`AGAIN_MAX`] repetitions have passed.
    /// Returns the difference as text.
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
