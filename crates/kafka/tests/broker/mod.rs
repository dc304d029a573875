//! A broker for tests, and requests to it.

#![allow(dead_code, reason = "each test uses a part")]

mod process;

pub(crate) use process::Broker;

use isomer_kafka::Connection;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

impl Broker {
    /// A connection to a topic.
    pub(crate) fn connection(&self, topic: &str) -> Connection {
        Connection::new(self.address(topic).parse().expect("an address"))
    }
}

/// A connection to a topic of the broker at a port, which need not exist.
pub(crate) fn connection(port: u16, topic: &str) -> Connection {
    Connection::new(process::address(port, topic).parse().expect("an address"))
}

/// Sends a request to the broker, and waits.
pub(crate) fn asked<T>(
    connection: &Connection,
    ask: impl AsyncFnOnce(&AdminClient<DefaultClientContext>, &AdminOptions) -> T,
) -> T {
    let brokers = connection.address.brokers();
    let client: AdminClient<_> =
        ClientConfig::new().set("bootstrap.servers", brokers).create().expect("a client");
    let options = AdminOptions::new();
    let mut answer = pin!(ask(&client, &options));
    loop {
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

pub(crate) fn create_topic(connection: &Connection, settings: &[(&'static str, &'static str)]) {
    let topic = connection.address.topic().to_owned();
    asked(connection, async |client, options| {
        let new = NewTopic::new(&topic, 1, TopicReplication::Fixed(1));
        let new = settings.iter().fold(new, |new, (name, value)| new.set(name, value));
        client.create_topics([&new], options).await.expect("an answer")[0].clone().expect("made");
    });
}
