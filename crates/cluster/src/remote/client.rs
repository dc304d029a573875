//! Asking sites in other processes.

use super::pins::{ClientPin, ClientPins};
use super::{Early, Unanswered, Wire};
use crate::embedded::Mailboxes;
use crate::reach::Reach;
use crate::transport::calls_for_failover;
use isomer_design::{SiteId, Time};
use isomer_log::LogError;
use isomer_site::wire::{
    self, Asked, BadMessage, ClientId, Execute, Latest, Leased, PinAt, ReadAt, Rows, Seated, Tick,
    ToGateway,
};
use isomer_site::{
    Answer, BatchAnswer, BatchStep, Failure, Network, Part, PartAnswer, Published, Read, Refusal,
    Reply, Request, SeenUpTo, Step, VisitRow,
};
use isomer_strategy::{ProcessLoad, SiteLoad};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// Why there is no readable answer.
enum NoAnswer {
    Wire(Unanswered),
    /// The request was not understood: it was not carried out.
    NotAsked(String),
}

/// The client of the sites that a wire reaches. See the [module documentation](super).
pub(crate) struct Remote {
    wire: Arc<dyn Wire>,
    mailboxes: Arc<Mailboxes>,
    pins: Arc<ClientPins>,
    /// The last reports of the sites.
    known: Mutex<BTreeMap<SiteId, Leased>>,
    /// How often others have taken over from each site, or a mastership has left it.
    taken_over: Mutex<BTreeMap<SiteId, u64>>,
}

/// An answer that may contain a failure of the site's log.
trait FromSite {
    fn log_error(&self) -> Option<&LogError>;
}

impl<T> FromSite for Result<T, Failure> {
    fn log_error(&self) -> Option<&LogError> {
        match self {
            Err(Failure::Log(error) | Failure::Unknown(error)) => Some(error),
            _ => None,
        }
    }
}

impl<T> FromSite for Result<T, Refusal> {
    fn log_error(&self) -> Option<&LogError> {
        match self {
            Err(Refusal::Log(error)) => Some(error),
            _ => None,
        }
    }
}

impl Remote {
    pub(crate) fn new(wire: Arc<dyn Wire>, mailboxes: Arc<Mailboxes>, client: ClientId) -> Remote {
        let (known, taken_over) = (Mutex::default(), Mutex::default());
        Remote { wire, mailboxes, pins: ClientPins::new(client), known, taken_over }
    }

    pub(crate) fn reaches(&self, site: SiteId) -> bool {
        self.wire.reaches(site)
    }

    pub(crate) async fn execute(
        &self,
        site: SiteId,
        request: Request<'_>,
        published: Published<'_>,
    ) -> Result<Reply, Failure> {
        let Some(sent) = Execute::of(&request) else {
            let why = "its process is another one, and code cannot be sent; \
                       ask for checked writes, or call a procedure by its name";
            return Err(Failure::NotAsked { site, why: why.to_owned() });
        };
        let mut is_told = false;
        let mut early = |bytes: &[u8]| match wire::read_published(bytes) {
            Ok(_) if is_told => {}
            Ok(time) => {
                is_told = true;
                published(time);
            }
            Err(bad) => self.trouble(site, &bad),
        };
        let reply = match request.seat {
            0 => self.ask_hearing(site, &sent, &mut early).await,
            seat => self.ask_hearing(site, &Seated::of(seat, sent), &mut early).await,
        };
        let reply = self.heard(site, reply.unwrap_or_else(|why| Err(failure(site, why))))?;
        // If the wire does not carry it early, the reply has the time of the publication.
        if !is_told {
            reply.committed.commit.into_iter().for_each(published);
        }
        Ok(reply)
    }

    pub(crate) async fn read_at(
        &self,
        site: SiteId,
        read: Read<'_>,
        at: Time,
        pin: Option<&ClientPin>,
        visit: VisitRow<'_>,
    ) -> Result<SeenUpTo, Failure> {
        let sent = ReadAt::of(&read, at, pin.map(|pin| pin.id));
        let Rows { seen, rows } = self.answer_of(site, &sent).await?;
        let _ = rows.rows().iter().try_for_each(|row| {
            let (value, time) = (row.value.unwrap_or_default(), row.time.unwrap_or_default());
            visit(row.key, value, time)
        });
        Ok(seen)
    }

    pub(crate) async fn pin(&self, site: SiteId, at: Time) -> Result<ClientPin, Failure> {
        let pin = self.pins.next(site);
        self.answer_of(site, &PinAt { id: pin.id, at }).await?;
        Ok(pin)
    }

