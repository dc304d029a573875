//! The gateways of other processes, as a database uses them: at the conductor by its
//! [desk](Desk), elsewhere by its [link](Link).

use super::Database;
use crate::conductor::{add_node, link_of, remove_node};
use crate::embedded::Embedded;
use crate::error::Error;
use crate::gateways::desk::{Desk, SeatShown};
use crate::gateways::link::{Link, LinkShown};
use crate::gateways::messages::Define;
use crate::gateways::shipping::Runs;
use crate::gateways::{Listener, Replied};
use crate::joined::Joined;
use crate::open::{CancelToken, Gateway};
use crate::router::{Router, unless};
use isomer_site::SEAT_BITS;
use std::sync::Arc;
use std::time::Duration;

/// The longest wait for the conductor's answer to a question to all gateways.
const INQUIRY: Duration = Duration::from_millis(1500);

/// See the [module documentation](self).
#[derive(Clone, Copy)]
pub struct Others<'d> {
    database: &'d Database,
}

impl<'d> Others<'d> {
    pub(super) fn of(database: &'d Database) -> Others<'d> {
        Others { database }
    }

    pub(crate) fn link(self) -> Option<&'d Arc<Link>> {
        link_of(&self.database.conductor)
    }

    /// True if other processes have, or had, gateways.
    pub fn are_there(self) -> bool {
        self.database.is_gateway_only() || self.database.conductor.news.is_read()
    }

    /// Has the conductor of another process change the design.
    pub(super) fn define(self, definition: Define) -> Result<u64, Error> {
        let link = link_of(&self.database.conductor).expect("the conductor is in another process");
        self.database
            .node
            .runtime
            .block_on(link.define(self.database.conductor.transport(), definition))
    }

    /// Lets a process join the cluster, and gives it sites. Nothing changes if it has joined
    /// already.
    ///
    /// # Errors
    /// [`Error::Node`], [`Error::Open`].
    pub fn add_node(self, joined: Joined) -> Result<(), Error> {
        if self.database.is_gateway_only() {
            return self.define(Define::AddNode(joined)).map(drop);
        }
        let conductor = &self.database.conductor;
        self.database.node.runtime.block_on(add_node(conductor, joined)).map(drop)
    }

    /// Lets a process leave the cluster, whose sites hold nothing.
    ///
    /// # Errors
    /// [`Error::Node`] if it was there from the beginning, or its sites hold something.
    pub fn remove_node(self, name: &str) -> Result<(), Error> {
        if self.database.is_gateway_only() {
            return self.define(Define::RemoveNode(name.to_owned())).map(drop);
        }
        self.database.node.runtime.block_on(remove_node(&self.database.conductor, name))
    }

    /// Serves gateways of other processes beside this one from now on, if the conductor is here.
    pub(crate) fn serve(self, gateway: &Arc<Gateway<Embedded>>) {
        if self.database.is_gateway_only() || !self.database.node.runtime.has_wire() {
            return;
        }
        // The numbers of seats differ from those of an earlier conductor, whose gateways may still
        // have some: by the term, and also without it.
        let first = self.database.now().0 / 1_000_000 % (1 << 22);
        let last = self.database.node.runtime.admission.term() << SEAT_BITS | first;
        let name = self.database.node.runtime.name();
        let desk = Arc::new(Desk::new(gateway.clone(), name, last));
        if self.database.desk.set(desk.clone()).is_ok() {
            self.database.background.serve_gateways(&self.database.node.runtime, &desk);
            *self.database.node.runtime.desk.lock() = Some(desk);
        }
    }

    /// Tells the gateways of all other processes, and waits until each has heard it. Returns the
    /// number of the announcement.
    ///
    /// # Errors
    /// [`Error::NoSeat`]: some may not have heard it.
    pub fn announce(self, announcement: &[u8]) -> Result<u64, Error> {
        let runtime = &self.database.node.runtime;
        match (link_of(&self.database.conductor), self.database.desk.get()) {
            (Some(link), _) => {
                let transport = self.database.conductor.transport();
                runtime.block_on(link.announce(transport, announcement.to_vec()))
            }
            (None, Some(desk)) => Ok(runtime.block_on(desk.announce(0, announcement))),
            (None, None) => Ok(0),
        }
    }

