//! No lost write: if a client was told that its transaction has committed, the log of that site has
//! all of its writes, in one frame, at that time. After whatever crashes.

use crate::history::{Commit, History, Outcome, Written};
use isomer_design::Time;

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
            Some(frame) if !is_whole(history, frame, &writes) => {
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

/// True if a commit has all that was written, and nothing else. A delete leaves no trace where nothing was: who keeps a
/// row in two orders deletes it in the one beside unlocked, and what it has seen there a crash may have undone.
fn is_whole(history: &History, frame: &Commit, writes: &[Written]) -> bool {
    let before = Time(frame.time.0.saturating_sub(1));
    let was_there = |written: &Written| {
        let newest = history.newest(written.table, &written.key, before);
        newest.is_some_and(|(_, value)| value.is_some())
    };
    let is_logged = |written: &&Written| {
        frame.writes.contains(written) || written.value.is_some() || was_there(written)
    };
    let expected: Vec<&Written> = writes.iter().filter(is_logged).collect();
    frame.writes.iter().eq(expected)
}
