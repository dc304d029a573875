//! A process that hosts sites of a database whose router is in another process, and that takes the
//! router's place if that process fails.
//!
//! ```text
//!   node       sites ═▶ serves requests of others      clients: refused
//!     │  reaches the process with the conductor
//!     ▼
//!   gateway    sites, and a seat at the conductor       clients ─▶ this process
//!     │  the conductor's process is gone and no other process reaches it, or it has begun anew
//!     │  and stands by; and this one comes first of those that stand by ([`is_due`])
//!     ▼
//!   successor  takes the catalog in a new term, and has the conductor
//! ```
//!
//! A node with its logs in files never becomes a gateway: it forwards its clients.
//!
//! Two processes may both believe that it is their turn. The catalog's log decides: the second one
//! to take it is the conductor, and the first one ends. So the rule need not be exact.

use crate::clock;
use crate::cluster::{Belongs, NODES, Place, Watch, is_member, removed};
use crate::failure::Failure;
use crate::out;
use crate::serve::{LOOK, can_restart, progress};
use crate::stop::Stop;
use isomer_cluster::{Checkpointing, Durability, Node, Options};
use isomer_net::{Net, Role};
use isomer_server::{Passage, PassageOptions, Traffic};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The time for another process to say whether it reaches the router's process.
const STATUS: Duration = Duration::from_secs(1);

/// How a process hosts its sites.
pub(crate) struct Hosting<'a> {
    pub(crate) data: &'a Path,
    pub(crate) durability: Durability,
    pub(crate) accept_loss: bool,
    pub(crate) checkpoints: Checkpointing,
    /// The memory limit for the rows of each site, if one is given.
    pub(crate) site_memory: Option<usize>,
    /// Where clients may connect; their connections are forwarded.
    pub(crate) listen: Option<SocketAddr>,
    /// Where browsers may open the console; their connections are forwarded.
    pub(crate) http: Option<SocketAddr>,
    /// Where the router's process listens for clients, if no file says so.
    pub(crate) serves_at: Option<&'a str>,
    pub(crate) connections: usize,
    pub(crate) trust_network: bool,
}

/// Running sites, and what belongs to them.
pub(crate) struct Hosted {
    pub(crate) node: Arc<Node>,
    pub(crate) net: Arc<Net>,
    _passages: Vec<Passage>,
    pub(crate) name: String,
    /// The processes, in the order in which they take the router's place.
    order: Vec<String>,
    stands_by: bool,
    /// It has joined the cluster, and may be removed from it.
    joined: bool,
    /// The logs are at the processes: none can be taken without a majority of these.
    needs_majority: bool,
}