    pub(crate) async fn lease(&self, site: SiteId, from: Time) -> Result<Time, Failure> {
        let asked: Result<Leased, Failure> =
            self.answer_of(site, &self.pins.lease(site, from)).await;
        if asked.is_err() {
            self.look_whether_gone(site);
        }
        let mut leased = asked?;
        leased.failure = leased.failure.filter(calls_for_failover);
        let (from, failure) = (leased.from, leased.failure.clone());
        let before = self.known.lock().insert(site, leased);
        let was_known = before.is_some_and(|before| before.failure.is_some());
        if let (Some(error), false) = (&failure, was_known) {
            self.pass_by(site, error);
        }
        Ok(from)
    }

    /// The latest time of the site's process.
    pub(crate) async fn latest(&self, site: SiteId) -> Option<Time> {
        self.ask(site, &Latest).await.ok()
    }

    /// Has the gateway of the site's process run a statement.
    pub(crate) async fn ask_gateway(
        &self,
        site: SiteId,
        request: Vec<u8>,
        early: Early<'_>,
    ) -> Result<Vec<u8>, Unanswered> {
        let mut opened = |message: &[u8]| match wire::read_early(message) {
            Ok(bytes) => early(&bytes),
            Err(bad) => self.trouble(site, &bad),
        };
        match self.ask_hearing(site, &ToGateway(request), &mut opened).await {
            Ok(answer) => Ok(answer),
            Err(NoAnswer::Wire(unanswered)) => Err(unanswered),
            Err(NoAnswer::NotAsked(why)) => Err(Unanswered::Unreachable(why)),
        }
    }

    pub(crate) async fn until_durable(&self, site: SiteId, seen: SeenUpTo) -> Result<(), Failure> {
        self.answer_of(site, &seen).await
    }

    pub(crate) async fn part(&self, site: SiteId, part: Part) -> Result<PartAnswer, Failure> {
        self.answer_of(site, &part).await
    }

    pub(crate) async fn step(&self, site: SiteId, step: Step) -> Result<Answer, Refusal> {
        let answer = self.ask(site, &step).await.unwrap_or_else(|why| {
            Err(match why {
                // A step is retried until its outcome is known.
                NoAnswer::Wire(_) => Refusal::Unavailable(site),
                NoAnswer::NotAsked(why) => Refusal::NotAsked { site, why },
            })
        });
        self.heard(site, answer)
    }

    pub(crate) async fn batch(
        &self,
        site: SiteId,
        step: BatchStep,
    ) -> Result<BatchAnswer, Failure> {
        self.answer_of(site, &step).await
    }

    /// Waits for a tick of the site; if it cannot be reached, for the wire.
    pub(crate) async fn retry(&self, site: SiteId) {
        if self.ask(site, &Tick).await.is_err() {
            self.wire.retry(site).await;
        }
    }

    /// Checks whether a site has been unreachable for too long. Called after each failed lease, so
    /// this is noticed soon.
    /// Notes the failure of a site, if the wire declares the site dead.
    pub(crate) fn look_whether_gone(&self, site: SiteId) {
        if let Some(what) = self.wire.gone(site) {
            self.has_failed(site, &LogError::Gone { what: what.into() });
        }
    }

    /// Notes that others have taken over what they could from a failed site.
    pub(crate) fn set_taken_over(&self, site: SiteId) {
        *self.taken_over.lock().entry(site).or_default() += 1;
    }

    /// Like [`Wire::returns`]. Also ready if others take over from the site during the wait,
    /// because asking again is then worthwhile.
    pub(crate) async fn returns(&self, site: SiteId) -> bool {
        let takeovers = || self.taken_over.lock().get(&site).copied();
        // Partitions that an earlier takeover has left wait for the site itself.
        let before = takeovers();
        let mut returns = self.wire.returns(site);
        // Each attempt to reach it wakes this future.
        poll_fn(|cx| match returns.as_mut().poll(cx) {
            Poll::Pending if takeovers() != before => Poll::Ready(true),
            returns => returns,
        })
        .await
    }

    /// As [`Wire::reach`].
    pub(crate) fn reach(&self, site: SiteId) -> Option<Reach> {
        self.wire.reach(site)
    }

    pub(crate) fn failure(&self, site: SiteId) -> Option<LogError> {
        self.known.lock().get(&site).and_then(|known| known.failure.clone())
    }

