//! The requests of a production cache, as transactions of a few keys.
//!
//! `data/twitter_cache_1m.csv.zst` contains a million requests to a cache cluster of Twitter: time,
//! key and size of each (see `data/README.md`). It is a real sequence of accesses, with real skew
//! and real change over time. But it is not a sequence of transactions. It says neither which
//! requests belong together nor whether a request read or wrote. This module invents both, by rules
//! that are simple enough to be judged.
//!
//! # Rule 1: the keys of a transaction
//!
//! ```text
//!   trace    … 8  91207  32  8  14  91206  32  91209  14 …          a window of 9 requests
//!
//!   sorted   first requests of a key:  8 14 32 91206 91207 91209    second requests:  8 14 32
//!   cut      ├── k = 2 ──┤├ k = 1 ┤├──── k = 3 ────┤                ├── k = 4, cut short ──┤
//!            {8, 14}      {32}     {91206, 91207, 91209}            {8, 14, 32}
//! ```
//!
//! The trace is processed in windows of 32 requests by default, or about 16 ms. The requests of a
//! window are sorted by key and cut into transactions of 1 to 4 keys; all sizes are equally likely.
//! Repeated requests for a key are sorted behind all first requests of the window. Thus a
//! transaction names each key once, and every request is replayed.
//!
//! Sorting makes the transactions local. Keys are numbered by their first appearance in the trace,
//! so neighbouring keys appeared at about the same time, perhaps in one request of one user. They
//! reach the cache interleaved with requests of many other users, and a sorted window groups them
//! again. This is an assumption, and it makes the workload easier for a design than the trace
//! itself: see the last two lines of the table below. With a window of 1, every request is a
//! transaction of one key, and nothing is assumed.
//!
//! # Rule 2: the writes
//!
//! The first request for a key is a write, because some request must have filled the cache (14 % of
//! all requests). Of the others, a share (10 % by default) are writes, chosen by a hash of the
//! position in the trace. Hence the same requests are writes in every run and for every client.
//!
//! # The locality of the trace
//!
//! All lines were measured over the whole file and compared with the same requests in random order.
//! [`Trace::locality`] computes the first three:
//!
//! | | trace | random order |
//! | --- | ---: | ---: |
//! | requests that go to the hottest 1 % of the keys | 57.0 % | 57.0 % |
//! | requests for the same key as the one before | 6.3 % | 0.7 % |
//! | requests for another key than the one before, at most 10 numbers from it | 6.0 % | 1.4 % |
//! | transactions of 2 to 4 keys that span at most 100 numbers | 42 % | 27 % |
//! | the same, if requests were cut as they come, not sorted | 7 % | 3 % |
//!
//! Most of the locality is skew. Some is bursts of requests for one key, and some is keys that
//! appear together and are requested together. Cold keys, however, do not meet again. Take the
//! pairs of consecutive requests in the second half of the trace with both keys outside the hottest
//! 1 %: only 0.2 % of them were neighbours in the first half. A design can profit from hot keys and
//! from key ranges, but it cannot learn lasting pairs of cold keys, because there are none.
//!
//! # The check
//!
//! All keys are loaded with a counter of 0. A write only increments the counter, so the counters
//! sum up to the number of committed writes.

mod locality;
mod read;

pub use locality::Locality;
pub use read::TraceError;

use crate::error::{check_count, check_share};
use crate::number::{add_to_number, number};
use crate::{
    Audit, DataAccess, LoadRow, OptionsError, Outcome, Random, Totals, Transaction, Workload,
};
use isomer_design::{Access, Column, ColumnType, Footprint, Key, Schema, Span, TableId, Value};
use rand::RngExt;
use std::collections::VecDeque;
use std::sync::Arc;

/// A request of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The time in seconds since the beginning of the trace.
    pub second: u32,
    /// The key. Keys are numbered from 0 by their first appearance.
    pub key: u32,
    /// The bytes of the key and its value.
    pub bytes: u32,
    /// True if this is the first request for the key.
    pub is_first: bool,
}

