//! Limits and modes of the server's process: descriptors for its clients, memory in small pages, and files
//! that are its owner's alone.
//!
//! Each client takes one, each that logs in, and each log, checkpoint and copy of a site some.
//!
//! A system gives a process a soft limit, 1024 as a rule, that it may raise itself to a hard one.
//! If clients took them all, the next segment of a log could not be made, and its site could not
//! commit any more. So a server finds out before it listens how many clients there are descriptors
//! for.

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use rustix::thread::disable_transparent_huge_pages;

/// What a process needs besides: its own files, listeners, what is read at its start.
const PROCESS: u64 = 64;
/// What a site needs at most: segments of its log, a checkpoint that is written and one that is
/// read.
const SITE: u64 = 16;
/// With fewer clients than this there is no use in serving.
const LEAST: usize = 10;

/// Files and folders that this process makes from now on are its owner's alone.
pub fn make_private_files() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// Memory is given to this process in small pages from now on.
///
/// The allocator asks for huge ones, and lets each thread begin at another place: the first bytes
/// of each session would take a huge page each, which the allocator cannot give back while one byte
/// of it is in use.
pub fn use_small_pages() {
    // Where the system cannot be told so, sessions take more memory.
    let _ = disable_transparent_huge_pages(true);
}

/// Raises the limit of descriptors as far as the system lets it be; the limit from then on.
pub fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current < maximum || maximum.is_none() && current.is_some() {
        // Where it cannot be raised it stays as it is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// How many clients, and as many that log in, there are descriptors for: those that are wanted, or
/// fewer.
///
/// # Errors
/// In words, if there are hardly any.
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
