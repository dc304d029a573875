//! The part of a transaction that concerns ordered tables ([`crate::ordered`]).
//!
//! ```text
//!   READ COMMITTED      reads @90, @95      writes      COMMIT: what was read at 90 and at 95 is
//!   REPEATABLE READ     reads @90           writes      unchanged, or the commit fails
//! ```
//!
//! At every isolation level, what was read of ordered tables is validated in the order. So a
//! transaction on them is serializable. A transaction without writes that has read at one time is
//! serializable without that; one that has read at several times is ordered as well.
//!
//! **Hot rows.** Of the writers of one row, one is applied in each batch. A client whose commit has
//! met another writer of a row therefore locks that row when its next transaction begins: before
//! its first statement ([`crate::queue_again`]), or else before it takes a snapshot. So clients
//! that repeat their transactions queue for the row.
//!
//! A table that the transaction has created itself has no order yet, because no other transaction
//! can see it. So a definition and the first rows of its table are one ordinary commit.

use super::moves::{self, Places};
use super::{CancelToken, LockMode, OpenError, OpenTransaction};
use crate::conductor::{Conductor, link_of};
use crate::error::Error;
use crate::fusion::{self, homeward::submit};
use crate::gateways::messages::write;
use crate::gateways::shipping::Promise;
use crate::open::fused::{Found, span_of};
use crate::ordered::{Applied, COMMIT_BYTES_MAX, NotOrdered, OrderedTables};
use crate::router::{Ran, Router, unless};
use crate::transport::Transport;
use isomer_design::{Key, KeyRange, Span, TableId, Time};
use isomer_site::{CommitId, Committed, Conflict, Failure, OrderedCommit, ReadSet};
use isomer_strategy::Place;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::Waker;

/// The work of a transaction on ordered tables.
#[derive(Default)]
pub(super) struct OrderedPart {
    /// The spans that it has read, by the time of the reads.
    reads: Vec<ReadSet>,
    /// Tables that no other transaction can see before it commits.
    own: BTreeSet<TableId>,
    /// The number of switches of tables when it began.
    switches: u64,
    /// A row that another transaction had written when the client's last commit came: to be locked
    /// before the first snapshot.
    contended: Option<(TableId, Key)>,
    /// The sites of the fused rows that it has read for a write.
    places: Places,
    /// The rows that it writes move to this process.
    takes_rows: bool,
}

impl OrderedPart {
    /// Of a transaction that begins.
    pub(super) fn begin<T: Transport>(router: &Router<T>, cancel: &CancelToken) -> OrderedPart {
        let (switches, contended) = (router.ordered().switches(), cancel.take_contended());
        OrderedPart { switches, contended, ..OrderedPart::default() }
    }

    /// True if the transaction's work on the table is ordered.
    #[inline]
    pub(super) fn has<T: Transport>(&self, router: &Router<T>, table: TableId) -> bool {
        router.ordered().has(table) && !self.own.contains(&table)
    }

    /// Adds a span to what the commit validates. Returns the bytes that this takes.
    pub(super) fn keep(&mut self, at: Time, table: TableId, span: Span, rows: usize) -> usize {
        let found = self.reads.iter().rposition(|reads| reads.at() == at);
        let at_index = found.unwrap_or_else(|| {
            self.reads.push(ReadSet::default());
            self.reads.len() - 1
        });
        self.reads[at_index].add(at, table, span, rows as u64)
    }

    /// Notes where a row is that may be written.
    pub(super) fn note_place(&mut self, row: (TableId, Key), found: Found) {
        match found.fused_at {
            Some(site) => self.places.insert(row, site),
            None => self.places.remove(&row),
        };
    }

    /// Forgets the reads of a table.
    pub(super) fn forget(&mut self, table: TableId) {
        self.reads.iter_mut().for_each(|reads| reads.forget(table));
    }

    /// The reads.
    pub(super) fn reads(&self) -> &[ReadSet] {
        &self.reads
    }
}

/// True if the client's last commit has met another writer of a row, and the transaction has not
/// queued for that row yet.
pub(crate) fn is_to_queue<T: Transport>(txn: &OpenTransaction<T>) -> bool {
    txn.ordered.contended.is_some()
}

