//! An adaptive damped reservoir: a bounded sample of what came by, with a bias towards the recent.
//!
//! A plain reservoir gives every item of the whole past the same chance, so it is slower to notice
//! a change the longer it has run. This one keeps a **weight**: an item is taken with probability
//! `size / weight`, and every item that comes by adds to the weight. From time to time the weight
//! is damped, so that newer items have a better chance again:
//!
//! ```text
//!   weight   ╱│   ╱│   ╱│     grows with every offer, damped every window
//!           ╱ │  ╱ │  ╱ │
//!          ╱  │ ╱  │ ╱  │
//! ```
//!
//! An item that is taken replaces one by chance once the reservoir is full, and goes by itself when
//! it is older than the time limit. When what comes may be another thing than what came before
//! ([`Reservoir::renew`]), the old ones stay until there are enough new ones to compare them with. (MorphoSys 5.1, after
//! Aggarwal's damped reservoirs; the constants are those of the public code of its descendant.)

/// Constants of a [`Reservoir`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Damping {
    /// The most items that are kept.
    pub size: usize,
    /// What every offer adds to the weight.
    pub increment: f64,
    /// What is left of the weight after a window.
    pub decay: f64,
    /// The length of a window, in nanoseconds.
    pub window_ns: u64,
    /// Items older than this are forgotten, in nanoseconds.
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
    /// A window has passed since it was last looked for what has expired.
    may_expire: bool,
    /// Since when it is renewed, if items from before are still there; and how many have come since.
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
        assert!((0.0..=1.0).contains(&decay), "what is left of a weight is a share of it");
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

    /// True if an item that comes by now is to be taken; `chance` is a number from 0 to below 1.
    pub fn wants(&mut self, now_ns: u64, chance: f64) -> bool {
        self.damp(now_ns);
        let wants = chance * self.weight < self.damping.size as f64;
        self.weight += self.damping.increment;
        wants
    }

    /// True if every new item takes the place of another.
    pub fn is_full(&self) -> bool {
        self.items.len() >= self.damping.size
    }

    /// Takes an item; if there is no room, in the place of one that `chance` names, which comes
    /// back.
    pub fn take(&mut self, now_ns: u64, item: T, chance: f64) -> Option<T> {
        self.renewed.iter_mut().for_each(|(_, came)| *came += 1);
        if !self.is_full() {
            self.items.push((now_ns, item));
            return None;
        }
        let at = ((chance * self.items.len() as f64) as usize).min(self.items.len() - 1);
        Some(std::mem::replace(&mut self.items[at], (now_ns, item)).1)
    }

    /// Takes out what has expired. To look takes a step for each item, so it is done once a window.
    pub fn expire(&mut self, now_ns: u64) -> impl Iterator<Item = T> {
        let expiry_ns = self.damping.expiry_ns;
        let all = if std::mem::take(&mut self.may_expire) { self.items.len() } else { 0 };
        let is_old = move |came: u64| now_ns.saturating_sub(came) > expiry_ns;
        self.items.extract_if(..all, move |(came, _)| is_old(*came)).map(|(_, item)| item)
    }

    /// What is here may say nothing about what comes: it stays until there is enough of that.
    pub fn renew(&mut self, now_ns: u64) {
        self.renewed.get_or_insert((now_ns, 0));
    }

    /// True if enough has come since then: half of what there is room for, or so many in so long a time.
    pub fn has_enough(&self, now_ns: u64, (few, since_ns): (usize, u64)) -> bool {
        self.renewed.is_some_and(|(at, came)| {
            2 * came >= self.damping.size || came >= few && now_ns.saturating_sub(at) >= since_ns
        })
    }

    /// The items, and whether they have come since then.
    pub fn sides(&self) -> impl Iterator<Item = (bool, &T)> + Clone {
        let since = self.renewed.map_or(0, |(at, _)| at);
        self.items.iter().map(move |(came, item)| (*came >= since, item))
    }

    /// Ends that; takes out what is older if it says nothing about what comes.
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
                // Everything is taken already; a clock that jumps need not be followed step by
                // step.
                self.damped_at = now_ns;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The public code's own test: size 1000, one increment of 100 an offer, damped to a hundredth.
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
    fn what_is_renewed_loses_the_old_when_there_is_enough_that_is_new() {
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
