//! The histories of a server, in [a table](crate::history_table) that every gateway has because the
//! database has it.
//!
//! ```text
//!   a, with the conductor   changes, failovers, plans, decisions ──┐
//!   b, a gateway            actions of its clients ────────────────┼──▶ isomer_history
//!                                                                  │    kind, order, apart → text
//!   the next conductor      continues them, and their numbers ◀────┘    'change', 7, 0 → {..}
//! ```
//!
//! A history is noted while commits may wait: when a site is down, or others take over from it. So
//! events are kept in memory first ([`crate::chronicle`]), and written a moment later
//! ([`write_history`]), each by the process that noted it. A crash loses the events of the last
//! moment, and those for which no commit was possible. A statement of an operator ends once
//! its action is written, or a second later ([`until_written`]).
//!
//! **Bounds.** The conductor's process deletes all but the last [`KEPT_MAX`] events of each kind,
//! once a minute and after many new ones.

use crate::backend::explain;
use crate::cells::Cell;
use crate::chronicle::{DENIED_MAX, Event, KEPT_MAX, Kind, Noted};
use crate::engine::Engine;
use crate::history_table::Pruned;
use crate::pilot::Decider;
use crate::proposals::proposal_rows;
use crate::reconfigure::note_plans;
use crate::remembered::View;
use isomer_cluster::{CancelReason, CancelToken, Expect, Isolation};
use isomer_design::Key;
use isomer_sql::SqlError;
use isomer_sql::datum::Datum;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The most rows of one transaction.
const ROWS_MAX: usize = 100;
/// The pause between two looks for events.
const LOOK: Duration = Duration::from_millis(50);
/// The time for the last rows when the server stops.
const LAST: Duration = Duration::from_secs(1);
/// The longest wait of a statement for the row about it.
const WRITTEN: Duration = Duration::from_secs(1);
/// The number of rows, and the time, after which old ones are deleted.
const MANY: usize = 1000;
const PRUNED_NS: u64 = 60_000_000_000;

/// Notes what has happened since the last call: sites that others have taken over from, or that
/// serve again, plans that have begun or ended, decisions and proposals. `noted` has what is noted.
pub fn note_events(engine: &Engine, noted: &mut Noted) {
    if engine.database().is_gateway_only() {
        // The process with the conductor does.
        return;
    }
    let (now, failed) = (engine.database().now(), engine.database().failed_over());
    engine.chronicle.note_failovers(now, &failed, &mut noted.sites);
    note_plans(engine, &mut noted.plans);
    let proposals = engine.steering.proposals.lock();
    let states = proposals.all().map(|it| (it.number, it.state.name())).collect();
    drop(proposals);
    let has_news = std::mem::replace(&mut noted.proposals, states) != noted.proposals;
    let decisions = match engine.autopilot() {
        Decider::Learned(learned) => learned.with_journal(|journal| journal.len()),
        Decider::Elastic(_) => 0,
    };
    let has_decided = decisions != noted.decisions;
    if has_news || engine.remembered.is_due(now, has_decided) {
        noted.decisions = decisions;
        note_decisions(engine);
    }
}

/// Notes the decisions and proposals of this start that are new or have changed.
pub(crate) fn note_decisions(engine: &Engine) {
    for view in View::ALL {
        for (number, row) in engine.remembered.news(view, here(engine, view)) {
            let text = row
                .map(|row| serde_json::to_string(&row).expect("numbers and texts can be written"));
            engine.chronicle.put(view.kind(), number, text);
        }
    }
}

/// Writes the oldest events that are not written yet. Returns false if there are none.
///
/// # Errors
/// If they cannot be written now, or `cancel` ends the wait. They are kept for the next call.
pub fn write_history(engine: &Engine, cancel: &Arc<CancelToken>) -> Result<bool, SqlError> {
    let rows = engine.chronicle.unwritten(ROWS_MAX);
    let Some(last) = rows.last().map(|row| row.turn) else { return Ok(false) };
    let history = &engine.history;
    let count = rows.len();
    let mut txn = engine.gateway().begin(Isolation::ReadCommitted, cancel.clone());
    for row in rows {
        let (key, bytes) = history.row(row.place, row.text.clone().unwrap_or_default());
        let bytes = row.text.is_some().then_some(bytes);
        txn.put(history.table.0, key, Expect::Anything, bytes).map_err(explain)?;
    }
    txn.commit().map_err(explain)?;
    engine.chronicle.has_written(last);
    *history.written.lock() = last;
    history.has_written.notify_all();
    history.pruned.lock().written += count;
    Ok(true)
}

/// Waits until the row of a turn is written, for up to a second, if a [`Historian`] writes.
pub(crate) fn until_written(engine: &Engine, turn: u64) {
    let history = &engine.history;
    let mut written = history.written.lock();
    match &*history.writer.lock() {
        Some(writer) => writer.unpark(),
        None => return,
    }
    let is_late = |written: &mut u64| *written < turn;
    history.has_written.wait_while_for(&mut written, is_late, WRITTEN);
}

