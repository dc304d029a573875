//! `isomer-lab bench nodes`: the cost of a commit whose redo log is at a majority of the nodes,
//! beside that of one with its log in a file.
//!
//! Three members run in this process, each with its journal in a folder and connections over
//! loopback. They share one disk and the processors, so figures of three machines are better.
//!
//! * **file**: one client writes a row and waits for the commit; the log is in a file.
//! * **nodes**: the same, with the log at the three members.
//! * **shared**: `--clients` clients write rows; the figures are commits a second, and commits in a
//!   sync.
//!
//! The first two take turns, so that the machine's other work affects both.

use super::subject::{Subject, quantiles};
use isomer::cluster::Kept;
use isomer::failure::Failure;
use isomer::stop::Stop;
use isomer::{clock, out, text};
use isomer_cluster::Options;
use isomer_design::SiteId;
use isomer_net::{Member, Net, Role};
use serde::Serialize;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Turns, and commits of each.
const TURNS: usize = 40;
const COMMITS: usize = 50;
/// The members.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The cost of a commit whose redo log is at a majority of the nodes
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer-lab bench nodes
  isomer-lab bench nodes --clients 64 --seconds 10 --json")]
pub(crate) struct NodesArgs {
    /// Clients that share syncs
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: u16,
    /// Seconds that they work
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Bytes of a row
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

/// The figures; times are in microseconds.
#[derive(Serialize)]
struct Figures {
    bench: &'static str,
    file_p50: f64,
    file_p99: f64,
    nodes_p50: f64,
    nodes_p99: f64,
    commit_vs_file: f64,
    clients: u16,
    file_per_second: f64,
    file_per_sync: f64,
    nodes_per_second: f64,
    nodes_per_sync: f64,
}

/// Measures and prints the figures.
///
/// # Errors
/// If a folder or an address cannot be used.
pub(crate) fn run(args: &NodesArgs) -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("isomer-bench-nodes-{}", std::process::id()));
    let measured = measure(args, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    let figures = measured?;
    match args.json {
        true => out::line(serde_json::to_string(&figures).map_err(Failure::failed)?),
        false => out::print(figures.to_text()),
    }
    Ok(())
}

/// Three members that keep each other's logs.
fn members(folder: &Path) -> Result<Vec<Kept>, Failure> {
    let listeners: Vec<TcpListener> = NAMES
        .iter()
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect::<Result<_, _>>()
        .map_err(Failure::failed)?;
    let member = |at: usize| -> Result<Member, Failure> {
        let address = listeners[at].local_addr().map_err(Failure::failed)?.to_string();
        let sites = [SiteId(at as u16 + 1)].into();
        Ok(Member { name: NAMES[at].to_owned(), address, sites, zone: None })
    };
    let all: Vec<Member> = (0..NAMES.len()).map(member).collect::<Result<_, _>>()?;
    let mut kept = Vec::new();
    for (own, listener) in all.iter().zip(listeners) {
        let others = all.iter().filter(|member| *member != own).cloned().collect();
        let sites: Vec<SiteId> = own.sites.iter().copied().collect();
        let options = isomer_net::Options {
            members: others,
            ..isomer_net::Options::new(&own.name, Role::Node, &sites)
        };
        let net: Arc<Net> =
            Net::start(listener, clock::now_us() as u64, options).map_err(Failure::failed)?;
        let names = NAMES.map(str::to_owned).to_vec();
        kept.push(Kept::start(&net, &folder.join(&own.name), &own.name, names)?);
    }
    for kept in &kept {
        kept.wait(&Stop::default())?;
    }
    Ok(kept)
}

fn measure(args: &NodesArgs, folder: &Path) -> Result<Figures, Failure> {
    let open = |options: Options| {
        let subject = Subject::open(options, args.clients, args.value_bytes)?;
        subject.ok_or_else(|| Failure::failed("the folder is not new"))
    };
    let members = members(folder)?;
    let at_nodes =
        open(Options::in_folder(folder.join("db-nodes"), 1).logs(members[0].logs(Duration::MAX)))?;
    let in_file = open(Options::in_folder(folder.join("db-file"), 1))?;
    let (mut file, mut nodes) = (Vec::new(), Vec::new());
    for turn in 0..=TURNS {
        for (subject, times) in [(&in_file, &mut file), (&at_nodes, &mut nodes)] {
            for _ in 0..COMMITS {
                let begun = clock::now();
                subject.commit(0)?;
                // The first turn warms up.
                if turn > 0 {
                    times.push(clock::elapsed_ns(begun));
                }
            }
        }
    }
    let (file_per_second, file_per_sync) = in_file.shared(args.clients, args.seconds);
    let (nodes_per_second, nodes_per_sync) = at_nodes.shared(args.clients, args.seconds);
    let ([file_p50, file_p99], [nodes_p50, nodes_p99]) = (quantiles(file), quantiles(nodes));
    Ok(Figures {
        bench: "nodes",
        file_p50,
        file_p99,
        nodes_p50,
        nodes_p99,
        commit_vs_file: nodes_p50 / file_p50,
        clients: args.clients,
        file_per_second,
        file_per_sync,
        nodes_per_second,
        nodes_per_sync,
    })
}

impl Figures {
    fn to_text(&self) -> String {
        let time = |us: f64| text::duration(us * 1e3);
        let count = |per_second: f64| text::count(per_second as u64);
        format!(
            "a commit, log in a file       p50 {}, p99 {}\n\
             a commit, log at the nodes    p50 {}, p99 {}: {:.2} times as long\n\
             {} clients, log in a file     {} a second, {:.1} in a sync\n\
             {} clients, log at the nodes  {} a second, {:.1} in a sync\n",
            time(self.file_p50),
            time(self.file_p99),
            time(self.nodes_p50),
            time(self.nodes_p99),
            self.commit_vs_file,
            self.clients,
            count(self.file_per_second),
            self.file_per_sync,
            self.clients,
            count(self.nodes_per_second),
            self.nodes_per_sync,
        )
    }
}