/// A trace: requests in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    requests: Vec<Request>,
    /// By key: the bytes of its first request.
    key_bytes: Vec<u32>,
}

/// How a [`TraceWorkload`] turns a [`Trace`] into transactions.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceOptions {
    /// The number of requests that are sorted and cut together.
    pub window: usize,
    /// The maximum number of keys of a transaction.
    pub keys_max: usize,
    /// The share of writes among the requests that are not the first for their key.
    pub write_share: f64,
    /// The maximum bytes of a row besides key and counter. Rows are smaller if the trace says so.
    pub value_bytes_max: usize,
    /// The number of this client among several, from 0.
    pub client: usize,
    /// The number of clients. Client `i` replays the windows `i`, `i + clients`, and so on.
    pub clients: usize,
}

impl Default for TraceOptions {
    /// Windows of 32 requests, up to 4 keys, 10 % writes, values of up to 100 bytes, one client.
    fn default() -> TraceOptions {
        TraceOptions {
            window: 32,
            keys_max: 4,
            write_share: 0.1,
            value_bytes_max: 100,
            client: 0,
            clients: 1,
        }
    }
}

/// A trace as a workload; see the module documentation. It starts over at the end of the trace.
#[derive(Clone, Debug)]
pub struct TraceWorkload {
    trace: Arc<Trace>,
    options: TraceOptions,
    table: TableId,
    /// The next window.
    window: usize,
    laps: u64,
    /// The rest of the current window, sorted: the number of earlier requests for the same key in
    /// the window, the key, and the position in the trace.
    pending: VecDeque<(usize, u32, usize)>,
}

/// A transaction of [`TraceWorkload`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceTransaction {
    /// The table.
    pub table: TableId,
    /// The time of its earliest request, in seconds of the trace.
    pub second: u32,
    /// The keys, all different, with their accesses.
    pub accesses: Vec<(u32, Access)>,
}

impl Trace {
    /// The requests in order.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// The number of different keys.
    pub fn keys(&self) -> usize {
        self.key_bytes.len()
    }
}

impl TraceWorkload {
    /// Creates the workload in a table with this id.
    ///
    /// # Errors
    /// If an option is invalid, or the trace is empty.
    pub fn new(
        trace: Arc<Trace>,
        options: TraceOptions,
        table: TableId,
    ) -> Result<TraceWorkload, OptionsError> {
        let requests = trace.requests.len() as u64;
        check_count("requests in the trace", requests, 1..=u64::MAX)?;
        check_count("requests in a window", options.window as u64, 1..=1 << 20)?;
        check_count("keys of a transaction", options.keys_max as u64, 1..=1 << 10)?;
        check_share("the share of writes", options.write_share)?;
        check_count("bytes in a value", options.value_bytes_max as u64, 0..=1 << 20)?;
        check_count("clients", options.clients as u64, 1..=1 << 20)?;
        check_count(
            "as the number of a client",
            options.client as u64,
            0..=options.clients as u64 - 1,
        )?;
        let window = options.client;
        Ok(TraceWorkload { trace, options, table, window, laps: 0, pending: VecDeque::new() })
    }

    /// The number of times that the trace has started over.
    pub fn laps(&self) -> u64 {
        self.laps
    }

    /// Sorts the next window.
    fn fill(&mut self) {
        let requests = &self.trace.requests;
        let windows = requests.len().div_ceil(self.options.window);
        if self.window >= windows {
            // If there are more clients than windows, clients share windows.
            self.window = self.options.client % windows;
            self.laps += 1;
        }
        let start = self.window * self.options.window;
        let end = requests.len().min(start + self.options.window);
        self.window += self.options.clients;
        let mut places: Vec<usize> = (start..end).collect();
        places.sort_by_key(|&place| (requests[place].key, place));
        let mut sorted: Vec<(usize, u32, usize)> = Vec::with_capacity(places.len());
        for place in places {
            let key = requests[place].key;
            let before = sorted.last().filter(|last| last.1 == key).map_or(0, |last| last.0 + 1);
            sorted.push((before, key, place));
        }
        sorted.sort_unstable();
        self.pending = sorted.into();
    }

