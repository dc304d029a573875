//! One partition, over the brokers' client: send a record and wait, read from an offset on, remove
//! old records.
//!
//! A record is sent once the one before is acknowledged, by an idempotent producer with `acks=all`
//! and no delay. One record is one group commit, so waiting for more would gain nothing. Each log
//! has its own producer, so no log waits for the records of another.
//!
//! **An unresponsive broker** is no failure until the timeout ([`Timeouts`]): the client reconnects
//! and resends, also to the next leader. If no answer arrives by then, the outcome is unknown.

use crate::address::{Address, ClientOptions};
use isomer_owned::edge::{clock, pause};
use isomer_owned::owned::Sent;
use isomer_owned::record::Offset;
use isomer_owned::{Partition, Refused, Timeouts, VisitWritten, Written};
use parking_lot::{Condvar, Mutex};
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::topic_partition_list::TopicPartitionList;
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

/// The timeout of one call of the client, between two checks.
const LOOK: Duration = Duration::from_millis(100);

/// The maximal length of a writer's name in a record.
const WRITER_CHARS_MAX: usize = 100;

/// After a failure, a reader polls up to this many events, for [`HEARS`] each, to learn the cause.
const HEARD_MAX: usize = 20;
const HEARS: Duration = Duration::from_millis(5);

/// The settings that all clients of a log share.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The address of the logs.
    pub address: Address,
    /// The user's options for the client.
    pub options: ClientOptions,
    /// The timeouts.
    pub timeouts: Timeouts,
}

/// Receives the client's callbacks.
#[derive(Default)]
pub(crate) struct Heard {
    /// The last error: the cause, if a request gets no answer.
    trouble: Mutex<Option<String>>,
    sent: Mutex<Option<Sent>>,
    is_told: Condvar,
}

impl Heard {
    /// The last error in parentheses, to append to a message.
    fn why(&self) -> String {
        self.trouble.lock().as_ref().map_or_else(String::new, |trouble| format!(" ({trouble})"))
    }
}

impl ClientContext for Heard {
    fn error(&self, error: KafkaError, reason: &str) {
        // "All brokers are down" says less than the error of the last broker.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            *self.trouble.lock() = Some(reason.to_owned());
        }
    }
}

impl ConsumerContext for Heard {}

impl ProducerContext for Heard {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let sent = match result {
            Ok(message) => Sent::Written(Offset::try_from(message.offset()).ok()),
            Err((error, _)) => Sent::Doubtful(said(error)),
        };
        *self.sent.lock() = Some(sent);
        self.is_told.notify_all();
    }
}

/// The text of an error, without the additions of the client's library.
fn said(error: &KafkaError) -> String {
    match error.rdkafka_error_code() {
        Some(code) => code.to_string(),
        None => error.to_string(),
    }
}

impl Connection {
    /// A connection with the default timeouts and no further options.
    pub fn new(address: Address) -> Connection {
        Connection { address, options: ClientOptions::default(), timeouts: Timeouts::default() }
    }

    fn client<T>(&self, more: &[(&str, &str)], heard: Heard) -> Result<T, Refused>
    where
        T: FromClientConfigAndContext<Heard>,
    {
        let mut config = ClientConfig::new();
        for (name, value) in self.options.iter() {
            config.set(name, value);
        }
        config
            .set("bootstrap.servers", self.address.brokers())
            .set("client.id", "isomer")
            .set("socket.nagle.disable", "true")
            .set("reconnect.backoff.max.ms", "1000");
        for (name, value) in more {
            config.set(*name, *value);
        }
        let made = config.create_with_context(heard);
        made.map_err(|error| match error {
            // An unknown option, or one that is not in this build: the library names it.
            KafkaError::ClientConfig(_, what, name, value) => {
                Refused(format!("the option {name}={value} of Kafka's client: {what}"))
            }
            error => Refused(format!("Kafka's client could not be made: {error}")),
        })
    }

    fn reader(&self) -> Result<BaseConsumer<Heard>, Refused> {
        self.client(
            &[
                // The library requires a group's name, though no group is joined.
                ("group.id", "isomer"),
                ("enable.auto.commit", "false"),
                ("enable.auto.offset.store", "false"),
                ("enable.partition.eof", "true"),
                ("auto.offset.reset", "error"),
                ("isolation.level", "read_uncommitted"),
                ("check.crcs", "true"),
                ("fetch.wait.max.ms", "50"),
                ("allow.auto.create.topics", "false"),
            ],
            Heard::default(),
        )
    }

