//! The sites in whose place others act, in the conductor's log.
//!
//! ```text
//!   s3 is gone ─▶ log: s3 is lost ─▶ takeover, evacuation ─▶ … ─▶ s3 is readmitted ─▶ log: it is not
//! ```
//!
//! **Two conductors.** A conductor that is cut off may believe that the others are gone, while one
//! of them takes its place. The log has one owner. If the earlier conductor has noted first that s3
//! is lost, the next one reads the note, and does not rely on the holdings of s3. If the next
//! conductor has taken the log first, the note is refused, and the earlier conductor changes
//! nothing in the place of s3.

use crate::conductor::Conductor;
use crate::conductor::copy::home;
use crate::error::Error;
use crate::transport::Transport;
use isomer_design::{SiteId, SiteSet};

/// Notes that others are to take the place of sites, before anything is done in their place.
///
/// # Errors
/// As [`Home::keep_lost`](crate::conductor::Home::keep_lost).
pub(super) fn note_lost<T: Transport>(
    conductor: &Conductor<T>,
    sites: &SiteSet,
) -> Result<(), Error> {
    let mut lost = conductor.membership.lost.lock();
    let all = &*lost | sites;
    if all != *lost {
        home(conductor).keep_lost(&conductor.design(), &all)?;
        *lost = all;
    }
    Ok(())
}

/// Notes that a site is a member again.
pub(super) fn note_found<T: Transport>(conductor: &Conductor<T>, site: SiteId) {
    let mut lost = conductor.membership.lost.lock();
    let left = lost.without(site);
    // If this fails, the next conductor readmits the site once more.
    if left != *lost && home(conductor).keep_lost(&conductor.design(), &left).is_ok() {
        *lost = left;
    }
}
