//! Proposals become plans without loss: the placement of the planner is that of the design
//! afterwards.

use isomer_design::{Change, Design, Placement as Sites, SiteId};
use isomer_plan::clay;
use isomer_plan::generate::Random;
use isomer_plan::heat::HeatGraph;
use isomer_plan::problem::{Cost, MappedDesign, Placement, Problem, Proposal, plan_text};
use isomer_plan::recording::{KeyRef, KeyTable};
use rand::{RngExt, SeedableRng};
use std::sync::Arc;

/// Two tables, one of numbers and one of texts of which some look like numbers.
fn keys(random: &mut Random) -> KeyTable {
    let mut keys = KeyTable::new();
    for _ in 0..random.random_range(1..20) {
        keys.intern("orders", KeyRef::Int(random.random_range(-30..300))).unwrap();
        let name = format!("#{}, 'quoted'", random.random_range(0..30));
        keys.intern("people", KeyRef::Text(&name)).unwrap();
    }
    keys.intern("people", KeyRef::Int(7)).unwrap();
    keys.sort();
    keys
}

fn placement(random: &mut Random, keys: &KeyTable, sites: u16) -> Placement {
    let site_of = (0..keys.len()).map(|_| random.random_range(0..sites)).collect();
    Placement::new(usize::from(sites), site_of)
}

fn proposal(before: &Placement, after: Placement) -> Proposal {
    Proposal::from_scratch("test", before, after, "they belong together")
}

/// A design of the two tables with boundaries and replicas anywhere.
fn design(random: &mut Random, sites: u16) -> Design {
    let mut design = Design::parse(
        "sites s1
         table orders
           column region int64
           column id int64
           key region id
           partition [] master s1
         table people
           column name text
           key name
           partition [] master s1",
    )
    .unwrap();
    let mut changes: Vec<String> = (2..=sites).map(|site| format!("add_site s{site}")).collect();
    for _ in 0..random.random_range(0..8) {
        changes.push(format!("split orders at {}", random.random_range(-30..300)));
        changes.push(format!("split people at '#{}'", random.random_range(0..30)));
    }
    for text in changes {
        // A split at an existing boundary is refused, which is fine here.
        let _ = design.apply(&Change::parse(&text, &design).unwrap());
    }
    for (id, table) in design.clone().tables() {
        for (start, _) in table.partitions() {
            let site = SiteId(random.random_range(1..=sites));
            let start = || start.clone();
            let _ = design.apply(&Change::AddReplica { table: id, start: start(), site });
            let _ = design.apply(&Change::Remaster { table: id, start: start(), to: site });
            if random.random_range(0..2) == 0 {
                let site = SiteId(1);
                let _ = design.apply(&Change::RemoveReplica { table: id, start: start(), site });
            }
        }
    }
    design
}

#[test]
fn a_plan_leads_to_the_design_of_the_proposed_placement() {
    let mut random = Random::seed_from_u64(1);
    for round in 0..500 {
        let keys = keys(&mut random);
        let before = placement(&mut random, &keys, 3);
        let after = placement(&mut random, &keys, 4);
        let mapped = MappedDesign::of_placement(&keys, &before).unwrap();
        assert_eq!(mapped.placement(), before);
        let plan = mapped.plan(&proposal(&before, after.clone())).unwrap();
        let reached = plan.validate(mapped.design()).unwrap();
        let wanted = MappedDesign::of_placement(&keys, &after).unwrap();
        assert_eq!(reached.to_text(), wanted.design().to_text(), "round {round}");
        assert_eq!(Design::parse(&reached.to_text()).unwrap(), reached);
    }
}

#[test]
fn a_design_keeps_its_replicas_and_unrecorded_keys() {
    let mut random = Random::seed_from_u64(2);
    for round in 0..500 {
        let keys = keys(&mut random);
        let old = design(&mut random, 3);
        let mapped = MappedDesign::new(old.clone(), &keys).unwrap();
        let before = mapped.placement();
        let after = placement(&mut random, &keys, 3);
        let plan = mapped.plan(&proposal(&before, after.clone())).unwrap();
        let new = plan.validate(&old).unwrap();
        let again = MappedDesign::new(new.clone(), &keys).unwrap();
        assert_eq!(again.placement(), after, "round {round}");
        let copies = |sites: &Sites| sites.holders().len();
        for (id, table) in new.tables() {
            for (start, placement) in table.partitions() {
                let (_, was) = old.partition_of(id, start).unwrap();
                assert_eq!(copies(placement), copies(&was), "round {round}");
            }
        }
    }
}

