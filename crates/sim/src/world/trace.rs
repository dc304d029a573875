//! The trace: a hash of all its lines, and the last lines for a person.

use isomer_design::Time;
use std::collections::VecDeque;
use std::fmt::{Arguments, Write as _};

/// See the [module documentation](self).
pub(super) struct Trace {
    hash: u64,
    lines: VecDeque<String>,
    /// The number of lines that are kept.
    most: usize,
    spare: String,
}

impl Default for Trace {
    fn default() -> Trace {
        let (lines, spare) = (VecDeque::new(), String::new());
        Trace { hash: 0xcbf2_9ce4_8422_2325, lines, most: 400, spare }
    }
}

impl Trace {
    /// Sets the number of last lines that are kept.
    pub(super) fn keep(&mut self, most: usize) {
        self.most = most;
    }

    /// Writes a line; one that is not `kept` counts for the hash only.
    pub(super) fn write(&mut self, now: Time, line: Arguments<'_>, kept: bool) {
        let mut text = std::mem::take(&mut self.spare);
        text.clear();
        let (ms, us) = (now.0 / 1_000_000, now.0 / 1000 % 1000);
        write!(text, "{ms:6}.{us:03}  {line}").expect("a string takes everything");
        for &byte in text.as_bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if !kept {
            self.spare = text;
            return;
        }
        self.lines.push_back(text);
        if self.lines.len() > self.most {
            self.spare = self.lines.pop_front().unwrap_or_default();
        }
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn take_lines(&mut self) -> Vec<String> {
        self.lines.drain(..).collect()
    }

    pub(super) fn last_lines(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}
