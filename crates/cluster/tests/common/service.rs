//! Logs in memory that outlive the databases that open them, for tests.

use isomer_cluster::{ClaimNote, DatabaseId, FoundLogs, LogError, LogOf, Logs};
use isomer_log::{Log, MemoryLog, MemoryOptions, OpenError, Position};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

/// Keeps logs in memory. Opening a log takes it from its previous owner, which is fenced.
pub(crate) struct Service {
    database: DatabaseId,
    logs: Mutex<Vec<(LogOf, Arc<MemoryLog>)>>,
}

impl Service {
    /// Logs of a database that is yet to be created.
    pub(crate) fn new(database: u128) -> Arc<Service> {
        Arc::new(Service { database: DatabaseId(database), logs: Mutex::default() })
    }
}

impl Logs for Service {
    fn place(&self) -> String {
        format!("memory:{}", self.database.0)
    }

    fn find(&self) -> Result<FoundLogs, OpenError> {
        let is_new = self.logs.lock().expect("no panic").is_empty();
        Ok(FoundLogs { database: self.database, is_new })
    }

    fn open(
        &self,
        database: DatabaseId,
        of: LogOf,
        needed: Option<Position>,
        _: Option<ClaimNote>,
        options: &isomer_log::Options,
    ) -> Result<(Arc<dyn Log>, Vec<String>), OpenError> {
        assert_eq!(database, self.database);
        let mut logs = self.logs.lock().expect("no panic");
        let at = logs.iter().position(|(other, _)| *other == of);
        if let (Some(at), Some(needed)) = (at, needed)
            && logs[at].1.begin() > needed
        {
            let (place, what) = (self.place(), format!("{of:?} begins too late"));
            return Err(OpenError::Elsewhere { place, what });
        }
        let found = at.map(|at| logs.remove(at).1);
        let log = match found {
            Some(before) => {
                let now = before.crash(before.durable());
                let (durable, what) = (before.durable(), "it was opened anew".into());
                before.end_with(LogError::Fenced { durable, what });
                now
            }
            None if options.must_exist => {
                let (place, what) = (self.place(), format!("{of:?} has no log"));
                return Err(OpenError::Elsewhere { place, what });
            }
            None => MemoryLog::new(MemoryOptions {
                durability: options.durability,
                ..MemoryOptions::default()
            }),
        };
        let log = Arc::new(log);
        logs.push((of, log.clone()));
        Ok((log, Vec::new()))
    }

    fn last_frame(&self, database: DatabaseId, of: LogOf) -> Result<Option<Vec<u8>>, OpenError> {
        assert_eq!(database, self.database);
        let logs = self.logs.lock().expect("no panic");
        let mut last = None;
        if let Some((_, log)) = logs.iter().find(|(other, _)| *other == of) {
            let read = log.read(log.begin(), &mut |_, frame| {
                last = Some(frame.to_vec());
                ControlFlow::Continue(())
            });
            read.expect("it is in memory");
        }
        Ok(last)
    }
}
