//! Placements as people write them: the site of the keys from a given key on.
//!
//! ```text
//! table,from,site          from is the first key of a range that lasts to the next rule
//! orders,1,s1
//! orders,5000,s2
//! *,1,s1                   tables without rules of their own
//! ```

use super::{Placement, Site, parse_site};
use crate::recording::{KeyRef, KeyTable, RecordedKey, Vertex};
use crate::rows::rows;
use thiserror::Error;

/// One range of keys on one site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The table, or `*` for all that have no rules.
    pub table: String,
    /// The first key.
    pub from: RecordedKey,
    /// The site, from 0.
    pub site: Site,
}

/// Rules, in any order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PlacementRules(pub Vec<Rule>);

/// Why text is no placement.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RulesError {
    /// A line that cannot be read.
    #[error("placement, line {line}: {problem}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// The fault, and the right form.
        problem: String,
    },
    /// A key before all rules.
    #[error(
        "the placement says nothing about {0}: add a rule for its table from a lower key, or *"
    )]
    NoRule(String),
    /// A site beyond those there are.
    #[error("the placement uses site s{site}, and there are {sites} sites")]
    Site {
        /// The site, from 1.
        site: usize,
        /// How many sites there are.
        sites: usize,
    },
}

impl PlacementRules {
    /// Reads the text form.
    pub fn parse(text: &str) -> Result<PlacementRules, RulesError> {
        let fault = |(line, problem)| RulesError::Line { line, problem };
        let mut rules = Vec::new();
        for (line, [table, from, site]) in rows(text, "table,from,site").map_err(fault)? {
            let Some(site) = parse_site(site) else {
                return Err(fault((line, format!("\"{site}\" is no site: s1, s2, ... are"))));
            };
            let key = from.parse().map_or(RecordedKey::Text(from.into()), RecordedKey::Int);
            rules.push(Rule { table: table.to_owned(), from: key, site });
        }
        Ok(PlacementRules(rules))
    }

    /// The text form.
    pub fn to_text(&self) -> String {
        let line = |rule: &Rule| format!("{},{},s{}\n", rule.table, rule.from, rule.site + 1);
        "table,from,site\n".to_owned() + &self.0.iter().map(line).collect::<String>()
    }

    /// Tables with rules but without recorded accesses: misspelt, or unused.
    pub fn unrecorded(&self, keys: &KeyTable) -> impl Iterator<Item = &str> {
        let mut tables: Vec<&str> = self.0.iter().map(|rule| rule.table.as_str()).collect();
        tables.sort_unstable();
        tables.dedup();
        tables.into_iter().filter(|table| *table != "*" && keys.table(table).is_none())
    }

    /// The placement of all keys over `sites` sites.
    pub fn place(&self, keys: &KeyTable, sites: usize) -> Result<Placement, RulesError> {
        let highest = self.0.iter().map(|rule| usize::from(rule.site) + 1).max().unwrap_or(0);
        if highest > sites {
            return Err(RulesError::Site { site: highest, sites });
        }
        let sorted = |name: &str| {
            let mut rules: Vec<&Rule> = self.0.iter().filter(|rule| rule.table == name).collect();
            rules.sort_by(|a, b| a.from.cmp(&b.from));
            rules
        };
        let others = sorted("*");
        let tables: Vec<Vec<&Rule>> = keys.tables().map(sorted).collect();
        let mut site_of = Vec::with_capacity(keys.len());
        for vertex in 0..keys.len() as Vertex {
            let (table, key) = keys.vertex(vertex);
            let own = &tables[usize::from(table)];
            let rules = if own.is_empty() { &others } else { own };
            site_of.push(
                find(rules, key.as_ref()).ok_or_else(|| RulesError::NoRule(keys.label(vertex)))?,
            );
        }
        Ok(Placement::new(sites, site_of))
    }
}

fn find(rules: &[&Rule], key: KeyRef<'_>) -> Option<Site> {
    let after = rules.partition_point(|rule| rule.from.as_ref() <= key);
    Some(rules.get(after.checked_sub(1)?)?.site)
}