/// Deletes old events, if that is due and this process has the conductor.
///
/// # Errors
/// If they cannot be deleted now.
fn prune(engine: &Engine, cancel: &Arc<CancelToken>) -> Result<(), SqlError> {
    let now_ns = engine.database().now().0;
    {
        let mut pruned = engine.history.pruned.lock();
        let is_due = pruned.written >= MANY || now_ns.saturating_sub(pruned.at_ns) >= PRUNED_NS;
        if engine.database().is_gateway_only() || !is_due {
            return Ok(());
        }
        *pruned = Pruned { at_ns: now_ns, written: 0 };
    }
    for kind in [Kind::Change, Kind::Failover, Kind::Plan, Kind::Action] {
        let rows = engine.history.read(engine.gateway(), kind, cancel).map_err(explain)?;
        let is_denied =
            |text: &str| serde_json::from_str(text).is_ok_and(|event: Event| event.is_denied());
        let denied: Vec<&Key> =
            rows.iter().filter(|(_, text)| is_denied(text)).map(|(key, _)| key).collect();
        let mut old: Vec<&Key> = denied[..denied.len().saturating_sub(DENIED_MAX)].to_vec();
        let left = rows.iter().map(|(key, _)| key).filter(|key| !old.contains(key));
        let surplus = (rows.len() - old.len()).saturating_sub(KEPT_MAX);
        let oldest: Vec<&Key> = left.take(surplus).collect();
        old.extend(oldest);
        for keys in old.chunks(ROWS_MAX) {
            let mut txn = engine.gateway().begin(Isolation::ReadCommitted, cancel.clone());
            for key in keys {
                let (table, key) = (engine.history.table.0, (*key).clone());
                txn.put(table, key, Expect::Anything, None).map_err(explain)?;
            }
            txn.commit().map_err(explain)?;
        }
    }
    Ok(())
}

/// The thread that notes and writes the histories of a server. Dropping it writes the last events,
/// and ends it.
pub struct Historian {
    stops: Arc<AtomicBool>,
    cancel: Arc<CancelToken>,
    /// Disconnected once the thread has ended.
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Historian {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub fn start(engine: &Arc<Engine>) -> io::Result<Historian> {
        let (stops, cancel) = (Arc::<AtomicBool>::default(), Arc::<CancelToken>::default());
        let (ends, ended) = channel::<()>();
        let (of, is_over, token) = (engine.clone(), stops.clone(), cancel.clone());
        let work = move || {
            let _ends = ends;
            let (mut noted, mut is_told) = (Noted::default(), false);
            loop {
                let is_last = is_over.load(Ordering::SeqCst);
                note_events(&of, &mut noted);
                if is_last {
                    *of.history.writer.lock() = None;
                    note_last(&of, &token);
                    return;
                }
                let done = write_history(&of, &token).and_then(|_| prune(&of, &token));
                match done {
                    Err(error) if !is_told => {
                        tracing::warn!("histories are not written now: {}", error.message);
                        is_told = true;
                    }
                    Err(_) => {}
                    Ok(()) => is_told = false,
                }
                std::thread::park_timeout(LOOK);
            }
        };
        let thread = std::thread::Builder::new().name("isomer-history".to_owned()).spawn(work)?;
        *engine.history.writer.lock() = Some(thread.thread().clone());
        Ok(Historian { stops, cancel, ended, thread: Some(thread) })
    }
}

/// Notes and writes what is left when the server stops.
fn note_last(engine: &Engine, cancel: &Arc<CancelToken>) {
    if !engine.database().is_gateway_only() {
        note_decisions(engine);
    }
    while write_history(engine, cancel).unwrap_or(false) {}
}

impl Drop for Historian {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::SeqCst);
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        let _ = self.ended.recv_timeout(LAST);
        // A commit may wait for a site that is down.
        self.cancel.end(CancelReason::Shutdown);
        // A thread that panicked has reported that itself.
        let _ = thread.join();
    }
}

/// The rows of a view of this start.
fn here(engine: &Engine, view: View) -> Vec<Vec<Cell>> {
    let rows = match view {
        View::Decisions => engine.decision_rows(),
        View::Proposals => proposal_rows(engine),
    };
    rows.into_iter().map(|row| row.into_iter().map(Cell::of).collect()).collect()
}

/// All rows of a view, those of earlier starts first.
pub(crate) fn rows(engine: &Engine, view: View) -> Vec<Vec<Datum>> {
    let all = engine.remembered.earlier(view).into_iter().chain(here(engine, view));
    all.map(|row| row.into_iter().map(Cell::datum).collect()).collect()
}

/// The actions of operators at all gateways, the oldest first.
///
/// # Errors
/// If the table cannot be read now.
pub(crate) fn actions(engine: &Engine) -> Result<Vec<Event>, SqlError> {
    // Before the table, so that none is missed that is written meanwhile.
    let unwritten = engine.chronicle.unwritten(usize::MAX);
    let written = engine.history.read(engine.gateway(), Kind::Action, &Arc::default());
    let written = written.map_err(explain)?;
    let own = unwritten.into_iter().filter(|row| row.place.0 == Kind::Action);
    let own = own.filter_map(|row| {
        let (key, _) = engine.history.row(row.place, String::new());
        Some((key, row.text?))
    });
    let all: BTreeMap<Key, String> = written.into_iter().chain(own).collect();
    Ok(all.values().filter_map(|text| serde_json::from_str(text).ok()).collect())
}
