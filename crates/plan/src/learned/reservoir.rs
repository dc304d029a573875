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
//! it is older than the time limit. When something speaks for it that what comes now is another
//! thing than what came before ([`Reservoir::regime_changed`]), old and new items can be compared, and if it
//! is, the old ones go. (MorphoSys 5.1, after Aggarwal's damped reservoirs; the constants are those
//! of the public code of its descendant.)

use super::tuning::Tuning;

/// Constants of a [`Reservoir`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Damping {
    /// The most items that are kept.
    pub size: usize,
    /// The weight at the beginning, in sizes.
    pub start: f64,
    /// What every offer adds to the weight.
    pub increment: f64,
    /// What is left of the weight after a window.
    pub decay: f64,
    /// The length of a window, in nanoseconds.
    pub window_ns: u64,
    /// Items older than this are forgotten, in nanoseconds.
    pub expiry_ns: u64,
    /// So many new items can be compared with those from before a [change of regime](Reservoir::regime_changed); or so
    /// many, if more have not come in two seconds.
    pub enough: (usize, usize),
}

impl Default for Damping {
    fn default() -> Damping {
        let seconds = |seconds: u64| seconds * 1_000_000_000;
        Damping {
            size: 10_000,
            start: 1.0,
            increment: 0.5,
            decay: 0.2,
            window_ns: seconds(10),
            expiry_ns: seconds(60),
            enough: (6000, 1000),
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
    /// When it was last looked for what has expired.
    expired_at: u64,
    /// When it turned, if items from before are still there; and how many have come since.
    turned: Option<(u64, usize)>,
}

impl<T> Reservoir<T> {
    /// An empty reservoir that begins at a time, in nanoseconds.
    ///
    /// # Panics
    /// If the size is zero, or a constant is not a number.
    pub fn new(damping: Damping, now_ns: u64) -> Reservoir<T> {
        let Damping { size, start, increment, decay, .. } = damping;
        assert!(size > 0, "a reservoir has room for one item at least");
        assert!(start >= 0.0 && increment >= 0.0, "weights do not shrink by themselves");
        assert!((0.0..=1.0).contains(&decay), "what is left of a weight is a share of it");
        let weight = start * size as f64;
        let (damped_at, expired_at) = (now_ns, now_ns);
        Reservoir { damping, items: Vec::new(), weight, damped_at, expired_at, turned: None }
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
        self.turned.iter_mut().for_each(|(_, came)| *came += 1);
        if !self.is_full() {
            self.items.push((now_ns, item));
            return None;
        }
        let at = ((chance * self.items.len() as f64) as usize).min(self.items.len() - 1);
        Some(std::mem::replace(&mut self.items[at], (now_ns, item)).1)
    }

    /// Takes out what has expired. To look takes a step for each item, so it is done [`Tuning::EXPIRY_LOOKS`]
    /// times an expiry.
    pub fn expire(&mut self, now_ns: u64) -> impl Iterator<Item = T> {
        let expiry_ns = self.damping.expiry_ns;
        let is_time = now_ns.abs_diff(self.expired_at) >= expiry_ns / Tuning::EXPIRY_LOOKS;
        if is_time {
            self.expired_at = now_ns;
        }
        let all = if is_time { self.items.len() } else { 0 };
        self.items
            .extract_if(..all, move |(came, _)| now_ns.saturating_sub(*came) > expiry_ns)
            .map(|(_, item)| item)
    }

    /// From now on it is asked whether what comes is another thing than what came before: until
    /// there is enough of it to tell ([`Reservoir::is_told`]), and somebody
    /// [does](Reservoir::end_comparison).
    pub fn regime_changed(&mut self, now_ns: u64) {
        self.turned = Some((now_ns, 0));
    }

    /// True as long as that is asked.
    pub fn is_comparing(&self) -> bool {
        self.turned.is_some()
    }

    /// True if there is enough to tell.
    pub fn is_told(&self, now_ns: u64) -> bool {
        let (many, few) = self.damping.enough;
        self.turned.is_some_and(|(at, came)| {
            came >= many || came >= few && now_ns.saturating_sub(at) >= Tuning::COMPARISON_NS
        })
    }

    /// All items, and whether each came after it turned.
    pub fn sides(&self) -> impl Iterator<Item = (bool, &T)> + Clone {
        let at = self.turned.map_or(0, |(at, _)| at);
        self.items.iter().map(move |(came, item)| (*came >= at, item))
    }

    /// It has been told; if it is another thing, what is older is taken out.
    pub fn end_comparison(&mut self, is_another: bool) -> impl Iterator<Item = T> {
        let turned = self.turned.take().filter(|_| is_another);
        let all = if turned.is_some() { self.items.len() } else { 0 };
        let is_older = move |came: u64| turned.is_some_and(|(at, _)| came < at);
        self.items.extract_if(..all, move |(came, _)| is_older(*came)).map(|(_, item)| item)
    }

    /// The items, in no order.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &T> + Clone {
        self.items.iter().map(|(_, item)| item)
    }

    /// The weight, for those who want to see it adapt.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    fn damp(&mut self, now_ns: u64) {
        let Damping { window_ns, decay, size, .. } = self.damping;
        while now_ns.saturating_sub(self.damped_at) >= window_ns.max(1) {
            self.damped_at += window_ns.max(1);
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
            start: 1.0,
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
        assert_eq!(reservoir.weight(), 101_100.0);
        reservoir.wants(10, 0.5);
        assert_eq!(reservoir.weight(), 1_011.0 + 100.0);
    }

    #[test]
    fn it_is_never_larger_than_its_size_and_forgets_the_old() {
        let damping = Damping { size: 3, expiry_ns: 100, ..Damping::default() };
        let mut reservoir = Reservoir::new(damping, 0);
        for (time, item) in [(1, 'a'), (2, 'b'), (3, 'c')] {
            assert_eq!(reservoir.take(time, item, 0.0), None);
        }
        assert_eq!(reservoir.take(50, 'd', 0.4), Some('b'));
        assert_eq!(reservoir.expire(102).collect::<String>(), "a");
        assert_eq!(reservoir.items().collect::<String>(), "dc");
    }

    #[test]
    fn after_a_turn_the_old_go_when_it_is_told_from_enough_new_ones() {
        let damping = Damping { enough: (3, 1), ..Damping::default() };
        let come = |times: &[u64], now_ns: u64| {
            let mut reservoir = Reservoir::new(damping, 0);
            (1..=5).for_each(|time| assert_eq!(reservoir.take(time, time, 0.0), None));
            reservoir.regime_changed(10);
            times.iter().for_each(|time| assert_eq!(reservoir.take(*time, *time, 0.0), None));
            (reservoir.is_told(now_ns), reservoir)
        };
        assert!(!come(&[11, 12], 13).0);
        assert!(come(&[11], 10 + Tuning::COMPARISON_NS).0, "few have to do by then");
        assert!(!come(&[], 10 + Tuning::COMPARISON_NS).0, "but some are needed");
        let (is_told, mut reservoir) = come(&[11, 12, 13], 14);
        assert!(is_told && reservoir.sides().filter(|(is_new, _)| *is_new).count() == 3);
        let mut same = reservoir.clone();
        assert_eq!((same.end_comparison(false).count(), same.items().len()), (0, 8));
        assert_eq!((reservoir.end_comparison(true).count(), reservoir.items().len()), (5, 3));
        assert!(!reservoir.is_comparing());
    }

    #[test]
    fn a_clock_that_jumps_costs_nothing() {
        let mut reservoir: Reservoir<u32> = Reservoir::new(Damping::default(), 0);
        assert!(reservoir.wants(u64::MAX, 0.999));
        assert!(reservoir.wants(0, 0.999), "nor does one that goes back");
    }
}
