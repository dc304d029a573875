//! The number of sites: one more when no move gives relief, one less when the others have room for
//! its load (Clay, sections 7.2 and 7.3).
//!
//! ```text
//!   all sites use 82 % of their processors (75 are allowed)  ─▶ plan ─ nothing to move ─▶ add s4
//!                                                                └─ moves ─▶ make them
//!   3 sites use 15 %, for half a minute: 2 would use 22 % (40 are allowed)
//!                                      ─▶ plan ─▶ empty the least loaded site ─▶ remove it
//! ```
//!
//! An uneven load is cured by moves, not by more sites. More sites are needed when transactions
//! take too long, or processors are busy, at all sites. Between the upper and the lower limit
//! nothing happens; their distance prevents adding and removing a site in turns.

use super::{Options, Overload, Period};
use isomer_design::SiteId;

/// The limits on the number of sites.
#[derive(Clone, PartialEq, Debug)]
pub struct Fleet {
    /// The least number of sites.
    pub sites_min: usize,
    /// The largest number of sites.
    pub sites_max: usize,
    /// The share of their processors' time that all sites together may use.
    pub busy_max: f64,
    /// The share that the others may use after the removal of a site.
    pub busy_left_max: f64,
    /// A site may be removed after it was spare in this number of consecutive periods.
    pub calm: u32,
}

impl Fleet {
    /// Limits of `sites_min` to `sites_max` sites, with the default shares.
    pub fn between(sites_min: usize, sites_max: usize) -> Fleet {
        Fleet { sites_min, sites_max, busy_max: 0.75, busy_left_max: 0.4, calm: 60 }
    }
}

/// A site that is not needed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Spare {
    /// The site with the least load.
    pub(super) site: SiteId,
    /// The share of their processors that the other sites would use.
    pub(super) busy_left: f64,
}

/// The spare site of a period without overload, if there is one.
pub(super) fn spare(
    period: &Period,
    options: &Options,
    overload: Option<&Overload>,
) -> Option<Spare> {
    let fleet = options.fleet.as_ref()?;
    let left = period.sites.len().checked_sub(1).filter(|left| *left >= fleet.sites_min.max(1))?;
    let busy: f64 = period.sites.iter().map(|site| site.busy).sum::<Option<f64>>()?;
    let busy_left = busy / left as f64;
    // Of sites with equally little load, the last: it was added last.
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
        assert_eq!(spare_of(&[(9.0, 0.1)], 0), None, "some site has to hold the rows");
    }

    #[test]
    fn no_site_is_spare_during_an_overload_or_with_unknown_loads() {
        let options = Options { fleet: Some(Fleet::between(1, 8)), ..Options::default() };
        let mut quiet = period(&[(9.0, 0.1), (5.0, 0.1)]);
        let overload = Overload::Site { site: SiteId(1), times: 2.0 };
        assert_eq!(spare(&quiet, &options, Some(&overload)), None);
        quiet.sites[1].busy = None;
        assert_eq!(spare(&quiet, &options, None), None);
        assert_eq!(spare(&quiet, &Options::default(), None), None, "the number of sites is fixed");
    }
}
