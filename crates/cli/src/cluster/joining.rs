//! A process that joins a running cluster, and the processes that let it in.
//!
//! ```text
//!   isomer serve --join a=10.0.0.1:7433 --name d …        process a
//!   ──────────────────────────────────────────────        ─────────
//!   `cluster.toml` in the folder? no: asks ─────────────▶ the conductor gives d a site
//!        ◀── the cluster's file, and d with site 4 ────── d is in the catalog
//!   writes `cluster.toml`: that file, and its own part
//!   starts as each process of that file does
//! ```
//!
//! The folder's `cluster.toml` is the file of the cluster, with the part of this process after
//! [`MARK`]. A later start needs nothing else.

use super::file::ClusterFile;
use crate::failure::Failure;
use isomer_cluster::{Joined, Logs, joined, joined_file};
use isomer_net::{Member, Net, NodeTls, ask_status, ask_to_join};
use isomer_server::Engine;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The line before the part of the process itself.
const MARK: &str = "# What follows is of this process alone, which has joined the cluster.\n";
/// The time for a process to answer that this one may join.
const ANSWER: Duration = Duration::from_secs(30);
/// The time for a process to say whether it knows this one.
const STATUS: Duration = Duration::from_secs(1);

/// Parses the process that lets this one join, such as `a=10.0.0.1:7433`.
///
/// # Errors
/// A message about the missing part.
pub(super) fn read_door(text: &str) -> Result<Door, String> {
    match text.split_once('=') {
        Some((name, address)) if !name.is_empty() && address.contains(':') => {
            Ok(Door { name: name.to_owned(), address: address.to_owned() })
        }
        _ => Err(format!("`{text}` is not NAME=HOST:PORT, as in a=10.0.0.1:7433")),
    }
}

/// A process of a cluster that is asked to let this one join.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Door {
    name: String,
    address: String,
}

/// The configuration file in a folder, if its process has joined a cluster.
pub(super) fn file_in(folder: &Path) -> Option<PathBuf> {
    Some(joined_file(folder)).filter(|path| path.is_file())
}

