//! Limits and modes of the server's process: file descriptors for its clients, memory in small
//! pages, and private files.
//!
//! Each client takes one file descriptor, each login one, and each log, checkpoint and copy of a
//! site several.
//!
//! The system gives a process a soft limit, usually 1024, which the process may raise to a hard
//! limit. If clients took all descriptors, the next segment of a log could not be created, and its
//! site could not commit any more. So a server computes the possible number of clients before it
//! listens.

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use rustix::thread::disable_transparent_huge_pages;

/// Further descriptors of a process: its own files, listeners, files read at its start.
const PROCESS: u64 = 64;
/// The most descriptors of a site: segments of its log, a checkpoint being written and one being
/// read.
const SITE: u64 = 16;
/// A server for fewer clients than this does not start.
const LEAST: usize = 10;

/// Makes files and folders created from now on accessible by their owner only.
pub fn make_private_files() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// Disables huge pages for this process.
///
/// The allocator requests huge pages, and each thread begins at another place. The first bytes of
/// each session would take a huge page, which the allocator cannot return while one byte of it is
/// in use.
pub fn use_small_pages() {
    // If the system does not support this, sessions take more memory.
    let _ = disable_transparent_huge_pages(true);
}

/// Raises the limit of file descriptors as far as possible; returns the new limit.
pub fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current < maximum || maximum.is_none() && current.is_some() {
        // If it cannot be raised, it stays.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The number of clients, and the equal number of logins, for which there are file descriptors, at
/// most `wanted`.
///
/// # Errors
/// A message, if there are fewer than 10.
pub fn places(limit: u64, sites: usize, wanted: usize) -> Result<usize, String> {
    let kept = PROCESS + SITE * sites as u64;
    let places = usize::try_from(limit.saturating_sub(kept) / 2).unwrap_or(usize::MAX).min(wanted);
    if places < LEAST.min(wanted) {
        return Err(format!(
            "the system lets this process have {limit} descriptors; {sites} sites need {kept}, and each client two \
             while it logs in: raise the limit (ulimit -n {})",
            kept + 2 * wanted as u64
        ));
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_clients_as_there_are_descriptors_for() {
        assert_eq!(places(524_288, 4, 1000), Ok(1000));
        assert_eq!(places(1024, 4, 1000), Ok(448));
        assert_eq!(places(u64::MAX, 64, 1000), Ok(1000));
        assert_eq!(places(130, 4, 1), Ok(1));
        let refused = places(140, 4, 1000).expect_err("too few");
        assert!(refused.contains("ulimit -n 2128"), "{refused}");
    }
}
