//! Placements and proposals as designs and plans: what the rest of the system speaks.
//!
//! A planner numbers what was *recorded*; a design says where *every* key is. The recorded keys of a
//! partition divide it among them: each speaks for the keys from itself up to the next recorded one,
//! the first also for those before it.
//!
//! ```text
//!   design        partition []  master s1                        partition [50]  master s2
//!   recorded                    10            30                         60
//!   speaks for    [ ........... 10 .......... [30 .............. [50 ... 60 .................
//!
//!   proposal      30 to s2: cooler there
//!   plan          split orders at 30        # cooler there
//!                 add_replica orders[30] s2
//!                 remaster orders[30] s2
//!                 remove_replica orders[30] s1
//!                 merge orders at 50        # s2 has both sides
//! ```
//!
//! Each step is valid when its turn comes, and has the reason of the move it comes from. Where the
//! new master was a replica, it only changes places with the old one; otherwise the number of
//! copies stays as it is. Boundaries that a move leaves without a difference are merged away;
//! boundaries between equal placements that were there before stay.
//!
//! Invariants: [`MappedDesign::placement`] of what [`MappedDesign::plan`] leads to is the proposal's
//! placement; planned from [`MappedDesign::of_placement`], it leads to the design that
//! `of_placement` gives for the proposal's placement. Nothing is lost either way.
//!
//! Left out: backups that a strategy imagines (DrTM+B's) are not in the design unless it has them;
//! a recorded key whose rows are on several sites is refused, because a vertex has one.

use super::{Move, Placement as SiteOfKey, Proposal, Site, site_name};
use crate::recording::{KeyTable, RecordedKey, Vertex};
use isomer_design::{
    Change, Column, ColumnType, Design, Invalid, Key, KeyRange, Placement, Plan, RowError,
    SITES_MAX, Schema, SchemaError, SiteId, Step, TableDesign, TableId, Value,
};
use std::collections::BTreeMap;
use thiserror::Error;

/// A design, and which part of it each recorded key speaks for.
#[derive(Clone, Debug)]
pub struct MappedDesign {
    design: Design,
    /// By vertex: the table, the keys spoken for, and the master's site.
    shares: Vec<Share>,
}

#[derive(Clone, Debug)]
struct Share {
    table: TableId,
    range: KeyRange,
    site: Site,
}

