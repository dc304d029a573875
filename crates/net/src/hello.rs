//! The handshake: which processes talk to each other, and reasons to refuse. Pure functions.

use isomer_design::SiteId;
use isomer_site::wire::{self, BadMessage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

pub(crate) const HELLO: u8 = 96;
pub(crate) const WELCOME: u8 = 97;
pub(crate) const REFUSED: u8 = 98;
pub(crate) const PING: u8 = 99;
pub(crate) const ASK_STATUS: u8 = 100;
pub(crate) const STATUS: u8 = 101;
pub(crate) const INTRODUCTION: u8 = 102;
pub(crate) const ENVELOPE: u8 = 103;
pub(crate) const ASK_LOGS: u8 = 104;
pub(crate) const LOGS: u8 = 105;
pub(crate) const ASK_RUN: u8 = 106;
pub(crate) const RUN: u8 = 107;
pub(crate) const RESTART: u8 = 108;
pub(crate) const LEAVES: u8 = 109;
pub(crate) const JOINS: u8 = 110;
pub(crate) const JOINED: u8 = 111;

/// The longest hello, welcome, refusal or status.
pub(crate) const HELLO_BYTES_MAX: usize = 64 << 10;
/// The greatest difference between the clocks of two machines, because sites keep history for 10 s.
const CLOCKS_MS_MAX: u64 = 5000;

/// The role of a process in the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum Role {
    /// It has the router and the conductor: the design changes there.
    Router,
    /// It hosts sites.
    Node,
    /// It hosts sites, and takes the router's place if that process fails.
    Standby,
}

/// Another process of the cluster, as this one was configured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// The host and port at which it listens.
    pub address: String,
    /// The sites that it hosts.
    pub sites: BTreeSet<SiteId>,
    /// The zone that it is in, if zones are told apart.
    pub zone: Option<String>,
}

/// A process's description of itself.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct Hello {
    /// The number of the cluster; `None` if it belongs to none yet.
    pub(crate) cluster: Option<u64>,
    pub(crate) name: String,
    pub(crate) role: Role,
    /// The conductor's term, once the process has the conductor; 0 before.
    pub(crate) term: u64,
    /// Distinguishes this run of the process from others.
    pub(crate) run: u64,
    /// The program's release, for people.
    pub(crate) release: String,
    pub(crate) sites: BTreeSet<SiteId>,
    /// Sites at which the database has rows; only the router's process knows them.
    pub(crate) known: BTreeSet<SiteId>,
    /// Its clock, in milliseconds.
    pub(crate) wall_ms: u64,
}

impl Hello {
    pub(crate) fn write(&self, kind: u8) -> Vec<u8> {
        wire::carried(kind, self)
    }

    pub(crate) fn read(kind: u8, bytes: &[u8]) -> Result<Hello, BadMessage> {
        wire::read_carried(kind, bytes)
    }
}

/// The result of a successful handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It belongs to this cluster.
    Welcome,
    /// It does, and this process joins its cluster.
    Join(u64),
}

/// Checks another process's description. `own` is this process's; `members` are the configured
/// ones.
///
/// # Errors
/// A message: what does not fit, and what would be right.
pub(crate) fn judge(own: &Hello, members: &[Member], theirs: &Hello) -> Result<Verdict, String> {
    let name = &theirs.name;
    if *name == own.name {
        return Err(format!(
            "two processes are named `{name}`; each process of a cluster has a name of its own"
        ));
    }
    let Some(member) = members.iter().find(|member| member.name == *name) else {
        let known: Vec<&str> = members.iter().map(|member| &*member.name).collect();
        return Err(format!(
            "`{}` was not told of a process named `{name}`, but of: {}; give all processes the same list",
            own.name,
            known.join(", ")
        ));
    };
    if member.sites != theirs.sites {
        return Err(format!(
            "`{name}` has the sites {}, and `{}` was told that it has {}; give all processes the same list",
            sites(&theirs.sites),
            own.name,
            sites(&member.sites)
        ));
    }
    if theirs.role == Role::Router && own.role == Role::Router && theirs.term <= own.term {
        return Err(format!("`{name}` and `{}` both have a router; a cluster has one", own.name));
    }
    let ahead = theirs.wall_ms.abs_diff(own.wall_ms);
    if ahead > CLOCKS_MS_MAX {
        return Err(format!(
            "the clocks of `{name}` and `{}` differ by {} s, where {} are allowed; let both be set over the network",
            own.name,
            ahead / 1000,
            CLOCKS_MS_MAX / 1000
        ));
    }
    judge_cluster(own, theirs)
}

