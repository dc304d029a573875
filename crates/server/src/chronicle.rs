//! The database's history with times, kept on disk: changes of the design, failovers,
//! what operators did, and their plans.
//!
//! ```text
//!   change ───┐                      ┌─▶ isomer.changes
//!   failover ─┤                      ├─▶ isomer.failovers
//!   operator ─┼─▶ the last of each ──┼─▶ isomer.audit
//!   plan ─────┘       │              └─▶ isomer.reconfigurations, after those of this start
//!                     ▼
//!                history.jsonl: a line of JSON each
//! ```
//!
//! **Plans** have a line when they are first seen, and one when they have ended. A plan with only
//! the first was interrupted by the end of its process.
//!
//! **Bounds.** The last [`KEPT_MAX`] events of each kind are kept. A file of more than
//! [`BYTES_MAX`] is written anew with these, under another name that is then renamed.
//!
//! **Durability.** Lines are written without a sync, because redo logs have the changes themselves.
//! A power cut may lose the last lines, and a line that is cut off is ignored.

use isomer_cluster::{ChangeEvent, FailedOver};
use isomer_design::{Key, TableId, Time};
use isomer_sql::code;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Events of each kind that are kept.
pub(crate) const KEPT_MAX: usize = 1000;
/// Of these, the most actions that were refused for lack of rights.
const DENIED_MAX: usize = 200;
/// A file with more bytes, and twice of what is kept, is written anew.
const BYTES_MAX: u64 = 4 << 20;
/// Texts are cut to this.
const TEXT_BYTES_MAX: usize = 4096;
/// The name of the file in the data folder.
const NAME: &str = "history.jsonl";

/// An event.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A change of the design took effect.
    Change {
        number: u64,
        at_us: i64,
        text: String,
        reason: String,
        took_us: f64,
        table: Option<u32>,
        key: Option<Vec<u8>>,
    },
    /// A site failed, was taken over from, or serves again.
    Failover { at_us: i64, site: String, text: String },
    /// An operator did something, or was refused.
    Action { at_us: i64, user: String, client: String, action: String, outcome: String },
    /// A plan of an operator has begun or ended.
    Plan(PlanTold),
}

/// A plan of an operator, as it was at its beginning or its end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct PlanTold {
    pub(crate) number: u64,
    pub(crate) reason: String,
    pub(crate) state: String,
    /// The number of its changes, and of those that are in force.
    pub(crate) changes: usize,
    pub(crate) made: usize,
    /// The rows that were copied, and their bytes.
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
    pub(crate) begun_us: i64,
    pub(crate) ended_us: Option<i64>,
    pub(crate) error: Option<String>,
    /// Its changes, one in each line.
    pub(crate) plan: String,
    /// The 99th percentile of transactions in microseconds, before it and while it ran.
    pub(crate) quiet_p99_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
}

impl Event {
    fn at_us(&self) -> i64 {
        match self {
            Event::Change { at_us, .. }
            | Event::Failover { at_us, .. }
            | Event::Action { at_us, .. } => *at_us,
            Event::Plan(plan) => plan.begun_us,
        }
    }

    /// True for an action that was refused for lack of rights.
    fn is_denied(&self) -> bool {
        matches!(self, Event::Action { outcome, .. } if outcome.starts_with(code::INSUFFICIENT_PRIVILEGE))
    }

    fn kind(&self) -> usize {
        match self {
            Event::Change { .. } => 0,
            Event::Failover { .. } => 1,
            Event::Action { .. } => 2,
            Event::Plan(_) => 3,
        }
    }

    /// A change that was made.
    pub(crate) fn change(number: u64, event: &ChangeEvent) -> Event {
        Event::Change {
            number,
            at_us: us(event.begun) + (event.took_ns / 1000) as i64,
            text: clipped(&event.text),
            reason: clipped(&event.reason),
            took_us: event.took_ns as f64 / 1000.0,
            table: event.change.table().map(|table| table.0),
            key: event.change.start().map(|key| key.as_bytes().to_vec()),
        }
    }
}

