//! The connected clients: counted, cancelled, disconnected.
//!
//! ```text
//!   connections     1 ................................ most - 3 ........ most
//!                   for all users                      for superusers         53300 from here on
//! ```
//!
//! As in PostgreSQL, the last places are reserved for superusers, so that an operator can still log
//! in when all others are taken. Connections that have not logged in take none of these places
//! ([`crate::strangers`]).

use crate::activity::Activity;
use crate::everywhere::{self, Inquiry, OfGateway};
use crate::running::Running;
use crate::socket::Socket;
use isomer_cluster::{CancelReason, CancelToken, Gateway};
use isomer_sql::SqlError;
use isomer_sql::system::{SessionShown, Sessions, SessionsView};
use parking_lot::Mutex;
use rustix::net::Shutdown;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// Places reserved for superusers, if there are more places than that.
const RESERVED: usize = 3;

/// All logged-in clients, by the number of their connection.
pub(crate) struct Clients {
    most: usize,
    gateway: Arc<Gateway>,
    /// Of the clients' numbers, those of this process.
    part: i32,
    /// The number of clients so far.
    last: AtomicU32,
    pub(crate) guests: Running,
    clients: Mutex<BTreeMap<i32, Client>>,
}

/// A logged-in client.
pub(crate) struct Client {
    pub(crate) user: Arc<str>,
    pub(crate) secret: [u8; 4],
    pub(crate) cancel: Arc<CancelToken>,
    pub(crate) socket: Arc<Socket>,
    pub(crate) activity: Arc<Activity>,
    /// The node that forwards its connection.
    pub(crate) passed_by: Option<Arc<str>>,
}

/// The sessions of all gateways, as a session sees them.
pub(crate) struct Seen {
    clients: Arc<Clients>,
    /// The session that a function of this session was asked to signal; 0: none.
    signalled: AtomicI32,
}

impl Seen {
    pub(crate) fn new(clients: Arc<Clients>) -> Arc<Seen> {
        Arc::new(Seen { clients, signalled: AtomicI32::new(0) })
    }

    /// The last session whose statement, or that itself, this session was asked to end since the
    /// last call.
    pub(crate) fn signalled(&self) -> Option<i32> {
        let asked = self.signalled.load(Ordering::Relaxed) != 0;
        asked.then(|| self.signalled.swap(0, Ordering::Relaxed))
    }
}

impl SessionsView for Seen {
    fn sessions(&self) -> Sessions {
        let Clients { gateway, .. } = &*self.clients;
        everywhere::with_others(gateway.database(), self.clients.sessions_here())
    }

    fn own(&self, process: i32) -> Option<SessionShown> {
        self.clients.sessions_here().into_iter().find(|shown| shown.process == process)
    }

    fn signal(&self, process: i32, ends_session: bool) -> bool {
        self.clients.signal_here(process, ends_session)
            || self.clients.pass_on(process, &Inquiry::Signal { process, ends_session })
    }

    fn asks_to_signal(&self, process: i32) {
        self.signalled.store(process, Ordering::Relaxed);
    }
}

impl Clients {
    pub(crate) fn new(most: usize, gateway: Arc<Gateway>) -> Clients {
        let part = everywhere::part(gateway.database());
        Clients {
            most,
            gateway,
            part,
            last: AtomicU32::new(0),
            guests: Running::default(),
            clients: Mutex::default(),
        }
    }

    /// A number for a new client: see [`everywhere`].
    pub(crate) fn next_process(&self) -> i32 {
        loop {
            let count = self.last.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
            let process = everywhere::numbered(self.part, count);
            if process != self.part && !self.clients.lock().contains_key(&process) {
                return process;
            }
        }
    }

    /// Answers a question of another gateway.
    pub(crate) fn answer(&self, question: &[u8]) -> Vec<u8> {
        let answer = match serde_json::from_slice(question) {
            Ok(Inquiry::Sessions) => OfGateway::Sessions(self.sessions_here()),
            Ok(Inquiry::Signal { process, ends_session }) => {
                OfGateway::Done(self.signal_here(process, ends_session))
            }
            Ok(Inquiry::Cancel { process, secret }) => {
                OfGateway::Done(self.cancel_here(process, &secret))
            }
            Ok(Inquiry::Counts | Inquiry::Rows(_) | Inquiry::Copies | Inquiry::Load) | Err(_) => {
                return Vec::new();
            }
        };
        serde_json::to_vec(&answer).expect("names of fields are text")
    }

