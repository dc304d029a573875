//! The database of an experiment, and the block that moves in it. A block is a set of rows that
//! transactions use together; each has its copies.
//!
//! ```text
//!             block 0 (moves)   1   2   3 │ 4 …     a block: a warehouse, or a partition
//!   s1        master            ■   ■   ■ │         of customers; one partition of each table
//!   s2, s3    backups           □   □   □ │         commits wait for all of them, in memory
//!   s4        spare: no copy of block 0   │ master of others
//! ```
//!
//! Each table has an empty twin, with its master at the spare site and as many backups. Post-copy
//! moves rows into the twin (`postcopy.rs`).

use super::MovesArgs;
use super::postcopy::PostCopy;
use isomer::failure::Failure;
use isomer::work::{Borders, Layout, Spread, create, fill};
use isomer_cluster::{Database, Durability, Options};
use isomer_design::{
    Backups, Change, Item, Key, KeyRange, Plan, Schema, SiteId, Span, Step, TableId,
};
use isomer_strategy::TwoPhase;
use isomer_workload::Workload;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A workload whose rows are in `blocks` blocks. A block has the rows whose first key column is in
/// the same `keys` consecutive numbers.
#[derive(Clone)]
pub(super) struct Case<W> {
    pub(super) name: &'static str,
    pub(super) workload: W,
    pub(super) blocks: i64,
    pub(super) keys: i64,
    /// Read-only tables; every site has a replica of them.
    pub(super) constant: Vec<TableId>,
}

/// The block that moves: the first and hottest one.
#[derive(Clone)]
pub(super) struct Unit {
    pub(super) tables: Vec<TableId>,
    pub(super) range: KeyRange,
}

/// The database, the block that moves in it, and the sites between which it moves.
pub(super) struct Bed<W> {
    pub(super) db: Database,
    pub(super) case: Case<W>,
    pub(super) unit: Unit,
    /// The twin of each table.
    pub(super) twins: BTreeMap<TableId, TableId>,
    /// Transactions on the unit hold the gate for reading, moves that exclude them for writing. The
    /// value is the post-copy that says where the rows are; `None` if all are in their own tables.
    pub(super) gate: RwLock<Option<Arc<PostCopy>>>,
    /// The first master, its first replica, and the site without a copy.
    pub(super) home: SiteId,
    pub(super) backup: SiteId,
    pub(super) spare: SiteId,
}

impl Unit {
    pub(super) fn touches(&self, item: &Item) -> bool {
        self.tables.contains(&item.table)
            && match &item.span {
                Span::Key(key) => self.range.contains(key),
                Span::Range(range) => self.range.overlaps(range),
            }
    }
}

impl<W: Workload> Bed<W> {
    /// Creates the database and loads it.
    pub(super) fn new(case: Case<W>, args: &MovesArgs) -> Result<Bed<W>, Failure> {
        let options = Options::in_memory(args.sites).durability(Durability::None);
        let db = Database::open(options.strategy(TwoPhase))?;
        let starts: Vec<Key> = (1..case.blocks).map(|at| Key::int(at * case.keys)).collect();
        let borders: Borders = case
            .workload
            .tables()
            .iter()
            .map(|(table, _)| match case.constant.contains(table) {
                true => (*table, Vec::new()),
                false => (*table, starts.clone()),
            })
            .collect();
        let layout = Layout { sites: args.sites, rows_per_partition: 1, spread: Spread::Range };
        create(&db, &case.workload, layout, &borders)?;
        let spare = SiteId(args.copies + 1);
        let tables = case.workload.tables();
        let tables = tables.into_iter().filter(|(table, _)| !case.constant.contains(table));
        let twin = |(table, schema): (TableId, Schema)| {
            let key: Vec<&str> = schema.key_columns().map(|column| column.name.as_str()).collect();
            let name = format!("{}_twin", schema.name());
            let twin =
                Schema::new(name, schema.columns().to_vec(), &key).map_err(Failure::failed)?;
            Ok((table, db.create_table(twin, &[(Key::min(), spare)])?))
        };
        let twins = tables.map(twin).collect::<Result<BTreeMap<_, _>, Failure>>()?;
        let unit = Unit {
            tables: twins.keys().copied().collect(),
            range: KeyRange::new(Key::min(), Some(Key::int(case.keys))),
        };
        let (home, backup) = (SiteId(1), SiteId(2));
        let gate = RwLock::new(None);
        let bed = Bed { db, case, unit, twins, gate, home, backup, spare };
        bed.copy_everything(args.copies)?;
        bed.set_backups(args.copies as u8 - 1)?;
        fill(&bed.db, &bed.case.workload, &borders)?;
        Ok(bed)
    }

    /// Gives each partition `copies` copies, at the sites after its master's. Read-only tables get
    /// one at each site.
    fn copy_everything(&self, copies: u16) -> Result<(), Failure> {
        let design = self.db.design();
        let sites = design.sites().len() as u16;
        let mut plan = Plan::new("copies to begin with");
        for (table, of_table) in design.tables() {
            let copies = match self.case.constant.contains(&table) {
                true => sites,
                false => copies,
            };
            for (start, placement) in of_table.partitions().iter() {
                for after in 1..copies {
                    let site = SiteId((placement.master.0 - 1 + after) % sites + 1);
                    let start = start.clone();
                    plan.push(Step::new(Change::AddReplica { table, start, site }, "a copy"));
                }
            }
        }
        self.db.change_all(&plan)?;
        Ok(())
    }

    /// Makes commits wait for `count` backups, in memory.
    pub(super) fn set_backups(&self, count: u8) -> Result<(), Failure> {
        for table in self.twins.iter().flat_map(|(table, twin)| [*table, *twin]) {
            self.db.set_backups(table, Backups { count, on_disk: false })?;
        }
        Ok(())
    }

    /// Makes a change to the unit's partitions in all tables at once; gives the number of copied
    /// rows.
    pub(super) fn change(&self, change: impl Fn(TableId, Key) -> Change) -> Result<usize, Failure> {
        let mut plan = Plan::new("a block moves");
        for table in &self.unit.tables {
            plan.push(Step::new(change(*table, self.unit.range.start.clone()), "it moves"));
        }
        let events = self.db.change_all(&plan)?;
        Ok(events.iter().map(|event| event.rows).sum())
    }

    /// Like [`Bed::change`], but in one table after the other.
    pub(super) fn change_in_turn(
        &self,
        change: impl Fn(TableId, Key) -> Change,
    ) -> Result<usize, Failure> {
        let mut rows = 0;
        for table in &self.unit.tables {
            rows += self.db.change(change(*table, self.unit.range.start.clone()), "it moves")?.rows;
        }
        Ok(rows)
    }

    /// Ends the redirection of post-copy; every row of the unit must be in its own table.
    pub(super) fn come_home(&self) {
        *self.gate.write() = None;
    }

    /// The site that masters the unit.
    pub(super) fn master(&self) -> SiteId {
        let placed = self.db.design().partition_of(self.unit.tables[0], &self.unit.range.start);
        placed.map_or(self.home, |(_, placement)| placement.master)
    }
}