/// Locks the row that the client's last commit has met another writer of. To be called before a
/// snapshot is taken. If the transaction has read already, does nothing: rows that it has found
/// absent could appear during the wait.
pub(crate) async fn lock_contended<T: Transport>(
    txn: &mut OpenTransaction<T>,
) -> Result<(), OpenError> {
    let has_read = txn.snapshot.is_some() || txn.newest.is_some() || !txn.ordered.reads.is_empty();
    let Some(place) = txn.ordered.contended.take().filter(|_| !has_read) else { return Ok(()) };
    let mode = LockMode::Exclusive;
    if txn.gateway.lock(txn.owner, place.clone(), mode, true, &txn.cancel).await? {
        txn.locked.push(place);
    }
    Ok(())
}

/// Adds a row to the read set, where it was found.
pub(super) fn keep_found<T: Transport>(
    txn: &mut OpenTransaction<T>,
    table: TableId,
    key: &Key,
    found: Found,
) {
    let (at, span) = match found.fused_at {
        None => return txn.keep_read(table, || Span::Key(key.clone()), usize::from(found.exists)),
        Some(_) => span_of(&txn.gateway, table, key, found),
    };
    txn.keep_read(at, || span, usize::from(found.exists));
}

/// Notes that no other transaction can see a table before this one commits.
pub fn own_table<T: Transport>(txn: &mut OpenTransaction<T>, table: TableId) {
    txn.ordered.own.insert(table);
}

/// The rows of ordered tables that a transaction writes move to this process, as far as there is
/// room: its statement was routed here ([`crate::ordered::ahead`]).
pub fn take_rows<T: Transport>(txn: &mut OpenTransaction<T>) {
    txn.ordered.takes_rows = true;
}

/// The time of the first read of an ordered table, if `table` is one.
pub fn first_ordered_read<T: Transport>(txn: &OpenTransaction<T>, table: TableId) -> Option<Time> {
    let is_ordered = txn.ordered.has(txn.gateway.router(), table);
    txn.ordered.reads().iter().map(ReadSet::at).min().filter(|_| is_ordered)
}

/// Refuses the commit of a transaction to tables that were switched since it began: its reads were
/// kept, or its rows locked, for the other way.
pub(super) fn check_switches<T: Transport>(txn: &OpenTransaction<T>) -> Result<(), OpenError> {
    let (ordered, switches) = (txn.gateway.router().ordered(), txn.ordered.switches);
    if ordered.switches() == switches {
        return Ok(());
    }
    let read = txn.ordered.reads.iter().chain([&txn.reads]);
    let read = read.flat_map(|reads| reads.tables().map(|(table, _)| table));
    let is_own = |table: &TableId| txn.ordered.own.contains(table);
    let mut tables = txn.workspace.writes().keys().copied().chain(read);
    match tables.find(|table| !is_own(table) && ordered.is_switched_since(*table, switches)) {
        Some(table) => Err(OpenError::ReadChanged { table, span: Span::Range(KeyRange::all()) }),
        None => Ok(()),
    }
}

/// True if the commit of a transaction needs a place in the order.
pub(super) fn is_to_be_ordered<T: Transport>(txn: &OpenTransaction<T>) -> bool {
    let router = txn.gateway.router();
    match txn.workspace.is_empty() {
        true => txn.ordered.reads.len() > 1,
        false => txn.workspace.writes().keys().any(|table| txn.ordered.has(router, *table)),
    }
}

