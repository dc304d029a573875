//! Clients that have not logged in yet: how many there may be, and for how long.
//!
//! Whoever reaches the address can open connections and say nothing, or a byte now and then. So
//! these are limited apart from the sessions: the whole of a login, authentication included, has
//! one deadline; and there are so many places for logins. When all of them are taken, a newcomer is
//! let in all the same, and somebody else goes:
//!
//! ```text
//!   10.0.0.7   ▇ ▇ ▇ ▇ ▇ ▇ ▇ ▇     the address with the most loses the one that has waited longest
//!              └ goes: 53300
//!   10.0.0.8   ▇ ▇
//!   (socket)   ▇                   one that asks for a password is done in some milliseconds
//! ```
//!
//! So nobody is kept out by those of other addresses, and to keep out others of the same address
//! somebody would have to take all places anew within the milliseconds of a login. There are as
//! many places as clients that may be served, so that a pool of connections that all begin at once
//! is let in.

use crate::socket::{Origin, Socket};
use parking_lot::Mutex;
use rustix::net::Shutdown;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// All that have not logged in yet.
pub(crate) struct Strangers {
    most: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// The longest there first.
    by_number: BTreeMap<u64, (Origin, Arc<Socket>, Arc<AtomicBool>)>,
}

impl Strangers {
    pub(crate) fn new(most: usize) -> Strangers {
        Strangers { most: most.max(1), waiting: Mutex::default() }
    }

    /// Takes one in, until what is returned is dropped; another one may have to go for it.
    pub(crate) fn enter(self: &Arc<Strangers>, socket: &Arc<Socket>) -> Stranger {
        let mut waiting = self.waiting.lock();
        let origin = socket.origin();
        if waiting.by_number.len() >= self.most
            && let Some(number) = waiting.who_goes_for(origin)
            && let Some((_, socket, has_to_go)) = waiting.by_number.remove(&number)
        {
            has_to_go.store(true, Ordering::SeqCst);
            let _ = socket.shutdown(Shutdown::Read);
        }
        let number = waiting.next;
        waiting.next += 1;
        let has_to_go = Arc::new(AtomicBool::new(false));
        waiting.by_number.insert(number, (origin, socket.clone(), has_to_go.clone()));
        Stranger { strangers: self.clone(), number, has_to_go }
    }

    /// Ends all of them.
    pub(crate) fn end_all(&self) {
        for (_, socket, _) in self.waiting.lock().by_number.values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Waiting {
    /// Of those of the address that has the most, with the newcomer, the one that has waited
    /// longest.
    fn who_goes_for(&self, newcomer: Origin) -> Option<u64> {
        let mut counts: BTreeMap<Origin, usize> = BTreeMap::from([(newcomer, 1)]);
        for (origin, ..) in self.by_number.values() {
            *counts.entry(*origin).or_default() += 1;
        }
        // One that has none but the newcomer has nobody who could go.
        let most = counts
            .into_iter()
            .filter(|(origin, count)| *origin != newcomer || *count > 1)
            .max_by_key(|(_, count)| *count);
        let (most, _) = most?;
        self.by_number.iter().find(|(_, (origin, ..))| *origin == most).map(|(number, _)| *number)
    }
}

/// One that has not logged in yet. Dropping it gives its place back.
pub(crate) struct Stranger {
    strangers: Arc<Strangers>,
    number: u64,
    has_to_go: Arc<AtomicBool>,
}

impl Stranger {
    /// True if another one has come for it.
    pub(crate) fn has_to_go(&self) -> bool {
        self.has_to_go.load(Ordering::SeqCst)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.strangers.waiting.lock().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn socket(address: u8) -> Arc<Socket> {
        let (socket, _other) = UnixStream::pair().expect("two sockets");
        Arc::new(Socket::of(socket.into(), Origin::of([10, 0, 0, address].into())))
    }

    #[test]
    fn the_address_with_the_most_loses_the_one_that_has_waited_longest() {
        let strangers = Arc::new(Strangers::new(4));
        let enter = |address| strangers.enter(&socket(address));
        let gone =
            |all: &[Stranger]| -> Vec<bool> { all.iter().map(Stranger::has_to_go).collect() };
        let mut all = vec![enter(8), enter(7), enter(7), enter(7)];
        assert_eq!(gone(&all), [false; 4]);
        all.push(enter(9));
        assert_eq!(gone(&all), [false, true, false, false, false], "the first of 7");
        all.push(enter(7));
        assert_eq!(gone(&all), [false, true, true, false, false, false], "another of its own");
        // Who has gone by itself has left a place.
        drop(all.remove(0));
        all.push(enter(8));
        assert_eq!(gone(&all), [true, true, false, false, false, false]);
    }
}