    /// A client for requests about topics.
    pub(crate) fn admin(&self) -> Result<Admin, Refused> {
        let client = self.client(&[], Heard::default())?;
        Ok(Admin { client, reader: self.reader()?, connection: self.clone() })
    }
}

/// A client for requests about topics.
pub(crate) struct Admin {
    pub(crate) client: AdminClient<Heard>,
    reader: BaseConsumer<Heard>,
    pub(crate) connection: Connection,
}

/// The number of replicas of each partition of a topic.
pub(crate) struct Replicas(pub(crate) Vec<usize>);

impl Admin {
    fn topic(&self) -> &str {
        self.connection.address.topic()
    }

    /// The options of a request.
    pub(crate) fn usual(&self) -> AdminOptions {
        let ask = self.connection.timeouts.ask;
        AdminOptions::new().request_timeout(Some(ask)).operation_timeout(Some(ask))
    }

    /// Waits for the answer to a request.
    pub(crate) fn wait<T>(
        &self,
        what: &str,
        answer: impl Future<Output = Result<T, KafkaError>>,
    ) -> Result<T, Refused> {
        block_on(answer)
            .map_err(|error| Refused(format!("cannot {what}: {}{}", said(&error), self.why())))
    }

    fn why(&self) -> String {
        why(&self.reader)
    }

    /// The number of brokers, and the partitions of the topic; `None` if it does not exist.
    pub(crate) fn look(&self) -> Result<(usize, Option<Replicas>), Refused> {
        let ask = self.connection.timeouts.ask;
        let metadata = self.reader.fetch_metadata(Some(self.topic()), ask).map_err(|error| {
            let brokers = self.connection.address.brokers();
            let why = self.why();
            Refused(format!(
                "no broker of {brokers} answers in {} s: {}{why}",
                ask.as_secs(),
                said(&error)
            ))
        })?;
        let topic = metadata.topics().iter().find(|topic| topic.name() == self.topic());
        let code = topic.and_then(|topic| topic.error()).map(RDKafkaErrorCode::from);
        let brokers = metadata.brokers().len();
        match (topic, code) {
            (Some(topic), None) if !topic.partitions().is_empty() => {
                let replicas = topic.partitions().iter().map(|p| p.replicas().len()).collect();
                Ok((brokers, Some(Replicas(replicas))))
            }
            (_, None | Some(RDKafkaErrorCode::UnknownTopicOrPartition)) => Ok((brokers, None)),
            (_, Some(code)) => Err(Refused(format!("the topic cannot be used: {code}"))),
        }
    }

    /// Polls until the topic has at least this many partitions, each with a leader.
    pub(crate) fn until_there(&self, partitions: usize) -> Result<(), Refused> {
        let begun = clock();
        loop {
            if let (_, Some(Replicas(replicas))) = self.look()?
                && replicas.len() >= partitions
                && (0..partitions).all(|number| self.bounds(number as i32).is_ok())
            {
                return Ok(());
            }
            if clock() - begun > self.connection.timeouts.ask {
                return Err(Refused(format!("the topic does not get its {partitions} partitions")));
            }
            pause(LOOK);
        }
    }

    fn bounds(&self, number: i32) -> Result<(Offset, Offset), Refused> {
        bounds(&self.reader, self.topic(), number, self.connection.timeouts.ask)
    }
}

/// The last error that a reader has received.
fn why(reader: &BaseConsumer<Heard>) -> String {
    // The client delivers errors only while it is polled for records, one at a time.
    for _ in 0..HEARD_MAX {
        let _ = reader.poll(HEARS);
    }
    reader.context().why()
}

