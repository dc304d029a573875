//! The fused table, and the ways home.
//!
//! ```text
//!   conductor      the fused table: a partition for each site, as many backups as needed
//!   each process   fused rows of its sites over the limit ─▶ home, by commits of their own
//!   definitions    a table is dropped, or ordered no more: first all its rows go home
//! ```
//!
//! A commit that brings rows home checks their versions. If a client has written one of them in
//! the meantime, it fails, and a later pass tries again.

use super::{FUSED, is_fused, of_site, parse, schema};
use crate::conductor::{Conductor, is_drained, link_of, set_ordered, set_pins};
use crate::error::Error;
use crate::ordered::{Applied, NotOrdered};
use crate::transport::Transport;
use isomer_design::{
    Backups, Change, Design, Direction, Key, KeyRange, Pins, Placement, SiteId, TableId, Time,
};
use isomer_site::{CheckedWrite, CheckedWrites, Expect, Failure, OrderedCommit, Read, ReadSpan};
use std::ops::ControlFlow;

/// The number of rows in a commit that brings rows home.
const HOMEWARD: usize = 64;
/// The number of attempts to find a partition.
const LOOKS_MAX: usize = 64;
/// The number of times that all rows of a table are asked to go home.
const PASSES_MAX: usize = 64;

/// The work on the fused table that a process repeats while rows may move, as the simulator drives
/// it.
pub struct FusedTable<'c, T>(pub &'c Conductor<T>);

impl<T: Transport> FusedTable<'_, T> {
    /// Makes the table, and partitions of it for sites that have none, at the conductor. One call
    /// may make a part of that.
    ///
    /// # Errors
    /// [`Error`]; the next call continues.
    pub async fn prepare(&self) -> Result<(), Error> {
        prepare(self.0).await
    }

    /// Brings the rows home that are over the limit at the own sites, and notes the room there.
    ///
    /// # Errors
    /// [`Error`]; the next call continues.
    pub async fn look_after(&self) -> Result<(), Error> {
        look_after(self.0).await
    }

    /// Sets the number of rows that may move to each of the own sites.
    pub fn set_limit(&self, rows: usize) {
        self.0.mover.set_limit(rows);
    }

    /// The number of the table, once there is one.
    pub fn table(&self) -> Option<TableId> {
        self.0.ordered.fused()
    }
}

/// A row of the fused table.
struct Fused {
    place: Key,
    row: Vec<u8>,
    version: Time,
}

/// Makes the fused table, and partitions of it for sites that have none, at the conductor. One call
/// may make a part of that.
///
/// # Errors
/// [`Error`]; the next call continues.
pub(crate) async fn prepare<T: Transport>(conductor: &Conductor<T>) -> Result<(), Error> {
    let design = conductor.design();
    let Some((fused, table)) = design.find_table(FUSED) else {
        let at = |site| (of_site(site), Placement::at(site));
        let mut partitions: Vec<(Key, Placement)> = design.sites().iter().map(at).collect();
        if let Some((first, _)) = partitions.first_mut() {
            *first = Key::min();
        }
        return conductor.create_table(schema()?, partitions).await.map(drop);
    };
    if !is_fused(table) {
        return Err(Error::TableExists(FUSED.to_owned()));
    }
    if table.pins().is_empty() {
        set_pins(conductor, fused, Pins::default().with(&KeyRange::all())).await?;
    }
    if !table.is_ordered() {
        set_ordered(conductor, &[fused], true).await?;
    }
    let needed = most_backups(&design);
    if needed.count > table.backups().count {
        conductor.set_backups(fused, needed).await?;
    }
    let is_to_have = |site: &SiteId| {
        conductor.transport().failure(*site).is_none() && !is_drained(conductor, *site)
    };
    for site in design.sites().iter().filter(is_to_have) {
        let start = of_site(site);
        let Some((range, at)) = design.partition_of(fused, &start) else { continue };
        let is_first = design.sites().first() == Some(site);
        if range.start == start || (is_first && range.start.is_empty()) {
            give(conductor, (fused, range.start), &at, site).await?;
            continue;
        }
        let split = Change::Split { table: fused, at: start.clone() };
        conductor.change(split, WHY).await?;
        give(conductor, (fused, start), &at, site).await?;
    }
    Ok(())
}

