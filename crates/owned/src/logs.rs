//! All logs of a database: a partition for the catalog, number 0, one for each site, and one for
//! the order of ordered tables.

use crate::lease::Times;
use crate::log::PartitionLog;
use crate::look::{Look, look};
use crate::owned::Options;
use crate::partition::{Carrier, Partition, Refused, Written};
use crate::record::{Head, Term};
use isomer_cluster::{ClaimNote, DatabaseId, FoundLogs, LogOf, Logs};
use isomer_design::{SITES_MAX, SiteId};
use isomer_log::{Log, OpenError, Position};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// The number of the order's log: after those of all possible sites.
pub const ORDER: u32 = SITES_MAX as u32 + 1;

/// The logs of a database in the partitions of a carrier.
pub struct CarriedLogs<C> {
    carrier: C,
    /// The name of this process in messages of others.
    name: String,
    usual: Options,
}

impl<C: Carrier> CarriedLogs<C> {
    /// The logs of a carrier, which is not asked yet.
    pub fn new(carrier: C) -> CarriedLogs<C> {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        let name = format!("process {} on {host}", std::process::id());
        CarriedLogs { carrier, name, usual: Options::default() }
    }

    /// Adds a name to that of this process: its name in the cluster, before its number and host.
    pub fn named(self, name: &str) -> CarriedLogs<C> {
        CarriedLogs { name: format!("{name}, {}", self.name), ..self }
    }

    /// Replaces the default options, of which `open` overrides some.
    pub fn with_options(self, usual: Options) -> CarriedLogs<C> {
        CarriedLogs { usual, ..self }
    }

    /// Sets the lease of this process, within the bounds of [`Times::lasting`].
    pub fn with_lease(self, lease: Duration) -> CarriedLogs<C> {
        let usual = Options { times: Times::lasting(lease), ..self.usual };
        CarriedLogs { usual, ..self }
    }

    /// The carrier.
    pub fn carrier(&self) -> &C {
        &self.carrier
    }

    /// The state of all logs, by their numbers; none if no database uses the carrier. Reads all
    /// records of the logs, and neither claims nor creates anything.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn look(&self) -> Result<Vec<(LogOf, Look)>, OpenError> {
        self.try_look().map_err(self.elsewhere())
    }

    fn try_look(&self) -> Result<Vec<(LogOf, Look)>, Refused> {
        let partitions = self.carrier.partitions()?;
        if partitions == 0 {
            return Ok(Vec::new());
        }
        let Some(database) = self.owner_of_catalog()? else { return Ok(Vec::new()) };
        let look = |number: u32| {
            let log = match u16::try_from(number) {
                Ok(0) | Err(_) => LogOf::Catalog,
                Ok(site) => LogOf::Site(SiteId(site)),
            };
            let found = self.look_at(database, number);
            let at = |Refused(what)| Refused(format!("partition {number}: {what}"));
            Ok((log, found.map_err(at)?))
        };
        (0..partitions).map(look).collect()
    }

    fn look_at(&self, DatabaseId(database): DatabaseId, number: u32) -> Result<Look, Refused> {
        look(&self.to_read(number)?, database, number)
    }

    /// A partition for reading.
    fn to_read(&self, number: u32) -> Result<C::Partition, Refused> {
        self.carrier.partition(number, self.usual.record_bytes_max, "")
    }

    /// The database of the first record in the catalog's log; `None` if there is none.
    fn owner_of_catalog(&self) -> Result<Option<DatabaseId>, Refused> {
        let partition = self.to_read(0)?;
        let (first, end) = partition.bounds()?;
        if first == end {
            return Ok(None);
        }
        let mut found = None;
        partition.read(first, &mut |Written { offset, record, .. }| {
            let head = Head::read(record).map(|(head, _)| DatabaseId(head.database));
            found = Some(
                head.map_err(|error| Refused(format!("the record at offset {offset}: {error}"))),
            );
            ControlFlow::Break(())
        })?;
        found.unwrap_or_else(|| Err(Refused("its records cannot be read".to_owned()))).map(Some)
    }

    fn try_find(&self) -> Result<FoundLogs, Refused> {
        self.carrier.prepare()?;
        if let Some(database) = self.owner_of_catalog()? {
            return Ok(FoundLogs { database, is_new: false });
        }
        let random =
            || getrandom::u64().map_err(|error| Refused(format!("no random number: {error}")));
        let database = DatabaseId(u128::from(random()?) << 64 | u128::from(random()?));
        Ok(FoundLogs { database, is_new: true })
    }

    fn elsewhere(&self) -> impl Fn(Refused) -> OpenError {
        |Refused(what)| OpenError::Elsewhere { place: self.carrier.place(), what }
    }
}

impl<C: Carrier> Logs for CarriedLogs<C>
where
    C::Partition: 'static,
{
    fn place(&self) -> String {
        self.carrier.place()
    }

    fn has_order(&self, _: DatabaseId) -> Result<bool, OpenError> {
        self.carrier.exists(ORDER).map_err(self.elsewhere())
    }

    fn stale_for(&self) -> Duration {
        self.usual.times.waits
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
            let what = "what is lost of such a log cannot be accepted: only logs in files can be opened without it";
            return Err(self.elsewhere()(Refused(what.to_owned())));
        }
        let number = number_of(log);
        let record_bytes_max = self.carrier.grow_to(number).map_err(self.elsewhere())?;
        let record_bytes_max = record_bytes_max.min(self.usual.record_bytes_max);
        let options = Options {
            durability: options.durability,
            must_exist: options.must_exist,
            needed,
            ended: note.as_ref().and_then(ClaimNote::ended).and_then(|claim| Term::parse(&claim)),
            record_bytes_max,
            ..self.usual
        };
        let place: Arc<str> = self.carrier.place_of(number).into();
        let partition = self.carrier.partition(number, record_bytes_max, &self.name);
        let partition = partition.map_err(self.elsewhere())?;
        let opened = PartitionLog::open(partition, &place, database.0, number, &self.name, options);
        let (log, report) = opened?;
        let mut notes = Vec::new();
        if let Some(before) = report.taken_from.filter(|_| !report.waits.is_zero()) {
            let seconds = report.waits.as_secs_f32();
            notes.push(format!(
                "the log at {place}, was not released by {before}: commits wait for {seconds:.1} s"
            ));
        }
        Ok((Arc::new(log.noted(note)), notes))
    }

    fn last_frame(&self, database: DatabaseId, log: LogOf) -> Result<Option<Vec<u8>>, OpenError> {
        let found = self.look_at(database, number_of(log));
        Ok(found.map_err(self.elsewhere())?.last)
    }
}

/// The number of a log in its database, and of its partition at the carrier.
fn number_of(log: LogOf) -> u32 {
    match log {
        LogOf::Catalog => 0,
        LogOf::Site(site) => u32::from(site.0),
        LogOf::Order => ORDER,
    }
}
