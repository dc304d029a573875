//! One master: at no time may two sites write the same key; a site writes only what it masters; and
//! in the end every key has exactly one master, where the router's design says.

use crate::history::{History, Term};

/// See the [module documentation](self).
///
/// # Errors
/// A sentence that names two masters, a write without a term, or what differs from the design.
pub fn one_master(history: &History) -> Result<(), String> {
    let terms = &history.terms;
    for (at, one) in terms.iter().enumerate() {
        if let Some(other) = terms[at + 1..].iter().find(|other| are_rivals(one, other)) {
            return Err(format!("two masters at one time: {}, and {}", words(one), words(other)));
        }
    }
    for commit in history.installed() {
        let parts = commit.parts.iter();
        for (site, write) in parts.flat_map(|(site, writes)| writes.iter().map(move |w| (site, w)))
        {
            let rules = |term: &&Term| {
                term.site == *site
                    && term.table == write.table
                    && term.range.contains(&write.key)
                    && term.from < commit.time
                    && term.until.is_none_or(|until| commit.time < until)
            };
            if terms.iter().find(rules).is_none() {
                let (table, key, time) = (write.table, &write.key, commit.time);
                return Err(format!("{site} wrote {table}[{key}] {time} without being its master"));
            }
        }
    }
    in_the_end(history)
}

fn are_rivals(one: &Term, other: &Term) -> bool {
    let before = |a: &Term, b: &Term| a.until.is_some_and(|until| until <= b.from);
    one.table == other.table
        && one.range.overlaps(&other.range)
        && !before(one, other)
        && !before(other, one)
}

fn in_the_end(history: &History) -> Result<(), String> {
    for (table, range, placement) in &history.placements {
        let held = |term: &&Term| {
            term.until.is_none() && term.table == *table && term.range.overlaps(range)
        };
        let masters: Vec<&Term> = history.terms.iter().filter(held).collect();
        let [master] = masters[..] else {
            let words: Vec<String> = masters.iter().map(|term| words(term)).collect();
            return Err(format!(
                "the design says {table}{range} is one partition at {}, the sites say: {}",
                placement.master,
                if words.is_empty() { "nobody".into() } else { words.join(", ") }
            ));
        };
        if master.site != placement.master || master.range != *range {
            let says = words(master);
            return Err(format!(
                "the design says {table}{range} {placement}, the sites say: {says}"
            ));
        }
    }
    Ok(())
}

fn words(term: &Term) -> String {
    let Term { site, table, range, from, until } = term;
    match until {
        Some(until) => format!("{site} of {table}{range} from {from} until {until}"),
        None => format!("{site} of {table}{range} from {from} on"),
    }
}
