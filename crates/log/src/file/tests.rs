//! Tests of the file log on a simulated disk with faults, and on a real one.

mod crash;
mod disk;
mod real;
mod script;

use super::FileLog;
use crate::{Log, Position};
use std::ops::ControlFlow;

/// All frames from a position on.
fn frames(log: &FileLog, from: Position) -> Vec<(Position, Vec<u8>)> {
    let mut frames = Vec::new();
    let end = log.read(from, &mut |position, payload| {
        frames.push((position, payload.to_vec()));
        ControlFlow::Continue(())
    });
    assert_eq!(end.ok(), Some(log.end()));
    frames
}

/// Random numbers for tests, from a seed.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}