    pub(crate) fn load(&self, site: SiteId) -> SiteLoad {
        let Leased { busy, process_busy, memory_bytes, memory_max, hot_locks, .. } =
            self.known.lock().get(&site).cloned().unwrap_or_default();
        let process = process_busy.map(|busy| ProcessLoad { first: site, busy });
        SiteLoad { site, busy, memory_bytes, memory_max, hot_locks, process }
    }

    async fn answer_of<A, T>(&self, site: SiteId, asked: &A) -> Result<T, Failure>
    where
        A: Asked<Answer = Result<T, Failure>>,
    {
        let answer = self.ask(site, asked).await;
        self.heard(site, answer.unwrap_or_else(|why| Err(failure(site, why))))
    }

    async fn ask<A: Asked>(&self, site: SiteId, asked: &A) -> Result<A::Answer, NoAnswer> {
        // Only the answer to an execute has an early part.
        self.ask_hearing(site, asked, &mut |_| {}).await
    }

    async fn ask_hearing<A: Asked>(
        &self,
        site: SiteId,
        asked: &A,
        early: &mut dyn FnMut(&[u8]),
    ) -> Result<A::Answer, NoAnswer> {
        let answer = self.wire.ask(site, wire::ask(site, asked), early).await;
        match wire::read_answer::<A>(&answer.map_err(NoAnswer::Wire)?) {
            Ok(answer) => Ok(answer),
            Err(bad @ BadMessage::NotUnderstood(_)) => Err(NoAnswer::NotAsked(bad.to_string())),
            Err(bad) => {
                self.trouble(site, &bad);
                Err(NoAnswer::Wire(Unanswered::Lost))
            }
        }
    }

    /// Returns an answer. A site whose log has failed is unavailable from then on.
    fn heard<T: FromSite>(&self, site: SiteId, answer: T) -> T {
        if let Some(error) = answer.log_error().filter(|error| calls_for_failover(error)) {
            self.has_failed(site, error);
        }
        answer
    }

    fn has_failed(&self, site: SiteId, error: &LogError) {
        let mut known = self.known.lock();
        let known_failure = &mut known.entry(site).or_default().failure;
        let is_new = known_failure.is_none();
        *known_failure = Some(error.clone());
        drop(known);
        if is_new {
            self.pass_by(site, error);
        }
    }

    fn pass_by(&self, site: SiteId, error: &LogError) {
        self.mailboxes.trouble(site, &error.to_string());
        if let Some(tell) = self.mailboxes.on_failure.get() {
            tell(site);
        }
    }

    fn trouble(&self, site: SiteId, bad: &BadMessage) {
        self.mailboxes.trouble(site, &format!("an answer is passed over: {bad}"));
    }
}

