//! A producer without a log, as a baseline for benchmarks.

use crate::address::Address;
use crate::partition::{Connection, KafkaPartition};
use crate::topic;
use isomer_owned::owned::Sent;
use isomer_owned::{Partition, Refused};

/// Sends records to a topic of its own, one at a time.
pub struct Bare(KafkaPartition);

impl Bare {
    /// A producer to the topic whose name ends in `-bare`. The topic is created like that of the
    /// logs.
    ///
    /// # Errors
    /// The request that the brokers refused.
    pub fn open(connection: &Connection) -> Result<Bare, String> {
        let bare: Address = format!("{}-bare", connection.address)
            .parse()
            .map_err(|error: crate::BadAddress| error.to_string())?;
        let connection = Connection { address: bare, ..connection.clone() };
        let open = || -> Result<Bare, Refused> {
            let admin = connection.admin()?;
            if let (brokers, None) = topic::check(&admin)? {
                topic::create(&admin, brokers, 1)?;
            }
            Ok(Bare(KafkaPartition::new(&connection, 0, 0)?))
        };
        open().map_err(|Refused(what)| format!("{}: {what}", connection.address))
    }

    /// Sends a record, and waits until it is acknowledged.
    ///
    /// # Errors
    /// Why the record was not acknowledged.
    pub fn send(&self, record: &[u8]) -> Result<(), String> {
        match self.0.send(record, self.0.timeouts().write * 2) {
            Some(Sent::Written(_)) => Ok(()),
            Some(Sent::Doubtful(why)) => Err(why),
            None => Err("no broker answers".to_owned()),
        }
    }
}