/// Opens the sites of a process, once there is a database. `None` if a stop was requested before.
///
/// # Errors
/// If the folder or an address cannot be used, or the sites cannot be opened.
pub(crate) fn host(
    mut place: Place,
    hosting: &Hosting<'_>,
    stop: &Arc<Stop>,
) -> Result<Option<Hosted>, Failure> {
    let (name, role, sites) = (place.own.member.name.clone(), place.own.role, place.own_sites());
    let (order, clients) = (place.order.clone(), place.clients.clone());
    let known = Arc::new(OnceLock::new());
    let where_served = WhereServed { own: name.clone(), order: order.clone(), net: known.clone() };
    let mut passages = Vec::new();
    // A process that stands by serves clients itself, once it has a seat.
    if let Some(listen) = hosting.listen.filter(|_| role != Role::Standby) {
        let serves_at = hosting.serves_at.map(str::to_owned);
        let to = where_served.find(
            clients,
            serves_at,
            "`clients` of each process in the file, or --serves-at",
        );
        let traffic = Traffic::Clients { node: name.clone() };
        passages.push(forward((listen, traffic), to, hosting.connections)?);
    }
    if let Some(listen) = hosting.http.filter(|_| role != Role::Standby) {
        let to =
            where_served.find(place.consoles.clone(), None, "`http` of each process in the file");
        passages.push(forward((listen, Traffic::Pages), to, hosting.connections)?);
    }
    let logs = place.logs(hosting.data, hosting.trust_network)?;
    let store = place.store()?;
    if !place.wait_for_logs(stop)? {
        return Ok(None);
    }
    let belongs = match &logs {
        Some(logs) => Belongs::by_logs(hosting.data, role, &**logs, store.as_deref(), stop)?,
        None => Some(Belongs::by_folder(hosting.data, role, hosting.accept_loss)?),
    };
    let Some(belongs) = belongs else { return Ok(None) };
    let joined = place.own.joined;
    let needs_majority = place.log.log.as_deref() == Some(NODES);
    let net = place.join(hosting.data, belongs, logs.clone(), hosting.trust_network)?;
    let _ = known.set(net.clone());
    can_restart(&net, stop);
    let options = Options::in_folder(hosting.data, 0)
        .sites(&sites)
        .durability(hosting.durability)
        .accept_loss(hosting.accept_loss)
        .checkpoints(hosting.checkpoints)
        .while_recovering(progress())
        .elsewhere(net.clone());
    let options = logs.into_iter().fold(options, Options::logs);
    let options = store.into_iter().fold(options, Options::checkpoints_in);
    let options = hosting.site_memory.into_iter().fold(options, Options::site_memory);
    let node = stop.while_opening(|| Node::open(options)).map_err(Failure::failed)?;
    node.notes().iter().for_each(|note| tracing::info!("{note}"));
    let shown: Vec<String> = sites.iter().map(ToString::to_string).collect();
    let (shown, address, data) = (shown.join(" "), net.address(), hosting.data.display());
    out::tell(format_args!("isomer node {name} at {address}: sites {shown} in {data}"));
    for passage in &passages {
        let (address, who) = match passage.traffic() {
            Traffic::Clients { .. } => (passage.address(), "clients"),
            Traffic::Pages => (passage.address(), "browsers"),
        };
        out::tell(format_args!("{who} at {address} are passed on to the process that serves"));
    }
    let stands_by = role == Role::Standby;
    let node = Arc::new(node);
    Ok(Some(Hosted {
        node,
        net,
        _passages: passages,
        name,
        order,
        stands_by,
        joined,
        needs_majority,
    }))
}

/// The present place of the process that serves, as this process knows it.
struct WhereServed {
    own: String,
    order: Vec<String>,
    /// The connections to other processes, once there are any.
    net: Arc<OnceLock<Arc<Net>>>,
}

/// Returns the present address of the process that serves, or why it has none.
type Find = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

impl WhereServed {
    /// Finds the address among those of the processes; `otherwise`, if it is not there. `told_by`
    /// says what has the addresses.
    fn find(
        &self,
        addresses: BTreeMap<String, String>,
        otherwise: Option<String>,
        told_by: &'static str,
    ) -> Find {
        let WhereServed { own, order, net } = self;
        let (own, first, net) = (own.clone(), order.first().cloned(), net.clone());
        Arc::new(move || {
            let conductor = net.get().and_then(|net| net.conductor()).or_else(|| first.clone());
            match conductor {
                Some(name) if name == own => Err("this process is about to serve".to_owned()),
                Some(name) if addresses.contains_key(&name) => Ok(addresses[&name].clone()),
                _ => {
                    let unknown = || format!("nothing says where it listens: {told_by}");
                    otherwise.clone().ok_or_else(unknown)
                }
            }
        })
    }
}

fn forward(
    (listen, traffic): (SocketAddr, Traffic),
    to: Find,
    connections_max: usize,
) -> Result<Passage, Failure> {
    let passage = PassageOptions { listen, to, traffic, connections_max };
    Passage::start(passage).map_err(|error| Failure::failed(format!("{listen}: {error}")))
}

/// The next activity of a process that hosts sites.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// It has stopped.
    Stopped,
    /// It serves clients while another process has the conductor.
    Gateway,
    /// It takes the place of the process with the conductor.
    Successor,
}

impl Hosted {
    /// Hosts the sites until a stop is requested, or this process has something better to do.
    ///
    /// # Errors
    /// If another process has taken a site.
    pub(crate) fn work(&self, stop: &Stop) -> Result<Next, Failure> {
        let mut watch = Watch::new(self.net.clone());
        while !stop.is_asked() {
            clock::sleep(LOOK);
            // Forwarded sessions end at the gateway, so there is nothing to do here.
            let _ = watch.look();
            if let Some(why) = self.node.is_lost() {
                return Err(Failure::failed(why));
            }
            if self.is_removed() {
                return Err(removed(&self.name));
            }
            if self.is_due() {
                return Ok(Next::Successor);
            }
            if self.stands_by && self.reaches_conductor() {
                return Ok(Next::Gateway);
            }
        }
        stop.begin_to_stop();
        tracing::info!("stopping");
        self.node.checkpoint().map_err(Failure::failed)?;
        tracing::info!("stopped");
        Ok(Next::Stopped)
    }