    /// Rule 2. The hash mixes all bits of the position into its upper bits.
    fn access(&self, place: usize) -> Access {
        let mut hash = (place as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let is_picked = ((hash >> 11) as f64) < self.options.write_share * (1u64 << 53) as f64;
        let is_write = is_picked || self.trace.requests[place].is_first;
        if is_write { Access::Write } else { Access::Read }
    }
}

/// `cache(key int64, counter int64, value bytes) key key`.
fn schema() -> Schema {
    let columns = vec![
        Column::new("key", ColumnType::Int64),
        Column::new("counter", ColumnType::Int64),
        Column::new("value", ColumnType::Bytes),
    ];
    Schema::new("cache", columns, &["key"]).expect("the schema is valid")
}

impl Workload for TraceWorkload {
    type Transaction = TraceTransaction;

    fn name(&self) -> &'static str {
        "trace"
    }

    fn tables(&self) -> Vec<(TableId, Schema)> {
        vec![(self.table, schema())]
    }

    fn load(&self) -> impl Iterator<Item = LoadRow> {
        let schema = schema();
        self.trace.key_bytes.iter().zip(0i64..).map(move |(&bytes, key)| {
            let value = vec![b'v'; self.options.value_bytes_max.min(bytes as usize)];
            let values = [Value::Int64(key), Value::Int64(0), Value::Bytes(value)];
            let (key, row) = schema.encode_row(&values).expect("the values fit the schema");
            LoadRow { table: self.table, key, row }
        })
    }

    fn next(&mut self, rng: &mut Random) -> TraceTransaction {
        if self.pending.is_empty() {
            self.fill();
        }
        let level = self.pending.front().map_or(0, |request| request.0);
        let most = rng.random_range(1..=self.options.keys_max);
        let mut accesses = Vec::with_capacity(most);
        let mut second = u32::MAX;
        while accesses.len() < most
            && let Some((_, key, place)) = self.pending.pop_front_if(|next| next.0 == level)
        {
            accesses.push((key, self.access(place)));
            second = second.min(self.trace.requests[place].second);
        }
        TraceTransaction { table: self.table, second, accesses }
    }

    fn loaded(&self) -> Totals {
        Totals { rows: self.trace.keys() as u64, ..Totals::default() }
    }

    fn audits(&self, rows: u64) -> Vec<Audit> {
        Audit::of_table(self.table, self.trace.keys() as u64, rows)
    }
}

impl Transaction for TraceTransaction {
    fn name(&self) -> &'static str {
        let is_write = self.accesses.iter().any(|(_, access)| *access == Access::Write);
        if is_write { "write" } else { "read" }
    }

    fn footprint_into(&self, footprint: &mut Footprint) {
        for (key, access) in &self.accesses {
            footprint.add(self.table, Span::Key(Key::int(i64::from(*key))), *access);
        }
    }

    fn run<D: DataAccess>(&self, data: &mut D) -> Result<Outcome, D::Error> {
        let mut added = 0;
        for (key, access) in &self.accesses {
            let row_key = Key::int(i64::from(*key));
            let sound = match access {
                Access::Read => data.get(self.table, &row_key)?.and_then(number).is_some(),
                Access::Write => {
                    let mut sound = true;
                    let change = |row: &mut [u8]| sound = add_to_number(row, 1);
                    added += 1;
                    data.update(self.table, &row_key, change)? && sound
                }
            };
            if !sound {
                let what = format!("row {}[{key}] is missing or damaged", self.table);
                return Ok(Outcome::Inconsistent { what });
            }
        }
        Ok(Outcome::Commit { added })
    }
}

#[cfg(test)]
mod tests;
