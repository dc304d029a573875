//! Reads of ordered tables, some of whose rows may be [fused](crate::fusion).
//!
//! ```text
//!   get 7      own sites' fused rows, if the home of 7 is in another process     often found here
//!              home of 7: the row, or nothing, or a stub for s3
//!              the row of s3                                                     the same snapshot
//!
//!   scan 5..   5, 6, stub for s3 ─▶ the next fused rows of s3 in the range, at once: 7, 9, 12
//!              7, 8, 9, …           stubs that follow take their rows from these
//! ```
//!
//! All reads of a snapshot are at its time, and a row is at one place at any time. So a stub always
//! leads to its row.

use super::gateway::Gateway;
use super::snapshot::{LOOKS_MAX, Snapshot};
use crate::error::Error;
use crate::fusion::{parse, place, places, site_of};
use crate::transport::Transport;
use isomer_design::{Direction, Key, KeyRange, SiteId, Span, TableId, Time};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The number of fused rows that a scan reads at once.
const AHEAD: usize = 512;

/// Where a row is, and whether it exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) exists: bool,
    /// The site with the fused row; `None`: the row is at home.
    pub(super) fused_at: Option<SiteId>,
}

impl Found {
    fn at_home(exists: bool) -> Found {
        Found { exists, fused_at: None }
    }

    fn fused(site: SiteId) -> Found {
        Found { exists: true, fused_at: Some(site) }
    }
}

/// A span of fused rows that a scan has read, with the number of rows.
pub(super) type FusedSpan = (TableId, Span, usize);

/// Like [`Snapshot::look`], wherever the row is.
pub(super) async fn look<T: Transport>(
    snapshot: &mut Snapshot<T>,
    gateway: &Gateway<T>,
    (table, key): (TableId, &Key),
    look: usize,
    visit: &mut impl FnMut(&[u8], Time),
) -> Result<Option<Found>, Error> {
    let ordered = gateway.router().ordered();
    if !ordered.has(table) {
        let found = snapshot.look(gateway, table, key, look, visit).await?;
        return Ok(found.map(Found::at_home));
    }
    let fused = ordered.fused();
    if let Some(fused) = fused.filter(|fused| look == 0 && *fused != table) {
        for (site, place) in own_places(gateway, table, key) {
            if snapshot.get(gateway, fused, &place, &mut *visit).await? {
                return Ok(Some(Found::fused(site)));
            }
        }
    }
    let mut away = None;
    let mut home = |row: &[u8], time: Time| match site_of(row) {
        Some(site) => away = Some(site),
        None => visit(row, time),
    };
    let found = snapshot.look(gateway, table, key, look, &mut home).await?;
    let Some(site) = away else { return Ok(found.map(Found::at_home)) };
    // A gateway that does not know the fused table yet is told of it soon.
    let (fused, place) = fused.zip(place(site, table, key)).ok_or(Error::Gone)?;
    match snapshot.get(gateway, fused, &place, visit).await? {
        true => Ok(Some(Found::fused(site))),
        false => Err(Error::StrayStub { table, site }),
    }
}

/// Like [`Snapshot::get`], wherever the row is.
pub(super) async fn get<T: Transport>(
    snapshot: &mut Snapshot<T>,
    gateway: &Gateway<T>,
    at: (TableId, &Key),
    mut visit: impl FnMut(&[u8], Time),
) -> Result<Found, Error> {
    for attempt in 0..LOOKS_MAX {
        if let Some(found) = look(snapshot, gateway, at, attempt, &mut visit).await? {
            return Ok(found);
        }
    }
    Err(Error::Gone)
}

/// Where a row was found, as a span.
pub(super) fn span_of<T: Transport>(
    gateway: &Gateway<T>,
    table: TableId,
    key: &Key,
    found: Found,
) -> (TableId, Span) {
    let site = found.fused_at.zip(gateway.router().ordered().fused());
    let fused = site.and_then(|(site, fused)| Some((fused, place(site, table, key)?)));
    let (table, key) = fused.unwrap_or_else(|| (table, key.clone()));
    (table, Span::Key(key))
}

