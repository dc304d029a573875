//! The address of logs: `kafka://HOST:PORT,HOST:PORT/TOPIC`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

const SCHEME: &str = "kafka://";
/// The end of the name of the order's topic.
const ORDER: &str = "-order";
/// The maximal length of a topic's name: at a broker it is 249, and the order's topic has a longer
/// one.
const TOPIC_BYTES_MAX: usize = 249 - ORDER.len();

/// Brokers and a topic. One reachable broker is enough, because it lists the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    brokers: String,
    topic: String,
}

/// The error for a text that is no address.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "`{text}` is no address of logs: {what}; write for example kafka://broker1:9092,broker2:9092/shop"
)]
pub struct BadAddress {
    text: String,
    what: &'static str,
}

impl Address {
    /// The brokers, in the syntax of their client.
    pub fn brokers(&self) -> &str {
        &self.brokers
    }

    /// The topic, which is the name of the database.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The topic of the order of ordered tables, at the same brokers.
    pub(crate) fn of_order(&self) -> Address {
        Address { topic: format!("{}{ORDER}", self.topic), ..self.clone() }
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Address, BadAddress> {
        let bad = |what| BadAddress { text: text.to_owned(), what };
        let rest =
            text.strip_prefix(SCHEME).ok_or_else(|| bad("it does not begin with kafka://"))?;
        let (brokers, topic) = rest
            .split_once('/')
            .filter(|(_, topic)| !topic.is_empty())
            .ok_or_else(|| bad("it does not end with a topic"))?;
        let is_broker = |broker: &str| {
            let parts = broker.rsplit_once(':');
            parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        if !brokers.split(',').all(is_broker) {
            return Err(bad("each broker is HOST:PORT"));
        }
        let is_usual = |sign: char| sign.is_ascii_alphanumeric() || "._-".contains(sign);
        if !topic.chars().all(is_usual) || topic == "." || topic == ".." {
            return Err(bad("a topic has letters, digits, `.`, `_` and `-`"));
        }
        if topic.len() > TOPIC_BYTES_MAX {
            return Err(bad("a topic's name has at most 243 letters"));
        }
        Ok(Address { brokers: brokers.to_owned(), topic: topic.to_owned() })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.brokers, self.topic)
    }
}

/// Client options that the log sets itself, because its guarantees depend on them.
const OURS: &[&str] = &[
    "acks",
    "auto.offset.reset",
    "batch.num.messages",
    "bootstrap.servers",
    "check.crcs",
    "compression.codec",
    "compression.type",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "enable.partition.eof",
    "group.id",
    "group.instance.id",
    "isolation.level",
    "linger.ms",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "message.send.max.retries",
    "message.timeout.ms",
    "delivery.timeout.ms",
    "metadata.broker.list",
    "partitioner",
    "queue.buffering.max.ms",
    "request.required.acks",
    "retries",
    "transactional.id",
];

/// Further options for the brokers' client, such as credentials: see librdkafka's CONFIGURATION.md.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ClientOptions(BTreeMap<String, String>);

impl ClientOptions {
    /// Sets an option. Unknown options, and those missing from this build, fail when the client is
    /// created.
    ///
    /// # Errors
    /// If the log sets this option itself.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if OURS.contains(&name) {
            return Err(format!(
                "the option {name} of Kafka's client is set by the log itself, which depends on it"
            ));
        }
        self.0.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&name[..], &value[..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_and_others_are_refused_with_what_is_wrong() {
        for text in ["kafka://localhost:9092/shop", "kafka://a:1,b.example:2,[::1]:3/Shop_1.x-y"] {
            assert_eq!(text.parse::<Address>().map(|address| address.to_string()), Ok(text.into()));
        }
        for (text, what) in [
            ("localhost:9092/shop", "kafka://"),
            ("kafka://localhost:9092", "a topic"),
            ("kafka://localhost:9092/", "a topic"),
            ("kafka://localhost/shop", "HOST:PORT"),
            ("kafka://localhost:99999/shop", "HOST:PORT"),
            ("kafka://a:1,,b:2/shop", "HOST:PORT"),
            ("kafka://a:1/shop/1", "letters, digits"),
            ("kafka://a:1/my shop", "letters, digits"),
        ] {
            let said = text.parse::<Address>().expect_err(text).to_string();
            assert!(said.contains(what) && said.contains(text), "{said}");
        }
    }

    #[test]
    fn options_that_the_log_depends_on_are_refused() {
        let mut options = ClientOptions::default();
        assert!(options.set("security.protocol", "SASL_SSL").is_ok());
        let said = options.set("acks", "1").expect_err("it would lose commits");
        assert!(said.contains("acks"), "{said}");
    }
}