/// The first offset of a partition, and the one after its last. Retries until the timeout, because
/// a broker that has just started may not know the partition yet, or not lead it.
fn bounds(
    reader: &BaseConsumer<Heard>,
    topic: &str,
    number: i32,
    timeout: Duration,
) -> Result<(Offset, Offset), Refused> {
    let begun = clock();
    loop {
        let left = || timeout.saturating_sub(clock() - begun);
        match reader.fetch_watermarks(topic, number, left().max(LOOK)) {
            Ok((first, end)) => return Ok((first.unsigned_abs(), end.unsigned_abs())),
            Err(error) if is_forbidden(&error) || left().is_zero() => {
                let what = format!("its bounds are not known: {}{}", said(&error), why(reader));
                return Err(Refused(what));
            }
            Err(_) => {
                // Refreshes the metadata: the client may believe for long that a new topic has no
                // partitions.
                let _ = reader.fetch_metadata(Some(topic), left().max(LOOK));
                pause(LOOK);
            }
        }
    }
}

/// One partition. See the [module documentation](self).
pub struct KafkaPartition {
    connection: Connection,
    number: i32,
    /// The writer's name in messages: the key of each record. Brokers ignore it.
    writer: String,
    producer: ThreadedProducer<Heard>,
    /// Created by the first read, and kept until [`rest`](Partition::rest).
    reader: Mutex<Option<BaseConsumer<Heard>>>,
}

impl KafkaPartition {
    pub(crate) fn new(
        connection: &Connection,
        number: u32,
        record_bytes_max: usize,
    ) -> Result<KafkaPartition, Refused> {
        let write = connection.timeouts.write.as_millis().to_string();
        let bytes = record_bytes_max.max(1_000_000).to_string();
        let producer = connection.client(
            &[
                ("enable.idempotence", "true"),
                ("acks", "all"),
                ("linger.ms", "0"),
                ("compression.type", "none"),
                ("message.timeout.ms", &write),
                ("message.max.bytes", &bytes),
                ("retry.backoff.ms", "20"),
            ],
            Heard::default(),
        )?;
        let number = i32::try_from(number).expect("a topic has fewer partitions");
        let reader = Mutex::new(None);
        let (connection, writer) = (connection.clone(), String::new());
        Ok(KafkaPartition { connection, number, writer, producer, reader })
    }

    /// Sets the writer's name in all later records.
    pub(crate) fn written_by(self, writer: &str) -> KafkaPartition {
        let writer = writer.chars().take(WRITER_CHARS_MAX).collect();
        KafkaPartition { writer, ..self }
    }

    fn topic(&self) -> &str {
        self.connection.address.topic()
    }

    /// The fatal error of the producer, if it had one.
    fn fatal(&self) -> Option<String> {
        let (code, what) = self.producer.client().fatal_error()?;
        Some(format!("{code}: {what}"))
    }

