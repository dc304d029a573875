//! The physical design of a database: which partitions there are, and at which sites.
//!
//! ```text
//!   sites s1 s2
//!   accounts    start      range        master   replicas
//!               []         [..5)        s1                    partition accounts[]
//!               [5]        [5..10)      s2       s1           partition accounts[5]
//!               [10]       [10..)       s2                    partition accounts[10]
//! ```
//!
//! A partition is identified by its start, and ends where the next one starts. So every key of a
//! table is in exactly one partition after any splits and merges, and these operations touch only
//! one entry. Tens of thousands of partitions of a single key are a normal case.
//!
//! *A design is a value.* It is made of [`SharedMap`]s of tables and [`RangeMap`]s of partitions.
//! So the cost of a clone does not depend on the number of tables and partitions: planners clone
//! the design per transaction to try changes. It changes only by [`Change`](crate::Change)s, and a
//! change that breaks an invariant is refused.
//!
//! *Invariants*, checked by [`Design::check`]:
//! - there is a site, and sites have numbers up to [`SITES_MAX`](crate::SITES_MAX);
//! - tables have distinct names;
//! - the first partition of a table starts at [`Key::min`], so every key is in exactly one;
//! - master and replicas of every partition are sites of the design;
//! - a master is not its own replica.

use crate::{
    Backups, Change, Invalid, KEY_BYTES_MAX, Key, KeyRange, Pins, Placement, RangeMap, Schema,
    SharedMap, SiteId, SiteSet, TableId,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Sites, tables, and the placement of every partition.
///
/// ```
/// use isomer_design::{Change, Design, Key, Placement, SiteId, TableId};
/// # use isomer_design::{Column, ColumnType, Schema};
/// # let schema = Schema::new("accounts", vec![Column::new("id", ColumnType::Int64)], &["id"])?;
/// let mut design = Design::new([SiteId(1), SiteId(2)])?;
/// design.create_table(TableId(1), schema, [(Key::min(), Placement::at(SiteId(1)))])?;
/// design.apply(&Change::Split { table: TableId(1), at: Key::int(5) })?;
/// let (range, placement) = design.partition_of(TableId(1), &Key::int(7)).unwrap();
/// assert_eq!(format!("{range} {placement}"), "[5..) master s1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Design {
    pub(crate) sites: SiteSet,
    pub(crate) tables: SharedMap<TableId, TableDesign>,
    /// The tables by their names.
    names: SharedMap<String, TableId>,
}

/// One table of a design: its schema, and its partitions by their start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableDesign {
    pub(crate) schema: Arc<Schema>,
    pub(crate) partitions: RangeMap<Placement>,
    pub(crate) backups: Backups,
    pub(crate) pins: Pins,
    pub(crate) is_ordered: bool,
}

impl Design {
    /// A design of some sites, without tables.
    pub fn new(sites: impl IntoIterator<Item = SiteId>) -> Result<Design, Invalid> {
        let mut known = SiteSet::EMPTY;
        for site in sites {
            if !SiteSet::can_hold(site) {
                return Err(Invalid::SiteNumber { site });
            }
            if known.contains(site) {
                return Err(Invalid::SiteExists { site, sites: known });
            }
            known = known.with(site);
        }
        let (tables, names) = (SharedMap::new(), SharedMap::new());
        let design = Design { sites: known, tables, names };
        design.check().map(|()| design)
    }

    /// Adds a table with the given partitions: start and placement of each, in order, the first
    /// one at [`Key::min`]. The design is unchanged on error.
    pub fn create_table(
        &mut self,
        id: TableId,
        schema: impl Into<Arc<Schema>>,
        partitions: impl IntoIterator<Item = (Key, Placement)>,
    ) -> Result<(), Invalid> {
        let schema = schema.into();
        if let Some(taken) = self.tables.get(&id) {
            return Err(Invalid::TableExists { id, table: taken.name().to_owned() });
        }
        if self.find_table(schema.name()).is_some() {
            return Err(Invalid::NameExists { table: schema.name().to_owned() });
        }
        if schema.has_added_columns() {
            return Err(Invalid::AddedColumns { table: schema.name().to_owned() });
        }
        let partitions: Vec<(Key, Placement)> = partitions.into_iter().collect();
        check_partitions(&schema, &self.sites, partitions.iter().map(|(start, p)| (start, p)))?;
        let partitions = RangeMap::from_sorted(partitions);
        self.names.insert(schema.name().to_owned(), id);
        let (backups, pins) = (Backups::NONE, Pins::default());
        self.tables
            .insert(id, TableDesign { schema, partitions, backups, pins, is_ordered: false });
        Ok(())
    }

