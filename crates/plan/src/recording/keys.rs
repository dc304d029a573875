//! Dense numbers for keys: planners work on vertices, people read names.

use super::{KeyRef, RecordingError};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::fmt;

/// A key of a partitioning column, numbered densely: what the planners place.
pub type Vertex = u32;

/// The most vertices a recording may have: one bit of the number marks writes.
const VERTICES_MAX: usize = (1 << 31) - 1;

/// A key, owned. Integers order before texts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RecordedKey {
    /// An integer.
    Int(i64),
    /// Any other key.
    Text(Box<str>),
}

impl RecordedKey {
    /// The key, borrowed.
    pub fn as_ref(&self) -> KeyRef<'_> {
        match self {
            RecordedKey::Int(key) => KeyRef::Int(*key),
            RecordedKey::Text(key) => KeyRef::Text(key),
        }
    }
}

impl From<KeyRef<'_>> for RecordedKey {
    fn from(key: KeyRef<'_>) -> RecordedKey {
        match key {
            KeyRef::Int(key) => RecordedKey::Int(key),
            KeyRef::Text(key) => RecordedKey::Text(key.into()),
        }
    }
}

impl fmt::Display for RecordedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordedKey::Int(key) => write!(f, "{key}"),
            RecordedKey::Text(key) => write!(f, "{key}"),
        }
    }
}

/// The vertices of one table.
#[derive(Clone, Debug)]
struct TableKeys {
    name: String,
    ints: HashMap<i64, Vertex, FixedState>,
    texts: HashMap<Box<str>, Vertex, FixedState>,
}

/// Tables and keys, and the vertices they are numbered by.
///
/// After [`KeyTable::sort`] vertices are numbered by table name and key, so a range of keys of a
/// table is a range of vertices. No key may be added after that.
#[derive(Clone, Debug, Default)]
pub struct KeyTable {
    tables: Vec<TableKeys>,
    vertices: Vec<(u16, RecordedKey)>,
}

impl KeyTable {
    /// No tables, no keys.
    pub fn new() -> KeyTable {
        KeyTable::default()
    }

    /// The vertex of a key; a new key gets the next number.
    pub fn intern(&mut self, table: &str, key: KeyRef<'_>) -> Result<Vertex, RecordingError> {
        let table = self.intern_table(table)?;
        let next = self.vertices.len() as Vertex;
        let keys = &mut self.tables[usize::from(table)];
        let vertex = match key {
            KeyRef::Int(key) => *keys.ints.entry(key).or_insert(next),
            KeyRef::Text(key) => match keys.texts.get(key) {
                Some(&vertex) => vertex,
                None => *keys.texts.entry(key.into()).or_insert(next),
            },
        };
        if vertex == next {
            if self.vertices.len() >= VERTICES_MAX {
                return Err(RecordingError::TooMany { what: "keys", limit: VERTICES_MAX as u64 });
            }
            self.vertices.push((table, key.into()));
        }
        Ok(vertex)
    }

    /// The number of a table; a new table gets the next number.
    pub fn intern_table(&mut self, name: &str) -> Result<u16, RecordingError> {
        if let Some(table) = self.table(name) {
            return Ok(table);
        }
        let table = u16::try_from(self.tables.len())
            .map_err(|_| RecordingError::TooMany { what: "tables", limit: 1 << 16 })?;
        let (ints, texts) = (HashMap::default(), HashMap::default());
        self.tables.push(TableKeys { name: name.to_owned(), ints, texts });
        Ok(table)
    }

    /// The number of a table.
    pub fn table(&self, name: &str) -> Option<u16> {
        self.tables.iter().position(|table| table.name == name).map(|at| at as u16)
    }

    /// The vertex of a key, if it was recorded. Requires [`KeyTable::sort`].
    pub fn find(&self, table: &str, key: KeyRef<'_>) -> Option<Vertex> {
        let table = self.table(table)?;
        let order = |vertex: &(u16, RecordedKey)| {
            vertex.0.cmp(&table).then_with(|| vertex.1.as_ref().cmp(&key))
        };
        self.vertices.binary_search_by(order).ok().map(|vertex| vertex as Vertex)
    }

