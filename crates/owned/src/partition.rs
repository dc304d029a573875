//! A carrier and its partitions: what a service must offer so that logs can be in it.
//!
//! ```text
//!   start ─▶ wait         one record at a time; its outcome: an offset, or doubt
//!   bounds, read          records in their order, each with its offset and its writer
//!   remove_before         records that a checkpoint replaces
//! ```
//!
//! **Guarantees of a carrier.** A record whose append was acknowledged is never lost and never
//! changes its offset. All readers see the same records at the same offsets. Offsets grow. The
//! carrier may skip offsets, append a record twice, and append it after its sender has given up.

use crate::owned::Sent;
use crate::record::Offset;
use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

/// Why a request failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Timeouts for a carrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// After this time a log that cannot be written fails. Until then commits wait.
    pub write: Duration,
    /// After this time a request fails: a read, or any request while a log is opened.
    pub ask: Duration,
}

impl Default for Timeouts {
    /// Two minutes for writes, as in Kafka's own clients, and ten seconds for requests.
    fn default() -> Timeouts {
        Timeouts { write: Duration::from_secs(120), ask: Duration::from_secs(10) }
    }
}

/// A record of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written<'r> {
    /// Its offset.
    pub offset: Offset,
    /// The name of its writer, if the carrier keeps it.
    pub writer: Option<&'r [u8]>,
    /// Its bytes.
    pub record: &'r [u8],
}

/// The newest record of a partition that this process has received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Newest {
    /// Its offset.
    pub offset: Offset,
    /// How long ago it was received, or less.
    pub age: Duration,
}

/// Visits records, until it breaks.
pub type VisitWritten<'v> = dyn FnMut(Written<'_>) -> ControlFlow<()> + 'v;

/// One partition. Methods wait for the carrier where they say so.
pub trait Partition: Send + Sync {
    /// The timeouts of its carrier.
    fn timeouts(&self) -> Timeouts;

    /// Sends a record. [`Partition::wait`] must return its outcome before the next one is sent.
    fn start(&self, record: &[u8]);

    /// Waits for the outcome of the record that was sent; `None` if it takes longer than `longest`.
    fn wait(&self, longest: Duration) -> Option<Sent>;

    /// Sends a record and waits for its outcome.
    fn send(&self, record: &[u8], longest: Duration) -> Option<Sent> {
        self.start(record);
        self.wait(longest)
    }

    /// The carrier's last error in parentheses, if any, to append to a message.
    fn why(&self) -> String;

    /// The offset of the first available record, and the one after the last. Waits for the carrier.
    ///
    /// # Errors
    /// [`Refused`], if it does not answer in time.
    fn bounds(&self) -> Result<(Offset, Offset), Refused>;

    /// The offset after the last record, if the carrier answers. Opens no connection.
    fn end(&self) -> Option<Offset>;

    /// The newest record that this process has received, if the carrier knows when that was.
    fn newest(&self) -> Option<Newest> {
        None
    }

    /// Passes the records from an offset on to `visit`, until it breaks or the present end is
    /// reached.
    ///
    /// # Errors
    /// [`Refused`], also if records before the end cannot be read.
    fn read(&self, from: Offset, visit: &mut VisitWritten<'_>) -> Result<(), Refused>;

    /// The owner has finished reading for now: connections for reads may be closed.
    fn rest(&self) {}

    /// Removes the records before an offset.
    ///
    /// # Errors
    /// [`Refused`].
    fn remove_before(&self, offset: Offset) -> Result<(), Refused>;
}

/// A service with the partitions of one database. See the [module documentation](self).
pub trait Carrier: Send + Sync {
    /// Its partitions.
    type Partition: Partition;

    /// Its place, in the form of the command line.
    fn place(&self) -> String;

    /// The place of a partition, for messages.
    fn place_of(&self, number: u32) -> String {
        format!("{}, partition {number}", self.place())
    }

    /// Creates what the partitions need, if it does not exist.
    ///
    /// # Errors
    /// [`Refused`], also if the carrier's settings could lose records.
    fn prepare(&self) -> Result<(), Refused>;

    /// The number of partitions; 0 if the carrier was never prepared. Creates nothing.
    ///
    /// # Errors
    /// [`Refused`].
    fn partitions(&self) -> Result<u32, Refused>;

    /// True if there is a partition of this number. Creates nothing.
    ///
    /// # Errors
    /// [`Refused`].
    fn exists(&self, number: u32) -> Result<bool, Refused> {
        Ok(number < self.partitions()?)
    }

    /// Creates partitions until there is one of this number. Returns the maximal length of a
    /// record. The carrier was prepared before.
    ///
    /// # Errors
    /// [`Refused`].
    fn grow_to(&self, number: u32) -> Result<usize, Refused>;

    /// A partition that exists, for records of up to `record_bytes_max` bytes. Its records are
    /// marked with the name of this writer, if the carrier keeps names.
    ///
    /// # Errors
    /// [`Refused`].
    fn partition(
        &self,
        number: u32,
        record_bytes_max: usize,
        writer: &str,
    ) -> Result<Self::Partition, Refused>;
}