/// The reason of the changes that are made here.
const WHY: &str = "each site has a partition for the rows that are fused there";

/// The backups of the ordered table that asks for most.
fn most_backups(design: &Design) -> Backups {
    let ordered = design.tables().filter(|(_, table)| table.is_ordered());
    let all = ordered.map(|(_, table)| table.backups());
    all.max_by_key(|backups| (backups.count, backups.on_disk)).unwrap_or(Backups::NONE)
}

/// Makes a site the master of a partition.
async fn give<T: Transport>(
    conductor: &Conductor<T>,
    (table, start): (TableId, Key),
    at: &Placement,
    site: SiteId,
) -> Result<(), Error> {
    if at.master == site {
        return Ok(());
    }
    let at_start = || start.clone();
    if !at.holds(site) {
        let add = Change::AddReplica { table, start: at_start(), site };
        conductor.change(add, WHY).await?;
    }
    conductor.change(Change::Remaster { table, start: at_start(), to: site }, WHY).await?;
    let backups = conductor.design().table(table).map_or(0, |table| table.backups().count);
    if !at.holds(site) && at.replicas.len() >= usize::from(backups) {
        let remove = Change::RemoveReplica { table, start, site: at.master };
        conductor.change(remove, WHY).await?;
    }
    Ok(())
}

/// Looks after the fused rows of this process: brings the rows home that are over the limit at its
/// sites, those first that were written longest ago, and notes the room that is left.
///
/// # Errors
/// [`Error`]; the next call continues.
pub(crate) async fn look_after<T: Transport>(conductor: &Conductor<T>) -> Result<(), Error> {
    let limit = conductor.mover.limit();
    let Some(fused) = conductor.ordered.fused() else { return Ok(()) };
    let design = conductor.design();
    let mut room = 0;
    for (range, at) in design.partitions_in(fused, &KeyRange::all()) {
        if !conductor.transport().drop_revokes(at.master) {
            continue;
        }
        // All rows of a site that was removed go home.
        let has_site = design.sites().iter().any(|site| range.contains(&of_site(site)));
        let limit = if has_site { limit } else { 0 };
        let mut rows = list(conductor, fused, &range).await?;
        let over = rows.len().saturating_sub(limit);
        room += limit - (rows.len() - over);
        if over > 0 {
            rows.sort_unstable_by_key(|row| row.version);
            rows.truncate(over);
            send_home(conductor, fused, rows).await?;
        }
    }
    conductor.mover.set_room(room);
    Ok(())
}

/// Brings all rows of a table home. The caller keeps writers out of it.
///
/// # Errors
/// [`Error`]; some rows may be home then.
pub(crate) async fn bring_home<T: Transport>(
    conductor: &Conductor<T>,
    table: TableId,
) -> Result<(), Error> {
    let Some(fused) = conductor.ordered.fused().filter(|_| conductor.ordered.has(table)) else {
        return Ok(());
    };
    for _ in 0..PASSES_MAX {
        let mut rows = list(conductor, fused, &KeyRange::all()).await?;
        rows.retain(|row| parse(&row.place).is_some_and(|(_, of, _)| of == table));
        if rows.is_empty() {
            return Ok(());
        }
        send_home(conductor, fused, rows).await?;
    }
    Err(Error::Gone)
}

/// The rows that are fused now: their sites, tables and keys, in this order.
///
/// # Errors
/// [`Error`], if a site cannot be asked.
pub(crate) async fn fused_rows<T: Transport>(
    conductor: &Conductor<T>,
) -> Result<Vec<(SiteId, TableId, Key)>, Error> {
    let Some(fused) = conductor.ordered.fused() else { return Ok(Vec::new()) };
    let rows = list(conductor, fused, &KeyRange::all()).await?;
    Ok(rows.iter().filter_map(|row| parse(&row.place)).collect())
}