fn failure(site: SiteId, why: NoAnswer) -> Failure {
    match why {
        NoAnswer::Wire(Unanswered::Lost) => Failure::Stopped(site),
        NoAnswer::Wire(Unanswered::Unreachable(why)) => Failure::Unreachable { site, why },
        NoAnswer::NotAsked(why) => Failure::NotAsked { site, why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::Early;
    use futures_util::FutureExt;
    use futures_util::future::{LocalBoxFuture, ready};
    use isomer_design::Footprint;
    use isomer_site::{CheckedWrites, Committed, RowsBuffer};
    use std::collections::VecDeque;

    const S3: SiteId = SiteId(3);

    /// The early bytes, and the answer.
    type Answered = (Vec<Vec<u8>>, Option<Vec<u8>>);

    /// A wire on which the answer to each request has arrived already.
    #[derive(Default)]
    struct Answers(Mutex<VecDeque<Answered>>);

    impl Wire for Answers {
        fn reaches(&self, site: SiteId) -> bool {
            site == S3
        }

        fn sites(&self) -> Vec<SiteId> {
            vec![S3]
        }

        fn ask<'a>(
            &'a self,
            _: SiteId,
            _: Vec<u8>,
            early: Early<'a>,
        ) -> LocalBoxFuture<'a, Result<Vec<u8>, Unanswered>> {
            let (before, answer) = self.0.lock().pop_front().expect("there is one for each");
            before.iter().for_each(|bytes| early(bytes));
            Box::pin(ready(answer.ok_or(Unanswered::Lost)))
        }

        fn send(&self, _: SiteId, _: Vec<u8>) {}

        fn retry(&self, _: SiteId) -> LocalBoxFuture<'_, ()> {
            Box::pin(ready(()))
        }
    }

    /// A client, its wire, and the sites that it has reported as failed.
    fn remote() -> (Remote, Arc<Answers>, Arc<Mutex<Vec<SiteId>>>) {
        let (wire, failed) = (Arc::new(Answers::default()), Arc::new(Mutex::new(Vec::new())));
        let mailboxes = Arc::new(Mailboxes::default());
        let told = failed.clone();
        let set = mailboxes.on_failure.set(Box::new(move |site| told.lock().push(site)));
        assert!(set.is_ok());
        (Remote::new(wire.clone(), mailboxes, 7), wire, failed)
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        future.now_or_never().expect("all answers are there")
    }

    fn broken() -> LogError {
        LogError::Failed { durable: 5, what: "the disk".into() }
    }

    #[test]
    fn a_publication_is_told_once_whenever_word_of_it_comes() {
        let (remote, wire, _) = remote();
        let committed = Committed { snapshot: Time(40), commit: Some(Time(44)) };
        let reply = Reply { committed, output: Vec::new(), timing: None };
        let answer = Some(wire::answer::<Execute<'_>>(&Ok(reply)));
        let word = wire::published(Time(44));
        let mut damaged = word.clone();
        damaged[10] ^= 1;
        for early in [vec![], vec![word.clone()], vec![word.clone(), word], vec![damaged]] {
            wire.0.lock().push_back((early, answer.clone()));
            let (footprint, writes) = (Footprint::new(), CheckedWrites::new());
            let request = Request::new(&footprint, isomer_site::Body::Writes(&writes));
            let mut told = Vec::new();
            let reply = now(remote.execute(S3, request, &mut |time| told.push(time)));
            assert_eq!(reply.expect("it is an answer").committed, committed);
            assert_eq!(told, [Time(44)]);
        }
    }

    #[test]
    fn a_site_whose_log_has_failed_is_passed_by_until_it_says_otherwise() {
        let (remote, wire, failed) = remote();
        let leased = |failure| {
            let leased = Leased { from: Time(9), memory_bytes: 100, failure, ..Leased::default() };
            (Vec::new(), Some(wire::answer::<wire::Lease>(&Ok(leased))))
        };
        wire.0.lock().push_back(leased(None));
        assert_eq!(now(remote.lease(S3, Time(1))).expect("an answer"), Time(9));
        assert_eq!((remote.load(S3).memory_bytes, remote.failure(S3).is_some()), (100, false));

        let refused = Err(Refusal::Log(broken()));
        wire.0.lock().push_back((Vec::new(), Some(wire::answer::<Step>(&refused))));
        assert!(matches!(now(remote.step(S3, Step::Describe)), Err(Refusal::Log(_))));
        assert!(remote.failure(S3).is_some());
        wire.0.lock().push_back(leased(Some(broken())));
        now(remote.lease(S3, Time(1))).expect("an answer");
        assert_eq!(*failed.lock(), [S3], "it is told once");

        wire.0.lock().push_back(leased(None));
        now(remote.lease(S3, Time(1))).expect("an answer");
        assert!(remote.failure(S3).is_none(), "it was opened again");
    }

    #[test]
    fn a_site_whose_log_another_process_has_is_not_passed_by() {
        let (remote, wire, failed) = remote();
        let fenced = LogError::Fenced { durable: 5, what: "it is c's".into() };
        let refused = Err(Refusal::Log(fenced.clone()));
        wire.0.lock().push_back((Vec::new(), Some(wire::answer::<Step>(&refused))));
        assert!(matches!(now(remote.step(S3, Step::Describe)), Err(Refusal::Log(_))));
        let leased = Leased { from: Time(9), failure: Some(fenced), ..Leased::default() };
        wire.0.lock().push_back((Vec::new(), Some(wire::answer::<wire::Lease>(&Ok(leased)))));
        now(remote.lease(S3, Time(1))).expect("an answer");
        assert!(remote.failure(S3).is_none() && failed.lock().is_empty());
    }

    #[test]
    fn what_is_no_answer_is_as_good_as_none() {
        let (remote, wire, _) = remote();
        let seen = SeenUpTo { run: 1, position: 2, ticket: 0 };
        let key = isomer_design::Key::int(1);
        let span = isomer_site::ReadSpan::Key(&key);
        let read = Read { table: isomer_design::TableId(1), span, limit: 1 };
        let rows = wire::answer::<ReadAt>(&Ok(Rows { seen, rows: RowsBuffer::default() }));
        for answer in [None, Some(Vec::new()), Some(rows[..rows.len() - 1].to_vec())] {
            wire.0.lock().push_back((Vec::new(), answer));
            let found = now(remote.read_at(S3, read, Time(1), None, &mut |_, _, _| {
                panic!("rows are shown once all have come")
            }));
            assert!(matches!(found, Err(Failure::Stopped(S3))));
        }
    }
}
