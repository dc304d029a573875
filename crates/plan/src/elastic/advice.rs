//! Advice on the placement: plans for what ran lately, each judged by transactions that it has not
//! seen.
//!
//! ```text
//!   footprints ──┬─ the first 70 % ─▶ planners ──▶ plans
//!                └─ the last 30 % ──▶ each design: transactions over several sites, imbalance
//! ```
//!
//! Unlike the loop ([`super::Controller`]), advice does not wait for an overload, and makes nothing
//! true. An operator looks at it, and may propose one of its plans.

use super::away::Away;
use super::planner::{self, Aim, Planner};
use isomer_design::{Design, Footprint, Plan, Route, RoutingTable};
use std::collections::BTreeMap;

/// The share of the footprints that plans are judged by.
const HELD_OUT: f64 = 0.3;
/// Fewer footprints than this are no ground for advice.
pub const FOOTPRINTS_MIN: usize = 50;
/// The imbalance that plans leave (Clay's paper, section 8; METIS).
const IMBALANCE: f64 = 0.15;

/// How a design serves some transactions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Judged {
    /// The share of transactions that no site can run alone.
    pub across: f64,
    /// The accesses of the site with the most, in multiples of the mean.
    pub imbalance: f64,
}

/// A plan, and what it would bring.
#[derive(Clone, PartialEq, Debug)]
pub struct Advice {
    /// The planner.
    pub planner: &'static str,
    /// The changes; none if the planner finds nothing better.
    pub plan: Plan,
    /// The later transactions in the design as it is, and after the plan.
    pub judged: [Judged; 2],
    /// Further remarks.
    pub notes: Vec<String>,
}

/// Advice for the footprints of `seconds` seconds, in their order: what serves best comes first.
/// There is none for fewer than [`FOOTPRINTS_MIN`] footprints.
pub fn advise(design: &Design, recorded: &[Footprint], seconds: f64) -> Vec<Advice> {
    if recorded.len() < FOOTPRINTS_MIN {
        return Vec::new();
    }
    let held_out = (recorded.len() as f64 * HELD_OUT) as usize;
    let (earlier, later) = recorded.split_at(recorded.len() - held_out);
    let seconds = seconds * (1.0 - HELD_OUT);
    let before = judge(design, later);
    let aims = [
        ("clay", Planner::Clay, Aim::Relief { may_add: false }),
        ("estore", Planner::EStore, Aim::Relief { may_add: false }),
        ("metis", Planner::Clay, Aim::Together),
    ];
    let advice = |(name, planner, aim)| {
        let with = (IMBALANCE, aim);
        let planned =
            planner::plan(planner, with, design, (earlier, seconds), &mut Away::default());
        let steps = planned.plans.into_iter().flat_map(|plan| plan.steps).collect();
        let plan = Plan { reason: format!("advice of {name}"), steps };
        let mut notes = planned.notes;
        let after = match plan.validate(design) {
            Ok(after) => judge(&after, later),
            Err(invalid) => {
                notes.push(invalid.to_string());
                before
            }
        };
        Advice { planner: name, plan, judged: [before, after], notes }
    };
    let mut all: Vec<Advice> = aims.into_iter().map(advice).collect();
    all.sort_by(|one, other| cost(one).total_cmp(&cost(other)));
    all
}

/// The cost of a design: a transaction over several sites counts as two.
fn cost(advice: &Advice) -> f64 {
    let [_, after] = advice.judged;
    (1.0 + after.across) * after.imbalance
}

