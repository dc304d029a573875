//! Coordinating a transaction over several sites: gather, run, prepare, decide.

use super::{Decided, Entered, Part, PartAnswer, Peers};
use crate::backup::{Seen, Tickets};
use crate::error::Failure;
use crate::failover::until_sole;
use crate::frame::{FrameKind, TxnId};
use crate::message::Message;
use crate::overlay::RowWrite;
use crate::partition::SitePartition;
use crate::record::FrameWriter;
use crate::request::{Committed, Mark, Published, Reply, Request, Shares};
use crate::site::Site;
use crate::source::{Gathered, Source};
use crate::txn::Txn;
use futures_util::future::{Either, join_all, select};
use isomer_design::{Access, SiteId, SiteSet, Time};
use isomer_log::Position;
use isomer_store::{Context, pin};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// The writes of each site.
type Writes = BTreeMap<SiteId, Vec<RowWrite>>;

/// The right to commit a transaction. Participants that ask after its drop are told *aborted*, so
/// dropping it before the decision aborts the transaction.
struct CoordinatorGuard<'s> {
    site: &'s Site,
    txn: TxnId,
    /// Sites that may hold locks for the transaction, and are told of the end by the drop only.
    entered: SiteSet,
}

impl Drop for CoordinatorGuard<'_> {
    fn drop(&mut self) {
        self.site.end_own(self.txn);
        for site in self.entered.iter() {
            self.site.send(site, Message::Outcome { txn: self.txn, at: None });
        }
    }
}

impl Site {
    /// Runs a transaction over several sites, of which this is the coordinator.
    ///
    /// # Errors
    /// As [`Site::run`]; [`Failure::Participant`] if a participant has failed or refused.
    ///
    /// # Panics
    /// If `request.branches` is `None`.
    pub async fn coordinate<P: Peers>(
        &self,
        mut request: Request<'_>,
        published: Published<'_>,
        peers: &P,
    ) -> Result<Reply, Failure> {
        let branches = request.branches.expect("a transaction over several sites is divided");
        self.confirmed().await?;
        if !request.footprint.is_read_only() {
            until_sole(self).await?;
        }
        let mut progress = self.progress(&request, published);
        let mut coordinator_guard = self.begin();
        let (snapshot, rows) =
            self.gather(&mut coordinator_guard, branches, request.session, peers).await?;
        progress.pass(Mark::Locked);
        let mut txn = Txn::new(request.footprint, Source::Gathered(&rows), snapshot);
        progress.run(&mut request.body, &mut txn, &self.procedures)?;
        let mut writes = divide(branches, &txn);
        let is_read_only = writes.is_empty();
        let own = writes.remove(&self.id).unwrap_or_default();
        let has_backups = writes.values().flatten().any(|write| self.is_backed(write.table));
        self.room_for_writes(&own)?;
        let is_all = request.is_serializable && !is_read_only;
        let prepared = self
            .prepare_all(&coordinator_guard, branches, (snapshot, is_all), writes, peers)
            .await?;
        if is_read_only {
            let seen = self.seen_by(coordinator_guard.txn);
            self.safe(seen, &[]).await.map_err(Failure::Unknown)?;
            self.confirmed().await?;
            return Ok(progress.reply(Committed { snapshot, commit: None }));
        }
        let mut seen = self.seen_by(coordinator_guard.txn);
        // Without votes this is a commit as any other: no site is in doubt, so the tail need not be
        // waited for.
        let is_voted_on = !prepared.is_empty();
        let (commit, position, tickets) =
            self.decide(&mut coordinator_guard, &own, (snapshot, request.seat), prepared)?;
        progress.published(commit);
        seen.position = position;
        self.lasting_for_others(position).await.map_err(Failure::Unknown)?;
        if is_voted_on && (has_backups || !tickets.is_empty()) {
            self.tailed(position).await.map_err(Failure::Unknown)?;
        }
        self.tell(coordinator_guard.txn);
        self.safe(seen, &tickets).await.map_err(Failure::Unknown)?;
        if has_backups {
            self.until_done(coordinator_guard.txn).await;
        }
        Ok(progress.reply(Committed { snapshot, commit: Some(commit) }))
    }

