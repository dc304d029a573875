//! A topic as the carrier of a database's logs, and a second one for the order of its ordered
//! tables: `shop` and `shop-order`.

use crate::partition::{Admin, Connection, KafkaPartition};
use crate::topic::{self, Topic};
use isomer_owned::{CarriedLogs, Carrier, ORDER, PartitionLog, Refused};
use parking_lot::Mutex;

/// The logs of a database in a topic.
pub type KafkaLogs = CarriedLogs<Brokers>;
/// A log in a partition of a topic.
pub type KafkaLog = PartitionLog<KafkaPartition>;

/// The brokers of a topic.
pub struct Brokers {
    connection: Connection,
    /// To the topic of the order.
    to_order: Connection,
    topic: Mutex<Option<Topic>>,
}

impl Brokers {
    /// The brokers at an address. Contacts no broker yet.
    pub fn new(connection: Connection) -> Brokers {
        let to_order = Connection { address: connection.address.of_order(), ..connection.clone() };
        Brokers { connection, to_order, topic: Mutex::new(None) }
    }

    /// The number of brokers.
    ///
    /// # Errors
    /// [`Refused`], if no broker answers.
    pub fn count(&self) -> Result<usize, Refused> {
        let (brokers, _) = self.connection.admin()?.look()?;
        Ok(brokers)
    }

    /// The topic of a log, and its partition there. The partitions of a topic are numbered without
    /// gaps, and more sites may come, so the order has a topic of its own.
    fn of(&self, number: u32) -> (&Connection, u32) {
        match number {
            ORDER => (&self.to_order, 0),
            number => (&self.connection, number),
        }
    }
}

/// The topic of a connection, created if it is missing.
///
/// # Errors
/// If its settings could lose records.
fn prepared(connection: &Connection) -> Result<Topic, Refused> {
    let admin = connection.admin()?;
    if let (brokers, None) = topic::check(&admin)? {
        topic::create(&admin, brokers, 1)?;
    }
    // Again after the creation, because brokers may override settings.
    let (_, found) = topic::check(&admin)?;
    found.ok_or_else(|| Refused(format!("{} is gone again", connection.address)))
}

impl Carrier for Brokers {
    type Partition = KafkaPartition;

    fn place(&self) -> String {
        self.connection.address.to_string()
    }

    fn place_of(&self, number: u32) -> String {
        let (connection, partition) = self.of(number);
        format!("{}, partition {partition}", connection.address)
    }

    /// Creates a missing topic. Refuses a topic whose settings could lose records.
    fn prepare(&self) -> Result<(), Refused> {
        *self.topic.lock() = Some(prepared(&self.connection)?);
        Ok(())
    }

    fn partitions(&self) -> Result<u32, Refused> {
        let (_, found) = topic::check(&self.connection.admin()?)?;
        Ok(found.map_or(0, |topic| topic.partitions as u32))
    }

    fn exists(&self, number: u32) -> Result<bool, Refused> {
        let (connection, partition) = self.of(number);
        let (_, found) = topic::check(&connection.admin()?)?;
        Ok(found.is_some_and(|topic| (partition as usize) < topic.partitions))
    }

    fn grow_to(&self, number: u32) -> Result<usize, Refused> {
        if number == ORDER {
            return Ok(prepared(&self.to_order)?.record_bytes_max);
        }
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
        let (connection, partition) = self.of(number);
        let partition = KafkaPartition::new(connection, partition, record_bytes_max)?;
        Ok(partition.written_by(writer))
    }
}