/// Joins a cluster, and writes the configuration file into the folder. Returns its path.
///
/// # Errors
/// If the process of the cluster does not answer, or refuses.
pub(super) fn join(
    door: &Door,
    joins: &Joined,
    tls: Option<&NodeTls>,
    folder: &Path,
) -> Result<PathBuf, Failure> {
    let Door { name, address } = door;
    let answer = ask_to_join((name, address), tls, ANSWER, joins);
    let (own, text) = answer.map_err(|why| {
        Failure::failed(format!("`{name}` at {address} did not let `{}` join: {why}", joins.name))
    })?;
    let text = format!("{}\n{MARK}{}", text.trim_end(), part_of(&own));
    let path = joined_file(folder);
    let failed = |error| Failure::failed(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    std::fs::write(&path, text).map_err(failed)?;
    Ok(path)
}

/// The part of a process in a configuration file.
fn part_of(own: &Joined) -> String {
    let Joined { name, address, sites, zone, clients } = own;
    let sites: Vec<String> = sites.iter().map(|site| site.0.to_string()).collect();
    let mut part = format!(
        "[[process]]\njoined = true\nname = \"{name}\"\naddress = \"{address}\"\nsites = [{}]\n",
        sites.join(", ")
    );
    for (key, value) in [("zone", zone), ("clients", clients)] {
        if let Some(value) = value {
            part += &format!("{key} = \"{value}\"\n");
        }
    }
    part
}

/// The means of a process to let others join: the cluster's file.
pub(crate) struct Lets {
    text: String,
    founders: Vec<Member>,
}

impl Lets {
    /// With the text of a configuration file.
    pub(super) fn by(text: &str, file: &ClusterFile) -> Lets {
        let text = text.split_once(MARK).map_or(text, |(text, _)| text).to_owned();
        let founders = file.processes.iter().filter(|process| !process.joined);
        Lets { text, founders: founders.map(|process| process.member.clone()).collect() }
    }

    /// Lets processes join from now on.
    pub(crate) fn open(self: Arc<Lets>, net: &Arc<Net>, engine: &Arc<Engine>) {
        let (engine, known) = (Arc::downgrade(engine), Arc::downgrade(net));
        net.set_admit(move |joins| {
            let (Some(engine), Some(net)) = (engine.upgrade(), known.upgrade()) else {
                return Err("it stops".to_owned());
            };
            let name = joins.name.clone();
            self.check(&joins)?;
            let added = engine.database().others().add_node(joins);
            added.map_err(|error| error.to_string())?;
            isomer_cluster::Wire::learn(&*net);
            let joined = net.joined().into_iter().find(|joined| joined.name == name);
            let joined = joined.ok_or("it has been removed again, or the logs do not answer")?;
            Ok((joined, self.text.clone()))
        });
    }

    /// Checks that a process is no founder's double.
    fn check(&self, joins: &Joined) -> Result<(), String> {
        for Member { name, address, .. } in &self.founders {
            if *name == joins.name {
                return Err(format!(
                    "`{name}` is in the cluster's file already; give another name"
                ));
            }
            if *address == joins.address {
                return Err(format!("`{name}` has the address {address} in the cluster's file"));
            }
        }
        let zones: BTreeSet<&String> =
            self.founders.iter().filter_map(|founder| founder.zone.as_ref()).collect();
        match (zones.first(), &joins.zone) {
            (Some(zone), None) => Err(format!(
                "the cluster's processes have zones, such as {zone}; give this one by --zone"
            )),
            (None, Some(_)) => {
                Err("the cluster's processes have no zones; leave out --zone".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// True if a process that has joined was removed since, by those founders that answer.
pub(super) fn was_removed(own: &str, founders: &[Member], tls: Option<&NodeTls>) -> bool {
    let ask = |founder: &Member| ask_status(&founder.name, &founder.address, tls, STATUS).ok();
    let statuses = founders.iter().filter_map(ask).filter(|status| status.is_open);
    let knows = statuses.map(|status| status.joined.iter().any(|joined| joined.name == own));
    let knows: Vec<bool> = knows.collect();
    !knows.is_empty() && !knows.contains(&true)
}

/// The processes that have joined, by the catalog; `None` if it cannot be read now.
pub(super) fn list_of(logs: Arc<dyn Logs>) -> impl Fn() -> Option<Vec<Joined>> + Send + Sync {
    move || joined(&*logs).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::SiteId;

    #[test]
    fn the_file_of_a_process_that_has_joined_is_read_and_passed_on_without_its_part() {
        let founders = "log = \"nodes\"\n[[process]]\nname = \"a\"\naddress = \"a:1\"\nsites = [1]\nrouter = true\n";
        let own = Joined {
            name: "d".to_owned(),
            address: "d:1".to_owned(),
            sites: [SiteId(4)].into(),
            zone: None,
            clients: Some("d:2".to_owned()),
        };
        let text = format!("{founders}{MARK}{}", part_of(&own));
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(file_in(folder.path()), None);
        std::fs::write(joined_file(folder.path()), &text).expect("a file");
        let file = ClusterFile::open(&file_in(folder.path()).expect("it has joined"));
        let file = file.expect("it can be read");
        let (process, others) = file.split("d").expect("it is in the file");
        assert!(process.joined && process.clients.as_deref() == Some("d:2"));
        assert_eq!(others.len(), 1);
        // It neither keeps logs nor takes the place of others.
        assert_eq!(file.order(), ["a"]);
        assert_eq!(Lets::by(&text, &file).text, founders);
        let refused = |joins: Joined| Lets::by(&text, &file).check(&joins).unwrap_err();
        let named = refused(Joined { name: "a".to_owned(), ..own.clone() });
        assert_eq!(named, "`a` is in the cluster's file already; give another name");
        let placed = refused(Joined { address: "a:1".to_owned(), ..own.clone() });
        assert_eq!(placed, "`a` has the address a:1 in the cluster's file");
        let zoned = refused(Joined { zone: Some("west".to_owned()), ..own });
        assert_eq!(zoned, "the cluster's processes have no zones; leave out --zone");
    }

    #[test]
    fn a_door_has_a_name_and_an_address() {
        let door = Door { name: "a".to_owned(), address: "10.0.0.1:7433".to_owned() };
        assert_eq!(read_door("a=10.0.0.1:7433"), Ok(door));
        let refused = read_door("10.0.0.1:7433").unwrap_err();
        assert_eq!(refused, "`10.0.0.1:7433` is not NAME=HOST:PORT, as in a=10.0.0.1:7433");
    }
}