/// Why recorded keys do not fit a design, or a placement is no design.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MappedError {
    /// A recorded table that the design lacks.
    #[error("the recording has table {table}, the design has {known}: add the table to the design")]
    UnknownTable {
        /// The table.
        table: String,
        /// The tables of the design.
        known: String,
    },
    /// A recorded key that is none of its table.
    #[error("\"{key}\" is no key of table {table}, whose first key column is {column}: {problem}")]
    Key {
        /// The key.
        key: String,
        /// Its table.
        table: String,
        /// The first key column, and its type.
        column: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The rows of one recorded key are on several sites.
    #[error(
        "the rows of {key} are on {first} and on {second}: record the column that decides where \
         rows are"
    )]
    Cut {
        /// The recorded key.
        key: String,
        /// The site of its first rows.
        first: SiteId,
        /// Another one.
        second: SiteId,
    },
    /// Two recorded keys that are one in the design.
    #[error("{first} and {second} are the same key in the design: record it in one way")]
    Same {
        /// One of them.
        first: String,
        /// The other one.
        second: String,
    },
    /// Sites without some number below the highest.
    #[error("the design lacks {missing}: planners number sites from s1 on without gaps")]
    Gap {
        /// The first number that is not used.
        missing: SiteId,
    },
    /// More sites than a design can have.
    #[error("{sites} sites: a design has at most {SITES_MAX}")]
    Sites {
        /// The sites.
        sites: usize,
    },
    /// A table whose name no design could have.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A key that is too long.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A step that is not possible.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl MappedDesign {
    /// The design that says what a placement says: a table of one key column for each recorded
    /// table (int64 if all its keys are, else text), and a partition for each run of keys at one
    /// site. Sites are s1 to as many as the placement has.
    pub fn of_placement(
        keys: &KeyTable,
        placement: &SiteOfKey,
    ) -> Result<MappedDesign, MappedError> {
        let sites = placement.sites();
        if sites > usize::from(SITES_MAX) {
            return Err(MappedError::Sites { sites });
        }
        let mut design = Design::new((1..=sites as u16).map(SiteId))?;
        for (number, name) in keys.tables().enumerate() {
            let (id, number) = (TableId(number as u32 + 1), number as u16);
            let mine = vertices_of(keys, number);
            let ty = key_type(mine.clone().map(|key| keys.vertex(key).1));
            let schema = Schema::new(name, vec![Column::new("key", ty)], &["key"])?;
            let mut sorted = bounds(keys, &schema, mine)?;
            sorted.sort();
            sorted.dedup_by_key(|(_, key)| placement.site(*key));
            let start = |at: usize, bound| if at == 0 { Key::min() } else { bound };
            let placed = |key| Placement::at(SiteId(placement.site(key) + 1));
            let runs = sorted.into_iter().enumerate();
            design.create_table(
                id,
                schema,
                runs.map(|(at, (bound, key))| (start(at, bound), placed(key))),
            )?;
        }
        MappedDesign::new(design, keys)
    }

    /// A design that is there, for the keys of a recording. The design's sites must be s1, s2, …
    pub fn new(design: Design, keys: &KeyTable) -> Result<MappedDesign, MappedError> {
        if let Some((at, _)) =
            design.sites().iter().enumerate().find(|(at, site)| usize::from(site.0) != at + 1)
        {
            return Err(MappedError::Gap { missing: SiteId(at as u16 + 1) });
        }
        let none = Share { table: TableId(0), range: KeyRange::all(), site: 0 };
        let mut shares = vec![none; keys.len()];
        for (number, name) in keys.tables().enumerate() {
            let Some((id, table)) = design.find_table(name) else {
                let known: Vec<&str> = design.tables().map(|(_, table)| table.name()).collect();
                let known = if known.is_empty() { "none".into() } else { known.join(", ") };
                return Err(MappedError::UnknownTable { table: name.to_owned(), known });
            };
            divide(keys, number as u16, id, table, &mut shares)?;
        }
        Ok(MappedDesign { design, shares })
    }

    /// The design.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// The site of the master of each recorded key.
    pub fn placement(&self) -> SiteOfKey {
        SiteOfKey::new(
            self.design.sites().len(),
            self.shares.iter().map(|share| share.site).collect(),
        )
    }

    /// The changes that make a proposal true, each with its reason, valid one after the other.
    ///
    /// # Errors
    /// [`MappedError::Sites`] if the proposal has more sites than a design can have.
    pub fn plan(&self, proposal: &Proposal) -> Result<Plan, MappedError> {
        let sites = proposal.placement.sites();
        if sites > usize::from(SITES_MAX) {
            return Err(MappedError::Sites { sites });
        }
        let mut draft = Draft { design: self.design.clone(), plan: Plan::new(proposal.strategy) };
        for site in self.design.sites().len()..sites {
            let change = Change::AddSite { site: SiteId(site as u16 + 1) };
            draft.push(change, "the plan has more sites")?;
        }
        for Move { keys, to, reason } in &proposal.moves {
            let stays = |key: &&Vertex| proposal.placement.site(**key) == *to;
            draft.move_all(self.spoken_for(keys.iter().filter(stays)), *to, reason)?;
        }
        // A strategy tells all its moves; should one be silent, the plan still leads there.
        let mut silent: BTreeMap<Site, Vec<Vertex>> = BTreeMap::new();
        for key in 0..self.shares.len() as Vertex {
            silent.entry(proposal.placement.site(key)).or_default().push(key);
        }
        for (to, keys) in silent {
            let reason = format!("{} has it in the plan of {}", site_name(to), proposal.strategy);
            draft.move_all(self.spoken_for(keys.iter()), to, &reason)?;
        }
        draft.merge(&self.design)?;
        Ok(draft.plan)
    }

    /// What keys speak for, neighbours joined.
    fn spoken_for<'a>(
        &'a self,
        keys: impl Iterator<Item = &'a Vertex>,
    ) -> Vec<(TableId, KeyRange)> {
        let share = |&key: &Vertex| &self.shares[key as usize];
        let mut shares: Vec<&Share> = keys.map(share).collect();
        shares.sort_by(|a, b| (a.table, &a.range.start).cmp(&(b.table, &b.range.start)));
        let mut joined: Vec<(TableId, KeyRange)> = Vec::new();
        for Share { table, range, .. } in shares {
            match joined.last_mut() {
                Some((last, whole))
                    if last == table && whole.end.as_ref() == Some(&range.start) =>
                {
                    whole.end = range.end.clone();
                }
                _ => joined.push((*table, range.clone())),
            }
        }
        joined
    }
}

