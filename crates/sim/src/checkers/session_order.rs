//! Session order: a transaction sees all that its session has seen and written before, at any site.
//! A violation is called transaction inversion.

use crate::history::{History, Outcome};
use isomer_design::Time;
use std::collections::BTreeMap;

/// See the [module documentation](self).
///
/// # Errors
/// A sentence that names the session and the two times.
pub fn session_order(history: &History) -> Result<(), String> {
    let mut seen: BTreeMap<u64, (Time, String)> = BTreeMap::new();
    for transaction in &history.transactions {
        let Outcome::Committed { site, snapshot, commit } = &transaction.outcome else { continue };
        let session = transaction.session;
        if let Some((before, what)) = seen.get(&session)
            && snapshot < before
        {
            return Err(format!(
                "transaction inversion: session {session} {what} {before}, and then saw only \
                 {snapshot} at {site}"
            ));
        }
        if commit.is_some_and(|commit| commit <= *snapshot) {
            return Err(format!("session {session} committed at {site} before its own snapshot"));
        }
        let now = match commit {
            Some(commit) => (*commit, format!("committed at {site}")),
            None => (*snapshot, format!("saw at {site}")),
        };
        seen.insert(session, now);
    }
    Ok(())
}