    /// The names of the tables, by number.
    pub fn tables(&self) -> impl ExactSizeIterator<Item = &str> {
        self.tables.iter().map(|table| table.name.as_str())
    }

    /// The name of a table.
    pub fn table_name(&self, table: u16) -> &str {
        self.tables.get(usize::from(table)).map_or("?", |table| &table.name)
    }

    /// The number of vertices.
    pub fn len(&self) -> usize {
        self.vertices.len()
    }

    /// True if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.vertices.is_empty()
    }

    /// The table and key of a vertex.
    pub fn vertex(&self, vertex: Vertex) -> (u16, &RecordedKey) {
        let (table, key) = &self.vertices[vertex as usize];
        (*table, key)
    }

    /// The table of a vertex.
    pub fn table_of(&self, vertex: Vertex) -> u16 {
        self.vertices[vertex as usize].0
    }

    /// The vertex as people write it: `parts/17`.
    pub fn label(&self, vertex: Vertex) -> String {
        let (table, key) = self.vertex(vertex);
        format!("{}/{key}", self.table_name(table))
    }

    /// Renumbers tables by name and vertices by table and key; returns the new number of each old
    /// vertex.
    pub fn sort(&mut self) -> Vec<Vertex> {
        let mut tables: Vec<u16> = (0..self.tables.len() as u16).collect();
        tables.sort_by(|&a, &b| self.table_name(a).cmp(self.table_name(b)));
        let mut rank = vec![0u16; tables.len()];
        for (new, &old) in tables.iter().enumerate() {
            rank[usize::from(old)] = new as u16;
        }
        let order = self.order(&rank);
        let mut renumbered = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            renumbered[old as usize] = new as Vertex;
        }
        self.apply_order(&order, &tables, &rank);
        renumbered
    }

    /// The vertices by table and key. Integers, the common case, are sorted by number alone.
    fn order(&self, rank: &[u16]) -> Vec<Vertex> {
        let mut ints: Vec<(u16, i64, Vertex)> = Vec::with_capacity(self.vertices.len());
        let mut texts: Vec<(u16, &str, Vertex)> = Vec::new();
        for (vertex, (table, key)) in self.vertices.iter().enumerate() {
            let (table, vertex) = (rank[usize::from(*table)], vertex as Vertex);
            match key {
                RecordedKey::Int(key) => ints.push((table, *key, vertex)),
                RecordedKey::Text(key) => texts.push((table, key, vertex)),
            }
        }
        ints.sort_unstable();
        texts.sort_unstable();
        let mut order = Vec::with_capacity(self.vertices.len());
        let mut texts = texts.into_iter().peekable();
        for (table, _, vertex) in ints {
            while let Some(text) = texts.next_if(|text| text.0 < table) {
                order.push(text.2);
            }
            order.push(vertex);
        }
        order.extend(texts.map(|text| text.2));
        order
    }

    fn apply_order(&mut self, order: &[Vertex], tables: &[u16], rank: &[u16]) {
        let mut old = std::mem::take(&mut self.vertices);
        let mut take = |vertex: Vertex| {
            let (table, key) = &mut old[vertex as usize];
            (rank[usize::from(*table)], std::mem::replace(key, RecordedKey::Int(0)))
        };
        self.vertices = order.iter().map(|&vertex| take(vertex)).collect();
        let mut old: Vec<Option<TableKeys>> =
            std::mem::take(&mut self.tables).into_iter().map(Some).collect();
        self.tables = tables.iter().filter_map(|&table| old[usize::from(table)].take()).collect();
        // From now on vertices are found by binary search.
        for table in &mut self.tables {
            (table.ints, table.texts) = (HashMap::default(), HashMap::default());
        }
    }
}