    fn begin(&self) -> CoordinatorGuard<'_> {
        let mut transactions = self.transactions.lock();
        transactions.begun += 1;
        let txn = TxnId {
            coordinator: self.id,
            incarnation: self.incarnation,
            number: transactions.begun,
        };
        transactions.undecided.insert(txn);
        CoordinatorGuard { site: self, txn, entered: SiteSet::EMPTY }
    }

    /// Sends `Enter` to all sites, and gathers the rows that they read at one time.
    async fn gather<P: Peers>(
        &self,
        coordinator_guard: &mut CoordinatorGuard<'_>,
        branches: &Shares,
        session: Time,
        peers: &P,
    ) -> Result<(Time, Gathered), Failure> {
        let txn = coordinator_guard.txn;
        let enter = |site: SiteId, at: Time| {
            let footprint = &branches[&site];
            async move {
                if site == self.id {
                    return self.enter(txn, footprint, at).await;
                }
                let part = Part::Enter { txn, footprint: footprint.clone(), at };
                match self.part_of(site, part, peers).await {
                    Ok(PartAnswer::Entered(entered)) => Ok(entered),
                    Ok(PartAnswer::Prepared(_)) => Err(Failure::Participant(site)),
                    Err(failure) => Err(blamed(site, failure)),
                }
            }
        };
        let mut at = session.max(self.time.now());
        let mut entered: BTreeMap<SiteId, Entered> = BTreeMap::new();
        for site in writers(branches) {
            coordinator_guard.enters(site);
            let answer = enter(site, at).await?;
            at = at.max(answer.at);
            entered.insert(site, answer);
        }
        loop {
            let is_late = |site: &SiteId| {
                entered.get(site).is_none_or(|entered| entered.at < at && !entered.is_fixed)
            };
            let late: Vec<SiteId> = branches.keys().copied().filter(is_late).collect();
            if late.is_empty() {
                break;
            }
            late.iter().for_each(|site| coordinator_guard.enters(*site));
            let answers = join_all(late.iter().map(|site| enter(*site, at))).await;
            for (site, answer) in late.into_iter().zip(answers) {
                let answer = answer?;
                at = at.max(answer.at);
                entered.insert(site, answer);
            }
        }
        let rows = entered.into_values().flat_map(|entered| entered.rows).collect();
        Ok((at, Gathered::of(rows)))
    }

    /// Sends a request to a participant. Fails as soon as that site is fenced: its answer would be
    /// void, and it may itself wait for sites that ignore it.
    async fn part_of<P: Peers>(
        &self,
        site: SiteId,
        part: Part,
        peers: &P,
    ) -> Result<PartAnswer, Failure> {
        let fenced = poll_fn(|cx| {
            self.ticked.register(cx.waker());
            if self.is_fenced(site) { Poll::Ready(()) } else { Poll::Pending }
        });
        match select(pin!(peers.part(site, part)), fenced).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(Failure::Participant(site)),
        }
    }

    /// Prepares the writes of the participants, concurrently. Participants without writes make
    /// their reads durable. For a serializable transaction (`is_all`), participants prepare
    /// everything that they have locked. Returns the prepared sites with their proposals.
    async fn prepare_all<P: Peers>(
        &self,
        coordinator_guard: &CoordinatorGuard<'_>,
        branches: &Shares,
        (at, is_all): (Time, bool),
        mut writes: Writes,
        peers: &P,
    ) -> Result<Vec<(SiteId, Time)>, Failure> {
        let txn = coordinator_guard.txn;
        let others = writers(branches).filter(|site| *site != self.id);
        let parts = others.map(|site| {
            let writes = writes.remove(&site).unwrap_or_default();
            let wrote = !writes.is_empty() || is_all;
            let part = match is_all {
                true => Part::PrepareAll { txn, at, writes },
                false => Part::Prepare { txn, at, writes },
            };
            async move {
                match self.part_of(site, part, peers).await {
                    Ok(PartAnswer::Prepared(proposal)) => Ok((site, wrote, proposal)),
                    Ok(PartAnswer::Entered(_)) => Err(Failure::Participant(site)),
                    Err(failure) => Err(blamed(site, failure)),
                }
            }
        });
        let answers: Result<Vec<_>, Failure> = join_all(parts).await.into_iter().collect();
        let wrote =
            |(site, wrote, proposal): (SiteId, bool, Time)| wrote.then_some((site, proposal));
        Ok(answers?.into_iter().filter_map(wrote).collect())
    }

    /// Decides to commit, by one frame of the log that has this site's own writes. If the log
    /// refuses, nothing has changed.
    fn decide(
        &self,
        coordinator_guard: &mut CoordinatorGuard<'_>,
        own: &[RowWrite],
        (snapshot, seat): (Time, u64),
        prepared: Vec<(SiteId, Time)>,
    ) -> Result<(Time, Position, Tickets), Failure> {
        let txn = coordinator_guard.txn;
        let mut context = self.context()?;
        self.admission.check(self.id, seat, self.time.now())?;
        // The lock orders the decision with checkpoints and fences. A checkpoint finds it in the
        // transaction table, or in the log after its begin. A fence finds it in the table, or this
        // finds the fence.
        let shaping = self.shaping.read();
        if let Some((site, _)) = prepared.iter().find(|(site, _)| self.is_fenced(*site)) {
            return Err(Failure::Participant(*site));
        }
        let others = prepared.iter().map(|(site, _)| *site).collect::<SiteSet>();
        let proposals = prepared.iter().map(|(_, proposal)| *proposal);
        self.store.clock.raise(proposals.fold(snapshot, Time::max));
        let mut frame = FrameWriter::new(match others.is_empty() {
            true => FrameKind::Commit,
            false => FrameKind::Decide { txn, others: others.clone() },
        });
        let branch = self.transactions.lock().branches.remove(&txn).unwrap_or_default();
        let written = branch.write(&mut frame, own);
        let written: Vec<&Arc<SitePartition>> = written.iter().collect();
        let mut tickets = Tickets::new();
        let published = self.publish(&written, frame, |time| {
            self.install_writes(&mut context, own, time);
            for partition in &written {
                let backups = self.table_or_new(partition.table).backups();
                tickets.extend(self.open_ticket(backups, partition, partition.version() + 1));
            }
        });
        if let Ok((at, position)) = published {
            let mut transactions = self.transactions.lock();
            transactions.undecided.remove(&txn);
            coordinator_guard.entered = &coordinator_guard.entered - &others;
            if !others.is_empty() {
                let told = self.time.now();
                let decided = Decided { at, position, waiting: others, told, waiter: None };
                transactions.decided.insert(txn, decided);
            }
        }
        drop(shaping);
        self.release_pin(branch);
        let (at, position) = published?;
        Ok((at, position, tickets))
    }

    fn install_writes(&self, context: &mut Context<'_>, writes: &[RowWrite], time: Time) {
        context.hold();
        let guard = pin();
        for RowWrite { table, key, value } in writes {
            let table = self.table_or_new(*table);
            let mut spot = table.index.spot(key, &guard);
            context.install(&table.index, &mut spot, key, value.as_deref(), time, &guard);
        }
        drop(guard);
        context.unpin();
        context.collect_some();
    }

    /// Ends a transaction that this site coordinates. It is aborted unless it was decided.
    fn end_own(&self, txn: TxnId) {
        let branch = {
            let mut transactions = self.transactions.lock();
            transactions.undecided.remove(&txn);
            transactions.branches.remove(&txn)
        };
        branch.into_iter().for_each(|branch| self.release_pin(branch));
    }

    fn seen_by(&self, txn: TxnId) -> Seen {
        let transactions = self.transactions.lock();
        transactions.branches.get(&txn).map_or(Seen::default(), |branch| branch.seen)
    }
}

