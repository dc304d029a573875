//! Limits processes to an equal share of the machine's processors, as if each had a machine of its
//! own.
//!
//! Control groups do this where this process may create them (`cpu.max` of version 2,
//! `cpu.cfs_quota_us` of version 1). Otherwise each process is pinned to processors of its own, if
//! their number is a multiple of the processes'.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const V2: &str = "/sys/fs/cgroup";
const V1: &str = "/sys/fs/cgroup/cpu";
const PERIOD_US: u64 = 100_000;

/// Limits of some processes. Dropping it removes its control groups.
pub(super) struct Limited {
    groups: Vec<PathBuf>,
    /// The mechanism, for messages.
    pub(super) how: &'static str,
}

impl Limited {
    /// Limits each of the processes to its share of the machine.
    ///
    /// # Errors
    /// Why no limit can be set here.
    pub(super) fn to_shares(pids: &[u32]) -> Result<Limited, String> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let grouped = in_groups(pids, processors);
        let Err(why) = grouped else { return grouped };
        if !processors.is_multiple_of(pids.len()) {
            return Err(format!(
                "{why}; and {processors} processors cannot be dealt out to {} processes",
                pids.len()
            ));
        }
        let each = processors / pids.len();
        for (at, pid) in pids.iter().enumerate() {
            let own = format!("{}-{}", at * each, (at + 1) * each - 1);
            let set =
                Command::new("taskset").args(["-a", "-c", "-p", &own, &pid.to_string()]).output();
            if !set.is_ok_and(|set| set.status.success()) {
                return Err(format!("{why}; and taskset holds no process to processors {own}"));
            }
        }
        Ok(Limited { groups: Vec::new(), how: "processors of their own" })
    }
}

fn in_groups(pids: &[u32], processors: usize) -> Result<Limited, String> {
    let quota_us = processors as u64 * PERIOD_US / pids.len() as u64;
    let controllers = fs::read_to_string(format!("{V2}/cgroup.controllers")).unwrap_or_default();
    let is_v2 = controllers.split_whitespace().any(|name| name == "cpu");
    let (root, how) = match is_v2 {
        true => (Path::new(V2), "control groups, cpu.max"),
        false => (Path::new(V1), "control groups, cpu.cfs_quota_us"),
    };
    // Dropping it removes the groups made so far, if a later one fails.
    let mut limited = Limited { groups: Vec::new(), how };
    for (at, pid) in pids.iter().enumerate() {
        let group = root.join(format!("isomer-bench-{}-{at}", std::process::id()));
        let mut make = || -> std::io::Result<()> {
            if is_v2 {
                fs::write(root.join("cgroup.subtree_control"), "+cpu")?;
            }
            fs::create_dir(&group)?;
            limited.groups.push(group.clone());
            if is_v2 {
                fs::write(group.join("cpu.max"), format!("{quota_us} {PERIOD_US}"))?;
            } else {
                fs::write(group.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
                fs::write(group.join("cpu.cfs_quota_us"), quota_us.to_string())?;
            }
            fs::write(group.join("cgroup.procs"), pid.to_string())
        };
        make().map_err(|error| format!("no control group {}: {error}", group.display()))?;
    }
    Ok(limited)
}

impl Drop for Limited {
    fn drop(&mut self) {
        for group in &self.groups {
            let root = group.parent().expect("it was made in one");
            // A group with processes cannot be removed, so they move to its parent. Ended processes
            // are not listed.
            for pid in fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().lines() {
                let _ = fs::write(root.join("cgroup.procs"), pid);
            }
            let _ = fs::remove_dir(group);
        }
    }
}
