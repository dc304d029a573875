//! Clay's moves can be undone: after any number of plans, sending every clump home restores the
//! initial placement.

use isomer_plan::clay::{ClumpIndex, Options, plan_compacting};
use isomer_plan::generate::Random;
use isomer_plan::heat::HeatGraph;
use isomer_plan::problem::{Cost, Placement, Problem};
use isomer_plan::recording::{KeyRef, KeyTable, OnFault, Recording, open};
use rand::{RngExt, SeedableRng};
use std::sync::Arc;

fn named_keys(count: i64) -> Arc<KeyTable> {
    let mut keys = KeyTable::new();
    for key in 0..count {
        keys.intern("orders, \"old\"", KeyRef::Int(key)).unwrap();
        keys.intern("people", KeyRef::Text(&format!("p,{key}"))).unwrap();
    }
    keys.sort();
    Arc::new(keys)
}

#[test]
fn all_clumps_go_home_when_nothing_is_hot() {
    let mut random = Random::seed_from_u64(5);
    let keys = named_keys(12);
    for round in 0..200 {
        let site_of = (0..keys.len()).map(|_| random.random_range(0..3)).collect();
        let home = Placement::new(3, site_of);
        let (mut now, mut clumps) = (home.clone(), ClumpIndex::new());
        for hot_share in [0.3, 0.3, 0.3, 0.0] {
            let weight = |random: &mut Random| f64::from(random.random_range(0..30u32));
            let weights: Vec<f64> =
                keys.tables().flat_map(|_| 0..12).map(|_| weight(&mut random)).collect();
            let edges: Vec<(u32, u32, f64)> = (0..20)
                .map(|_| (random.random_range(0..24), random.random_range(0..24)))
                .filter(|(a, b)| a != b)
                .map(|(a, b)| (a, b, 2.0))
                .collect();
            let graph = HeatGraph::with_keys(Arc::clone(&keys), &weights, &edges).unwrap();
            let cost = Cost::flat(2.0);
            // The last step plans nothing new, because no site is overloaded.
            let imbalance = if hot_share == 0.0 { 1e9 } else { 0.1 };
            let problem = Problem { graph: &graph, placement: &now, cost, imbalance };
            let options = Options::default();
            let plan = plan_compacting(&problem, &options, &mut clumps, hot_share).unwrap();
            now = plan.placement;
            clumps = ClumpIndex::parse(&clumps.to_text()).unwrap();
            assert_eq!(clumps.keys().count(), now.moved_from(&home).count(), "round {round}");
        }
        assert_eq!(now, home, "round {round}");
    }
}

#[test]
fn a_clump_without_accesses_goes_home_too() {
    let text = "clump,start_table,start_key,table,key,home\n1,orders,7,orders,7,s1\n";
    let mut clumps = ClumpIndex::parse(text).unwrap();
    let lines = "time,transaction,table,key,access\n0,1,orders,1,r\n1,2,orders,9,r\n";
    let source = open(lines.as_bytes(), OnFault::Stop).unwrap();
    let recording = Recording::read_knowing(source, clumps.keys()).unwrap();
    let graph = HeatGraph::of(&recording, isomer_plan::heat::Sampling::ALL).unwrap();
    let now = Placement::new(2, vec![0, 1, 1]);
    let cost = Cost::flat(50.0);
    let problem = Problem { graph: &graph, placement: &now, cost, imbalance: 0.5 };
    let plan = plan_compacting(&problem, &Options::default(), &mut clumps, 0.5).unwrap();
    assert_eq!(plan.placement.site_of(), [0, 0, 1]);
    assert_eq!(plan.moves[0].reason, "orders/7 cooled: load 0.0 < 1.00, go home to s1");
    assert_eq!(clumps, ClumpIndex::new());
}

#[test]
fn an_invalid_file_of_clumps_is_refused_with_its_line() {
    let header = "clump,start_table,start_key,table,key,home\n";
    for (text, error) in [
        ("".to_owned(), "the header is \"\", expected clump,start_table,start_key,table,key,home"),
        (
            format!("{header}1,orders,7,orders,7\n"),
            "line 2, column 1 (line): \"1\" is no line: 6 fields are needed",
        ),
        (
            format!("{header}one,orders,7,orders,7,s1\n"),
            "line 2, column 1 (clump): \"one\" is no clump: a number is needed",
        ),
        (
            format!("{header}1,orders,7,orders,7,s0\n"),
            "line 2, column 21 (home): \"s0\" is no home: s1, s2, ... are",
        ),
    ] {
        assert_eq!(ClumpIndex::parse(&text).unwrap_err().to_string(), error);
    }
}
