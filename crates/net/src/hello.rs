//! Who talks to whom, and who is refused. Functions of what is known and what was said.

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

/// A hello, a welcome, a refusal or a question is never longer.
pub(crate) const HELLO_BYTES_MAX: usize = 64 << 10;
/// Clocks of two machines may differ so much: sites keep history for 10 s.
const CLOCKS_MS_MAX: u64 = 5000;

/// What a process does in the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub enum Role {
    /// It has the router: the design changes there.
    Router,
    /// It hosts sites.
    Node,
}

/// Another process of the cluster, as this one was told of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Where it listens: a host and a port.
    pub address: String,
    /// The sites that live there.
    pub sites: BTreeSet<SiteId>,
}

/// What a process says of itself.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(crate) struct Hello {
    /// The number of the cluster; `None`: it belongs to none yet.
    pub(crate) cluster: Option<u64>,
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Tells this run of the process from others.
    pub(crate) run: u64,
    /// The program's release, for people.
    pub(crate) release: String,
    pub(crate) sites: BTreeSet<SiteId>,
    /// Sites that the database has rows at; only the router's process knows.
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

/// What becomes of somebody who says hello.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It is one of us.
    Welcome,
    /// It is, and we belong to its cluster from now on.
    Join(u64),
}

/// Judges what another process says of itself. `own` is what we say; `members` are those that we were told of.
///
/// # Errors
/// In words, what does not fit and what would be right.
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
    if theirs.role == Role::Router && own.role == Role::Router {
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
        // One that was dialled and belongs to no cluster joins that of whoever has the router, and says so itself.
        (Some(_), None) => Err(format!("`{}` belongs to no cluster yet", theirs.name)),
        (None, Some(cluster)) if theirs.role == Role::Router => {
            let lost: BTreeSet<SiteId> = own.sites.intersection(&theirs.known).copied().collect();
            match lost.is_empty() {
                true => Ok(Verdict::Join(cluster)),
                false => Err(format!(
                    "`{}` begins with nothing, and the database has rows at its sites {}; \
                     give it the folder that it had. It is let in when others have taken over all that it had; drop the \
                     tables there that have no backups, or restart the router with --accept-loss to go on without",
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
        Hello { cluster: Some(7), name, role, run: 1, release, sites, known, wall_ms: 1000 }
    }

    fn members() -> Vec<Member> {
        let member = |name: &str, of: &[u16]| Member {
            name: name.to_owned(),
            address: format!("{name}:7000"),
            sites: of.iter().map(|site| SiteId(*site)).collect(),
        };
        vec![member("a", &[1, 2]), member("c", &[5])]
    }

    #[test]
    fn who_fits_is_welcome_and_the_first_router_is_joined() {
        let (own, router) = (says("b", Role::Node, &[3, 4]), says("a", Role::Router, &[1, 2]));
        assert_eq!(judge(&own, &members(), &router), Ok(Verdict::Welcome));
        let fresh = Hello { cluster: None, ..own.clone() };
        assert_eq!(judge(&fresh, &members(), &router), Ok(Verdict::Join(7)));
        let node = says("c", Role::Node, &[5]);
        assert_eq!(judge(&own, &members(), &node), Ok(Verdict::Welcome));
        // Both messages come back as they were sent.
        assert_eq!(Hello::read(HELLO, &router.write(HELLO)), Ok(router.clone()));
        assert!(Hello::read(WELCOME, &router.write(HELLO)).is_err());
    }

    #[test]
    fn who_does_not_fit_is_told_what_would() {
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
             let in when others have taken over all that it had; drop the tables there that have no backups, or restart \
             the router with --accept-loss to go on without",
        ];
        assert_eq!(cases, expected);
    }
}