    fn sessions_here(&self) -> Vec<SessionShown> {
        let clients = self.clients.lock();
        let shown = |client: &Client| {
            let mut shown = client.activity.shown();
            let wait = match &*shown.state {
                "active" => client.cancel.waits_for_lock().then_some(("Lock", "tuple")),
                _ => Some(("Client", "ClientRead")),
            };
            shown.wait = wait.map(|(kind, name)| (kind.into(), name.into()));
            shown.transaction = client.cancel.owner();
            shown
        };
        clients.values().map(shown).chain(self.guests.shown()).collect()
    }

    fn signal_here(&self, process: i32, ends_session: bool) -> bool {
        let clients = self.clients.lock();
        let Some(client) = clients.get(&process) else { return false };
        if ends_session {
            self.gateway.cancel_waits(&client.cancel, CancelReason::Terminated);
            let _ = client.socket.shutdown(Shutdown::Read);
        } else {
            self.gateway.cancel_waits(&client.cancel, CancelReason::Asked);
        }
        true
    }

    /// Asks the other gateways, unless the client could only be here.
    fn pass_on(&self, process: i32, inquiry: &Inquiry) -> bool {
        everywhere::part_of(process) != self.part
            && everywhere::pass_on(self.gateway.database(), inquiry)
    }

    /// Registers a client until the result is dropped.
    ///
    /// # Errors
    /// 53300 if there are too many clients.
    pub(crate) fn enter(
        self: &Arc<Clients>,
        process: i32,
        client: Client,
        is_superuser: bool,
    ) -> Result<Entered, SqlError> {
        let mut clients = self.clients.lock();
        let reserved = if is_superuser { 0 } else { RESERVED.min(self.most.saturating_sub(1)) };
        if clients.len() >= self.most {
            let message = format!(
                "sorry, too many clients already: at most {} are served at a time",
                self.most
            );
            return Err(too_many(message));
        }
        if clients.len() + reserved >= self.most {
            let message = format!(
                "sorry, too many clients already: the last {reserved} of {} connections are for superusers",
                self.most
            );
            return Err(too_many(message));
        }
        clients.insert(process, client);
        Ok(Entered { clients: self.clone(), process })
    }

    /// Cancels the statement of a client of any gateway, if the request has the right secret.
    pub(crate) fn cancel(&self, process: i32, secret: &[u8]) {
        if !self.cancel_here(process, secret) {
            self.pass_on(process, &Inquiry::Cancel { process, secret: secret.to_owned() });
        }
    }

    fn cancel_here(&self, process: i32, secret: &[u8]) -> bool {
        let clients = self.clients.lock();
        let Some(client) = clients.get(&process) else { return false };
        if client.secret == *secret {
            self.gateway.cancel_waits(&client.cancel, CancelReason::Asked);
        }
        true
    }

    /// Ends the sessions of a user.
    pub(crate) fn send_away(&self, gateway: &Gateway, user: &str) {
        self.end(gateway, CancelReason::SentAway, |client| *client.user == *user);
    }

    /// Ends the sessions whose connections a node forwards; the node would not deliver a message to
    /// them.
    pub(crate) fn end_passed_by(&self, gateway: &Gateway, node: &str) {
        let is_of_node = |client: &Client| client.passed_by.as_deref() == Some(node);
        self.end(gateway, CancelReason::Gone, is_of_node);
        let clients = self.clients.lock();
        for client in clients.values().filter(|client| is_of_node(client)) {
            // The session may be blocked in a send.
            let _ = client.socket.shutdown(Shutdown::Both);
        }
    }

    /// Makes idle sessions read the end of their input. Those in a transaction are not idle.
    pub(crate) fn end_idle(&self) {
        let clients = self.clients.lock();
        for client in clients.values().filter(|client| client.activity.shown().state == "idle") {
            let _ = client.socket.shutdown(Shutdown::Read);
        }
    }

    /// Ends all sessions.
    pub(crate) fn end_all(&self, gateway: &Gateway) {
        self.end(gateway, CancelReason::Shutdown, |_| true);
    }

    /// Ends sessions, beginning with their waits, so that none gets the locks of another that ends.
    fn end(&self, gateway: &Gateway, why: CancelReason, which: impl Fn(&Client) -> bool) {
        let clients = self.clients.lock();
        let ended = || clients.values().filter(|client| which(client));
        ended().for_each(|client| gateway.cancel_waits(&client.cancel, why));
        ended().for_each(|client| {
            let _ = client.socket.shutdown(Shutdown::Read);
        });
    }
}

/// The registration of a client; dropping it removes the client.
pub(crate) struct Entered {
    clients: Arc<Clients>,
    process: i32,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.clients.clients.lock().remove(&self.process);
    }
}

pub(crate) fn too_many(message: String) -> SqlError {
    SqlError::new("53300", message)
}
