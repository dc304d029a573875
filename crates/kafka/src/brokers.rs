//! A topic as the carrier of a database's logs.

use crate::partition::{Admin, Connection, KafkaPartition};
use crate::topic::{self, Topic};
use isomer_owned::{CarriedLogs, Carrier, PartitionLog, Refused};
use parking_lot::Mutex;

/// The logs of a database in a topic.
pub type KafkaLogs = CarriedLogs<Brokers>;
/// A log in a partition of a topic.
pub type KafkaLog = PartitionLog<KafkaPartition>;

/// The brokers of a topic.
pub struct Brokers {
    connection: Connection,
    topic: Mutex<Option<Topic>>,
}

impl Brokers {
    /// The brokers at an address. Contacts no broker yet.
    pub fn new(connection: Connection) -> Brokers {
        Brokers { connection, topic: Mutex::new(None) }
    }

    /// The number of brokers.
    ///
    /// # Errors
    /// [`Refused`], if no broker answers.
    pub fn count(&self) -> Result<usize, Refused> {
        let (brokers, _) = self.connection.admin()?.look()?;
        Ok(brokers)
    }
}

impl Carrier for Brokers {
    type Partition = KafkaPartition;

    fn place(&self) -> String {
        self.connection.address.to_string()
    }

    /// Creates a missing topic. Refuses a topic whose settings could lose records.
    fn prepare(&self) -> Result<(), Refused> {
        let admin = self.connection.admin()?;
        if let (brokers, None) = topic::check(&admin)? {
            topic::create(&admin, brokers, 1)?;
        }
        // Again after the creation, because brokers may override settings.
        let (_, found) = topic::check(&admin)?;
        let found = found.ok_or_else(|| Refused("the topic is gone again".to_owned()))?;
        *self.topic.lock() = Some(found);
        Ok(())
    }

    fn partitions(&self) -> Result<u32, Refused> {
        let (_, found) = topic::check(&self.connection.admin()?)?;
        Ok(found.map_or(0, |topic| topic.partitions as u32))
    }

    /// The partitions of a topic are numbered without gaps, and more sites may come.
    fn has_order(&self) -> bool {
        false
    }

    fn grow_to(&self, number: u32) -> Result<usize, Refused> {
        // One at a time, because several sites are opened concurrently.
        let mut known = self.topic.lock();
        let topic = known.as_mut().expect("the logs are found before they are opened");
        let wanted = number as usize + 1;
        if topic.partitions < wanted {
            let admin: Admin = self.connection.admin()?;
            topic::grow(&admin, wanted)?;
            topic.partitions = wanted;
        }
        Ok(topic.record_bytes_max)
    }

    fn partition(
        &self,
        number: u32,
        record_bytes_max: usize,
        writer: &str,
    ) -> Result<KafkaPartition, Refused> {
        let partition = KafkaPartition::new(&self.connection, number, record_bytes_max)?;
        Ok(partition.written_by(writer))
    }
}
