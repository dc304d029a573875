//! No phantom write: every commit in the logs was requested by a client, was not refused, and
//! happened once. A transaction whose answer was lost may be there or not, but not in part and not
//! twice.

use crate::history::{Commit, History, Outcome};

/// See the [module documentation](self).
///
/// # Errors
/// A sentence that names the commit.
pub fn no_phantom_write(history: &History) -> Result<(), String> {
    let mut taken = vec![false; history.transactions.len()];
    for commit in &history.commits {
        let what = format!("{} wrote {:?} {}: ", commit.site, commit.writes, commit.time);
        let owner = owner(history, &taken, commit);
        match owner {
            Some(at) => taken[at] = true,
            None => return Err(what + &blame(history, commit)),
        }
    }
    Ok(())
}

/// The transaction of a commit: the one whose client was told of it, or else one without an answer
/// and with exactly these writes.
fn owner(history: &History, taken: &[bool], commit: &Commit) -> Option<usize> {
    let mut all = history.transactions.iter().zip(taken);
    let is_batch = history.at(commit.site, commit.time).nth(1).is_some();
    let told = all.position(|(transaction, taken)| {
        matches!(&transaction.outcome, Outcome::Committed { site, commit: time, .. }
            if *site == commit.site && *time == Some(commit.time))
            && (!is_batch || (!taken && transaction.writes() == commit.writes))
    });
    told.or_else(|| {
        let mut all = history.transactions.iter().zip(taken);
        all.position(|(transaction, taken)| {
            !taken
                && transaction.outcome == Outcome::Unknown
                && transaction.writes() == commit.writes
        })
    })
}

fn blame(history: &History, commit: &Commit) -> String {
    let same = history.transactions.iter().find(|t| t.writes() == commit.writes);
    match same.map(|transaction| (transaction.session, &transaction.outcome)) {
        None => "a phantom write, nobody asked for it".into(),
        Some((session, Outcome::Nothing(why))) => {
            format!("a phantom write, session {session} was told it had no effect: {why}")
        }
        Some((session, _)) => format!("a phantom write, session {session} asked for it only once"),
    }
}
