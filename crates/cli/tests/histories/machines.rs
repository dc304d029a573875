//! Machines of a cluster on this one: network namespaces with a bridge between them, and a small
//! disk.
//!
//! ```text
//!    here  10.77.N.254 ─┬─ bridge ─┬───────────┬──────────── …  one namespace and one address
//!                       │       a .1        b .2        brokers .11 .12 .13    for each machine
//! ```
//!
//! Setting the link of a machine down cuts it off from all others. A neighbour entry with an unused
//! hardware address cuts two machines off from each other. Both need root and Linux. Without them,
//! all machines are this one, and tests skip the cuts.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A hardware address that no machine has: packets to it are lost.
const UNUSED: &str = "02:00:00:00:00:00";

pub(crate) struct Machines {
    all: Vec<Machine>,
    /// The bridge between them, if they are in namespaces.
    bridge: Option<String>,
    /// Mount points of small disks.
    mounted: Vec<PathBuf>,
}

/// A machine: its address, and its namespace.
pub(crate) struct Machine {
    pub(crate) address: String,
    namespace: Option<String>,
    /// The end of its virtual wire that is in this namespace.
    wire: String,
}

impl Machine {
    /// A command that runs on the machine.
    pub(crate) fn command(&self, program: &str) -> Command {
        let Some(namespace) = &self.namespace else { return Command::new(program) };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, program]);
        command
    }
}

fn done(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn ip(args: &str) -> bool {
    done("ip", &args.split(' ').collect::<Vec<_>>())
}

impl Machines {
    /// Machines whose addresses end in `numbers`.
    pub(crate) fn new(numbers: &[u8]) -> Machines {
        let own = std::process::id();
        let bridge = format!("ib{}", own % 100_000);
        let network = format!("10.77.{}", own % 250);
        let mut machines = Machines { all: Vec::new(), bridge: Some(bridge), mounted: Vec::new() };
        let machine = |number: &u8| Machine {
            address: format!("{network}.{number}"),
            namespace: Some(format!("isomer-{own}-{number}")),
            wire: format!("iw{}-{number}", own % 100_000),
        };
        machines.all = numbers.iter().map(machine).collect();
        if !machines.connect(&network) {
            eprintln!(
                "no network namespaces here (that takes root): machines are not cut off from each other"
            );
            machines.disconnect();
            machines.bridge = None;
            for machine in &mut machines.all {
                (machine.namespace, machine.address) = (None, "127.0.0.1".to_owned());
            }
        }
        machines
    }

    fn connect(&self, network: &str) -> bool {
        let bridge = self.bridge.as_ref().expect("namespaces are in use");
        let is_there = ip(&format!("link add {bridge} type bridge"))
            && ip(&format!("addr add {network}.254/24 dev {bridge}"))
            && ip(&format!("link set {bridge} up"));
        is_there
            && self.all.iter().all(|Machine { address, namespace, wire }| {
                let inside = namespace.as_ref().expect("namespaces are in use");
                ip(&format!("netns add {inside}"))
                    && ip(&format!("link add {wire} type veth peer name eth0 netns {inside}"))
                    && ip(&format!("link set {wire} master {bridge} up"))
                    && ip(&format!("-n {inside} addr add {address}/24 dev eth0"))
                    && ip(&format!("-n {inside} link set eth0 up"))
                    && ip(&format!("-n {inside} link set lo up"))
            })
    }

    fn disconnect(&self) {
        for Machine { namespace, wire, .. } in &self.all {
            ip(&format!("link del {wire}"));
            let _ =
                namespace.as_ref().is_some_and(|namespace| ip(&format!("netns del {namespace}")));
        }
        let _ = self.bridge.as_ref().is_some_and(|bridge| ip(&format!("link del {bridge}")));
    }

    pub(crate) fn at(&self, at: usize) -> &Machine {
        &self.all[at]
    }

    /// True if machines can be cut off from each other.
    pub(crate) fn can_be_cut_off(&self) -> bool {
        self.bridge.is_some()
    }

    /// Cuts a machine off from all others, or connects it again.
    pub(crate) fn cut_off(&self, at: usize, is_off: bool) {
        let state = if is_off { "down" } else { "up" };
        assert!(ip(&format!("link set {} {state}", self.all[at].wire)), "a link is not {state}");
    }

    /// Cuts two machines off from each other, or connects them again.
    pub(crate) fn cut(&self, one: usize, other: usize, is_off: bool) {
        for (from, to) in [(one, other), (other, one)] {
            let inside = self.all[from].namespace.as_ref().expect("it is in a namespace");
            let to = &self.all[to].address;
            let set = match is_off {
                true => {
                    format!("-n {inside} neigh replace {to} lladdr {UNUSED} dev eth0 nud permanent")
                }
                false => format!("-n {inside} neigh del {to} dev eth0"),
            };
            assert!(ip(&set), "ip {set}");
        }
    }

    /// Mounts a small file system at a folder, if that is possible here.
    pub(crate) fn make_small(&mut self, folder: &Path) -> bool {
        std::fs::create_dir_all(folder).expect("a folder");
        let path = folder.display().to_string();
        let is_small = done("mount", &["-t", "tmpfs", "-o", "size=300m", "isomer", &path]);
        if is_small {
            self.mounted.push(folder.to_owned());
        } else {
            eprintln!("no tmpfs can be mounted here (that takes root): no disk is full");
        }
        is_small
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        self.disconnect();
        for folder in &self.mounted {
            done("umount", &["-l", &folder.display().to_string()]);
        }
    }
}