#[test]
fn the_text_of_a_plan_is_read_as_changes_line_by_line() {
    let mut random = Random::seed_from_u64(3);
    let keys = keys(&mut random);
    let (before, after) = (placement(&mut random, &keys, 3), placement(&mut random, &keys, 3));
    let mapped = MappedDesign::of_placement(&keys, &before).unwrap();
    let plan = mapped.plan(&proposal(&before, after)).unwrap();
    let mut design = mapped.design().clone();
    let text = plan_text(&plan, &design);
    assert_eq!(text.lines().count(), plan.steps.len());
    assert!(text.contains(" keys of s1: they belong together"), "{text}");
    for (line, change) in text.lines().zip(plan.changes()) {
        assert_eq!(&Change::parse(line, &design).unwrap(), change);
        design.apply(change).unwrap();
    }
}

#[test]
fn clay_adds_a_site_and_so_does_its_plan() {
    let mut keys = KeyTable::new();
    for key in 1..=3 {
        keys.intern("orders", KeyRef::Int(key)).unwrap();
    }
    keys.sort();
    let graph = HeatGraph::with_keys(Arc::new(keys), &[60.0, 50.0, 70.0], &[]).unwrap();
    let before = Placement::new(2, vec![0, 0, 1]);
    let cost = Cost::flat(50.0);
    let problem = Problem { graph: &graph, placement: &before, cost, imbalance: 0.1 };
    let threshold = Some(80.0);
    let options = clay::Options { threshold, sites_added_max: 1, ..clay::Options::default() };
    let proposal = clay::plan(&problem, &options).unwrap();
    let mapped = MappedDesign::of_placement(graph.keys(), &before).unwrap();
    let plan = mapped.plan(&proposal).unwrap();
    assert!(plan_text(&plan, mapped.design()).starts_with("add_site s3   # "));
    plan.validate(mapped.design()).unwrap();
}

#[test]
fn mismatches_are_named() {
    let mut keys = KeyTable::new();
    keys.intern("orders", KeyRef::Int(5)).unwrap();
    keys.sort();
    let refused = |text: &str| {
        let design = Design::parse(text).unwrap();
        MappedDesign::new(design, &keys).unwrap_err().to_string()
    };
    let orders = "table orders\ncolumn id int64\ncolumn line int64\nkey id line\n";
    for (text, error) in [
        (
            "sites s1 s3\n".to_owned(),
            "the design lacks s2: planners number sites from s1 on without gaps",
        ),
        (
            "sites s1\n".to_owned(),
            "the recording has table orders, the design has none: add the table to the design",
        ),
        (
            format!("sites s1 s2\n{orders}partition [] master s1\npartition [5/3] master s2"),
            "the rows of orders/5 are on s1 and on s2: record the column that decides where rows \
             are",
        ),
        (
            "sites s1\ntable orders\ncolumn day bool\nkey day\npartition [] master s1".to_owned(),
            "\"5\" is no key of table orders, whose first key column is day bool: expected \
             true or false (bool), found `5`",
        ),
    ] {
        assert_eq!(refused(&text), error);
    }
    let far = Placement::new(1025, vec![0]);
    let error = MappedDesign::of_placement(&keys, &far).unwrap_err();
    assert_eq!(error.to_string(), "1025 sites: a design has at most 1024");
    let mut odd = KeyTable::new();
    odd.intern("order lines", KeyRef::Int(5)).unwrap();
    odd.sort();
    let error = MappedDesign::of_placement(&odd, &Placement::new(1, vec![0])).unwrap_err();
    assert!(error.to_string().starts_with("`order lines` cannot be the name"), "{error}");
}