    /// Removes a table, with all its partitions.
    ///
    /// # Errors
    /// [`Invalid::UnknownTable`].
    pub fn drop_table(&mut self, id: TableId) -> Result<(), Invalid> {
        let name = self.table(id)?.name().to_owned();
        self.names.remove(&name);
        self.tables.remove(&id);
        Ok(())
    }

    /// Says which ranges of a table strategies leave where they are.
    ///
    /// # Errors
    /// [`Invalid::UnknownTable`].
    pub fn set_pins(&mut self, id: TableId, pins: Pins) -> Result<(), Invalid> {
        self.table(id)?;
        if let Some(table) = self.tables.get_mut(&id) {
            table.pins = pins;
        }
        Ok(())
    }

    /// Says whether transactions on a table are serialized by one total order.
    ///
    /// # Errors
    /// [`Invalid::UnknownTable`].
    pub fn set_ordered(&mut self, id: TableId, is_ordered: bool) -> Result<(), Invalid> {
        self.table(id)?;
        if let Some(table) = self.tables.get_mut(&id) {
            table.is_ordered = is_ordered;
        }
        Ok(())
    }

    /// True if a change is of a pinned partition, and so not a strategy's to make.
    pub fn is_pinned(&self, change: &Change) -> bool {
        let table = change.table().and_then(|id| self.tables.get(&id));
        let Some(table) = table.filter(|table| !table.pins.is_empty()) else { return false };
        let partition = change.start().and_then(|start| table.partition_of(start));
        table.pins.forbid(change, partition.as_ref().map(|(range, _)| range))
    }

    /// The sites.
    pub fn sites(&self) -> &SiteSet {
        &self.sites
    }

    /// The tables, in the order of their numbers.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &TableDesign)> {
        self.tables.iter().map(|(&id, table)| (id, table))
    }

    /// One table.
    pub fn table(&self, id: TableId) -> Result<&TableDesign, Invalid> {
        self.tables.get(&id).ok_or_else(|| self.unknown_table(id))
    }

    /// A table by its name.
    pub fn find_table(&self, name: &str) -> Option<(TableId, &TableDesign)> {
        let id = *self.names.get(name)?;
        Some((id, self.tables.get(&id)?))
    }

    /// The partition that holds a key; `None` if there is no such table.
    pub fn partition_of(&self, table: TableId, key: &[u8]) -> Option<(KeyRange, Placement)> {
        self.tables.get(&table)?.partition_of(key)
    }

    /// The partitions that share a key with `range`, in order; none if there is no such table.
    pub fn partitions_in<'a>(
        &'a self,
        table: TableId,
        range: &'a KeyRange,
    ) -> impl Iterator<Item = (KeyRange, Placement)> + 'a {
        self.tables.get(&table).into_iter().flat_map(|table| table.partitions_in(range))
    }

    /// The number of partitions of all tables.
    pub fn partition_count(&self) -> usize {
        self.tables.values().map(|table| table.partitions.len()).sum()
    }

    /// Checks every invariant. Designs built and changed by this crate's functions pass.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.sites.is_empty() {
            return Err(Invalid::NoSites);
        }
        let mut names = BTreeSet::new();
        for table in self.tables.values() {
            if !names.insert(table.name()) {
                return Err(Invalid::NameExists { table: table.name().to_owned() });
            }
            check_partitions(&table.schema, &self.sites, table.partitions.iter())?;
        }
        Ok(())
    }

    pub(crate) fn unknown_table(&self, table: TableId) -> Invalid {
        let tables: Vec<String> =
            self.tables().map(|(id, table)| format!("{id} ({})", table.name())).collect();
        let tables = if tables.is_empty() { "none yet".to_owned() } else { tables.join(", ") };
        Invalid::UnknownTable { table, tables }
    }

    pub(crate) fn known_site(&self, site: SiteId) -> Result<(), Invalid> {
        check_site(&self.sites, site)
    }
}

