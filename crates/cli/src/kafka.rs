//! The options for redo logs in Kafka or at the nodes, and checkpoints in an object store. A build
//! without the feature `kafka` refuses logs in Kafka by name.

use crate::cluster::NODES;
use crate::failure::Failure;
use clap::Args;
use isomer_cluster::{CheckpointStore, Logs};
use isomer_objects::Objects;
use std::sync::Arc;
use std::time::Duration;

/// The places of redo logs and checkpoints, if not the folder.
#[derive(Args, Debug, Clone, Default, PartialEq)]
pub struct LogArgs {
    /// Keeps the redo logs elsewhere, and only checkpoints in the folder: in a topic of Apache
    /// Kafka (kafka://HOST:PORT,HOST:PORT/TOPIC), or at a majority of the cluster's processes
    /// (nodes), which are three at least. The last process that opens the logs owns their
    /// sites, and a process with earlier access stops [default: in the folder]
    #[arg(long, value_name = "PLACE")]
    pub log: Option<String>,
    /// An option of Kafka's client (librdkafka's CONFIGURATION.md), such as sasl.username=me; may
    /// be repeated
    #[arg(long = "kafka-option", value_name = "NAME=VALUE", requires = "log")]
    pub options: Vec<String>,
    /// Keeps checkpoints in an object store as well, for logs in Kafka or at the nodes, so that a
    /// site can start on any machine. A folder that all machines reach, or in a build
    /// with --features s3 a bucket: s3://BUCKET/PREFIX, with the settings of the environment
    /// (AWS_ACCESS_KEY_ID, AWS_ENDPOINT and so on) [default: in the folder]
    #[arg(long, value_name = "file:///FOLDER")]
    pub checkpoints: Option<String>,
}

impl LogArgs {
    /// The logs, if they are not in the folder. `of` has the name of the process in its cluster,
    /// and the lease of the logs that it owns.
    ///
    /// # Errors
    /// If the options are invalid.
    pub fn logs(&self, of: Option<(&str, Duration)>) -> Result<Option<Arc<dyn Logs>>, Failure> {
        if self.log.as_deref() == Some(NODES) {
            return Err(Failure::usage(
                "redo logs at the nodes are for the processes of a cluster, and there are no other processes: give \
                 --config FILE or --peers",
            ));
        }
        self.log.as_ref().map(|address| with_kafka(address, &self.options, of)).transpose()
    }

    /// The store of checkpoints, if it is not the folder.
    ///
    /// # Errors
    /// If the options are invalid.
    pub fn store(&self) -> Result<Option<Arc<dyn CheckpointStore>>, Failure> {
        let Some(place) = &self.checkpoints else { return Ok(None) };
        if self.log.is_none() {
            return Err(Failure::usage(format!(
                "checkpoints at {place} are for redo logs outside of the folder, and nothing says where those are (--log)"
            )));
        }
        Ok(Some(Arc::new(Objects::at(place).map_err(Failure::usage)?)))
    }

    /// The options of the cluster's file, completed by the flags.
    ///
    /// # Errors
    /// If both set the same option.
    pub fn with_flags(self, flags: &LogArgs) -> Result<LogArgs, Failure> {
        let twice = |what: &str, said: &Option<String>, flag: &Option<String>, name: &str| {
            let Some(said) = said.as_ref().filter(|_| flag.is_some()) else { return Ok(()) };
            Err(Failure::usage(format!(
                "the file says that the {what} are at {said}; leave {name} out"
            )))
        };
        twice("logs", &self.log, &flags.log, "--log")?;
        twice("checkpoints", &self.checkpoints, &flags.checkpoints, "--checkpoints")?;
        let checkpoints = self.checkpoints.clone().or_else(|| flags.checkpoints.clone());
        let logs = if self.log.is_some() { self } else { flags.clone() };
        Ok(LogArgs { checkpoints, ..logs })
    }
}

#[cfg(feature = "kafka")]
fn with_kafka(
    address: &str,
    options: &[String],
    of: Option<(&str, Duration)>,
) -> Result<Arc<dyn Logs>, Failure> {
    use isomer_kafka::{Brokers, KafkaLogs};
    let logs = KafkaLogs::new(Brokers::new(connection(address, options)?));
    Ok(Arc::new(match of {
        Some((name, lease)) => logs.named(name).with_lease(lease),
        None => logs,
    }))
}

/// A connection to the brokers.
#[cfg(feature = "kafka")]
pub fn connection(address: &str, options: &[String]) -> Result<isomer_kafka::Connection, Failure> {
    let address: isomer_kafka::Address = address.parse().map_err(Failure::usage)?;
    let mut connection = isomer_kafka::Connection::new(address);
    for option in options {
        let (name, value) = option.split_once('=').ok_or_else(|| {
            Failure::usage(format!("`{option}` has no `=`; write for example sasl.username=me"))
        })?;
        connection.options.set(name.trim(), value.trim()).map_err(Failure::usage)?;
    }
    Ok(connection)
}

/// The address of the logs with the number of brokers, and a table of the current logs.
pub type Shown = (String, Vec<Vec<String>>);

/// Reads logs outside of folders.
///
/// # Errors
/// If they cannot be read.
#[cfg(feature = "kafka")]
pub fn shown_logs(args: &LogArgs) -> Result<Option<Shown>, Failure> {
    use isomer_cluster::LogOf;
    let Some(address) = &args.log else { return Ok(None) };
    let brokers = isomer_kafka::Brokers::new(connection(address, &args.options)?);
    let logs = isomer_kafka::KafkaLogs::new(brokers);
    let brokers = logs.carrier().count().map_err(Failure::failed)?;
    let logs = logs.look().map_err(Failure::failed)?;
    let header = ["log", "offsets", "MB", "term", "owner"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (of, look) in logs {
        let (first, end) = look.offsets;
        rows.push(vec![
            match of {
                LogOf::Catalog => "catalog".to_owned(),
                LogOf::Site(site) => site.to_string(),
                LogOf::Order => "order".to_owned(),
            },
            format!("{first} to {end}"),
            format!("{:.1}", (look.end - look.begin) as f64 / 1e6),
            look.term.number.to_string(),
            match look.is_released {
                true => format!("nobody now; before, {}", look.owner),
                false => look.owner.to_string(),
            },
        ]);
    }
    let brokers = if brokers == 1 { "1 broker".to_owned() } else { format!("{brokers} brokers") };
    Ok(Some((format!("{address}: {brokers}"), rows)))
}

#[cfg(not(feature = "kafka"))]
pub fn shown_logs(args: &LogArgs) -> Result<Option<Shown>, Failure> {
    args.log.as_ref().map_or(Ok(None), |address| Err(without_kafka(address)))
}

#[cfg(not(feature = "kafka"))]
fn with_kafka(
    address: &str,
    _: &[String],
    _: Option<(&str, Duration)>,
) -> Result<Arc<dyn Logs>, Failure> {
    Err(without_kafka(address))
}

#[cfg(not(feature = "kafka"))]
fn without_kafka(address: &str) -> Failure {
    Failure::failed(format!(
        "{address}: this program was built without Kafka; build it with --features kafka"
    ))
}