impl PlanTold {
    /// True if an event tells of the same plan.
    fn is_of(&self, event: &Event) -> bool {
        let key = |plan: &PlanTold| (plan.number, plan.begun_us);
        matches!(event, Event::Plan(plan) if key(plan) == key(self))
    }
}

/// The table and the first key of the partition that a change is about.
pub(crate) fn part_of(table: Option<u32>, key: Option<&[u8]>) -> Option<(TableId, Key)> {
    Some((TableId(table?), Key::from_bytes(key?)))
}

pub(crate) fn us(time: Time) -> i64 {
    (time.0 / 1000) as i64
}

pub(crate) fn clipped(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()
}

#[derive(Default)]
struct Kept {
    last: [VecDeque<Event>; 4],
    /// The number of the last change.
    changes: u64,
    /// With its size, and that from which on it is written anew.
    file: Option<(File, PathBuf, [u64; 2])>,
    /// Actions that the gateway of the conductor's process may not have.
    unsent: Vec<Event>,
    /// Events of this process that were not told to other gateways; no actions, which statements
    /// tell by themselves.
    news: Vec<Event>,
}

/// The part of the present state that the histories have.
#[derive(Default)]
pub struct Noted {
    /// Sites that others have taken over from.
    pub(crate) sites: BTreeSet<String>,
    /// Plans by number, and whether they have ended.
    pub(crate) plans: BTreeMap<u64, bool>,
    /// Proposals by number, with their states.
    pub(crate) proposals: Vec<(u64, &'static str)>,
}

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct Chronicle {
    kept: Mutex<Kept>,
}

impl Kept {
    fn take(&mut self, event: Event) {
        if let Event::Change { number, .. } = &event {
            self.changes = self.changes.max(*number);
        }
        let last = &mut self.last[event.kind()];
        if let Event::Plan(plan) = &event {
            last.retain(|other| !plan.is_of(other));
        }
        // Those of other gateways may arrive late.
        let at = match event {
            Event::Change { .. } => last.len(),
            _ => last.partition_point(|other| other.at_us() <= event.at_us()),
        };
        // A role without rights cannot push out the actions of others.
        let is_over = event.is_denied()
            && last.iter().filter(|event| event.is_denied()).count() >= DENIED_MAX;
        last.insert(at, event);
        let oldest = last.iter().position(Event::is_denied).filter(|_| is_over);
        if let Some(at) = oldest {
            last.remove(at);
        } else if last.len() > KEPT_MAX {
            last.pop_front();
        }
    }

    /// True if an event is kept, or older than all that are kept.
    fn knows(&self, event: &Event) -> bool {
        let last = &self.last[event.kind()];
        let is_old = |first: &Event| last.len() == KEPT_MAX && event.at_us() < first.at_us();
        last.front().is_some_and(is_old) || last.contains(event)
    }

    /// Writes the file anew, with what is kept.
    fn rewrite(&mut self, path: PathBuf) -> io::Result<()> {
        let mut text = String::new();
        for event in self.last.iter().flatten() {
            text += &line(event);
        }
        let new = path.with_extension("new");
        fs::write(&new, &text)?;
        fs::rename(&new, &path)?;
        let file = OpenOptions::new().append(true).open(&path)?;
        let bytes = text.len() as u64;
        self.file = Some((file, path, [bytes, BYTES_MAX.max(2 * bytes)]));
        Ok(())
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        let Some((file, path, [bytes, most])) = &mut self.file else { return Ok(()) };
        let line = line(event);
        file.write_all(line.as_bytes())?;
        *bytes += line.len() as u64;
        let path = (bytes > most).then(|| path.clone());
        path.map_or(Ok(()), |path| self.rewrite(path))
    }
}

fn line(event: &Event) -> String {
    let mut line = serde_json::to_string(event).unwrap_or_default();
    line.push('\n');
    line
}

impl Chronicle {
    /// Reads what the data folder has, and writes there from now on.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub(crate) fn open(&self, folder: &Path) -> io::Result<()> {
        let path = folder.join(NAME);
        let text = match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let mut kept = self.kept.lock();
        let since: Vec<Event> = kept.last.iter_mut().flat_map(std::mem::take).collect();
        let before: Vec<Event> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        before.into_iter().for_each(|event| kept.take(event));
        for event in since {
            if !kept.knows(&event) {
                kept.take(event);
            }
        }
        kept.rewrite(path)
    }

