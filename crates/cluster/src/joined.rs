//! The processes that have joined a cluster since its file was written.
//!
//! The file of a cluster names the processes that founded it. It is the same everywhere, and is
//! never changed by the database. Each process that joins later is a line of the catalog:
//!
//! ```text
//!   # An Isomer database, format 7: ..
//!   # term 8
//!   sites s1 s2 s3 s4
//!   table ..
//!   # joined d at 10.0.0.4:7433 with s4 zone=west clients=10.0.0.4:5433
//!   # last of those that join: s5
//! ```
//!
//! Every frame of the catalog's log has all of these lines, so the last frame suffices to find
//! them, for any process that reaches the logs. The number of a site that has left is not given
//! again: its log is there still, and may have been cut for a checkpoint that is not.

use isomer_design::SiteId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// The beginnings of lines of the catalog.
const JOINED: &str = "# joined ";
const LAST: &str = "# last of those that join: ";

/// The catalog's part about processes that join.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Guests {
    /// Those that have joined, and not left.
    pub joined: Vec<Joined>,
    /// The highest site of all that have ever joined.
    pub last: Option<SiteId>,
}

/// A process that has joined a cluster.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Joined {
    /// Its name.
    pub name: String,
    /// The host and port at which it listens for the other processes.
    pub address: String,
    /// Its sites. A process that asks to join may leave their choice to the cluster.
    pub sites: BTreeSet<SiteId>,
    /// The zone that it is in, if zones are told apart.
    pub zone: Option<String>,
    /// The address for PostgreSQL's clients.
    pub clients: Option<String>,
}

impl Joined {
    /// Checks that a process can be written to the catalog.
    ///
    /// # Errors
    /// A message about the part that cannot.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Joined { name, address, zone, clients, .. } = self;
        let has_port = |what: &str| what.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty());
        for (part, what) in [
            ("name", Some(name)),
            ("address", Some(address)),
            ("zone", zone.as_ref()),
            ("address for clients", clients.as_ref()),
        ] {
            let wrong = |sign: char| sign.is_whitespace() || sign.is_control() || sign == '"';
            if let Some(what) = what.filter(|what| what.is_empty() || what.contains(wrong)) {
                return Err(format!(
                    "the {part} `{what}` of a node is empty, or has spaces or quotes"
                ));
            }
        }
        match std::iter::once(address).chain(clients).find(|what| !has_port(what)) {
            Some(what) => Err(format!("`{what}` is no host and port, as in 10.0.0.4:7433")),
            None => Ok(()),
        }
    }

    fn parse(line: &str) -> Option<Joined> {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let address = (words.next()? == "at").then(|| words.next()).flatten()?.to_owned();
        let sites = (words.next()? == "with").then(|| words.next()).flatten()?;
        let site = |word: &str| word.strip_prefix('s')?.parse().ok().map(SiteId);
        let sites = sites.split(',').map(site).collect::<Option<_>>()?;
        let mut joined = Joined { name, address, sites, zone: None, clients: None };
        for word in words {
            match word.split_once('=')? {
                ("zone", zone) => joined.zone = Some(zone.to_owned()),
                ("clients", clients) => joined.clients = Some(clients.to_owned()),
                _ => return None,
            }
        }
        Some(joined)
    }
}

impl fmt::Display for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Joined { name, address, sites, zone, clients } = self;
        let sites: Vec<String> = sites.iter().map(ToString::to_string).collect();
        write!(f, "{name} at {address} with {}", sites.join(","))?;
        let named = [("zone", zone), ("clients", clients)];
        named.iter().try_for_each(|(what, value)| match value {
            Some(value) => write!(f, " {what}={value}"),
            None => Ok(()),
        })
    }
}

impl Guests {
    /// The lines of a frame of the catalog.
    pub(crate) fn lines(&self) -> String {
        let joined = self.joined.iter().map(|joined| format!("{JOINED}{joined}\n"));
        joined.chain(self.last.map(|last| format!("{LAST}{last}\n"))).collect()
    }

    /// Reads the lines of a frame of the catalog.
    ///
    /// # Errors
    /// A message, if one of them cannot be read.
    pub(crate) fn read(frame: &[u8]) -> Result<Guests, String> {
        let text = std::str::from_utf8(frame).map_err(|error| error.to_string())?;
        let mut guests = Guests::default();
        for line in text.lines() {
            let wrong = || format!("`{line}` is no line about nodes that join");
            if let Some(joined) = line.strip_prefix(JOINED) {
                guests.joined.push(Joined::parse(joined).ok_or_else(wrong)?);
            } else if let Some(last) = line.strip_prefix(LAST) {
                let last = last.strip_prefix('s').and_then(|last| last.parse().ok());
                guests.last = Some(SiteId(last.ok_or_else(wrong)?));
            }
        }
        Ok(guests)
    }

    /// A process joins.
    pub(crate) fn add(&mut self, joined: Joined) {
        self.last = self.last.max(joined.sites.last().copied());
        self.joined.push(joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;
    use isomer_design::Design;

    fn joined(name: &str, sites: &[u16]) -> Joined {
        let (name, address) = (name.to_owned(), format!("{name}.example:7433"));
        let sites = sites.iter().copied().map(SiteId).collect();
        Joined { name, address, sites, zone: None, clients: None }
    }

    #[test]
    fn the_lines_of_a_catalog_are_read_and_do_not_disturb_its_design() {
        let zoned = Joined {
            zone: Some("west".to_owned()),
            clients: Some("10.0.0.4:5433".to_owned()),
            ..joined("d", &[4, 5])
        };
        let all = [zoned, joined("e", &[6])];
        all.iter().for_each(|one| one.check().expect("it can be written"));
        let design = Design::new([1, 4].map(SiteId)).expect("two sites");
        let mut guests = Guests::default();
        all.into_iter().for_each(|one| guests.add(one));
        // The number of one that has left is not given again.
        guests.joined.pop();
        let text = catalog::whole(&design, catalog::Kind::Database) + &guests.lines();
        assert_eq!(Guests::read(text.as_bytes()), Ok(guests.clone()));
        assert_eq!((guests.joined.len(), guests.last), (1, Some(SiteId(6))));
        assert_eq!(catalog::read(&text).map(|read| read.to_text()), Ok(design.to_text()));
        assert!(Guests::read(b"# joined d at x:1 with 4\n").is_err());
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let named = joined("two words", &[4]).check().unwrap_err();
        assert_eq!(named, "the name `two words` of a node is empty, or has spaces or quotes");
        let placed = Joined { address: "10.0.0.4".to_owned(), ..joined("d", &[4]) };
        let placed = placed.check().unwrap_err();
        assert_eq!(placed, "`10.0.0.4` is no host and port, as in 10.0.0.4:7433");
    }
}
