//! `isomer-lab bench kafka`: the cost of a commit with the redo log in Kafka, beside that of Kafka
//! itself.
//!
//! * **producer**: one client sends a record of the length of a commit's, and waits. It is the same
//!   client of Kafka, without a log.
//! * **commit**: one client writes a row and waits for the commit.
//! * **shared**: `--clients` clients write rows, each in a partition of its own; the figures are
//!   commits a second and commits in a record.
//!
//! The first two take turns, so that the machine's other work affects both.

use super::subject::{Subject, quantiles};
use isomer::failure::Failure;
use isomer::{clock, out, text};
use isomer_cluster::{Logs, Options};
use isomer_kafka::{Bare, Brokers, KafkaLogs};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Turns of the first two, and records of each turn.
const TURNS: usize = 40;
const RECORDS: usize = 50;
/// Bytes of a record beside the committed ones.
const HEAD_BYTES: u64 = 72;

/// The cost of a commit with the redo log in Kafka
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  clients/kafka /tmp/broker 9092 9093 &
  isomer-lab bench kafka --log kafka://127.0.0.1:9092/bench --json")]
pub(crate) struct KafkaArgs {
    /// A topic that does not exist yet; the producer uses a second topic, whose name ends in -bare
    #[arg(long, value_name = "kafka://HOST:PORT,HOST:PORT/TOPIC")]
    log: String,
    /// An option of Kafka's client; can be repeated
    #[arg(long = "kafka-option", value_name = "NAME=VALUE")]
    options: Vec<String>,
    /// Clients that share records
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
    record_bytes: u64,
    producer_p50: f64,
    producer_p99: f64,
    commit_p50: f64,
    commit_p99: f64,
    commit_vs_producer_p50: f64,
    clients: u16,
    commits_per_second: f64,
    commits_per_record: f64,
}

/// Measures and prints the figures.
///
/// # Errors
/// If there are no brokers, or the topic has logs already.
pub(crate) fn run(args: &KafkaArgs) -> Result<(), Failure> {
    let figures = figures(args)?;
    match args.json {
        true => out::line(serde_json::to_string(&figures).map_err(Failure::failed)?),
        false => out::print(figures.to_text()),
    }
    Ok(())
}

/// The median time of a commit over that of a bare producer, and the commits in a record that 32
/// clients share.
pub(super) fn commits(log: String, seconds: u64) -> Result<(f64, f64), Failure> {
    let (options, value_bytes) = (Vec::new(), 100);
    let figures =
        figures(&KafkaArgs { log, options, clients: 32, seconds, value_bytes, json: false })?;
    Ok((figures.commit_vs_producer_p50, figures.commits_per_record))
}

fn figures(args: &KafkaArgs) -> Result<Figures, Failure> {
    let connection = isomer::kafka::connection(&args.log, &args.options)?;
    let folder = std::env::temp_dir().join(format!("isomer-bench-kafka-{}", std::process::id()));
    let bare = Bare::open(&connection).map_err(Failure::failed)?;
    let measured =
        measure(args, Arc::new(KafkaLogs::new(Brokers::new(connection))), &bare, &folder);
    // It has checkpoints only, of a database that is not used again.
    let _ = std::fs::remove_dir_all(&folder);
    measured
}

fn measure(
    args: &KafkaArgs,
    logs: Arc<dyn Logs>,
    bare: &Bare,
    folder: &Path,
) -> Result<Figures, Failure> {
    let options = Options::in_folder(folder, 1).logs(logs);
    let subject = Subject::open(options, args.clients, args.value_bytes)?.ok_or_else(|| {
        Failure::failed(format!("{} has logs already; name a new topic", args.log))
    })?;
    let record_bytes = subject.commit_bytes()? + HEAD_BYTES;
    let record = vec![7; record_bytes as usize];
    let (mut sent, mut committed) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        for _ in 0..RECORDS {
            let begun = clock::now();
            bare.send(&record).map_err(Failure::failed)?;
            sent.push(clock::elapsed_ns(begun));
        }
        for _ in 0..RECORDS {
            let begun = clock::now();
            subject.commit(0)?;
            committed.push(clock::elapsed_ns(begun));
        }
    }
    let (commits_per_second, commits_per_record) = subject.shared(args.clients, args.seconds);
    let [producer_p50, producer_p99] = quantiles(sent);
    let [commit_p50, commit_p99] = quantiles(committed);
    Ok(Figures {
        bench: "kafka",
        record_bytes,
        producer_p50,
        producer_p99,
        commit_p50,
        commit_p99,
        commit_vs_producer_p50: commit_p50 / producer_p50,
        clients: args.clients,
        commits_per_second,
        commits_per_record,
    })
}

impl Figures {
    fn to_text(&self) -> String {
        let time = |us: f64| text::duration(us * 1e3);
        format!(
            "a record of {} bytes, by a producer   p50 {}, p99 {}\n\
             a commit, by one client              p50 {}, p99 {}: {:.2} times as long\n\
             commits, by {} clients               {} a second, {:.1} in a record\n",
            self.record_bytes,
            time(self.producer_p50),
            time(self.producer_p99),
            time(self.commit_p50),
            time(self.commit_p99),
            self.commit_vs_producer_p50,
            self.clients,
            text::count(self.commits_per_second as u64),
            self.commits_per_record,
        )
    }
}