/// How a design serves some transactions.
pub fn judge(design: &Design, footprints: &[Footprint]) -> Judged {
    let routing = RoutingTable::of(design);
    let mut accesses: BTreeMap<_, f64> = design.sites().iter().map(|site| (site, 0.0)).collect();
    let mut across = 0usize;
    for footprint in footprints {
        let alone = match routing.home(footprint) {
            Route::Sites(sites) => Some(sites),
            Route::Nowhere { .. } | Route::UnknownTable(_) => None,
        };
        across += usize::from(alone.is_none());
        for item in footprint.items() {
            let Some(placement) = routing.placement(item.table, item.span.start()) else {
                continue;
            };
            // Where several sites can run a transaction, each gets its share of the accesses.
            match &alone {
                Some(sites) => {
                    let part = 1.0 / sites.len().max(1) as f64;
                    sites.iter().for_each(|site| *accesses.entry(site).or_default() += part);
                }
                None => *accesses.entry(placement.master).or_default() += 1.0,
            }
        }
    }
    let (sum, most) =
        accesses.values().fold((0.0, 0.0f64), |(sum, most), count| (sum + count, most.max(*count)));
    let imbalance = if sum > 0.0 { most * accesses.len() as f64 / sum } else { 1.0 };
    Judged { across: across as f64 / footprints.len().max(1) as f64, imbalance }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_design::{
        Access, Column, ColumnType, Key, Placement, Schema, SiteId, Span, TableId,
    };

    /// Two sites; keys from 1000 on are at the second.
    fn design() -> Design {
        let mut design = Design::new([SiteId(1), SiteId(2)]).expect("sites");
        let schema =
            Schema::new("pairs", vec![Column::new("id", ColumnType::Int64)], &["id"]).expect("one");
        let halves =
            [(Key::min(), Placement::at(SiteId(1))), (Key::int(1000), Placement::at(SiteId(2)))];
        design.create_table(TableId(1), schema, halves).expect("a table");
        design
    }

    fn writes(keys: &[i64]) -> Footprint {
        let mut footprint = Footprint::new();
        for key in keys {
            footprint.add(TableId(1), Span::Key(Key::int(*key)), Access::Write);
        }
        footprint
    }

    #[test]
    fn pairs_that_are_used_together_are_brought_together() {
        let design = design();
        let recorded: Vec<Footprint> =
            (0..2000).map(|at| writes(&[at % 40, at % 40 + 1000])).collect();
        let advice = advise(&design, &recorded, 10.0);
        let [best, ..] = &advice[..] else { panic!("there is advice") };
        let [before, after] = best.judged;
        assert_eq!(before, Judged { across: 1.0, imbalance: 1.0 });
        assert!(after.across < 0.1 && after.imbalance < 1.3, "{best:?}");
        let designed = best.plan.validate(&design).expect("its changes are possible in turn");
        assert_eq!(judge(&designed, &recorded[1400..]), after);
        assert!(best.plan.steps.iter().all(|step| !step.reason.is_empty()));
        assert!(advice.iter().any(|it| it.planner == "metis" && it.judged[1].across < 0.1));
    }

    #[test]
    fn a_load_at_one_site_is_spread() {
        let design = design();
        let recorded: Vec<Footprint> = (0..1000).map(|at| writes(&[at * 7 % 500])).collect();
        let advice = advise(&design, &recorded, 10.0);
        let metis = advice.iter().find(|it| it.planner == "metis").expect("it is asked");
        assert_eq!(metis.judged[0], Judged { across: 0.0, imbalance: 2.0 });
        assert!(metis.judged[1].imbalance < 1.4, "{metis:?}");
    }

    #[test]
    fn a_good_placement_stays_and_little_is_no_ground() {
        let design = design();
        let recorded: Vec<Footprint> =
            (0..1000).map(|at| writes(&[at % 500 + 1000 * (at % 2)])).collect();
        let advice = advise(&design, &recorded, 10.0);
        let clay = advice.iter().find(|it| it.planner == "clay").expect("it is asked");
        assert_eq!((&clay.plan.steps[..], clay.judged[0]), (&[][..], clay.judged[1]));
        assert!(advise(&design, &recorded[..FOOTPRINTS_MIN - 1], 1.0).is_empty());
        let unknown = [writes(&[1])];
        assert_eq!(judge(&Design::new([SiteId(1)]).expect("a site"), &unknown).across, 1.0);
    }
}