/// The type of a column that holds these keys: int64 if all of them are, else text.
pub(crate) fn key_type<'a>(mut keys: impl Iterator<Item = &'a RecordedKey>) -> ColumnType {
    match keys.all(|key| matches!(key, RecordedKey::Int(_))) {
        true => ColumnType::Int64,
        false => ColumnType::Text,
    }
}

/// The first bound of the rows of a key, as a schema has it. Other types than int64 and text are
/// read as the design's text form has them.
pub(crate) fn encode_key(schema: &Schema, key: &RecordedKey) -> Result<Key, MappedError> {
    let wrong = |problem: String| MappedError::Key {
        key: key.to_string(),
        table: schema.name().to_owned(),
        column: schema.key_columns().next().map(Column::to_string).unwrap_or_default(),
        problem,
    };
    let ty = schema.key_columns().next().map(|column| column.ty);
    let bound = match (ty, key) {
        (Some(ColumnType::Int64), RecordedKey::Int(key)) => {
            schema.encode_prefix(&[Value::Int64(*key)])?
        }
        (Some(ColumnType::Text), key) => schema.encode_prefix(&[Value::Text(key.to_string())])?,
        (_, key) => {
            schema.parse_key(&key.to_string()).map_err(|error| wrong(error.problem.to_string()))?
        }
    };
    match bound.is_empty() {
        true => Err(wrong("it is empty".to_owned())),
        false => Ok(bound),
    }
}

/// The vertices of a table: neighbours, because a recording's keys are sorted.
fn vertices_of(keys: &KeyTable, table: u16) -> impl Iterator<Item = Vertex> + Clone + '_ {
    let all = 0..keys.len() as Vertex;
    all.skip_while(move |&key| keys.table_of(key) < table)
        .take_while(move |&key| keys.table_of(key) == table)
}

/// The first bound of the rows of each key, as the table's schema has it.
fn bounds(
    keys: &KeyTable,
    schema: &Schema,
    of: impl Iterator<Item = Vertex>,
) -> Result<Vec<(Key, Vertex)>, MappedError> {
    of.map(|vertex| Ok((encode_key(schema, keys.vertex(vertex).1)?, vertex))).collect()
}

/// Divides the partitions of a table among its recorded keys.
fn divide(
    keys: &KeyTable,
    number: u16,
    id: TableId,
    table: &TableDesign,
    shares: &mut [Share],
) -> Result<(), MappedError> {
    let mut sorted = bounds(keys, table.schema(), vertices_of(keys, number))?;
    sorted.sort();
    // Where the share of the key before ends at the latest: at its partition's end.
    let mut last: Option<(Vertex, Key, Option<Key>)> = None;
    for (bound, vertex) in sorted {
        let rows = KeyRange::starting_with(bound.clone());
        let mut partitions = table.partitions_in(&rows);
        let Some((first, placement)) = partitions.next() else { continue };
        let mut end = first.end;
        for (next, other) in partitions {
            if other.master != placement.master {
                let (key, first, second) = (keys.label(vertex), placement.master, other.master);
                return Err(MappedError::Cut { key, first, second });
            }
            end = next.end;
        }
        let mut start = first.start;
        if let Some((before, same, limit)) = last.take() {
            if same == bound {
                let (first, second) = (keys.label(before), keys.label(vertex));
                return Err(MappedError::Same { first, second });
            }
            if limit.as_ref().is_none_or(|limit| *limit > start) {
                start = bound.clone();
                shares[before as usize].range.end = Some(bound.clone());
            }
        }
        let site = placement.master.0 - 1;
        let range = KeyRange::new(start, end.clone());
        shares[vertex as usize] = Share { table: id, range, site };
        last = Some((vertex, bound, end));
    }
    Ok(())
}