impl CoordinatorGuard<'_> {
    fn enters(&mut self, site: SiteId) {
        if site != self.site.id {
            self.entered.insert(site);
        }
    }
}

/// The sites that may have to write, in the order of sites.
fn writers(branches: &Shares) -> impl Iterator<Item = SiteId> {
    branches.iter().filter(|(_, branch)| !branch.is_read_only()).map(|(site, _)| *site)
}

/// The writes of a transaction that has run, by site, ordered by table and key.
fn divide(branches: &Shares, txn: &Txn<'_>) -> Writes {
    let items = branches.iter().flat_map(|(site, branch)| {
        let written = branch.items().iter().filter(|item| item.access == Access::Write);
        written.map(move |item| (item.table, item.span.start(), &item.span, *site))
    });
    let mut items: Vec<_> = items.collect();
    items.sort_unstable_by_key(|(table, start, ..)| (*table, *start));
    let mut divided = Writes::new();
    for write in txn.written() {
        let place = (write.table, &write.key);
        let behind = items.partition_point(|(table, start, ..)| (*table, *start) <= place);
        let covering = items[..behind]
            .iter()
            .rev()
            .find(|(table, _, span, _)| *table == write.table && span.contains(&write.key));
        let (.., site) = covering.expect("the branches cover the footprint");
        divided.entry(*site).or_default().push(write);
    }
    divided
}

/// Translates the failure of a participant: without an answer, its part has no effect.
fn blamed(site: SiteId, failure: Failure) -> Failure {
    match failure {
        Failure::Stopped(_) | Failure::Unknown(_) => Failure::Participant(site),
        failure => failure,
    }
}
