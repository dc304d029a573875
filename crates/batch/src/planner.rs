//! The planner: a deterministic state machine from batches to [plans](crate::plan).
//!
//! ```text
//!   batch ─▶ provisions ─▶ drop repeats ─▶ refuse ─▶ route ─▶ place records ─▶ carry home ─▶ plan
//!            homes         client table              router   fusion table     evicted records
//! ```
//!
//! The state consists of the homes, the fusion table and the client table. Only batches change it:
//! neither results of transactions nor messages do. Therefore the planner can plan a batch while
//! the sites execute the previous one, all sites make the same plan, and a clone is a checkpoint of
//! the planner.
//!
//! # At most once
//!
//! A request runs only if it is later than the [latest](crate::clients) request of its client. Any
//! other request is a repetition. The plan names the site that answered the original, and that site
//! answers again: only its checkpoint contains the answer. A restart is the same request with a
//! higher attempt number, so it runs although the request ran before, but each attempt runs only
//! once.
//!
//! # Aborts
//!
//! The moves of records are decided before anything runs. An aborted transaction therefore moves
//! its records as planned (Hermes, section 4.2), because later transactions expect them there.
//!
//! # What is left out
//!
//! Removing entries from the client table: it keeps one for every client that ever sent a request.

use crate::clients::Clients;
use crate::plan::{Leg, Plan, Step, Work};
use crate::provision::{Provision, Refusal};
use crate::request::{Abort, Batch, Request};
use crate::rows::{RecordId, bounds};
use foldhash::fast::FixedState;
use isomer_design::{Access, Footprint, Item, KeyRange, SiteId, SiteSet, Span, TableId};
use isomer_strategy::batch::{Back, FusionTable, Homes, Moved, Places, Route};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// Turns batches into plans.
#[derive(Clone)]
pub struct Planner {
    homes: Homes,
    route: Arc<dyn Route>,
    fusion: FusionTable<RecordId, SiteId>,
    clients: Clients,
    /// A hash of all provisions applied so far.
    homes_digest: u64,
    next: u64,
}

impl Planner {
    /// A planner before the first batch, with all records at home.
    ///
    /// # Panics
    /// If `homes` has no sites.
    pub fn new(
        homes: Homes,
        route: Arc<dyn Route>,
        fusion: FusionTable<RecordId, SiteId>,
    ) -> Planner {
        assert!(!homes.sites().is_empty(), "at least one site is needed");
        Planner { homes, route, fusion, clients: Clients::default(), homes_digest: 0, next: 0 }
    }

    /// The place of the batch to be planned next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The home of each range.
    pub fn homes(&self) -> &Homes {
        &self.homes
    }

    /// The sites of records that are away from home.
    pub fn fusion(&self) -> &FusionTable<RecordId, SiteId> {
        &self.fusion
    }

    /// Plans the next batch. The caller passes the batches in the order of their places.
    pub fn plan(&mut self, batch: &Batch) -> Plan {
        let (steps, refused, repeats) = (Vec::new(), Vec::new(), Vec::new());
        let mut plan = Plan { batch: self.next, steps, refused, repeats, digest: 0 };
        self.next += 1;
        for provision in &batch.provisions {
            match self.provision(provision, &mut plan) {
                Ok(()) => self.homes_digest = hash(&(self.homes_digest, provision)),
                Err(refusal) => plan.refused.push((provision.clone(), refusal)),
            }
        }
        let (run, repeated): (Vec<_>, Vec<_>) =
            batch.requests.iter().partition(|request| self.clients.admit(request));
        let mut calls = Vec::new();
        for request in run {
            match self.unknown_table(&request.footprint) {
                None => calls.push(request),
                Some(table) => self.refuse(request, table, &mut plan),
            }
        }
        self.plan_calls(&calls, &mut plan);
        self.carry_home(&mut plan);
        plan.repeats = repeated.iter().filter_map(|request| self.clients.repeat(request)).collect();
        plan.digest = self.digest();
        plan
    }

    fn provision(&mut self, provision: &Provision, plan: &mut Plan) -> Result<(), Refusal> {
        match provision {
            Provision::AddSite(site) => self.add_site(*site),
            Provision::RemoveSite(site) => self.remove_site(*site, plan),
            Provision::MoveRange { table, range, to } => self.move_range(*table, range, *to, plan),
        }
    }