fn judge_cluster(own: &Hello, theirs: &Hello) -> Result<Verdict, String> {
    match (own.cluster, theirs.cluster) {
        (Some(ours), Some(other)) if ours == other => Ok(Verdict::Welcome),
        (Some(ours), Some(other)) => Err(format!(
            "`{}` belongs to the cluster {other:016x}, and `{}` to {ours:016x}",
            theirs.name, own.name
        )),
        // A dialled process without a cluster joins that of the router that has dialled it, and
        // sends the welcome.
        (Some(_), None) => Err(format!("`{}` belongs to no cluster yet", theirs.name)),
        (None, Some(cluster)) if theirs.role == Role::Router => {
            let lost: BTreeSet<SiteId> = own.sites.intersection(&theirs.known).copied().collect();
            match lost.is_empty() {
                true => Ok(Verdict::Join(cluster)),
                false => Err(format!(
                    "`{}` begins with nothing, and the database has rows at its sites {}; \
                     give it the folder that it had. It is let in when others have taken over all that it had. \
                     While the database is served, drop its tables that have no backups; else restart the router with \
                     --accept-loss, to go on without them",
                    own.name,
                    sites(&lost)
                )),
            }
        }
        (None, _) => Err(format!(
            "`{}` belongs to no cluster yet; the process with the router has to come first",
            own.name
        )),
    }
}

fn sites(sites: &BTreeSet<SiteId>) -> String {
    let names: Vec<String> = sites.iter().map(ToString::to_string).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(name: &str, role: Role, of: &[u16]) -> Hello {
        let sites = of.iter().map(|site| SiteId(*site)).collect();
        let (name, release, known) = (name.to_owned(), "1.0".to_owned(), BTreeSet::new());
        let (cluster, term, run) = (Some(7), 0, 1);
        Hello { cluster, name, role, term, run, release, sites, known, wall_ms: 1000 }
    }

    fn members() -> Vec<Member> {
        let member = |name: &str, of: &[u16]| Member {
            name: name.to_owned(),
            address: format!("{name}:7000"),
            sites: of.iter().map(|site| SiteId(*site)).collect(),
            zone: None,
        };
        vec![member("a", &[1, 2]), member("c", &[5])]
    }

    #[test]
    fn a_fitting_process_is_welcome_and_the_first_router_is_joined() {
        let (own, router) = (says("b", Role::Node, &[3, 4]), says("a", Role::Router, &[1, 2]));
        assert_eq!(judge(&own, &members(), &router), Ok(Verdict::Welcome));
        let fresh = Hello { cluster: None, ..own.clone() };
        assert_eq!(judge(&fresh, &members(), &router), Ok(Verdict::Join(7)));
        let node = says("c", Role::Node, &[5]);
        assert_eq!(judge(&own, &members(), &node), Ok(Verdict::Welcome));
        // The router's process meets its successor.
        let heir = Hello { term: 8, ..says("c", Role::Router, &[5]) };
        assert_eq!(
            judge(&Hello { term: 7, ..router.clone() }, &members(), &heir),
            Ok(Verdict::Welcome)
        );
        // Both messages survive a round trip.
        assert_eq!(Hello::read(HELLO, &router.write(HELLO)), Ok(router.clone()));
        assert!(Hello::read(WELCOME, &router.write(HELLO)).is_err());
    }

    #[test]
    fn a_process_that_does_not_fit_is_told_what_would() {
        let own = says("b", Role::Node, &[3, 4]);
        let router = says("a", Role::Router, &[1, 2]);
        let fresh = Hello { cluster: None, ..own.clone() };
        let refused = |own: &Hello, theirs: Hello| judge(own, &members(), &theirs).unwrap_err();
        let cases = [
            refused(&own, says("b", Role::Node, &[3, 4])),
            refused(&own, says("d", Role::Node, &[6])),
            refused(&own, says("a", Role::Router, &[1])),
            refused(&says("b", Role::Router, &[]), router.clone()),
            refused(&own, Hello { wall_ms: 8000, ..router.clone() }),
            refused(&own, Hello { cluster: Some(8), ..router.clone() }),
            refused(&own, Hello { cluster: None, ..says("c", Role::Node, &[5]) }),
            refused(&fresh, says("c", Role::Node, &[5])),
            refused(&fresh, Hello { known: [SiteId(2), SiteId(4)].into(), ..router }),
        ];
        let expected = [
            "two processes are named `b`; each process of a cluster has a name of its own",
            "`b` was not told of a process named `d`, but of: a, c; give all processes the same list",
            "`a` has the sites s1, and `b` was told that it has s1 s2; give all processes the same list",
            "`a` and `b` both have a router; a cluster has one",
            "the clocks of `a` and `b` differ by 7 s, where 5 are allowed; let both be set over the network",
            "`a` belongs to the cluster 0000000000000008, and `b` to 0000000000000007",
            "`c` belongs to no cluster yet",
            "`b` belongs to no cluster yet; the process with the router has to come first",
            "`b` begins with nothing, and the database has rows at its sites s4; give it the folder that it had. It is \
             let in when others have taken over all that it had. While the database is served, drop its tables that \
             have no backups; else restart the router with --accept-loss, to go on without them",
        ];
        assert_eq!(cases, expected);
    }
}
