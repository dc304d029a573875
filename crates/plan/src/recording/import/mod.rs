//! Files of other projects as recordings.
//!
//! | kind | one transaction is | tables |
//! | --- | --- | --- |
//! | `flights` | a flight | carrier, plane, origin, destination (all written: seats, positions) |
//! | `movietweetings` | a rating | movies (written), users |
//! | `github` | an event | repos (written), actors, orgs, issues |
//! | `stackexchange` | a post, or a link between posts | posts, users |
//! | `debian` | a package, or what it depends on | packages, maintainers, sources |
//! | `kvcache` | a request | blocks |
//! | `twitter-cache` | a request | objects |
//! | `graph` | (see [`follow_graph`]) | the edges of a social graph, for the Twitter generator |
//!
//! Columns are found by the names in the header, so `stackexchange` and `debian` accept any of
//! their files. Times come from the file; without any, lines are a second apart.

mod kinds;

pub use kinds::Kind;

use super::{Access, Fault, KeyRef, OnFault, RecordedKey, RecordingError, Skipped, Source};
use super::{Lines, parse_key, parse_time, unpack};
use crate::generate::FollowGraph;
use kinds::Columns;
use std::io::Read;

/// A file of some kind as a stream of accesses.
pub struct Importer<'a> {
    lines: Lines<Box<dyn Read + 'a>>,
    columns: Columns,
    transaction: u64,
    /// A line was read ahead, for kinds whose transactions span lines.
    ahead: bool,
    time_us: i64,
    touched: Vec<(&'static str, RecordedKey, bool)>,
    next: usize,
}

impl<'a> Importer<'a> {
    /// Reads the header. `first` is the number of the first transaction, so that several files can
    /// form one recording.
    pub fn new(
        kind: Kind,
        input: impl Read + 'a,
        on_fault: OnFault,
        first: u64,
    ) -> Result<Importer<'a>, RecordingError> {
        let mut lines = Lines::new(unpack(input)?, on_fault);
        if !lines.advance()? {
            return Err(RecordingError::Empty);
        }
        let names: Vec<&str> = (0..lines.count()).map(|at| lines.field(at)).collect();
        let columns = kind.columns(&names)?;
        Ok(Importer {
            lines,
            columns,
            transaction: first.wrapping_sub(1),
            ahead: false,
            time_us: 0,
            touched: Vec::new(),
            next: 0,
        })
    }

    /// The number of the last transaction that was read.
    pub fn last_transaction(&self) -> u64 {
        self.transaction
    }

    /// Reads the lines of the next transaction; false at the end.
    fn advance(&mut self) -> Result<bool, RecordingError> {
        self.touched.clear();
        self.next = 0;
        loop {
            if !std::mem::take(&mut self.ahead) && !self.lines.advance()? {
                return Ok(!self.touched.is_empty());
            }
            let group = self.columns.group(&self.lines);
            if !self.touched.is_empty() && group != Some(self.touched[0].1.clone()) {
                self.ahead = true;
                return Ok(true);
            }
            match self.columns.touch(&self.lines, &mut self.touched) {
                Ok(time) => {
                    self.time_us = time.unwrap_or(self.lines.line as i64 * 1_000_000);
                    if group.is_none() && !self.touched.is_empty() {
                        return Ok(true);
                    }
                }
                Err(fault) => self.lines.fault(fault)?,
            }
        }
    }
}

impl Source for Importer<'_> {
    fn next_access(&mut self) -> Result<Option<Access<'_>>, RecordingError> {
        if self.next == self.touched.len() {
            if !self.advance()? {
                return Ok(None);
            }
            self.transaction = self.transaction.wrapping_add(1);
        }
        let (table, key, write) = &self.touched[self.next];
        self.next += 1;
        let (time_us, transaction) = (self.time_us, self.transaction);
        Ok(Some(Access { time_us, transaction, table, key: key.as_ref(), write: *write }))
    }

    fn skipped(&self) -> Skipped<'_> {
        self.lines.skipped()
    }
}

/// Reads a social graph (two columns: follower, followed) for the Twitter generator.
pub fn follow_graph(input: impl Read, on_fault: OnFault) -> Result<FollowGraph, RecordingError> {
    let mut lines = Lines::new(unpack(input)?, on_fault);
    if !lines.advance()? {
        return Err(RecordingError::Empty);
    }
    let mut edges = Vec::new();
    while lines.advance()? {
        let end = |at: usize| match lines.field(at).parse::<u32>() {
            Ok(user) if user < 1 << 28 => Ok(user),
            _ => {
                let problem = format!("\"{}\" is no user number below 2^28", lines.field(at));
                Err(lines.fault_in(at, "user", problem))
            }
        };
        match (end(0), end(1)) {
            (Ok(from), Ok(to)) => edges.push((from, to)),
            (Err(fault), _) | (_, Err(fault)) => lines.fault(fault)?,
        }
    }
    if edges.is_empty() {
        return Err(RecordingError::Empty);
    }
    Ok(FollowGraph::new(edges))
}
