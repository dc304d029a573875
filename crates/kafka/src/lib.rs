//! Redo logs in Apache Kafka: each in a topic partition, owned by whoever has claimed it last.

pub mod lease;
pub mod ownership;
pub mod record;
pub mod stream;
