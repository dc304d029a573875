//! Snapshots for rows whose masters are in this process.
//!
//! With several gateways, only the processes together know which time includes all acknowledged
//! commits ([`crate::Transport::latest`]). But a statement whose rows are known before it runs
//! needs a time that includes the commits of these rows, and their masters know it. So such a
//! statement asks no other process.
//!
//! ```text
//!   statement: accounts 7      s1 masters 7, no commit is being published there    t = latest of s1
//!   it reads 8 as well         the snapshot ends; the next one asks all processes
//! ```
//!
//! *Why it is late enough.* A commit of one of the rows that was acknowledged, or seen, before the
//! statement began was made at the master, by then or before the rows came to it. So its time is
//! not later than the master's. A commit over several sites may be visible at another site and not
//! here yet, but then its rows are marked ([`isomer_site::present_of`]), and all processes are
//! asked.
//!
//! The rows are looked at before the time is taken. If they move after that, the snapshot is still
//! late enough, and the read follows them.

use isomer_design::{Key, KeyRange, TableId};
use std::sync::Arc;

/// The rows of a statement, which reads no others.
#[derive(Clone, Debug)]
pub struct Near {
    pub(super) spans: Arc<[(TableId, KeyRange)]>,
}

impl Near {
    /// These rows.
    pub fn of(spans: Vec<(TableId, KeyRange)>) -> Near {
        Near { spans: spans.into() }
    }

    pub(super) fn has_key(&self, table: TableId, key: &Key) -> bool {
        self.spans.iter().any(|(of, range)| *of == table && range.contains(key))
    }

    pub(super) fn has_range(&self, table: TableId, read: &KeyRange) -> bool {
        let is_within = |range: &KeyRange| {
            let ends = match (&read.end, &range.end) {
                (_, None) => true,
                (Some(read), Some(end)) => read <= end,
                (None, Some(_)) => false,
            };
            range.start <= read.start && ends
        };
        self.spans.iter().any(|(of, range)| *of == table && is_within(range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_rows_of_the_statement_are_near() {
        let (t, u) = (TableId(1), TableId(2));
        let range = |start, end| KeyRange::new(Key::int(start), Some(Key::int(end)));
        let near = Near::of(vec![(t, range(3, 7)), (t, KeyRange::single(Key::int(9)))]);
        assert!(near.has_key(t, &Key::int(3)) && near.has_key(t, &Key::int(9)));
        assert!(!near.has_key(t, &Key::int(7)) && !near.has_key(u, &Key::int(3)));
        assert!(near.has_range(t, &range(4, 7)) && near.has_range(t, &range(3, 5)));
        assert!(!near.has_range(t, &range(2, 5)) && !near.has_range(t, &range(4, 8)));
        assert!(!near.has_range(t, &KeyRange::all()) && !near.has_range(u, &range(4, 5)));
    }
}