    fn add_site(&mut self, site: SiteId) -> Result<(), Refusal> {
        if self.homes.sites().contains(site) {
            return Err(Refusal::IsThere(site));
        }
        if !SiteSet::can_hold(site) {
            return Err(Refusal::NoSite(site));
        }
        self.homes.add_site(site);
        Ok(())
    }

    fn remove_site(&mut self, site: SiteId, plan: &mut Plan) -> Result<(), Refusal> {
        if !self.homes.sites().contains(site) {
            return Err(Refusal::IsNotThere(site));
        }
        if self.homes.sites().len() == 1 {
            return Err(Refusal::IsLast(site));
        }
        if let Some((table, range)) = self.homes.first_at(site) {
            return Err(Refusal::IsHome { site, table, range });
        }
        self.homes.remove_site(site);
        let fused = self.fusion.iter().filter(|(_, at)| *at == site);
        let fused = fused.map(|(record, _)| record.clone()).collect();
        self.carry(fused, plan);
        Ok(())
    }

    /// Changes the home of a range, and adds a step that moves its rows. Fused records stay where
    /// they are; those at the new home need no entry in the fusion table any more.
    fn move_range(
        &mut self,
        table: TableId,
        range: &KeyRange,
        to: SiteId,
        plan: &mut Plan,
    ) -> Result<(), Refusal> {
        if range.is_empty() {
            return Err(Refusal::NoKeys(range.clone()));
        }
        if !self.homes.sites().contains(to) {
            return Err(Refusal::IsNotThere(to));
        }
        let mut pieces = self.homes.pieces(table, range);
        if pieces.is_empty() {
            return Err(Refusal::NoTable(table));
        }
        self.homes.set(table, range, to);
        let here = self.fusion.range(bounds(table, range)).filter(|(_, at)| *at == to);
        let here: Vec<RecordId> = here.map(|(record, _)| record.clone()).collect();
        here.iter().for_each(|record| self.fusion.remove(record));
        pieces.retain(|(_, from)| *from != to);
        let leg = |(range, from): (KeyRange, SiteId)| Leg::Range {
            table,
            range: range.clone(),
            access: Access::Write,
            pieces: vec![(range, from)],
            fused: BTreeMap::new(),
            to: Some(to),
        };
        let legs: Vec<Leg> = pieces.into_iter().map(leg).collect();
        if !legs.is_empty() {
            plan.steps.push(Step { work: Work::Carry, executors: vec![to], legs });
        }
        Ok(())
    }

    fn unknown_table(&self, footprint: &Footprint) -> Option<TableId> {
        let is_unknown = |item: &&Item| self.homes.home(item.table, item.span.start()).is_none();
        footprint.items().iter().find(is_unknown).map(|item| item.table)
    }

    fn refuse(&mut self, request: &Arc<Request>, table: TableId, plan: &mut Plan) {
        let site = self.homes.sites().first().expect("a planner has at least one site");
        self.clients.answered_at(request, site);
        let work = Work::Refuse(request.clone(), Abort::NoTable(table));
        plan.steps.push(Step { work, executors: vec![site], legs: Vec::new() });
    }

    fn plan_calls(&mut self, calls: &[&Arc<Request>], plan: &mut Plan) {
        let footprints: Vec<&Footprint> = calls.iter().map(|call| &call.footprint).collect();
        let places = Places::new(&self.homes, &self.fusion);
        let routed = self.route.route(&footprints, &places);
        let sites = self.homes.sites().clone();
        let mut rest: BTreeSet<usize> = (0..calls.len()).collect();
        for assignment in routed {
            assert!(rest.remove(&assignment.at), "a router routes each transaction once");
            assert!(sites.contains(assignment.site), "no site {} to route to", assignment.site);
            let step = self.place(calls[assignment.at], assignment.site);
            self.clients.answered_at(calls[assignment.at], step.executors[0]);
            let moved = step.legs.iter().filter_map(Leg::moved).cloned().collect();
            plan.steps.push(step);
            if self.route.movement().back == Back::AfterTransaction {
                self.carry(moved, plan);
            }
        }
        assert!(rest.is_empty(), "a router routes each transaction");
    }

