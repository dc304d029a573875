//! Sets of sites, small enough to be copied and intersected in a register.
//!
//! The router asks, for every item of a footprint, which sites could serve it, and keeps the sites
//! that could serve all. With site *n* as bit *n* − 1 of a `u64` that is one `and` per item:
//!
//! ```text
//!   write accounts[5]        master s2                  0010
//!   read  accounts[12]       master s1, replica s2      0011
//!   read  orders[3]          master s4, replica s2      1010
//!   all of it                                           0010  = s2
//! ```
//!
//! The price is a limit of [`SITES_MAX`] sites. The number of a removed site may be given again.

use crate::SiteId;
use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};

/// The most sites of one database. Sites are numbered from 1 to this.
pub const SITES_MAX: u16 = 64;

/// A set of sites, in the order of their numbers.
///
/// ```
/// use isomer_design::{SiteId, SiteSet};
/// let writers = SiteSet::from_iter([SiteId(2)]);
/// let readers = SiteSet::from_iter([SiteId(4), SiteId(2)]);
/// assert_eq!((writers & readers).to_string(), "s2");
/// assert_eq!((writers | readers).to_string(), "s2 s4");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SiteSet(u64);

impl SiteSet {
    /// No site.
    pub const EMPTY: SiteSet = SiteSet(0);

    /// True if a site may have this number: 1 to [`SITES_MAX`].
    pub fn can_hold(site: SiteId) -> bool {
        (1..=SITES_MAX).contains(&site.0)
    }

    /// The set of one site, or the empty set if no site may have this number.
    #[inline]
    pub fn of(site: SiteId) -> SiteSet {
        if SiteSet::can_hold(site) { SiteSet(1 << (site.0 - 1)) } else { SiteSet::EMPTY }
    }

    /// The set whose bit *n* − 1 stands for site *n*.
    pub fn from_bits(bits: u64) -> SiteSet {
        SiteSet(bits)
    }

    /// Site *n* as bit *n* − 1.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// True if `site` is in the set.
    #[inline]
    pub fn contains(self, site: SiteId) -> bool {
        self.0 & SiteSet::of(site).0 != 0
    }

    /// True if every site of `other` is in the set.
    pub fn covers(self, other: SiteSet) -> bool {
        (other - self).is_empty()
    }

    /// The set with `site` in it.
    ///
    /// # Panics
    /// If no site may have this number ([`SiteSet::can_hold`]): dropping it would lose a site.
    #[must_use]
    pub fn with(self, site: SiteId) -> SiteSet {
        assert!(SiteSet::can_hold(site), "{site} is no site: sites are s1 to s{SITES_MAX}");
        self | SiteSet::of(site)
    }

    /// The set without `site`.
    #[must_use]
    pub fn without(self, site: SiteId) -> SiteSet {
        self - SiteSet::of(site)
    }

    /// How many sites are in the set.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// True if no site is in the set.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The site with the lowest number.
    #[inline]
    pub fn first(self) -> Option<SiteId> {
        (!self.is_empty()).then(|| SiteId(self.0.trailing_zeros() as u16 + 1))
    }

    /// The sites in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = SiteId> + Clone {
        let mut rest = self;
        std::iter::from_fn(move || {
            let site = rest.first()?;
            rest = rest.without(site);
            Some(site)
        })
    }
}

/// # Panics
/// Like [`SiteSet::with`], if no site may have one of the numbers.
impl FromIterator<SiteId> for SiteSet {
    fn from_iter<I: IntoIterator<Item = SiteId>>(sites: I) -> SiteSet {
        sites.into_iter().fold(SiteSet::EMPTY, SiteSet::with)
    }
}

impl BitOr for SiteSet {
    type Output = SiteSet;
    fn bitor(self, other: SiteSet) -> SiteSet {
        SiteSet(self.0 | other.0)
    }
}

impl BitAnd for SiteSet {
    type Output = SiteSet;
    fn bitand(self, other: SiteSet) -> SiteSet {
        SiteSet(self.0 & other.0)
    }
}

impl Sub for SiteSet {
    type Output = SiteSet;
    fn sub(self, other: SiteSet) -> SiteSet {
        SiteSet(self.0 & !other.0)
    }
}

/// `s1 s3`; the empty set prints as nothing.
impl fmt::Display for SiteSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, site) in self.iter().enumerate() {
            write!(f, "{}{site}", if index > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for SiteSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_the_first_and_the_last_site() {
        let ends = SiteSet::from_iter([SiteId(SITES_MAX), SiteId(1)]);
        assert_eq!((ends.len(), ends.to_string().as_str()), (2, "s1 s64"));
        assert_eq!(ends.without(SiteId(1)).first(), Some(SiteId(SITES_MAX)));
        assert!(ends.contains(SiteId(64)) && !ends.contains(SiteId(2)));
    }

    #[test]
    fn numbers_out_of_range_are_in_no_set() {
        let all = SiteSet::from_bits(u64::MAX);
        for site in [SiteId(0), SiteId(SITES_MAX + 1), SiteId(u16::MAX)] {
            assert!(!all.contains(site) && SiteSet::of(site).is_empty());
            assert_eq!(all.without(site), all);
        }
    }

    #[test]
    #[should_panic(expected = "s0 is no site: sites are s1 to s64")]
    fn adding_a_number_out_of_range_is_the_callers_mistake() {
        let _ = SiteSet::EMPTY.with(SiteId(0));
    }
}
