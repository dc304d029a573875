//! The topic of a database. It is created with settings that keep acknowledged records, and refused
//! if it has others.
//!
//! | setting | must be | otherwise |
//! | --- | --- | --- |
//! | `cleanup.policy` | `delete` | compaction removes records by their keys |
//! | `retention.ms`, `retention.bytes` | -1 | old records are removed without a checkpoint |
//! | `unclean.leader.election.enable` | false | a replica without acknowledged records may lead |
//! | `min.insync.replicas` | 2, with several replicas | one broker acknowledges alone |
//! | `flush.messages` | 1, with one replica | acknowledged records are only in memory |
//! | `compression.type` | `producer`, `uncompressed` | the client of this program cannot read it |
//! | `max.message.bytes` | 65536 at least | records would be tiny |

use crate::partition::{Admin, Replicas};
use isomer_owned::Refused;
use isomer_owned::edge::{clock, pause};
use rdkafka::admin::{NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use std::collections::BTreeMap;
use std::time::Duration;

/// The pause before a broker that does not know the topic yet is asked again.
const AGAIN: Duration = Duration::from_millis(100);
/// Replicas of a new topic, if there are that many brokers.
const REPLICAS: usize = 3;
/// Brokers free space by whole segments, and a checkpoint is made every 64 MB of log.
const SEGMENT_BYTES: &str = "67108864";
/// The lower limit for `max.message.bytes`.
const RECORD_BYTES_MIN: usize = 64 << 10;

/// The properties of a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Topic {
    pub(crate) partitions: usize,
    /// The maximal length of a record.
    pub(crate) record_bytes_max: usize,
}

/// Creates the topic.
pub(crate) fn create(admin: &Admin, brokers: usize, partitions: usize) -> Result<(), Refused> {
    let replicas = brokers.clamp(1, REPLICAS);
    let mut topic = NewTopic::new(
        admin.connection.address.topic(),
        i32::try_from(partitions).expect("a database has fewer sites"),
        TopicReplication::Fixed(replicas as i32),
    )
    .set("cleanup.policy", "delete")
    .set("retention.ms", "-1")
    .set("retention.bytes", "-1")
    .set("segment.bytes", SEGMENT_BYTES)
    .set("unclean.leader.election.enable", "false")
    .set("compression.type", "producer");
    topic = match replicas {
        1 => topic.set("flush.messages", "1"),
        _ => topic.set("min.insync.replicas", "2"),
    };
    let created =
        admin.wait("create the topic", admin.client.create_topics([&topic], &admin.usual()))?;
    match created.into_iter().next() {
        // Another process may have created it first.
        Some(Err((_, code))) if code != rdkafka::error::RDKafkaErrorCode::TopicAlreadyExists => {
            Err(Refused(format!("cannot create the topic: {code}")))
        }
        _ => admin.until_there(partitions),
    }
}

/// Adds partitions until the topic has at least this many.
pub(crate) fn grow(admin: &Admin, partitions: usize) -> Result<(), Refused> {
    if has(admin, partitions)? {
        return Ok(());
    }
    let new = NewPartitions::new(admin.connection.address.topic(), partitions);
    let grown =
        admin.wait("add a partition", admin.client.create_partitions([&new], &admin.usual()))?;
    match grown.into_iter().next() {
        // Another process of the cluster may have added them, or more.
        Some(Err((_, code))) if !has(admin, partitions)? => {
            Err(Refused(format!("cannot add a partition: {code}")))
        }
        _ => admin.until_there(partitions),
    }
}

/// True if the topic has at least this many partitions.
fn has(admin: &Admin, partitions: usize) -> Result<bool, Refused> {
    let (_, found) = admin.look()?;
    Ok(found.is_some_and(|Replicas(replicas)| replicas.len() >= partitions))
}

/// The number of brokers, and the topic if it is usable; `None` if it does not exist.
pub(crate) fn check(admin: &Admin) -> Result<(usize, Option<Topic>), Refused> {
    let (brokers, found) = admin.look()?;
    let Some(Replicas(replicas)) = found else { return Ok((brokers, None)) };
    let begun = clock();
    let settings = loop {
        match settings(admin) {
            Ok(settings) => break settings,
            // A broker may not know a new topic yet.
            Err(why) if clock() - begun > admin.connection.timeouts.ask => return Err(why),
            Err(_) => pause(AGAIN),
        }
    };
    let fewest = replicas.iter().copied().min().unwrap_or(0);
    let record_bytes_max = check_settings(&settings, fewest).map_err(Refused)?;
    Ok((brokers, Some(Topic { partitions: replicas.len(), record_bytes_max })))
}

