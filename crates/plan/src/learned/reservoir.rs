//! An adaptive damped reservoir: a bounded sample of a stream, biased towards recent items.
//!
//! A plain reservoir gives every item of the past the same chance, so it notices a change the more
//! slowly the longer it has run. This one keeps a **weight**: an item is taken with probability
//! `size / weight`, and every offered item adds to the weight. Periodically the weight is damped,
//! so that newer items have a better chance again:
//!
//! ```text
//!   weight   ╱│   ╱│   ╱│     grows with every offer, damped every window
//!           ╱ │  ╱ │  ╱ │
//!          ╱  │ ╱  │ ╱  │
//! ```
//!
//! Once the reservoir is full, a taken item replaces a random one. Items expire after the time
//! limit. When the workload may have changed ([`Reservoir::renew`]), old items stay until there are
//! enough new ones to compare with. (MorphoSys 5.1, after Aggarwal's damped reservoirs; the
//! constants are those of the public code of its descendant.)

/// Constants of a [`Reservoir`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Damping {
    /// The most items that are kept.
    pub size: usize,
    /// The increase of the weight per offered item.
    pub increment: f64,
    /// The factor of the weight at the end of a window.
    pub decay: f64,
    /// The length of a window, in nanoseconds.
    pub window_ns: u64,
    /// The age at which items expire, in nanoseconds.
    pub expiry_ns: u64,
}

impl Default for Damping {
    fn default() -> Damping {
        let seconds = |seconds: u64| seconds * 1_000_000_000;
        Damping {
            size: 10_000,
            increment: 0.5,
            decay: 0.2,
            window_ns: seconds(10),
            expiry_ns: seconds(60),
        }
    }
}

/// See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Reservoir<T> {
    damping: Damping,
    items: Vec<(u64, T)>,
    weight: f64,
    damped_at: u64,
    /// True if a window has passed since the last check for expired items.
    may_expire: bool,
    /// During a renewal: its start, and the number of items taken since.
    pub(crate) renewed: Option<(u64, usize)>,
}

impl<T> Reservoir<T> {
    /// An empty reservoir that begins at a time, in nanoseconds.
    ///
    /// # Panics
    /// If the size is zero, or a constant is not a number.
    pub fn new(damping: Damping, now_ns: u64) -> Reservoir<T> {
        let Damping { size, increment, decay, .. } = damping;
        assert!(size > 0, "a reservoir has room for one item at least");
        assert!(increment >= 0.0, "weights do not shrink by themselves");
        assert!((0.0..=1.0).contains(&decay), "the decay is a share");
        let (weight, may_expire) = (size as f64, false);
        Reservoir {
            damping,
            items: Vec::new(),
            weight,
            damped_at: now_ns,
            may_expire,
            renewed: None,
        }
    }

    /// True if an item offered now is to be taken; `chance` is a random number from 0 to below 1.
    pub fn wants(&mut self, now_ns: u64, chance: f64) -> bool {
        self.damp(now_ns);
        let wants = chance * self.weight < self.damping.size as f64;
        self.weight += self.damping.increment;
        wants
    }

    /// True if every new item replaces another.
    pub fn is_full(&self) -> bool {
        self.items.len() >= self.damping.size
    }

    /// Takes an item. If there is no room, it replaces the one that `chance` selects, which is
    /// returned.
    pub fn take(&mut self, now_ns: u64, item: T, chance: f64) -> Option<T> {
        self.renewed.iter_mut().for_each(|(_, came)| *came += 1);
        if !self.is_full() {
            self.items.push((now_ns, item));
            return None;
        }
        let at = ((chance * self.items.len() as f64) as usize).min(self.items.len() - 1);
        Some(std::mem::replace(&mut self.items[at], (now_ns, item)).1)
    }

    /// Removes expired items. The check takes a step per item, so it runs once per window.
    pub fn expire(&mut self, now_ns: u64) -> impl Iterator<Item = T> {
        let expiry_ns = self.damping.expiry_ns;
        let all = if std::mem::take(&mut self.may_expire) { self.items.len() } else { 0 };
        let is_old = move |came: u64| now_ns.saturating_sub(came) > expiry_ns;
        self.items.extract_if(..all, move |(came, _)| is_old(*came)).map(|(_, item)| item)
    }

    /// Begins a renewal: present items may not represent the stream any more, but stay until there
    /// are enough new ones.
    pub fn renew(&mut self, now_ns: u64) {
        self.renewed.get_or_insert((now_ns, 0));
    }