    /// True if this process has left the cluster.
    pub(crate) fn is_removed(&self) -> bool {
        self.joined && !is_member(&self.net, &self.name)
    }

    /// True if this process is to take the place of the one with the conductor.
    pub(crate) fn is_due(&self) -> bool {
        let view = || look_around(&self.net, &self.name, &self.order, self.needs_majority);
        let may_be = self.stands_by && !self.joined;
        may_be && view().is_some_and(|view| is_due(&view))
    }

    fn reaches_conductor(&self) -> bool {
        let conductor = self.net.conductor();
        self.net
            .peers()
            .iter()
            .any(|peer| Some(&peer.member.name) == conductor.as_ref() && peer.reached.is_ok())
    }
}

/// A standby process's view of the others, after the end of the router's process.
#[derive(Clone, Debug)]
struct View<'v> {
    own: &'v str,
    order: &'v [String],
    /// Other processes that can be reached and stand by as well.
    standing_by: BTreeSet<String>,
    /// Whether one of those that can be reached reaches the router's process.
    is_seen: bool,
    /// The processes of the file that can be reached, this one included.
    reached: usize,
    /// Whether a majority of them has to be reached.
    needs_majority: bool,
}

/// Asks the others, if the router's process is declared dead or has begun anew. One that begins
/// anew and has the conductor says so.
fn look_around<'v>(
    net: &Net,
    own: &'v str,
    order: &'v [String],
    needs_majority: bool,
) -> Option<View<'v>> {
    let router = net.conductor().or_else(|| order.first().cloned())?;
    let began_anew = net.conductor_began_anew();
    if !net.is_gone(&router) && !began_anew {
        return None;
    }
    let (standing_by, is_seen, reached) = (BTreeSet::new(), false, 1);
    let mut view = View { own, order, standing_by, is_seen, reached, needs_majority };
    for peer in net.peers() {
        view.reached += usize::from(peer.reached.is_ok() && order.contains(&peer.member.name));
        // The router's process may be opening its database, and admit no others yet.
        if peer.reached.is_err() && peer.member.name != router {
            continue;
        }
        let Ok(status) = net.ask_status(&peer.member, STATUS) else { continue };
        let reaches = |(name, why): &(String, Option<String>)| *name == router && why.is_none();
        let serves = status.role == Role::Router && (status.is_open || status.name == router);
        view.is_seen |= serves || (!began_anew && status.peers.iter().any(reaches));
        if status.role == Role::Standby {
            view.standing_by.insert(status.name);
        }
    }
    Some(view)
}

/// Whether it is this process's turn: no other process reaches the router's, it comes first in the
/// file of those that stand by, and it could take the catalog's log.
fn is_due(view: &View<'_>) -> bool {
    let mut order = view.order.iter();
    let first = order.find(|name| *name == view.own || view.standing_by.contains(*name));
    let can_take = !view.needs_majority || 2 * view.reached > view.order.len();
    can_take && !view.is_seen && first.is_some_and(|first| first == view.own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_in_the_file_that_is_left_takes_the_place_unless_one_reaches_the_router() {
        let order = ["a", "b", "c"].map(str::to_owned);
        let due = |own: &str, others: &[&str], is_seen: bool| {
            let standing_by = others.iter().map(|name| (*name).to_owned()).collect();
            let (reached, needs_majority) = (1 + others.len(), false);
            is_due(&View { own, order: &order, standing_by, is_seen, reached, needs_majority })
        };
        assert!(due("b", &["c"], false) && !due("c", &["b"], false));
        assert!(due("c", &[], false), "b is gone as well");
        assert!(!due("b", &["c"], true), "only the way from here is cut");
        assert!(due("a", &["b", "c"], false), "the first process stands by after another served");
        assert!(!due("d", &[], false), "a process that is not in the file");
        let left = |reached| View {
            own: "c",
            order: &order,
            standing_by: BTreeSet::new(),
            is_seen: false,
            reached,
            needs_majority: true,
        };
        assert!(!is_due(&left(1)) && is_due(&left(2)), "it waits for a majority");
    }
}