/// Reads fused rows as they are now.
async fn list<T: Transport>(
    conductor: &Conductor<T>,
    fused: TableId,
    range: &KeyRange,
) -> Result<Vec<Fused>, Error> {
    let transport = conductor.transport();
    let (mut rows, mut rest, mut looks) = (Vec::new(), range.clone(), 0);
    while !rest.is_empty() {
        let routing = conductor.routing_table();
        let Some((at, end)) = routing.stretch(fused, &rest.start) else { return Ok(rows) };
        let part = KeyRange::new(rest.start.clone(), end.cloned()).intersection(&rest);
        let before = rows.len();
        let mut visit = |place: &[u8], row: &[u8], version: Time| {
            let place = Key::from_bytes(place);
            rows.push(Fused { place, row: row.to_vec(), version });
            ControlFlow::Continue(())
        };
        let span = ReadSpan::Range(&part, Direction::Forward);
        let read = Read { table: fused, span, limit: usize::MAX };
        let now = transport.now().max(transport.latest().await.0);
        match transport.read_at(at.master, read, now, None, &mut visit).await {
            Ok(_) => match part.end {
                Some(end) => (rest.start, looks) = (end, 0),
                None => break,
            },
            Err(failure) if looks == LOOKS_MAX => return Err(failure.into()),
            Err(Failure::Unreachable { site, why }) => {
                return Err(Failure::Unreachable { site, why }.into());
            }
            Err(_) => {
                rows.truncate(before);
                looks += 1;
                transport.retry(at.master).await;
            }
        }
    }
    Ok(rows)
}

/// Brings rows home, except those that have changed since they were read.
async fn send_home<T: Transport>(
    conductor: &Conductor<T>,
    fused: TableId,
    rows: Vec<Fused>,
) -> Result<(), Error> {
    for portion in rows.chunks(HOMEWARD) {
        match submit(conductor, homeward(fused, portion)).await? {
            Err(NotOrdered::Conflict(_)) if portion.len() > 1 => {
                for row in portion {
                    done(submit(conductor, homeward(fused, std::slice::from_ref(row))).await?)?;
                }
            }
            answer => done(answer)?,
        }
    }
    Ok(())
}

fn done(answer: Result<Applied, NotOrdered>) -> Result<(), Error> {
    match answer {
        Ok(_) | Err(NotOrdered::Conflict(_)) => Ok(()),
        Err(NotOrdered::Refused(error)) => Err(Failure::Log(error).into()),
        Err(NotOrdered::Unknown(error)) => Err(Failure::Unknown(error).into()),
        Err(NotOrdered::NotHere | NotOrdered::Never) => Err(Error::NoSeat),
    }
}

/// A commit that brings rows home.
fn homeward(fused: TableId, rows: &[Fused]) -> OrderedCommit {
    let mut writes = CheckedWrites::new();
    for row in rows {
        let Some((_, table, key)) = parse(&row.place) else { continue };
        let gone = CheckedWrite { expect: Expect::Version(Some(row.version)), row: None };
        writes.entry(fused).or_default().insert(row.place.clone(), gone);
        let home = CheckedWrite { expect: Expect::Anything, row: Some(row.row.clone()) };
        writes.entry(table).or_default().insert(key, home);
    }
    OrderedCommit { writes, ..OrderedCommit::default() }
}

/// Hands a commit to the order, wherever that is.
///
/// # Errors
/// [`Error`], if the conductor cannot be reached.
pub(crate) async fn submit<T: Transport>(
    conductor: &Conductor<T>,
    commit: OrderedCommit,
) -> Result<Result<Applied, NotOrdered>, Error> {
    match link_of(conductor) {
        Some(link) => link.order(conductor, commit).await,
        None => {
            let _unanswered = conductor.ahead.unanswered(conductor);
            Ok(conductor.order.submit(commit).await)
        }
    }
}
