//! A site for every vertex, and the size of its routing table.
//!
//! Vertices are in the order of tables and keys, so a run of neighbours at one site is one range of
//! the routing table:
//!
//! ```text
//!   orders   1  2  3  4  5  6        people   7  8
//!            s1 s1 s2 s2 s1 s1                s1 s1
//!            └──┬─┘└──┬─┘└──┬─┘               └──┬─┘        4 entries
//! ```

use crate::heat::HeatGraph;
use crate::recording::{KeyTable, RecordedKey, Vertex};

/// A site, numbered from 0.
pub type Site = u16;

/// The name people see: sites count from 1.
pub fn site_name(site: Site) -> String {
    format!("s{}", u32::from(site) + 1)
}

/// Reads the name of a site: `s1` and up.
pub fn parse_site(text: &str) -> Option<Site> {
    text.strip_prefix('s')?.parse::<Site>().ok()?.checked_sub(1)
}

/// The site of the master of each vertex.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    sites: usize,
    site_of: Vec<Site>,
}

impl Placement {
    /// From a site for each vertex; `sites` is raised if a vertex has a higher site.
    pub fn new(sites: usize, site_of: Vec<Site>) -> Placement {
        let used = site_of.iter().max().map_or(1, |&site| usize::from(site) + 1);
        Placement { sites: sites.max(used), site_of }
    }

    /// Every table cut into `sites` equal spans. Integer keys are cut by value, so that tables with
    /// corresponding keys are cut alike; texts by sorted order.
    pub fn by_range(keys: &KeyTable, sites: usize) -> Placement {
        let sites = sites.clamp(1, usize::from(Site::MAX));
        let mut site_of = vec![0; keys.len()];
        let mut start = 0;
        while start < keys.len() {
            let table = keys.table_of(start as Vertex);
            let rest = start..keys.len();
            let length = rest.take_while(|&v| keys.table_of(v as Vertex) == table).count();
            let end = start + length;
            let texts = (start..end).position(|v| !is_int(keys, v)).map_or(end, |at| start + at);
            cut_by_value(keys, &mut site_of[start..texts], start, sites);
            cut_by_count(&mut site_of[texts..end], sites);
            start = end;
        }
        Placement { sites, site_of }
    }

    /// Every vertex by a hash of its name, as many systems place rows.
    pub fn by_hash(keys: &KeyTable, sites: usize) -> Placement {
        let sites = sites.clamp(1, usize::from(Site::MAX));
        let place = |vertex: Vertex| {
            let mut hash = 0xcbf2_9ce4_8422_2325u64;
            for byte in keys.label(vertex).bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
            ((hash ^ hash >> 32) % sites as u64) as Site
        };
        Placement { sites, site_of: (0..keys.len() as Vertex).map(place).collect() }
    }

    /// The number of sites, empty ones included.
    pub fn sites(&self) -> usize {
        self.sites
    }

    /// The number of placed vertices.
    pub fn len(&self) -> usize {
        self.site_of.len()
    }

    /// True if nothing is placed.
    pub fn is_empty(&self) -> bool {
        self.site_of.is_empty()
    }

    /// The site of a vertex.
    pub fn site(&self, vertex: Vertex) -> Site {
        self.site_of[vertex as usize]
    }

    /// The sites of all vertices.
    pub fn site_of(&self) -> &[Site] {
        &self.site_of
    }

    /// Moves a vertex; `sites` grows if the site is new.
    pub fn set(&mut self, vertex: Vertex, site: Site) {
        self.sites = self.sites.max(usize::from(site) + 1);
        self.site_of[vertex as usize] = site;
    }

    /// Adds empty sites.
    pub fn add_sites(&mut self, count: usize) {
        self.sites += count;
    }

    /// The vertices with another site than in `other`.
    pub fn moved_from<'a>(&'a self, other: &'a Placement) -> impl Iterator<Item = Vertex> + 'a {
        let pairs = self.site_of.iter().zip(&other.site_of).enumerate();
        pairs.filter(|(_, (mine, theirs))| mine != theirs).map(|(vertex, _)| vertex as Vertex)
    }

    /// The routing table's entries: maximal runs of keys of one table on one site. Keys that were
    /// never recorded follow the key before them.
    pub fn routing_entries(&self, graph: &HeatGraph) -> usize {
        self.entry_starts(graph).count()
    }

    /// The routing table's size in bytes: per entry the table's number, the first key, the site.
    pub fn routing_bytes(&self, graph: &HeatGraph) -> usize {
        let key_bytes = |vertex: Vertex| match graph.keys().vertex(vertex).1 {
            RecordedKey::Int(_) => 8,
            RecordedKey::Text(text) => text.len() + 2,
        };
        self.entry_starts(graph).map(|vertex| 4 + key_bytes(vertex) + 2).sum()
    }

    fn entry_starts<'a>(&'a self, graph: &'a HeatGraph) -> impl Iterator<Item = Vertex> + 'a {
        let keys = graph.keys();
        let placed = |vertex: Vertex| (keys.table_of(vertex), self.site(vertex));
        let starts = move |&vertex: &Vertex| vertex == 0 || placed(vertex) != placed(vertex - 1);
        (0..self.len() as Vertex).filter(starts)
    }
}

fn is_int(keys: &KeyTable, vertex: usize) -> bool {
    matches!(keys.vertex(vertex as Vertex).1, RecordedKey::Int(_))
}

fn cut_by_value(keys: &KeyTable, site_of: &mut [Site], start: usize, sites: usize) {
    let value = |at: usize| match keys.vertex((start + at) as Vertex).1 {
        RecordedKey::Int(value) => i128::from(*value),
        RecordedKey::Text(_) => 0,
    };
    let Some(last) = site_of.len().checked_sub(1) else { return };
    let (low, span) = (value(0), value(last) - value(0) + 1);
    for (at, site) in site_of.iter_mut().enumerate() {
        *site = ((value(at) - low) * sites as i128 / span) as Site;
    }
}

fn cut_by_count(site_of: &mut [Site], sites: usize) {
    let count = site_of.len();
    for (at, site) in site_of.iter_mut().enumerate() {
        *site = (at * sites / count) as Site;
    }
}
