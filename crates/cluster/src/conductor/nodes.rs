//! Processes that join the cluster and leave it.
//!
//! ```text
//!   d asks any process to join ─▶ conductor: d is in the catalog, with site s4
//!   d starts its sites, and connects to all ─▶ conductor meets s4: it is added to the design
//!   … s4 gets backups, partitions and load, by whatever strategy runs …
//!   an operator drains d, and removes it ─▶ s4 leaves the design; d is not in the catalog any more
//! ```
//!
//! **Order.** The catalog has a process before any other process knows it, and its sites come
//! later. So a conductor that fails between two steps leaves a process without sites, which is met
//! again, or removed again.

use super::Conductor;
use super::copy::home;
use crate::error::Error;
use crate::gateways::messages::News;
use crate::joined::Joined;
use crate::transport::Transport;
use isomer_design::{Change, SITES_MAX, SiteId, SiteSet};

/// Lets a process join the cluster. Returns it with its sites. A process that has joined already
/// gets the same answer.
///
/// # Errors
/// [`Error::Node`], [`Error::Open`]; nothing has changed then.
pub(crate) async fn add_node<T: Transport>(
    conductor: &Conductor<T>,
    mut node: Joined,
) -> Result<Joined, Error> {
    node.check().map_err(Error::Node)?;
    let _reserved = conductor.reserve_definitions().await;
    let mut guests = home(conductor).guests();
    let all = &guests.joined;
    if let Some(before) = all.iter().find(|before| before.name == node.name) {
        return match before.address == node.address {
            true => Ok(before.clone()),
            false => Err(Error::Node(format!(
                "`{}` has joined at {}, and asks to join at {}; give one of them another name, or remove the first",
                node.name, before.address, node.address
            ))),
        };
    }
    if let Some(other) = all.iter().find(|other| other.address == node.address) {
        let (address, other) = (&node.address, &other.name);
        return Err(Error::Node(format!("`{other}` has joined at {address} already")));
    }
    let joined = all.iter().flat_map(|other| other.sites.iter().copied());
    let design = conductor.design();
    let taken: SiteSet = design.sites().iter().chain(joined).chain(guests.last).collect();
    if node.sites.is_empty() {
        let last = taken.iter().max().map_or(0, |site| site.0);
        node.sites.insert(SiteId(last + 1));
    }
    for site in &node.sites {
        if taken.contains(*site) {
            return Err(Error::Node(format!("there is a site {site} already; ask for another")));
        }
        if site.0 == 0 || site.0 > SITES_MAX {
            return Err(Error::Node(format!("sites are s1 to s{SITES_MAX}, and not {site}")));
        }
    }
    guests.add(node.clone());
    home(conductor).keep_guests(&conductor.design(), guests)?;
    conductor.transport.learn();
    conductor.news.add(|| News::NodeJoined);
    Ok(node)
}

/// Lets a process leave the cluster. Its sites hold nothing. It may have failed for ever, if others
/// have taken over all that it had.
///
/// # Errors
/// [`Error::Node`] if it has not joined, and the errors of [`Change::RemoveSite`].
pub(crate) async fn remove_node<T: Transport>(
    conductor: &Conductor<T>,
    name: &str,
) -> Result<(), Error> {
    let all = home(conductor).guests().joined;
    let Some(node) = all.iter().find(|node| node.name == name) else {
        let names: Vec<&str> = all.iter().map(|node| &*node.name).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(Error::Node(format!(
            "`{name}` has not joined this cluster, so it cannot leave it; those that have: {names}"
        )));
    };
    for site in &node.sites {
        if conductor.design().sites().contains(*site) {
            conductor.change(Change::RemoveSite { site: *site }, "its process leaves").await?;
        }
    }
    let _reserved = conductor.reserve_definitions().await;
    let mut guests = home(conductor).guests();
    guests.joined.retain(|node| node.name != name);
    home(conductor).keep_guests(&conductor.design(), guests)?;
    conductor.transport.left(name);
    // The process itself learns this by the connection that it has dialled.
    conductor.news.add(|| News::NodeLeft(name.to_owned()));
    Ok(())
}

/// Adds a site to the design, if its process has joined and was met for the first time.
///
/// # Errors
/// [`Error`], of the change.
pub(super) async fn bring_in<T: Transport>(
    conductor: &Conductor<T>,
    site: SiteId,
) -> Result<(), Error> {
    let is_new = || !conductor.design().sites().contains(site);
    let has_joined =
        || home(conductor).guests().joined.iter().any(|node| node.sites.contains(&site));
    if is_new() && has_joined() {
        let added = conductor.change(Change::AddSite { site }, "its process has joined").await;
        // Another task may have added it.
        return added.map(drop).or_else(|error| if is_new() { Err(error) } else { Ok(()) });
    }
    Ok(())
}
