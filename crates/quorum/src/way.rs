//! The way from a process to the copies of the logs: it keeps copies itself, or asks a process that
//! does.

use crate::client::Client;
use crate::command::Records;
use crate::quorum::Quorum;
use crate::requests::{NoOutcome, Pending, Reply, Request};
use crate::roster::Standing;
use isomer_owned::Newest;
use isomer_owned::edge::{clock, pause};
use std::sync::Arc;
use std::time::Duration;

/// The pause between two looks whether a member takes part.
const LOOK: Duration = Duration::from_millis(50);

/// The way from a process to the copies of the logs.
#[derive(Clone)]
pub(crate) enum Way {
    /// It keeps copies itself.
    Member(Arc<Quorum>),
    /// It asks those that do.
    Client(Arc<Client>),
}

impl Way {
    fn begin(&self, request: Request) -> Pending {
        match self {
            Way::Member(quorum) => quorum.begin(request),
            Way::Client(client) => client.begin(request),
        }
    }

    fn request(&self, request: Request, longest: Duration) -> Result<Reply, String> {
        self.begin(request).reply(longest).map_err(|none| match none {
            NoOutcome::Late => self.why_late(),
            NoOutcome::Ended(why) => why,
        })
    }

    /// The names of all members, in their order.
    pub(crate) fn names(&self) -> &[String] {
        match self {
            Way::Member(quorum) => quorum.names(),
            Way::Client(client) => client.names(),
        }
    }

    /// The members that cannot be reached, with reasons.
    fn missing(&self) -> String {
        match self {
            Way::Member(quorum) => quorum.missing(),
            Way::Client(client) => client.missing(),
        }
    }

    /// Why a request has no answer yet.
    pub(crate) fn why_late(&self) -> String {
        match self.missing() {
            missing if missing.is_empty() => "no majority of the nodes has answered yet".to_owned(),
            missing => format!("no majority of the nodes answers: {missing}"),
        }
    }

    /// Waits until a majority answers, and this process takes part if it is a member. False if that
    /// takes longer than `longest`.
    ///
    /// # Errors
    /// Why this process may not take part.
    pub(crate) fn is_ready(&self, longest: Duration) -> Result<bool, String> {
        let until = clock() + longest;
        while let Way::Member(_) = self {
            match self.begin(Request::States).reply(until.saturating_sub(clock())) {
                Ok(Reply::States(Standing::Refused(why), _)) | Err(NoOutcome::Ended(why)) => {
                    return Err(why);
                }
                Ok(Reply::States(Standing::Member, _)) => break,
                // A disk that is busy is no reason to give up.
                _ if clock() >= until => return Ok(false),
                _ => pause(LOOK),
            }
        }
        match self.begin(Request::Ask(0)).wait(until.saturating_sub(clock())) {
            Ok(_) => Ok(true),
            Err(NoOutcome::Late) => Ok(false),
            Err(NoOutcome::Ended(why)) => Err(why),
        }
    }

    pub(crate) fn append(&self, group: u32, record: &[u8]) -> Pending {
        self.begin(Request::Append(group, record.to_vec()))
    }

    pub(crate) fn remove_before(
        &self,
        group: u32,
        offset: u64,
        longest: Duration,
    ) -> Result<(), String> {
        self.request(Request::RemoveBefore(group, offset), longest).map(drop)
    }

    /// Waits until the member has all records that were acknowledged before.
    pub(crate) fn catch_up(&self, group: u32, longest: Duration) -> Result<(), String> {
        self.request(Request::Ask(group), longest).map(drop)
    }

    pub(crate) fn bounds(&self, group: u32, longest: Duration) -> Result<(u64, u64), String> {
        match self.request(Request::Bounds(group), longest)? {
            Reply::Bounds(bounds) => Ok(bounds),
            _ => Err(self.why_late()),
        }
    }

    pub(crate) fn read(
        &self,
        group: u32,
        from: u64,
        bytes_max: u64,
        longest: Duration,
    ) -> Result<(Records, u64), String> {
        match self.request(Request::Read(group, from, bytes_max), longest)? {
            Reply::Records(records, next) => Ok((records, next)),
            _ => Err(self.why_late()),
        }
    }

    pub(crate) fn has(&self, group: u32, longest: Duration) -> Result<bool, String> {
        match self.request(Request::Has(group), longest)? {
            Reply::Has(has) => Ok(has),
            _ => Err(self.why_late()),
        }
    }

    /// The newest record of a group that the member has received.
    pub(crate) fn newest(&self, group: u32, longest: Duration) -> Option<Newest> {
        match self.request(Request::Newest(group), longest) {
            Ok(Reply::Newest(newest)) => newest.map(|(offset, age)| Newest { offset, age }),
            _ => None,
        }
    }

    pub(crate) fn partitions(&self, longest: Duration) -> Result<u32, String> {
        match self.request(Request::Count, longest)? {
            Reply::Count(count) => Ok(count),
            _ => Err(self.why_late()),
        }
    }
}
