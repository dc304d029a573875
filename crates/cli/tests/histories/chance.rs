//! Random numbers from a seed (splitmix64), with a sequence for each thread.

pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64, of: u64) -> Chance {
        Chance(seed.wrapping_mul(0xd134_2543_de82_ef95) ^ of.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    /// A number from 0 to `bound` - 1.
    pub(crate) fn below(&mut self, bound: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % bound as u64) as i64
    }
}
