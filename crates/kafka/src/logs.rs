//! All logs of a database: a topic with a partition for the catalog, number 0, and one for each
//! site.

use crate::lease::WAITS;
use crate::log::KafkaLog;
use crate::look::{Look, look};
use crate::owned::Options;
use crate::partition::{Admin, Connection, Refused};
use crate::record::{Head, Term};
use crate::topic::{self, Topic};
use isomer_cluster::{ClaimNote, DatabaseId, FoundLogs, LogOf, Logs};
use isomer_design::SiteId;
use isomer_log::{Log, OpenError, Position};
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// The logs of a database in a topic.
pub struct KafkaLogs {
    connection: Connection,
    /// The name of this process in messages of others.
    name: String,
    usual: Options,
    topic: Mutex<Option<Topic>>,
}

impl KafkaLogs {
    /// The logs at an address. Contacts no broker yet.
    pub fn new(connection: Connection) -> KafkaLogs {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        let name = format!("process {} on {host}", std::process::id());
        KafkaLogs { connection, name, usual: Options::default(), topic: Mutex::new(None) }
    }

    /// Adds a name to that of this process: its name in the cluster, before its number and host.
    pub fn named(self, name: &str) -> KafkaLogs {
        KafkaLogs { name: format!("{name}, {}", self.name), ..self }
    }

    /// The number of brokers, and the state of all logs of the topic, by their numbers; no logs if
    /// no database uses the topic. Reads all records of the logs, and neither claims nor creates
    /// anything.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn look(&self) -> Result<(usize, Vec<(LogOf, Look)>), OpenError> {
        self.try_look().map_err(self.elsewhere())
    }

    fn try_look(&self) -> Result<(usize, Vec<(LogOf, Look)>), Refused> {
        let (brokers, found) = topic::check(&self.connection.admin()?)?;
        let Some(topic) = found else { return Ok((brokers, Vec::new())) };
        let Some(DatabaseId(database)) = self.owner_of_catalog()? else {
            return Ok((brokers, Vec::new()));
        };
        let look = |number: u32| {
            let log = match u16::try_from(number) {
                Ok(0) | Err(_) => LogOf::Catalog,
                Ok(site) => LogOf::Site(SiteId(site)),
            };
            let found = look(&self.connection, database, number, topic.record_bytes_max);
            let at = |Refused(what)| Refused(format!("partition {number}: {what}"));
            Ok((log, found.map_err(at)?))
        };
        let logs: Result<Vec<(LogOf, Look)>, Refused> =
            (0..topic.partitions as u32).map(look).collect();
        Ok((brokers, logs?))
    }

    /// Replaces the default options, of which `open` overrides some.
    pub fn with_options(self, usual: Options) -> KafkaLogs {
        KafkaLogs { usual, ..self }
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

    /// The database of the first record in the catalog's log; `None` if there is none.
    fn owner_of_catalog(&self) -> Result<Option<DatabaseId>, Refused> {
        let partition =
            crate::partition::Partition::new(&self.connection, 0, self.usual.record_bytes_max)?;
        let (first, end) = partition.bounds()?;
        if first == end {
            return Ok(None);
        }
        let mut found = None;
        partition.read(first, &mut |offset, record| {
            let head = Head::read(record).map(|(head, _)| DatabaseId(head.database));
            found = Some(
                head.map_err(|error| Refused(format!("the record at offset {offset}: {error}"))),
            );
            ControlFlow::Break(())
        })?;
        found.unwrap_or_else(|| Err(Refused("its records cannot be read".to_owned()))).map(Some)
    }

    fn try_find(&self) -> Result<FoundLogs, Refused> {
        self.prepare()?;
        if let Some(database) = self.owner_of_catalog()? {
            return Ok(FoundLogs { database, is_new: false });
        }
        let random =
            || getrandom::u64().map_err(|error| Refused(format!("no random number: {error}")));
        let database = DatabaseId(u128::from(random()?) << 64 | u128::from(random()?));
        Ok(FoundLogs { database, is_new: true })
    }

    /// Adds partitions until the topic has this one. Returns the maximal length of its records.
    fn partition(&self, number: u32) -> Result<usize, Refused> {
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

    fn elsewhere(&self) -> impl Fn(Refused) -> OpenError {
        |Refused(what)| OpenError::Elsewhere { place: self.place(), what }
    }
}

impl Logs for KafkaLogs {
    fn place(&self) -> String {
        self.connection.address.to_string()
    }

    fn stale_for(&self) -> Duration {
        WAITS
    }

    fn find(&self) -> Result<FoundLogs, OpenError> {
        self.try_find().map_err(self.elsewhere())
    }

    fn open(
        &self,
        database: DatabaseId,
        log: LogOf,
        needed: Option<Position>,
        note: Option<ClaimNote>,
        options: &isomer_log::Options,
    ) -> Result<(Arc<dyn Log>, Vec<String>), OpenError> {
        if options.accept_loss {
            let what = "what is lost of a log in Kafka cannot be accepted: only logs in files can be opened without it";
            return Err(self.elsewhere()(Refused(what.to_owned())));
        }
        let number = number_of(log);
        let record_bytes_max = self.partition(number).map_err(self.elsewhere())?;
        let options = Options {
            durability: options.durability,
            must_exist: options.must_exist,
            needed,
            ended: note.as_ref().and_then(ClaimNote::ended).and_then(|claim| Term::parse(&claim)),
            record_bytes_max: record_bytes_max.min(self.usual.record_bytes_max),
            ..self.usual
        };
        let opened = KafkaLog::open(&self.connection, database.0, number, &self.name, options);
        let (log, report) = opened?;
        let mut notes = Vec::new();
        if let Some(before) = report.taken_from {
            let seconds = options.times.waits.as_secs_f32();
            notes.push(format!(
                "the log at {}, partition {number}, was not released by {before}: commits wait for {seconds} s",
                self.place()
            ));
        }
        Ok((Arc::new(log.noted(note)), notes))
    }

    fn last_frame(&self, database: DatabaseId, log: LogOf) -> Result<Option<Vec<u8>>, OpenError> {
        let (number, longest) = (number_of(log), self.usual.record_bytes_max);
        let found = look(&self.connection, database.0, number, longest);
        Ok(found.map_err(self.elsewhere())?.last)
    }
}

/// The number of a log in its database, and of its partition in the topic.
fn number_of(log: LogOf) -> u32 {
    match log {
        LogOf::Catalog => 0,
        LogOf::Site(site) => u32::from(site.0),
    }
}