    /// Plans one call: derives the place of each record before and after it, and the executors.
    /// Updates the fusion table.
    fn place(&mut self, call: &Arc<Request>, site: SiteId) -> Step {
        let moved = self.route.movement().moved;
        let items = call.footprint.items();
        let legs: Vec<Leg> = items.iter().map(|item| self.leg(item, site, moved)).collect();
        let mut executors = if moved == Moved::Nothing { Vec::new() } else { vec![site] };
        for leg in legs.iter().filter(|leg| leg.access() == Access::Write) {
            let is_range = matches!(leg, Leg::Range { .. });
            if is_range || moved == Moved::Nothing {
                leg.for_each_source(|source| executors.push(source));
            }
        }
        // The routed site comes first, because the first executor answers the client.
        executors.sort_unstable_by_key(|&executor| (executor != site, executor));
        executors.dedup();
        if executors.is_empty() {
            executors.push(site);
        }
        for leg in &legs {
            if let Leg::Record { record, access, to, .. } = leg {
                match access {
                    Access::Read => self.fusion.touch(record),
                    Access::Write => {
                        let home = self.homes.home(record.0, &record.1).expect("the table exists");
                        self.fusion.set(record, *to, home);
                    }
                }
            }
        }
        Step { work: Work::Call(call.clone()), executors, legs }
    }

    fn leg(&self, item: &Item, site: SiteId, moved: Moved) -> Leg {
        let places = Places::new(&self.homes, &self.fusion);
        match &item.span {
            Span::Key(key) => {
                let record = (item.table, key.clone());
                let from = places.of(&record);
                let moves = match moved {
                    Moved::Nothing => false,
                    Moved::Written => item.access == Access::Write,
                    Moved::Touched => true,
                };
                let to = if moves { site } else { from };
                let access = if to == from { item.access } else { Access::Write };
                Leg::Record { record, access, from, to }
            }
            Span::Range(range) => {
                let fused = |(record, site): (&RecordId, SiteId)| (record.1.clone(), site);
                Leg::Range {
                    table: item.table,
                    range: range.clone(),
                    access: item.access,
                    pieces: places.pieces(item.table, range),
                    fused: places.fused(item.table, range).map(fused).collect(),
                    to: None,
                }
            }
        }
    }

    /// Moves records home after the calls, as the router's [`Back`] demands.
    fn carry_home(&mut self, plan: &mut Plan) {
        let mut leaving = Vec::new();
        match self.route.movement().back {
            Back::Evicted => {
                while let Some((record, site)) = self.fusion.evict_over_size() {
                    leaving.push((record, site));
                }
            }
            Back::AfterBatch => {
                leaving.extend(self.fusion.iter().map(|(record, site)| (record.clone(), site)));
                leaving.iter().for_each(|(record, _)| self.fusion.remove(record));
            }
            Back::AfterTransaction => {}
        }
        self.carry_from(leaving, plan);
    }

    /// Moves those of `records` home that are fused elsewhere.
    fn carry(&mut self, records: Vec<RecordId>, plan: &mut Plan) {
        let mut leaving = Vec::new();
        for record in records {
            if let Some(site) = self.fusion.get(&record) {
                self.fusion.remove(&record);
                leaving.push((record, site));
            }
        }
        self.carry_from(leaving, plan);
    }

    /// Adds one step for each home. The step locks all records that move to that home and waits for
    /// all of them.
    fn carry_from(&mut self, leaving: Vec<(RecordId, SiteId)>, plan: &mut Plan) {
        let mut by_home: BTreeMap<SiteId, Vec<Leg>> = BTreeMap::new();
        for (record, from) in leaving {
            let to = self.homes.home(record.0, &record.1).expect("the table exists");
            let leg = Leg::Record { record, access: Access::Write, from, to };
            by_home.entry(to).or_default().push(leg);
        }
        for (home, legs) in by_home {
            plan.steps.push(Step { work: Work::Carry, executors: vec![home], legs });
        }
    }

    /// A hash of the planner's state.
    fn digest(&self) -> u64 {
        self.fusion.digest() ^ hash(&(self.next, self.clients.digest(), self.homes_digest))
    }
}

fn hash(value: &impl Hash) -> u64 {
    FixedState::default().hash_one(value)
}

impl Leg {
    /// The record, if the step moves it to another site.
    fn moved(&self) -> Option<&RecordId> {
        match self {
            Leg::Record { record, from, to, .. } if from != to => Some(record),
            _ => None,
        }
    }
}
