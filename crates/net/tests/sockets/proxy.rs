//! A faulty network: a proxy that cuts connections, also in the middle of messages, and delays
//! them.

use crate::bank::until;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Forwards connections until it is dropped.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The target of the connections.
    to: Mutex<Option<SocketAddr>>,
    connections: Mutex<Vec<TcpStream>>,
    /// Bytes are held while this is true.
    is_held: AtomicBool,
    /// If not 0, connections are cut after this many bytes, usually within a message.
    cut_after: AtomicU64,
    passed: AtomicU64,
    is_over: AtomicBool,
}

#[allow(clippy::disallowed_methods, reason = "threads of the test's network")]
fn spawn(work: impl FnOnce() + Send + 'static) {
    thread::spawn(work);
}

impl Proxy {
    pub(crate) fn new(to: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        let shared = Arc::new(Shared::default());
        *shared.to.lock().expect("no thread panics with it") = Some(to);
        let listening = shared.clone();
        spawn(move || {
            for from in listener.incoming() {
                let Ok(from) = from else { break };
                if listening.is_over.load(Ordering::SeqCst) {
                    break;
                }
                let to =
                    listening.to.lock().expect("no thread panics with it").expect("it was set");
                let Ok(to) = TcpStream::connect(to) else { continue };
                listening.join(&from, &to);
            }
        });
        Proxy { address, shared }
    }

    /// Cuts all connections.
    pub(crate) fn cut(&self) {
        let mut connections = self.shared.connections.lock().expect("no thread panics with it");
        for connection in connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Cuts the connections after this many more bytes.
    pub(crate) fn cut_after(&self, bytes: u64) {
        let passed = self.shared.passed.load(Ordering::SeqCst);
        self.shared.cut_after.store(passed + bytes, Ordering::SeqCst);
    }

    /// Waits until they were cut.
    pub(crate) fn until_cut(&self) {
        until("the connection is cut", || self.shared.cut_after.load(Ordering::SeqCst) == 0);
    }

    /// Holds all bytes, or forwards them again.
    pub(crate) fn hold(&self, is_held: bool) {
        self.shared.is_held.store(is_held, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.hold(false);
        self.cut();
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn join(self: &Arc<Shared>, from: &TcpStream, to: &TcpStream) {
        let mut connections = self.connections.lock().expect("no thread panics with it");
        for (from, to) in [(from, to), (to, from)] {
            let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { return };
            connections.extend(from.try_clone());
            let shared = self.clone();
            spawn(move || shared.pass(from, to));
        }
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 1000];
        let _ = from.set_read_timeout(Some(Duration::from_millis(50)));
        loop {
            while self.is_held.load(Ordering::SeqCst) {
                thread::park_timeout(Duration::from_millis(1));
            }
            let count = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    continue;
                }
                Err(_) => break,
            };
            let passed = self.passed.fetch_add(count as u64, Ordering::SeqCst) + count as u64;
            let cut = self.cut_after.load(Ordering::SeqCst);
            if cut != 0 && passed >= cut {
                // One half is forwarded, and then nothing.
                let _ = to.write_all(&buffer[..count / 2]);
                self.cut_after.store(0, Ordering::SeqCst);
                break;
            }
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