/// A plan that grows, and the design that it has led to so far.
struct Draft {
    design: Design,
    plan: Plan,
}

impl Draft {
    fn push(&mut self, change: Change, reason: &str) -> Result<(), MappedError> {
        self.design.apply(&change)?;
        self.plan.push(Step::new(change, reason));
        Ok(())
    }

    /// Makes `to` the master of all keys of some ranges.
    fn move_all(
        &mut self,
        ranges: Vec<(TableId, KeyRange)>,
        to: Site,
        reason: &str,
    ) -> Result<(), MappedError> {
        let to = SiteId(to + 1);
        for (table, range) in ranges {
            let pieces: Vec<_> = self
                .design
                .partitions_in(table, &range)
                .filter(|(_, placement)| placement.master != to)
                .collect();
            for (piece, placement) in pieces {
                let start = self.cut_out(table, piece, &range, reason)?;
                self.place(table, start, placement, to, reason)?;
            }
        }
        Ok(())
    }

    /// Splits a partition where a range begins and ends; returns the start of what is in the range.
    fn cut_out(
        &mut self,
        table: TableId,
        piece: KeyRange,
        range: &KeyRange,
        reason: &str,
    ) -> Result<Key, MappedError> {
        let start = piece.start.max(range.start.clone());
        if self.design.table(table)?.placement_at(&start).is_err() {
            self.push(Change::Split { table, at: start.clone() }, reason)?;
        }
        if let Some(end) = &range.end
            && piece.end.is_none_or(|last| *end < last)
        {
            self.push(Change::Split { table, at: end.clone() }, reason)?;
        }
        Ok(start)
    }

    /// Brings the master of one partition to a site.
    fn place(
        &mut self,
        table: TableId,
        start: Key,
        placement: Placement,
        to: SiteId,
        reason: &str,
    ) -> Result<(), MappedError> {
        let is_new = !placement.holds(to);
        if is_new {
            let start = start.clone();
            self.push(Change::AddReplica { table, start, site: to }, reason)?;
        }
        self.push(Change::Remaster { table, start: start.clone(), to }, reason)?;
        if is_new {
            self.push(Change::RemoveReplica { table, start, site: placement.master }, reason)?;
        }
        Ok(())
    }

    /// Merges neighbours that have become alike.
    fn merge(&mut self, before: &Design) -> Result<(), MappedError> {
        let alike = |table: &TableDesign, at: &Key| {
            let left = table.partitions().before(at).map(|(_, placement)| placement);
            left.is_some() && left == table.partitions().get_exact(at)
        };
        let mut joints = Vec::new();
        for (id, table) in self.design.tables() {
            let old = before.table(id)?;
            for (at, placement) in table.partitions() {
                if alike(table, at) && !alike(old, at) {
                    joints.push((id, at.clone(), placement.master));
                }
            }
        }
        for (table, at, site) in joints {
            self.push(Change::Merge { table, at }, &format!("{site} has both sides"))?;
        }
        Ok(())
    }
}

/// A plan as lines, one change each: what `isomer design apply` takes, a line for a change. A
/// reason is a comment behind the first of the changes that it is for.
pub fn plan_text(plan: &Plan, design: &Design) -> String {
    let mut text = String::new();
    let mut told = "";
    for Step { change, reason, .. } in &plan.steps {
        text += &change.to_text(design);
        if reason != told {
            text += "   # ";
            text += &reason.replace(['\n', '\r'], " ");
        }
        text.push('\n');
        told = reason;
    }
    text
}