/// The places of a row in the fused table at the own sites, if its home is in another process.
fn own_places<T: Transport>(gateway: &Gateway<T>, table: TableId, key: &Key) -> Vec<(SiteId, Key)> {
    let routing = gateway.router().routing_table();
    let is_here = |site: SiteId| gateway.transport().drop_revokes(site);
    if routing.placement(table, key).is_none_or(|home| is_here(home.master)) {
        return Vec::new();
    }
    let own = routing.sites().iter().filter(|site| is_here(*site));
    own.filter_map(|site| Some((site, place(site, table, key)?))).collect()
}

/// Like [`Snapshot::scan`], wherever the rows are. Adds to `used` which fused rows were shown.
pub(super) async fn scan<T: Transport>(
    snapshot: &mut Snapshot<T>,
    gateway: &Gateway<T>,
    (table, range, way): (TableId, &KeyRange, Direction),
    used: &mut Vec<FusedSpan>,
    mut visit: impl FnMut(&[u8], &[u8], Time) -> ControlFlow<()>,
) -> Result<(), Error> {
    if !gateway.router().ordered().has(table) {
        return snapshot.scan(gateway, table, range, way, visit).await;
    }
    let mut ahead: BTreeMap<SiteId, Ahead> = BTreeMap::new();
    let mut rest = range.clone();
    loop {
        let mut unread = None;
        let show = |key: &[u8], row: &[u8], time: Time| {
            let Some(site) = site_of(row) else { return visit(key, row, time) };
            match ahead.get_mut(&site).and_then(|ahead| ahead.take(key)) {
                Some((row, time)) => visit(key, &row, time),
                None => {
                    unread = Some((site, Key::from_bytes(key)));
                    ControlFlow::Break(())
                }
            }
        };
        let scanned = snapshot.scan(gateway, table, &rest, way, show).await;
        let Some((site, key)) = unread.filter(|_| scanned.is_ok()) else {
            used.extend(ahead.into_values().filter_map(|ahead| ahead.used(table, way)));
            return scanned;
        };
        match way {
            Direction::Forward => rest.start = key.clone(),
            Direction::Backward => rest.end = Some(key.successor()),
        }
        let read = Ahead::read(snapshot, gateway, (site, table), &rest, way).await?;
        if !read.rows.contains_key(&key) {
            return Err(Error::StrayStub { table, site });
        }
        let before = ahead.insert(site, read);
        used.extend(before.and_then(|ahead| ahead.used(table, way)));
    }
}

/// The next fused rows of a site in a scan.
struct Ahead {
    fused: TableId,
    site: SiteId,
    rows: BTreeMap<Key, (Vec<u8>, Time)>,
    /// The first and the last row that was shown, and the number of them.
    shown: Option<(Key, Key)>,
    count: usize,
}

impl Ahead {
    async fn read<T: Transport>(
        snapshot: &mut Snapshot<T>,
        gateway: &Gateway<T>,
        (site, table): (SiteId, TableId),
        range: &KeyRange,
        way: Direction,
    ) -> Result<Ahead, Error> {
        let fused = gateway.router().ordered().fused().ok_or(Error::Gone)?;
        let mut rows = BTreeMap::new();
        let enter = |place: &[u8], row: &[u8], time: Time| {
            if let Some((_, _, key)) = parse(place) {
                rows.insert(key, (row.to_vec(), time));
            }
            match rows.len() < AHEAD {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        snapshot.scan(gateway, fused, &places(site, table, range), way, enter).await?;
        Ok(Ahead { fused, site, rows, shown: None, count: 0 })
    }

    fn take(&mut self, key: &[u8]) -> Option<(Vec<u8>, Time)> {
        let (key, row) = self.rows.remove_entry(key)?;
        self.count += 1;
        match &mut self.shown {
            Some((_, last)) => *last = key,
            none => *none = Some((key.clone(), key)),
        }
        Some(row)
    }

    /// The rows that were shown, as one span. Between two of them the site has no others.
    fn used(self, table: TableId, way: Direction) -> Option<FusedSpan> {
        let (first, last) = match (way, self.shown?) {
            (Direction::Forward, shown) => shown,
            (Direction::Backward, (first, last)) => (last, first),
        };
        let shown = KeyRange::new(first, Some(last.successor()));
        Some((self.fused, Span::Range(places(self.site, table, &shown)), self.count))
    }
}