    /// Waits until an announcement has taken effect at the gateways of all other processes.
    ///
    /// # Errors
    /// [`Error::NoSeat`], [`Error::Canceled`].
    pub fn until_past(self, number: u64, cancel: &CancelToken) -> Result<(), Error> {
        let waiting = async {
            match (link_of(&self.database.conductor), self.database.desk.get()) {
                (Some(link), _) => {
                    link.until_past(self.database.conductor.transport(), number).await
                }
                (None, Some(desk)) => {
                    desk.until_past(0, number).await;
                    Ok(())
                }
                (None, None) => Ok(()),
            }
        };
        let waited = self.database.node.runtime.block_on_until(cancel, waiting);
        waited.unwrap_or_else(|why| Err(Error::Canceled { why, may_be_written: false }))
    }

    /// Asks the layer above the conductor, which is in another process, for up to a time.
    ///
    /// # Errors
    /// [`Error::NoSeat`] if there is no answer.
    pub fn question(self, question: Vec<u8>, longest: Option<Duration>) -> Result<Vec<u8>, Error> {
        let link = self.link().ok_or(Error::NoSeat)?;
        let runtime = &self.database.node.runtime;
        let asking = link.question(self.database.conductor.transport(), question);
        match longest {
            Some(longest) => runtime.block_on_for(asking, longest).unwrap_or(Err(Error::NoSeat)),
            None => runtime.block_on(asking),
        }
    }

    /// The name of this process among the gateways; empty if it is the only one.
    pub fn name(self) -> String {
        let here = || self.database.node.runtime.name();
        self.link().map_or_else(here, |link| link.name().to_owned())
    }

    /// Transactions and reads that found their rows at another site than the copy of the routing
    /// table says; 0 at the process with the conductor, whose table is the original.
    pub fn misses(self) -> u64 {
        self.link().map_or(0, |link| link.shown(self.database.now()).misses)
    }

    /// Asks the layers above the gateways of all other processes. Takes up to about a second.
    ///
    /// # Errors
    /// [`Error::NoSeat`]: the conductor gave no answer.
    pub fn inquire(self, question: Vec<u8>) -> Result<Vec<Replied>, Error> {
        let runtime = &self.database.node.runtime;
        match (self.link(), self.database.desk.get()) {
            (Some(link), _) => {
                let asking = link.inquire(self.database.conductor.transport(), question);
                runtime.block_on_for(asking, INQUIRY).unwrap_or(Err(Error::NoSeat))
            }
            (None, Some(desk)) => Ok(runtime.block_on(desk.inquire(0, &question))),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// Waits for a seat, if the conductor is in another process and this gateway has none.
    pub fn until_seated(self, longest: Duration, cancel: &CancelToken) -> Result<(), Error> {
        let Some(link) = link_of(&self.database.conductor) else { return Ok(()) };
        let now = || self.database.now();
        if link.is_seated(now()) {
            return Ok(());
        }
        let seated = async { unless(&|waker| cancel.poll_over(waker), link.seated(now)).await };
        match self.database.node.runtime.block_on_for(seated, longest) {
            Some(Ok(())) => Ok(()),
            Some(Err(why)) => Err(Error::Canceled { why, may_be_written: false }),
            None => Err(Error::NoSeat),
        }
    }

    /// A commit that a client of this process knows of has this time.
    pub fn has_committed(self, time: isomer_design::Time) {
        self.router().has_committed(time);
    }

    pub(crate) fn router(self) -> &'d Router<Embedded> {
        self.database.shared_router()
    }

    pub(crate) fn block_on<F: Future>(self, future: F) -> F::Output {
        self.database.node.runtime.block_on(future)
    }

    /// Sets what runs statements of clients of other gateways.
    pub fn run_by(self, runs: Arc<dyn Runs>) {
        *self.database.node.runtime.runs.lock() = Some(runs);
    }

    /// Sets what this gateway does with announcements of others.
    pub fn listen(self, listener: Arc<dyn Listener>) {
        match (link_of(&self.database.conductor), self.database.desk.get()) {
            (Some(link), _) => link.listen(listener),
            (None, Some(desk)) => desk.listen(listener),
            (None, None) => {}
        }
    }

    /// The gateways of other processes, as the conductor sees them.
    pub fn seats(self) -> Vec<SeatShown> {
        self.database.desk.get().map_or_else(Vec::new, |desk| desk.seats())
    }

    /// The state of this gateway, if the conductor is in another process.
    pub fn seat(self) -> Option<LinkShown> {
        link_of(&self.database.conductor).map(|link| link.shown(self.database.now()))
    }
}
