//! No lost write: if a client has been told of its commit, the log of that site has all of its
//! writes, in one frame, at that time. Crashes do not change that.

use crate::history::{Commit, History, Outcome, Written};
use isomer_design::Time;

/// See the [module documentation](self).
///
/// # Errors
/// A sentence that names the transaction and the loss.
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
        if writes.is_empty() && history.is_ordered() {
            // The transaction has inserted rows and deleted them again.
            continue;
        }
        let mut frames = history.at(*site, *time);
        let what = format!("session {} committed at {site} {time}: ", transaction.session);
        if frames.any(|frame| is_whole(history, frame, &writes)) {
            continue;
        }
        return Err(match history.at(*site, *time).next() {
            None => format!("{what}a lost write, the log has no such commit"),
            Some(frame) => {
                let logged = &frame.writes;
                format!("{what}a torn write, it wrote {writes:?} and the log has {logged:?}")
            }
        });
    }
    Ok(())
}

/// True if a commit has all the writes, and no others. A deletion of a missing row leaves no trace:
/// a table with two layouts is deleted from the second one without a lock, and a crash may have
/// undone the row that the transaction saw there.
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