impl TableDesign {
    /// The schema.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.schema.name()
    }

    /// The number of backups of its partitions.
    pub fn backups(&self) -> Backups {
        self.backups
    }

    /// The ranges that strategies leave where they are.
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// True if transactions on it are serialized by one total order, and not by locks.
    pub fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// The placements of all partitions by their start.
    pub fn partitions(&self) -> &RangeMap<Placement> {
        &self.partitions
    }

    /// The partition that holds a key. `None` only for invalid designs, because every key is in
    /// one.
    pub fn partition_of(&self, key: &[u8]) -> Option<(KeyRange, Placement)> {
        let (start, placement) = self.partitions.get(key)?;
        Some((self.range_from(start), placement.clone()))
    }

    /// The partitions that share a key with `range`, in order.
    pub fn partitions_in<'a>(
        &'a self,
        range: &'a KeyRange,
    ) -> impl Iterator<Item = (KeyRange, Placement)> + 'a {
        let mut entries = self.partitions.iter_from(&range.start).peekable();
        std::iter::from_fn(move || {
            let (start, placement) =
                entries.next().filter(|(start, _)| range.is_below_end(start))?;
            let end = entries.peek().map(|(next, _)| (*next).clone());
            Some((KeyRange::new(start.clone(), end), placement.clone()))
        })
        .filter(|_| !range.is_empty())
    }

    /// The placement of the partition that starts at `start`, or an error that names the partition
    /// which holds that key.
    pub fn placement_at(&self, start: &Key) -> Result<Placement, Invalid> {
        if let Some(placement) = self.partitions.get_exact(start) {
            return Ok(placement.clone());
        }
        let covering = match self.partition_of(start) {
            Some((range, _)) => format!(
                "{}, which is {}",
                self.schema.partition_name(&range.start),
                self.schema.format_range(&range)
            ),
            None => "no partition".to_owned(),
        };
        Err(Invalid::NotAPartition { partition: self.schema.partition_name(start), covering })
    }

    /// The range of the partition that starts at `start`.
    fn range_from(&self, start: &Key) -> KeyRange {
        let end = self.partitions.after(start).map(|(end, _)| end.clone());
        KeyRange::new(start.clone(), end)
    }
}

fn check_partitions<'a>(
    schema: &Schema,
    sites: &SiteSet,
    partitions: impl Iterator<Item = (&'a Key, &'a Placement)>,
) -> Result<(), Invalid> {
    let mut previous = None;
    for (start, placement) in partitions {
        check_partition(schema, sites, previous, start, placement)?;
        previous = Some(start);
    }
    match previous {
        Some(_) => Ok(()),
        None => Err(Invalid::NoPartitions { table: schema.name().to_owned() }),
    }
}

/// Checks one partition, given the start of the one before it.
pub(crate) fn check_partition(
    schema: &Schema,
    sites: &SiteSet,
    previous: Option<&Key>,
    start: &Key,
    placement: &Placement,
) -> Result<(), Invalid> {
    let partition = || schema.partition_name(start);
    match previous {
        None if !start.is_empty() => {
            let first = schema.partition_name(&Key::min());
            return Err(Invalid::FirstKeysUncovered { partition: partition(), first });
        }
        Some(previous) if previous >= start => {
            let previous = schema.partition_name(previous);
            return Err(Invalid::PartitionOrder { partition: partition(), previous });
        }
        _ => {}
    }
    check_bound(schema, start)?;
    check_site(sites, placement.master)?;
    placement.replicas.iter().try_for_each(|site| check_site(sites, site))?;
    if placement.replicas.contains(placement.master) {
        return Err(Invalid::ReplicaAtMaster { partition: partition(), site: placement.master });
    }
    Ok(())
}

/// Bounds are keys, or just after keys.
pub(crate) fn check_bound(schema: &Schema, bound: &Key) -> Result<(), Invalid> {
    if bound.len() <= KEY_BYTES_MAX + 1 {
        return Ok(());
    }
    Err(Invalid::BoundTooLong { table: schema.name().to_owned(), bytes: bound.len() })
}

fn check_site(sites: &SiteSet, site: SiteId) -> Result<(), Invalid> {
    if sites.contains(site) {
        return Ok(());
    }
    Err(Invalid::UnknownSite { site, sites: sites.clone() })
}
