//! Which part is which site: such that most stays where it is.

use crate::assign::{AssignError, Worth};
use crate::problem::{Placement, Site};
use crate::recording::Vertex;

/// The placement in which each part has one of the sites, and the most vertices stay. What is in no part stays
/// anyway.
///
/// # Errors
/// As for any assignment: too many sites.
pub fn named(
    before: &Placement,
    vertices: &[Vertex],
    parts: &[u32],
) -> Result<Placement, AssignError> {
    let sites = before.sites();
    let mut overlap = vec![vec![0u64; sites]; sites];
    for (&vertex, &part) in vertices.iter().zip(parts) {
        overlap[part as usize][usize::from(before.site(vertex))] += 1;
    }
    let mut worth = Worth::new(sites);
    for row in overlap {
        worth.push((0..).zip(row))?;
    }
    let names = worth.assign(1)?;
    let mut placement = before.clone();
    for (&vertex, &part) in vertices.iter().zip(parts) {
        placement.set(vertex, names[part as usize] as Site);
    }
    Ok(placement)
}
