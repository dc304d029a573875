//! Redo logs in Kafka, as the command line names them. A build without the feature `kafka` refuses them by name.

use crate::failure::Failure;
use clap::Args;
use isomer_cluster::Logs;
use std::sync::Arc;

/// Where the redo logs are, if not in the folder.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct LogArgs {
    /// The redo logs are in a topic of Apache Kafka, and the folder has checkpoints only. Whoever opens them last has
    /// the database: a server that has them open already stops [default: in the folder]
    #[arg(long, value_name = "kafka://HOST:PORT,HOST:PORT/TOPIC")]
    pub(crate) log: Option<String>,
    /// An option of Kafka's client (librdkafka's CONFIGURATION.md), as sasl.username=me; as often as there are
    #[arg(long = "kafka-option", value_name = "NAME=VALUE", requires = "log")]
    options: Vec<String>,
}

impl LogArgs {
    /// The logs, if they are not in the folder.
    ///
    /// # Errors
    /// If what was said makes no sense.
    pub(crate) fn logs(&self) -> Result<Option<Arc<dyn Logs>>, Failure> {
        self.log.as_ref().map(|address| with_kafka(address, &self.options)).transpose()
    }
}

#[cfg(feature = "kafka")]
fn with_kafka(address: &str, options: &[String]) -> Result<Arc<dyn Logs>, Failure> {
    Ok(Arc::new(isomer_kafka::KafkaLogs::new(connection(address, options)?)))
}

/// The way to the brokers.
#[cfg(feature = "kafka")]
pub(crate) fn connection(
    address: &str,
    options: &[String],
) -> Result<isomer_kafka::Connection, Failure> {
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

#[cfg(not(feature = "kafka"))]
fn with_kafka(address: &str, _: &[String]) -> Result<Arc<dyn Logs>, Failure> {
    Err(Failure::failed(format!(
        "{address}: this program was built without Kafka; build it with --features kafka"
    )))
}