    fn read_assigned(
        &self,
        reader: &BaseConsumer<Heard>,
        Range { start, end }: Range<Offset>,
        visit: &mut VisitWritten<'_>,
    ) -> Result<(), Refused> {
        let (mut heard, mut next) = (clock(), start);
        let refused = |next: Offset, what: String| {
            Refused(format!("cannot be read at offset {next}: {what}{}", reader.context().why()))
        };
        while next < end {
            match reader.poll(LOOK) {
                Some(Ok(message)) => {
                    heard = clock();
                    next = message.offset().unsigned_abs() + 1;
                    let (writer, record) = (message.key(), message.payload().unwrap_or_default());
                    if visit(Written { offset: next - 1, writer, record }).is_break() {
                        return Ok(());
                    }
                }
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(()),
                Some(Err(error)) if is_lasting(&error) => return Err(refused(next, said(&error))),
                _ if clock() - heard > self.connection.timeouts.ask => {
                    let seconds = self.connection.timeouts.ask.as_secs();
                    return Err(refused(next, format!("no broker answers in {seconds} s")));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn with_reader<T>(
        &self,
        read: impl FnOnce(&BaseConsumer<Heard>) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let mut reader = self.reader.lock();
        let reader = match &mut *reader {
            Some(reader) => reader,
            none => none.insert(self.connection.reader()?),
        };
        read(reader)
    }
}

impl Partition for KafkaPartition {
    /// Sends a record. [`Partition::wait`] must return its outcome before the next one is sent.
    fn start(&self, record: &[u8]) {
        let heard = self.producer.context();
        *heard.sent.lock() = None;
        let record =
            BaseRecord::<str, [u8]>::to(self.topic()).partition(self.number).payload(record);
        let record = if self.writer.is_empty() { record } else { record.key(&self.writer) };
        if let Err((error, _)) = self.producer.send(record) {
            *heard.sent.lock() = Some(Sent::Doubtful(said(&error)));
        }
    }

    /// Waits for the outcome of the record that was sent; `None` if it takes longer than `longest`.
    fn wait(&self, longest: Duration) -> Option<Sent> {
        let (heard, begun) = (self.producer.context(), clock());
        let mut sent = heard.sent.lock();
        while sent.is_none() {
            let left = longest.checked_sub(clock() - begun).filter(|left| !left.is_zero())?;
            heard.is_told.wait_for(&mut sent, left);
        }
        match sent.take()? {
            Sent::Doubtful(what) => {
                let what = self.fatal().unwrap_or(what);
                Some(Sent::Doubtful(format!("{what}{}", heard.why())))
            }
            written => Some(written),
        }
    }

    /// The last error in parentheses, if any, to append to a message.
    fn why(&self) -> String {
        self.producer.context().why()
    }

    fn timeouts(&self) -> Timeouts {
        self.connection.timeouts
    }

    /// The offset of the first available record, and the one after the last.
    fn bounds(&self) -> Result<(Offset, Offset), Refused> {
        let ask = self.connection.timeouts.ask;
        self.with_reader(|reader| bounds(reader, self.topic(), self.number, ask))
    }

    /// The offset after the last record, if a broker answers. Opens no connection.
    fn end(&self) -> Option<Offset> {
        let ask = self.connection.timeouts.ask;
        let found = self.producer.client().fetch_watermarks(self.topic(), self.number, ask);
        found.ok().map(|(_, end)| end.unsigned_abs())
    }

    /// Unreadable records at the end are an error.
    fn read(&self, from: Offset, visit: &mut VisitWritten<'_>) -> Result<(), Refused> {
        // Up to the present end only: while another process keeps writing, the broker reports no
        // end.
        let (_, end) = self.bounds()?;
        if from >= end {
            return Ok(());
        }
        self.with_reader(|reader| {
            let mut list = TopicPartitionList::new();
            let offset = rdkafka::Offset::Offset(from.cast_signed());
            let assigned = list
                .add_partition_offset(self.topic(), self.number, offset)
                .and_then(|()| reader.assign(&list));
            assigned.map_err(|error| Refused(format!("cannot be read: {}", said(&error))))?;
            let read = self.read_assigned(reader, from..end, visit);
            // Stops the client from fetching ahead.
            let _ = reader.unassign();
            read
        })
    }

    /// Closes the connection for reads. The next read opens it again.
    fn rest(&self) {
        *self.reader.lock() = None;
    }

    /// Removes the records before an offset.
    fn remove_before(&self, offset: Offset) -> Result<(), Refused> {
        let admin = self.connection.admin()?;
        let mut list = TopicPartitionList::new();
        let offset = rdkafka::Offset::Offset(offset.cast_signed());
        list.add_partition_offset(self.topic(), self.number, offset)
            .map_err(|error| Refused(said(&error)))?;
        let removed =
            admin.wait("remove old records", admin.client.delete_records(&list, &admin.usual()))?;
        match removed.elements().first().map(|element| element.error()) {
            Some(Err(error)) => {
                Err(Refused(format!("cannot remove old records: {}", said(&error))))
            }
            _ => Ok(()),
        }
    }
}

/// True if this client is not authorized.
fn is_forbidden(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::TopicAuthorizationFailed)
}

/// True if a retry would fail as well.
fn is_lasting(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{
        AutoOffsetReset, BadMessage, InvalidMessage, OffsetOutOfRange, TopicAuthorizationFailed,
        UnknownPartition, UnknownTopic, UnknownTopicOrPartition,
    };
    let lasting = [
        AutoOffsetReset,
        BadMessage,
        InvalidMessage,
        OffsetOutOfRange,
        TopicAuthorizationFailed,
        UnknownPartition,
        UnknownTopic,
        UnknownTopicOrPartition,
    ];
    error.rdkafka_error_code().is_some_and(|code| lasting.contains(&code))
}

/// Waits for a future that the client's own threads complete.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Unpark>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}
