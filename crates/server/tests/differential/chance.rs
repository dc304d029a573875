//! Repeatable randomness.

pub(crate) struct Chance {
    state: u64,
    /// True after a BEGIN.
    pub(crate) in_block: bool,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance { state: seed, in_block: false }
    }

    /// A number from 0, below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % bound
    }

    /// True with a probability of 1 in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// A LIMIT for an answer.
    pub(crate) fn limit(&mut self) -> String {
        match self.below(3) {
            0 => format!(" limit {}", self.below(9)),
            1 => format!(" limit {} offset {}", self.below(9), self.below(4)),
            _ => String::new(),
        }
    }
}
