//! How many sites there are to be: one more when no move gives relief, one less when the others have room for its load
//! (Clay, sections 7.2 and 7.3).
//!
//! ```text
//!   all sites use 82 % of their processors (75 are allowed)  ─▶ plan ─ nothing to move ─▶ add s4
//!                                                                └─ moves ─▶ make them
//!   3 sites use 15 %, for half a minute: 2 would use 22 % (40 are allowed)
//!                                                            ─▶ plan ─▶ empty the one with the least load ─▶ remove it
//! ```
//!
//! What makes too few sites is not that one has more load than others: that is what moves are for. It is that
//! transactions take too long, or that processors are busy, everywhere. Between the two limits nothing happens, and the
//! distance between them is what keeps a site from being added and removed in turns.

use super::{Options, Overload, Period};
use isomer_design::SiteId;

/// The limits.
#[derive(Clone, PartialEq, Debug)]
pub struct Fleet {
    /// There are to be so many sites at least.
    pub sites_min: usize,
    /// And so many at most.
    pub sites_max: usize,
    /// All sites together may use this share of their processors' time.
    pub busy_max: f64,
    /// If one is removed, the others may use this share.
    pub busy_left_max: f64,
    /// A site is not needed if that was so in so many periods, one after the other.
    pub calm: u32,
}

impl Fleet {
    /// Between these numbers of sites, with the usual limits.
    pub fn between(sites_min: usize, sites_max: usize) -> Fleet {
        Fleet { sites_min, sites_max, busy_max: 0.75, busy_left_max: 0.4, calm: 60 }
    }
}

/// A site that is not needed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Spare {
    /// The site: the one with the least load.
    pub(super) site: SiteId,
    /// The share of their processors that the others would use.
    pub(super) busy_left: f64,
}

/// The site that the others could do without, in a period without overload, if there is one.
pub(super) fn spare(
    period: &Period,
    options: &Options,
    overload: Option<&Overload>,
) -> Option<Spare> {
    let fleet = options.fleet.as_ref()?;
    let left = period.sites.len().checked_sub(1).filter(|left| *left >= fleet.sites_min.max(1))?;
    let busy: f64 = period.sites.iter().map(|site| site.busy).sum::<Option<f64>>()?;
    let busy_left = busy / left as f64;
    // Of those with as little load, the last one: it has come last.
    let load =
        |site: SiteId| period.sites.iter().find(|s| s.site == site).map_or(0.0, |s| s.accesses);
    let sites = period.sites.iter().map(|site| site.site);
    let site = sites.min_by(|a, b| load(*a).total_cmp(&load(*b)).then(b.cmp(a)))?;
    let is_spare = overload.is_none() && busy_left <= fleet.busy_left_max;
    is_spare.then_some(Spare { site, busy_left })
}

#[cfg(test)]
mod tests {
    use super::super::SitePeriod;
    use super::*;

    fn period(sites: &[(f64, f64)]) -> Period {
        let site = |(id, (accesses, busy)): (u16, &(f64, f64))| SitePeriod {
            site: SiteId(id),
            accesses: *accesses,
            busy: Some(*busy),
        };
        Period { seconds: 1.0, sites: (1..).zip(sites).map(site).collect(), ..Period::default() }
    }

    fn spare_of(sites: &[(f64, f64)], sites_min: usize) -> Option<(u16, f64)> {
        let options = Options { fleet: Some(Fleet::between(sites_min, 8)), ..Options::default() };
        spare(&period(sites), &options, None).map(|spare| (spare.site.0, spare.busy_left))
    }

    #[test]
    fn a_site_is_spare_if_the_others_have_room_for_its_load() {
        assert_eq!(spare_of(&[(9.0, 0.2), (5.0, 0.1), (7.0, 0.1)], 1), Some((2, 0.2)));
        assert_eq!(spare_of(&[(9.0, 0.2), (5.0, 0.1), (5.0, 0.1)], 1), Some((3, 0.2)));
        assert_eq!(
            spare_of(&[(9.0, 0.3), (5.0, 0.3), (7.0, 0.3)], 1),
            None,
            "others would be full"
        );
        assert_eq!(spare_of(&[(9.0, 0.1), (5.0, 0.1)], 2), None, "as few as there are to be");
        assert_eq!(spare_of(&[(9.0, 0.1)], 0), None, "somebody has to hold the rows");
    }

    #[test]
    fn nothing_is_spare_during_an_overload_or_where_nobody_knows_the_load() {
        let options = Options { fleet: Some(Fleet::between(1, 8)), ..Options::default() };
        let mut quiet = period(&[(9.0, 0.1), (5.0, 0.1)]);
        let overload = Overload::Site { site: SiteId(1), times: 2.0 };
        assert_eq!(spare(&quiet, &options, Some(&overload)), None);
        quiet.sites[1].busy = None;
        assert_eq!(spare(&quiet, &options, None), None);
        assert_eq!(spare(&quiet, &Options::default(), None), None, "the number of sites is fixed");
    }
}