/// Commits by a place in the total order.
pub(super) async fn commit_in_order<T: Transport>(
    mut txn: OpenTransaction<T>,
) -> Result<Option<Ran>, OpenError> {
    let gateway = txn.gateway.clone();
    let router = gateway.router();
    let is_other = |table: TableId| !txn.ordered.has(router, table);
    if txn.workspace.writes().keys().any(|table| is_other(*table)) {
        return Err(OpenError::Mixed);
    }
    let has_written = !txn.workspace.is_empty();
    if has_written && txn.reads.tables().any(|(table, _)| is_other(table)) {
        return Err(OpenError::MixedReads);
    }
    if txn.workspace.bytes() > COMMIT_BYTES_MAX {
        return Err(OpenError::TooLargeToOrder);
    }
    // A durable commit may not depend on reads of other tables that a crash could undo.
    let cancel = txn.cancel.clone();
    let over = |waker: &Waker| cancel.poll_over(waker);
    let durable = txn.seen.until_durable(gateway.transport(), |_| false);
    unless(&over, durable).await.map_err(OpenError::Canceled)??;
    for (table, key) in moves::unplaced(&gateway, txn.workspace.writes()) {
        let found = txn.get_newest(table, &key, |_, _| {}).await?;
        txn.ordered.note_place((table, key), found);
    }
    let reads = std::mem::take(&mut txn.ordered.reads);
    let found = (&txn.ordered.places, txn.ordered.takes_rows);
    let writes = moves::placed(&gateway, txn.workspace.writes(), found);
    let mut commit = OrderedCommit { reads, writes, ..OrderedCommit::default() };
    if let Some(witness) = &txn.witness {
        commit.id = router.conductor().order.name(gateway.transport().client());
        witness.promise(write(&Promise::Ordered(commit.id)));
        let gone_ahead = poll_fn(|cx| witness.poll_go(cx.waker()));
        unless(&over, gone_ahead).await.map_err(OpenError::Canceled)?;
    }
    let submitted = match submit(router.conductor(), commit).await? {
        Err(NotOrdered::Conflict(conflict)) => {
            let conflict = named(conflict, router.ordered());
            txn.cancel.set_contended(contended(&conflict));
            Err(NotOrdered::Conflict(conflict))
        }
        submitted => submitted,
    };
    let Applied { time, site } = submitted.map_err(refused)?;
    moves::note(&gateway, txn.workspace.writes(), time);
    txn.session.has_seen(time);
    if has_written {
        gateway.count(Place::At(site));
    }
    Ok(has_written.then_some(ran(Applied { time, site })))
}

fn ran(Applied { time, site }: Applied) -> Ran {
    let committed = Committed { snapshot: Time(time.0 - 1), commit: Some(time) };
    Ran { place: Place::At(site), committed, changes: 0, is_found: false }
}

/// The outcome of a commit of another process, which was lost before it has answered.
///
/// # Errors
/// [`OpenError::Undone`]: it is not in the order, and never will be. Others if that is not known.
pub(crate) async fn outcome_in_order<T: Transport>(
    conductor: &Conductor<T>,
    id: CommitId,
) -> Result<Ran, OpenError> {
    let outcome = match link_of(conductor) {
        Some(link) => link.outcome(conductor, id).await?,
        None => {
            conductor.order.running().await;
            conductor.order.outcome_of(id).await
        }
    };
    match outcome {
        Ok(applied) => Ok(ran(applied)),
        Err(NotOrdered::Conflict(_) | NotOrdered::Never) => Err(OpenError::Undone),
        Err(why) => Err(refused(why)),
    }
}

/// A conflict with the name that a fused row has for its table.
fn named(conflict: Conflict, ordered: &OrderedTables) -> Conflict {
    let row = |table: TableId, key: &Key| {
        let fused = fusion::parse(key).filter(|_| ordered.fused() == Some(table));
        fused.map(|(_, table, key)| (table, key))
    };
    match &conflict {
        Conflict::Changed { table, key } => match row(*table, key) {
            Some((table, key)) => Conflict::Changed { table, key },
            None => conflict,
        },
        Conflict::ReadChanged { table, span } => match row(*table, span.start()) {
            Some((table, key)) => Conflict::ReadChanged { table, span: Span::Key(key) },
            None => conflict,
        },
        _ => conflict,
    }
}

/// The row that another transaction had written.
fn contended(conflict: &Conflict) -> Option<(TableId, Key)> {
    match conflict {
        Conflict::Changed { table, key }
        | Conflict::ReadChanged { table, span: Span::Key(key) } => Some((*table, key.clone())),
        _ => None,
    }
}

/// Why a commit was not applied, as an error of its transaction.
fn refused(why: NotOrdered) -> OpenError {
    match why {
        NotOrdered::Conflict(Conflict::Changed { .. } | Conflict::Forgotten) => OpenError::Changed,
        NotOrdered::Conflict(Conflict::ReadChanged { table, span }) => {
            OpenError::ReadChanged { table, span }
        }
        NotOrdered::Conflict(Conflict::NoTable(table)) => {
            let span = Span::Range(KeyRange::all());
            OpenError::ReadChanged { table, span }
        }
        NotOrdered::Conflict(Conflict::Lost(site)) => {
            let why = "its process is down".to_owned();
            Error::Failure(Failure::Unreachable { site, why }).into()
        }
        NotOrdered::NotHere | NotOrdered::Never => Error::NoSeat.into(),
        NotOrdered::Refused(error) => Error::Failure(Failure::Log(error)).into(),
        NotOrdered::Unknown(error) => Error::Failure(Failure::Unknown(error)).into(),
    }
}
