//! Connections that have not logged in: their number and time are limited.
//!
//! Any machine that reaches the address can open connections and send nothing, or a byte now and
//! then. So these connections are limited separately from sessions. The whole login, including
//! authentication, has one deadline, and there is a fixed number of places for logins. If all are
//! taken, a new connection displaces another:
//!
//! ```text
//!   10.0.0.7   ▇ ▇ ▇ ▇ ▇ ▇ ▇ ▇     the origin with the most connections loses its oldest
//!              └ closed: 53300
//!   10.0.0.8   ▇ ▇
//!   (socket)   ▇                   an honest client logs in within milliseconds
//! ```
//!
//! So clients of other addresses cannot keep a client out. To keep out clients of the same address,
//! an attacker would have to take all places anew within the milliseconds of a login. The number of
//! places equals the limit of clients, so that a connection pool can open all connections at once.

use crate::socket::{Origin, Socket};
use parking_lot::Mutex;
use rustix::net::Shutdown;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// All connections that have not logged in.
pub(crate) struct Strangers {
    most: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// By number, the oldest first.
    by_number: BTreeMap<u64, (Origin, Arc<Socket>, Arc<AtomicBool>)>,
}

impl Strangers {
    pub(crate) fn new(most: usize) -> Strangers {
        Strangers { most: most.max(1), waiting: Mutex::default() }
    }

    /// Registers a connection until the result is dropped; may displace another.
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

    /// Closes all of them.
    pub(crate) fn end_all(&self) {
        for (_, socket, _) in self.waiting.lock().by_number.values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Waiting {
    /// The oldest connection of the origin with the most connections, counting the new one.
    fn who_goes_for(&self, newcomer: Origin) -> Option<u64> {
        let mut counts: BTreeMap<Origin, usize> = BTreeMap::from([(newcomer, 1)]);
        for (origin, ..) in self.by_number.values() {
            *counts.entry(*origin).or_default() += 1;
        }
        // The new connection itself cannot be displaced.
        let most = counts
            .into_iter()
            .filter(|(origin, count)| *origin != newcomer || *count > 1)
            .max_by_key(|(_, count)| *count);
        let (most, _) = most?;
        self.by_number.iter().find(|(_, (origin, ..))| *origin == most).map(|(number, _)| *number)
    }
}

/// A connection that has not logged in. Dropping it frees its place.
pub(crate) struct Stranger {
    strangers: Arc<Strangers>,
    number: u64,
    has_to_go: Arc<AtomicBool>,
}

impl Stranger {
    /// True if a newer connection has displaced it.
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
        // A connection that has logged in or closed has freed its place.
        drop(all.remove(0));
        all.push(enter(8));
        assert_eq!(gone(&all), [true, true, false, false, false, false]);
    }
}
