//! A recording in memory, for planners that read it more than once.

use super::{Access, KeyRef, KeyTable, RecordingError, Source, Vertex};
use std::sync::Arc;

/// The bit of an item that marks a write.
const WRITE: u32 = 1 << 31;

/// One recorded transaction.
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'a> {
    /// The time of its first access, in microseconds.
    pub time_us: i64,
    items: &'a [u32],
}

impl<'a> Transaction<'a> {
    /// Its accesses in the order of the recording, each once: the vertex, and true if it was
    /// written.
    pub fn accesses(self) -> impl ExactSizeIterator<Item = (Vertex, bool)> + 'a {
        self.items.iter().map(|&item| (item & !WRITE, item & WRITE != 0))
    }
}

/// A whole recording: its transactions by time, and numbers for its keys.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    keys: Arc<KeyTable>,
    times: Vec<i64>,
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Recording {
    /// Reads a source to its end. Refuses an empty source, and transactions that return after
    /// others.
    pub fn read(source: impl Source) -> Result<Recording, RecordingError> {
        Recording::read_knowing(source, [])
    }

    /// As [`Recording::read`], and numbers further keys, which may have no accesses.
    pub fn read_knowing<'k>(
        mut source: impl Source,
        known: impl IntoIterator<Item = (&'k str, KeyRef<'k>)>,
    ) -> Result<Recording, RecordingError> {
        let mut collector = Collector::default();
        for (table, key) in known {
            collector.keys.intern(table, key)?;
        }
        while let Some(access) = source.next_access()? {
            collector.push(&access)?;
        }
        collector.finish()
    }

    /// The numbers of the keys.
    pub fn keys(&self) -> &Arc<KeyTable> {
        &self.keys
    }

    /// The number of transactions.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// True if there are none, which happens only for a part of a recording: [`Recording::read`]
    /// refuses an empty one.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// The number of accesses.
    pub fn accesses(&self) -> usize {
        self.items.len()
    }

    /// The transaction at an index in time order.
    pub fn transaction(&self, at: usize) -> Transaction<'_> {
        let items = &self.items[self.starts[at] as usize..self.starts[at + 1] as usize];
        Transaction { time_us: self.times[at], items }
    }

    /// All transactions, by time.
    pub fn transactions(&self) -> impl ExactSizeIterator<Item = Transaction<'_>> {
        (0..self.len()).map(|at| self.transaction(at))
    }

    /// The time from the first transaction to the last, in seconds; 1 instead of 0, so that rates
    /// stay finite.
    pub fn seconds(&self) -> f64 {
        match (self.times.first(), self.times.last()) {
            (Some(first), Some(last)) if last > first => last.saturating_sub(*first) as f64 / 1e6,
            _ => 1.0,
        }
    }

    /// Splits off a later part that holds `share` of the transactions (each part at least one, if
    /// there are two). Both parts use the same numbers for keys.
    pub fn hold_out(&self, share: f64) -> Result<(Recording, Recording), RecordingError> {
        if !(share > 0.0 && share < 1.0) {
            return Err(RecordingError::Share(share));
        }
        let later = (self.len() as f64 * share).round() as usize;
        let at = self.len() - later.clamp(1, self.len().saturating_sub(1).max(1));
        Ok((self.part(0, at), self.part(at, self.len())))
    }

    fn part(&self, from: usize, to: usize) -> Recording {
        let first = self.starts[from];
        Recording {
            keys: Arc::clone(&self.keys),
            times: self.times[from..to].to_vec(),
            starts: self.starts[from..=to].iter().map(|start| start - first).collect(),
            items: self.items[first as usize..self.starts[to] as usize].to_vec(),
        }
    }
}

/// Builds a recording access by access.
#[derive(Default)]
struct Collector {
    keys: KeyTable,
    recording: Recording,
    ids: Vec<u64>,
}

impl Collector {
    fn push(&mut self, access: &Access<'_>) -> Result<(), RecordingError> {
        let recording = &mut self.recording;
        if self.ids.last() != Some(&access.transaction) {
            self.ids.push(access.transaction);
            recording.times.push(access.time_us);
            recording.starts.push(recording.items.len() as u32);
        }
        if recording.items.len() == u32::MAX as usize {
            return Err(RecordingError::TooMany { what: "accesses", limit: u64::from(u32::MAX) });
        }
        let vertex = self.keys.intern(access.table, access.key)?;
        recording.items.push(if access.write { vertex | WRITE } else { vertex });
        Ok(())
    }

    fn finish(mut self) -> Result<Recording, RecordingError> {
        if self.ids.is_empty() {
            return Err(RecordingError::Empty);
        }
        self.ids.sort_unstable();
        if let Some(pair) = self.ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(RecordingError::TransactionComesBack(pair[0]));
        }
        let mut recording = self.recording;
        recording.starts.push(recording.items.len() as u32);
        let renumbered = self.keys.sort();
        recording.keys = Arc::new(self.keys);
        for item in &mut recording.items {
            *item = renumbered[(*item & !WRITE) as usize] | (*item & WRITE);
        }
        Ok(by_time(recording))
    }
}

/// Sorts transactions by time; the sort is stable.
fn by_time(recording: Recording) -> Recording {
    if recording.times.is_sorted() {
        return recording;
    }
    let mut order: Vec<usize> = (0..recording.len()).collect();
    order.sort_by_key(|&at| recording.times[at]);
    let mut sorted = Recording { keys: Arc::clone(&recording.keys), ..Recording::default() };
    for at in order {
        sorted.times.push(recording.times[at]);
        sorted.starts.push(sorted.items.len() as u32);
        sorted.items.extend_from_slice(recording.transaction(at).items);
    }
    sorted.starts.push(sorted.items.len() as u32);
    sorted
}
