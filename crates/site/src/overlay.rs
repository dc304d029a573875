//! A transaction's own writes merged over the rows that it reads.
//!
//! ```text
//!   stored     3 a      5 b      7 c            own    4 x    5 y    7 deleted    9 z
//!   shown      3 a   4 x   5 y   9 z
//! ```

use isomer_design::{Direction, Key, TableId};
use serde::{Deserialize, Serialize};
use std::iter::Peekable;
use std::ops::ControlFlow;

/// A row that a transaction over several sites writes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RowWrite {
    /// The table.
    pub table: TableId,
    /// The key.
    pub key: Key,
    /// The value; `None` deletes the row.
    #[serde(with = "serde_bytes")]
    pub value: Option<Vec<u8>>,
}

/// See the [module documentation](self).
pub struct Overlay<I: Iterator, V> {
    own: Peekable<I>,
    way: Direction,
    visit: V,
    flow: ControlFlow<()>,
}

impl<'w, I, V> Overlay<I, V>
where
    I: Iterator<Item = (&'w [u8], Option<&'w [u8]>)>,
    V: FnMut(&[u8], &[u8]) -> ControlFlow<()>,
{
    /// Merges the own writes of a range, which come in key order along `way`; `None` deletes a row.
    pub fn new(own: I, way: Direction, visit: V) -> Overlay<I, V> {
        Overlay { own: own.peekable(), way, visit, flow: ControlFlow::Continue(()) }
    }

    /// Adds the next stored row (`None`: its deletion). Breaks as `visit` does.
    #[inline]
    pub fn stored(&mut self, key: &[u8], row: Option<&[u8]>) -> ControlFlow<()> {
        let way = self.way;
        while self.own.peek().is_some_and(|(own, _)| way.compare(own, key).is_le()) {
            let (own, value) = self.own.next().expect("there is one to look at");
            self.show(own, value);
            if own == key {
                return self.flow;
            }
        }
        self.show(key, row);
        self.flow
    }

    /// Shows the remaining own writes, after the last stored row.
    pub fn end(mut self) {
        while let Some((own, value)) = self.own.next() {
            self.show(own, value);
        }
    }

    fn show(&mut self, key: &[u8], row: Option<&[u8]>) {
        if let (Some(row), true) = (row, self.flow.is_continue()) {
            self.flow = (self.visit)(key, row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(way: Direction, most: usize) -> String {
        let own: [(&[u8], Option<&[u8]>); 4] =
            [(b"4", Some(b"x")), (b"5", Some(b"y")), (b"7", None), (b"9", Some(b"z"))];
        let stored: [(&[u8], Option<&[u8]>); 4] =
            [(b"3", Some(b"a")), (b"5", Some(b"b")), (b"6", None), (b"7", Some(b"c"))];
        let mut words = Vec::new();
        let mut overlay = Overlay::new(way.through(own.into_iter()), way, |key, row| {
            words.extend([key, row].map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
            if words.len() / 2 < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        for (key, row) in way.through(stored.into_iter()) {
            if overlay.stored(key, row).is_break() {
                break;
            }
        }
        overlay.end();
        words.join(" ")
    }

    #[test]
    fn own_writes_replace_and_delete_either_way_until_the_visit_breaks() {
        assert_eq!(shown(Direction::Forward, 9), "3 a 4 x 5 y 9 z");
        assert_eq!(shown(Direction::Backward, 9), "9 z 5 y 4 x 3 a");
        assert_eq!(shown(Direction::Forward, 2), "3 a 4 x");
        assert_eq!(shown(Direction::Backward, 1), "9 z");
    }
}