    /// A change of the design took effect.
    pub(crate) fn changed(&self, event: &ChangeEvent) {
        let mut kept = self.kept.lock();
        let event = Event::change(kept.changes + 1, event);
        kept.add(event);
    }

    /// Notes sites that others have taken over from since the last call, and those that serve
    /// again. `known` has the sites of the last call.
    pub(crate) fn note_failovers(
        &self,
        now: Time,
        failed: &[FailedOver],
        known: &mut BTreeSet<String>,
    ) {
        let at_us = us(now);
        for it in failed {
            let site = it.site.to_string();
            if !known.contains(&site) {
                self.add(Event::Failover { at_us, site, text: clipped(&it.to_string()) });
            }
        }
        let sites: BTreeSet<String> = failed.iter().map(|it| it.site.to_string()).collect();
        for site in known.difference(&sites) {
            let text = format!("site {site} serves again");
            self.add(Event::Failover { at_us, site: site.clone(), text });
        }
        *known = sites;
    }

    /// The events since the last call that other gateways do not have; no actions.
    pub(crate) fn take_news(&self) -> Vec<Event> {
        std::mem::take(&mut self.kept.lock().news)
    }

    /// All events that are kept.
    pub(crate) fn all(&self) -> Vec<Event> {
        self.kept.lock().last.iter().flatten().cloned().collect()
    }

    /// The plans of operators, the oldest first.
    pub(crate) fn plans(&self) -> Vec<PlanTold> {
        let plan = |event| match event {
            Event::Plan(plan) => Some(plan),
            _ => None,
        };
        self.last(3).into_iter().filter_map(plan).collect()
    }

    /// Anything else happened.
    pub(crate) fn add(&self, event: Event) {
        self.kept.lock().add(event);
    }

    /// Adds an event that another gateway has noted. Returns false if it is known.
    pub(crate) fn learn(&self, event: &Event) -> bool {
        let mut kept = self.kept.lock();
        let is_new = !kept.knows(event);
        if is_new {
            kept.keep(event.clone());
        }
        is_new
    }

    /// Adds events of other gateways that are not known yet.
    pub(crate) fn learn_all(&self, events: &[Event]) {
        events.iter().for_each(|event| {
            self.learn(event);
        });
    }

    /// The conductor's gateway may not have these actions, and they are to be sent to it.
    pub(crate) fn send(&self, actions: impl IntoIterator<Item = Event>) {
        let unsent = &mut self.kept.lock().unsent;
        unsent.extend(actions);
        let over = unsent.len().saturating_sub(KEPT_MAX);
        unsent.drain(..over);
    }

    /// The actions that are to be sent.
    pub(crate) fn unsent(&self) -> Vec<Event> {
        self.kept.lock().unsent.clone()
    }

    /// The conductor's gateway has these actions.
    pub(crate) fn has_sent(&self, sent: &[Event]) {
        self.kept.lock().unsent.retain(|action| !sent.contains(action));
    }

    /// The last events of a kind, the oldest first: changes are 0, failovers 1, actions 2, plans 3.
    pub(crate) fn last(&self, kind: usize) -> Vec<Event> {
        self.kept.lock().last[kind].iter().cloned().collect()
    }
}

impl Kept {
    fn add(&mut self, event: Event) {
        if !matches!(event, Event::Action { .. }) {
            self.news.push(event.clone());
            let over = self.news.len().saturating_sub(KEPT_MAX);
            self.news.drain(..over);
        }
        self.keep(event);
    }

