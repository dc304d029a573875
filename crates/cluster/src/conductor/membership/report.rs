//! The report of a takeover from a site.

use super::Place;
use isomer_design::{Design, SiteId};
use std::collections::BTreeMap;
use std::fmt;

/// The outcome for the partitions of a site whose log has failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedOver {
    /// The site.
    pub site: SiteId,
    /// The number of its partitions that have another master now.
    pub moved: usize,
    /// Those without a master, and why.
    pub unavailable: Vec<String>,
}

impl FailedOver {
    /// The report of a site's partitions. `left` has the reason for each partition without a
    /// master.
    pub(super) fn of(
        design: &Design,
        site: SiteId,
        moved: usize,
        left: &BTreeMap<&Place, String>,
    ) -> FailedOver {
        let named = |((table, start), why): (&Place, &String)| match design.table(*table) {
            Ok(found) => {
                let schema = found.schema();
                format!("{}[{}]: {why}", schema.name(), schema.format_key(start))
            }
            Err(_) => why.clone(),
        };
        let unavailable = left.iter().map(|(place, why)| named((*place, why))).collect();
        FailedOver { site, moved, unavailable }
    }
}

impl fmt::Display for FailedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailedOver { site, moved, unavailable } = self;
        write!(f, "site {site} is passed by: {moved} of its partitions have another master")?;
        if let Some(first) = unavailable.first() {
            let count = unavailable.len();
            write!(f, "; {count} are unavailable until its log can be opened again: {first}")?;
        }
        Ok(())
    }
}