/// The topic's settings, as a broker reports them.
fn settings(admin: &Admin) -> Result<BTreeMap<String, String>, Refused> {
    let of_topic = ResourceSpecifier::Topic(admin.connection.address.topic());
    let described = admin.client.describe_configs([&of_topic], &admin.usual());
    let described = admin.wait("read the topic's settings", described)?;
    match described.into_iter().next() {
        Some(Ok(resource)) if !resource.entries.is_empty() => {
            let entries = resource.entries.into_iter();
            Ok(entries.map(|entry| (entry.name, entry.value.unwrap_or_default())).collect())
        }
        Some(Err(code)) => Err(Refused(format!("cannot read the topic's settings: {code}"))),
        _ => Err(Refused("the brokers do not say how the topic is set".to_owned())),
    }
}

/// Refuses settings that could lose records. Returns the maximal length of a record.
fn check_settings(settings: &BTreeMap<String, String>, replicas: usize) -> Result<usize, String> {
    let value = |name: &str| settings.get(name).map_or("", |value| &value[..]);
    let is = |name: &str, right: &[&str], why: &str| {
        let found = value(name);
        if right.contains(&found) {
            return Ok(());
        }
        let right = right.join(" or ");
        Err(format!("the topic has {name}={found}, and {why}: set it to {right}"))
    };
    is("cleanup.policy", &["delete"], "compaction would remove records")?;
    is("retention.ms", &["-1"], "records would be removed that no checkpoint stands for")?;
    is("retention.bytes", &["-1"], "records would be removed that no checkpoint stands for")?;
    is(
        "unclean.leader.election.enable",
        &["false"],
        "a broker could lead that lacks what was acknowledged",
    )?;
    is(
        "compression.type",
        &["producer", "uncompressed"],
        "this program could not read the records",
    )?;
    if replicas < 2 {
        is("flush.messages", &["1"], "its only broker would acknowledge what is not on its disk")?;
    } else if value("min.insync.replicas").parse::<usize>().is_ok_and(|least| least < 2) {
        return Err(format!(
            "the topic has min.insync.replicas={} of {replicas} replicas, and one broker would acknowledge alone: set \
             it to 2",
            value("min.insync.replicas")
        ));
    }
    let record = value("max.message.bytes").parse().unwrap_or(RECORD_BYTES_MIN);
    if record < RECORD_BYTES_MIN {
        return Err(format!(
            "the topic has max.message.bytes={record}: set it to {RECORD_BYTES_MIN} at least"
        ));
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(replicas: usize, name: &str, value: &str) -> Result<usize, String> {
        let mut settings: BTreeMap<String, String> = [
            ("cleanup.policy", "delete"),
            ("retention.ms", "-1"),
            ("retention.bytes", "-1"),
            ("unclean.leader.election.enable", "false"),
            ("compression.type", "producer"),
            ("min.insync.replicas", "2"),
            ("flush.messages", "1"),
            ("max.message.bytes", "1048588"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        settings.insert(name.to_owned(), value.to_owned());
        check_settings(&settings, replicas)
    }

    #[test]
    fn settings_that_could_lose_records_are_named() {
        assert_eq!(settings(3, "max.message.bytes", "2000000"), Ok(2_000_000));
        assert_eq!(settings(3, "flush.messages", "9223372036854775807"), Ok(1_048_588));
        assert_eq!(settings(1, "min.insync.replicas", "1"), Ok(1_048_588));
        for (replicas, name, value) in [
            (3, "cleanup.policy", "compact"),
            (3, "cleanup.policy", "compact,delete"),
            (3, "retention.ms", "604800000"),
            (3, "retention.bytes", "1073741824"),
            (3, "unclean.leader.election.enable", "true"),
            (3, "min.insync.replicas", "1"),
            (3, "compression.type", "zstd"),
            (1, "flush.messages", "9223372036854775807"),
            (3, "max.message.bytes", "1000"),
        ] {
            let said = settings(replicas, name, value).expect_err(name);
            assert!(
                said.contains(&format!("{name}={value}")) && said.contains("set it to"),
                "{said}"
            );
        }
    }
}