    /// True if a renewal has taken enough items: half of the size, or `few` items in `since_ns`
    /// nanoseconds.
    pub fn has_enough(&self, now_ns: u64, (few, since_ns): (usize, u64)) -> bool {
        self.renewed.is_some_and(|(at, came)| {
            2 * came >= self.damping.size || came >= few && now_ns.saturating_sub(at) >= since_ns
        })
    }

    /// The items, with true for those taken since the renewal began.
    pub fn sides(&self) -> impl Iterator<Item = (bool, &T)> + Clone {
        let since = self.renewed.map_or(0, |(at, _)| at);
        self.items.iter().map(move |(came, item)| (*came >= since, item))
    }

    /// Ends a renewal; removes and returns the older items if the workload has changed.
    pub fn end_renewal(&mut self, is_another: bool) -> impl Iterator<Item = T> {
        let at = self.renewed.take().map_or(0, |(at, _)| at);
        let all = if is_another { self.items.len() } else { 0 };
        self.items.extract_if(..all, move |(came, _)| *came < at).map(|(_, item)| item)
    }

    /// The items, in no order.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &T> + Clone {
        self.items.iter().map(|(_, item)| item)
    }

    fn damp(&mut self, now_ns: u64) {
        let Damping { window_ns, decay, size, .. } = self.damping;
        while now_ns.saturating_sub(self.damped_at) >= window_ns.max(1) {
            self.damped_at += window_ns.max(1);
            self.may_expire = true;
            self.weight *= decay;
            if self.weight < size as f64 {
                // Every item is taken already, so a clock that jumps need not be followed step by
                // step.
                self.damped_at = now_ns;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test of the public code: size 1000, an increment of 100 per offer, damped to a
    /// hundredth.
    #[test]
    fn the_weight_grows_with_every_offer_and_is_damped() {
        let damping = Damping {
            increment: 100.0,
            size: 1000,
            decay: 0.01,
            window_ns: 10,
            ..Damping::default()
        };
        let mut reservoir: Reservoir<u32> = Reservoir::new(damping, 0);
        assert!(reservoir.wants(0, 0.999), "the first one is always taken");
        (0..1000).for_each(|_| {
            reservoir.wants(0, 0.5);
        });
        assert_eq!(reservoir.weight, 101_100.0);
        reservoir.wants(10, 0.5);
        assert_eq!(reservoir.weight, 1_011.0 + 100.0);
    }

    #[test]
    fn it_is_never_larger_than_its_size_and_forgets_the_old() {
        let damping = Damping { size: 3, window_ns: 10, expiry_ns: 100, ..Damping::default() };
        let mut reservoir = Reservoir::new(damping, 0);
        for (time, item) in [(1, 'a'), (2, 'b'), (3, 'c')] {
            assert_eq!(reservoir.take(time, item, 0.0), None);
        }
        assert_eq!(reservoir.take(50, 'd', 0.4), Some('b'));
        assert!(reservoir.wants(101, 0.0), "a window has passed");
        assert_eq!(reservoir.expire(102).collect::<String>(), "a");
        assert_eq!(reservoir.items().collect::<String>(), "dc");
    }

    #[test]
    fn a_renewal_drops_old_items_once_there_are_enough_new_ones() {
        let damping = Damping { size: 6, ..Damping::default() };
        let left = |times: &[u64], now_ns: u64| {
            let mut reservoir = Reservoir::new(damping, 0);
            (1..=3).for_each(|time| assert_eq!(reservoir.take(time, time, 0.0), None));
            reservoir.renew(10);
            times.iter().for_each(|time| assert_eq!(reservoir.take(*time, *time, 0.0), None));
            if reservoir.has_enough(now_ns, (1, 5)) {
                assert_eq!(reservoir.sides().filter(|(is_new, _)| *is_new).count(), times.len());
                assert_eq!(reservoir.clone().end_renewal(false).count(), 0, "it is the same");
                assert_eq!(reservoir.end_renewal(true).count(), 3);
                assert!(reservoir.renewed.is_none());
            }
            reservoir.items().copied().collect::<Vec<u64>>()
        };
        assert_eq!(left(&[11, 12], 13), [1, 2, 3, 11, 12]);
        assert_eq!(left(&[11, 12, 13], 14), [11, 12, 13], "half of it");
        assert_eq!(left(&[11], 15), [11], "few have to do by then");
        assert_eq!(left(&[], 15), [1, 2, 3], "but some are needed");
    }

    #[test]
    fn a_clock_that_jumps_costs_nothing() {
        let mut reservoir: Reservoir<u32> = Reservoir::new(Damping::default(), 0);
        assert!(reservoir.wants(u64::MAX, 0.999));
        assert!(reservoir.wants(0, 0.999), "nor does one that goes back");
    }
}