    fn keep(&mut self, event: Event) {
        // A full disk must not stop the database: what is kept in memory is shown all the same.
        let _ = self.write(&event);
        self.take(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(at_us: i64) -> Event {
        let [user, client, action, outcome] = ["ann", "", "checkpoint", "ok"].map(str::to_owned);
        Event::Action { at_us, user, client, action, outcome }
    }

    #[test]
    fn events_survive_a_restart_and_a_line_that_is_cut_off() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let first = Chronicle::default();
        first.add(action(1));
        first.open(folder.path()).expect("a file");
        first.add(action(2));
        let path = folder.path().join(NAME);
        let mut text = fs::read_to_string(&path).expect("a file");
        text += "{\"kind\":\"action\",\"at_us\":3,\"us";
        fs::write(&path, text).expect("written");
        let second = Chronicle::default();
        second.open(folder.path()).expect("it is read");
        assert_eq!(second.last(2), [action(1), action(2)]);
    }

    #[test]
    fn refused_actions_push_out_each_other_only() {
        let chronicle = Chronicle::default();
        chronicle.add(action(1));
        for at_us in 2..3000 {
            let (user, client) = ("eve".to_owned(), String::new());
            let (action, outcome) = ("checkpoint".to_owned(), "42501 no".to_owned());
            chronicle.add(Event::Action { at_us, user, client, action, outcome });
        }
        let kept = chronicle.last(2);
        assert_eq!((kept.len(), &kept[0]), (1 + DENIED_MAX, &action(1)));
    }

    #[test]
    fn a_plan_is_kept_once_as_it_was_told_last() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let plan = |number, begun_us, ended_us: Option<i64>| {
            let (reason, plan) = ("it grows".to_owned(), "split t at 5".to_owned());
            let state = if ended_us.is_some() { "done" } else { "running" }.to_owned();
            let (quiet_p99_us, p99_us, error) = (None, Some(9.5), None);
            Event::Plan(PlanTold {
                number,
                reason,
                state,
                changes: 1,
                made: 1,
                rows: 0,
                bytes: 0,
                begun_us,
                ended_us,
                error,
                plan,
                quiet_p99_us,
                p99_us,
            })
        };
        let first = Chronicle::default();
        first.open(folder.path()).expect("a file");
        for event in [plan(1, 10, None), plan(2, 20, None), plan(1, 10, Some(30))] {
            first.add(event);
        }
        let second = Chronicle::default();
        second.open(folder.path()).expect("it is read");
        let told: Vec<_> = second.plans().iter().map(|it| (it.number, it.ended_us)).collect();
        assert_eq!(told, [(1, Some(30)), (2, None)], "the second was interrupted");
    }

    #[test]
    fn actions_of_other_gateways_are_kept_once_and_in_the_order_of_their_times() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let first = Chronicle::default();
        first.open(folder.path()).expect("a file");
        first.add(action(2));
        assert!(first.learn(&action(1)) && !first.learn(&action(1)) && !first.learn(&action(2)));
        assert_eq!(first.last(2), [action(1), action(2)]);
        // A process that has joined before it opens its file.
        let second = Chronicle::default();
        assert!(second.learn(&action(2)) && second.learn(&action(3)));
        second.open(folder.path()).expect("it is read");
        assert_eq!(second.last(2), [action(1), action(2), action(3)]);
        second.send([action(2), action(3)]);
        second.has_sent(&[action(2)]);
        assert_eq!(second.unsent(), [action(3)]);
    }

    #[test]
    fn the_last_events_are_kept_in_a_bounded_file() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let chronicle = Chronicle::default();
        chronicle.open(folder.path()).expect("a file");
        for at in 0..60_000 {
            chronicle.add(action(at));
        }
        assert_eq!(chronicle.last(2).len(), KEPT_MAX);
        let bytes = fs::metadata(folder.path().join(NAME)).expect("a file").len();
        assert!(bytes <= BYTES_MAX + 1000, "{bytes}");
    }
}
