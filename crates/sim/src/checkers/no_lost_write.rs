//! No lost write: if a client was told that its transaction has committed, the log of that site has
//! all of its writes, in one frame, at that time. After whatever crashes.

use crate::history::{History, Outcome};

/// See the [module documentation](self).
///
/// # Errors
/// A sentence that names the transaction and what became of it.
pub fn no_lost_write(history: &History) -> Result<(), String> {
    for transaction in &history.transactions {
        let Outcome::Committed { site, commit, .. } = &transaction.outcome else { continue };
        let writes = transaction.writes();
        let Some(time) = commit else {
            if writes.is_empty() {
                continue;
            }
            let session = transaction.session;
            return Err(format!("session {session} wrote at {site}, but was told no commit time"));
        };
        let frame = history.commits.iter().find(|c| c.site == *site && c.time == *time);
        let what = format!("session {} committed at {site} {time}: ", transaction.session);
        match frame {
            None => return Err(format!("{what}a lost write, the log has no such commit")),
            Some(frame) if frame.writes != writes => {
                return Err(format!(
                    "{what}a torn write, it wrote {writes:?} and the log has {:?}",
                    frame.writes
                ));
            }
            Some(_) => {}
        }
    }
    Ok(())
}
