use super::*;
use crate::{Model, random};
use std::collections::BTreeSet;

const TABLE: TableId = TableId(1);

/// A trace with these keys and one request a second.
fn trace(keys: &[u32]) -> Arc<Trace> {
    let lines = keys.iter().enumerate().map(|(second, key)| format!("{second},{key},50\n"));
    let text: String = std::iter::once("time_s,key,size\n".to_owned()).chain(lines).collect();
    Arc::new(Trace::read(text.as_bytes()).unwrap())
}

fn workload(trace: &Arc<Trace>, options: TraceOptions) -> TraceWorkload {
    TraceWorkload::new(trace.clone(), options, TABLE).unwrap()
}

fn keys(transaction: &TraceTransaction) -> Vec<u32> {
    transaction.accesses.iter().map(|(key, _)| *key).collect()
}

fn real() -> Arc<Trace> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/twitter_cache_1m.csv.zst");
    Arc::new(Trace::open(path).unwrap())
}

#[test]
fn keys_are_numbered_by_first_appearance() {
    let trace = trace(&[70, 5, 70, 900]);
    let found: Vec<_> = trace.requests().iter().map(|r| (r.second, r.key, r.is_first)).collect();
    assert_eq!(found, [(0, 0, true), (1, 1, true), (2, 0, false), (3, 2, true)]);
    assert_eq!(trace.keys(), 3);
}

#[test]
fn an_invalid_trace_is_refused_with_its_line() {
    let refused = |text: &str| Trace::read(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(
        refused("time,key\n"),
        "the columns of the trace are `time,key`: `time_s,key,size` are needed"
    );
    assert_eq!(
        refused("time_s,key,size\n1,2,3\n1,-2,3\n"),
        "line 3 of the trace: key is `-2`, not a number below 2^32"
    );
    assert!(refused("time_s,key,size\n1,2\n").starts_with("cannot read the trace: CSV error"));
    let missing = Trace::open("no/such/file").unwrap_err().to_string();
    assert!(missing.starts_with("cannot open the trace no/such/file: "));
    let plain = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    assert!(matches!(Trace::open(plain), Err(TraceError::NotZstd { .. })));
    let empty = Arc::new(Trace::read(&b"time_s,key,size\n"[..]).unwrap());
    assert!(TraceWorkload::new(empty, TraceOptions::default(), TABLE).is_err());
}

#[test]
fn a_window_is_sorted_and_cut() {
    let first_appearance: Vec<u32> = (0..10).collect();
    let mut requests = first_appearance.clone();
    requests.extend([1, 8, 3, 1, 2, 7, 3, 9, 2, 4]);
    let trace = trace(&requests);
    let mut workload = workload(&trace, TraceOptions { window: 10, ..TraceOptions::default() });
    let mut rng = random(1);
    let mut found = Vec::new();
    while found.len() < 20 {
        let transaction = workload.next(&mut rng);
        assert!((1..=4).contains(&transaction.accesses.len()));
        let distinct: BTreeSet<_> = keys(&transaction).into_iter().collect();
        assert_eq!(distinct.len(), transaction.accesses.len());
        found.extend(keys(&transaction));
    }
    assert_eq!(found[..10], first_appearance);
    assert_eq!(found[10..], [1, 2, 3, 4, 7, 8, 9, 1, 2, 3]);
    assert_eq!(workload.laps(), 0);
    workload.next(&mut rng);
    assert_eq!(workload.laps(), 1);
}

#[test]
fn clients_share_the_trace_and_no_request_is_lost() {
    let requests: Vec<u32> = (0..1000).map(|i| i * i % 97).collect();
    let trace = trace(&requests);
    let mut counts = vec![0; 97];
    for client in 0..3 {
        let options = TraceOptions { window: 7, client, clients: 3, ..TraceOptions::default() };
        let mut workload = workload(&trace, options);
        let mut rng = random(client as u64);
        while workload.laps() == 0 {
            let transaction = workload.next(&mut rng);
            if workload.laps() == 0 {
                keys(&transaction).iter().for_each(|key| counts[*key as usize] += 1);
            }
        }
    }
    let mut expected = vec![0; 97];
    trace.requests().iter().for_each(|request| expected[request.key as usize] += 1);
    assert_eq!(counts, expected);
    // More clients than windows.
    let options = TraceOptions { client: 900, clients: 1000, ..TraceOptions::default() };
    workload(&trace, options).next(&mut random(1));
}

#[test]
fn the_real_trace_matches_the_documentation() {
    let trace = real();
    assert_eq!((trace.requests().len(), trace.keys()), (1_000_000, 143_542));
    let percent = |share: f64| (share * 1000.0).round() / 10.0;
    let shares = |trace: &Trace| {
        let found = trace.locality();
        [found.hottest_percent, found.repeats, found.neighbours].map(percent)
    };
    let shuffled = Arc::new(trace.shuffled(&mut random(1)));
    assert_eq!(shares(&trace), [57.0, 6.3, 6.0]);
    assert_eq!(shares(&shuffled), [57.0, 0.7, 1.4]);
    assert_eq!(percent(local_share(&trace)).round(), 42.0);
    assert_eq!(percent(local_share(&shuffled)).round(), 27.0);
    let firsts = trace.requests().iter().filter(|request| request.is_first).count();
    assert_eq!(firsts, trace.keys());
}

/// Of the transactions with several keys, the share that spans at most 100 numbers.
fn local_share(trace: &Arc<Trace>) -> f64 {
    let mut workload = workload(trace, TraceOptions::default());
    let mut rng = random(2);
    let (mut local, mut all) = (0, 0);
    while workload.laps() == 0 {
        let keys = keys(&workload.next(&mut rng));
        if keys.len() > 1 {
            all += 1;
            local += i32::from(keys[keys.len() - 1] - keys[0] <= 100);
        }
    }
    f64::from(local) / f64::from(all)
}

#[test]
fn the_counters_of_the_real_trace_add_up() {
    let mut workload = workload(&real(), TraceOptions::default());
    let mut data = Model::loaded(&workload);
    let (mut rng, mut added, mut keys) = (random(3), 0, 0);
    for _ in 0..50_000 {
        let transaction = workload.next(&mut rng);
        keys += transaction.accesses.len();
        match data.execute(&transaction).unwrap() {
            Outcome::Commit { added: net } => added += i128::from(net),
            other => panic!("{other:?}"),
        }
    }
    // About a quarter of the first requests are for new keys; of the others, one in ten is a write.
    let writes = added as f64 / keys as f64;
    assert!((0.2..0.5).contains(&writes), "{writes}");
    assert_eq!(workload.verify(&mut data, added), Ok(Ok(())));
    assert!(workload.verify(&mut data, added + 1).unwrap().is_err());
}

#[test]
fn rows_have_the_size_of_the_trace_up_to_a_limit() {
    let trace = trace(&[1, 2, 3]);
    for (value_bytes_max, expected) in [(20, 20), (80, 50)] {
        let options = TraceOptions { value_bytes_max, ..TraceOptions::default() };
        let workload = workload(&trace, options);
        let (_, schema) = workload.tables().remove(0);
        for row in workload.load() {
            let value = schema.read_column(&row.key, &row.row, 2).unwrap();
            assert_eq!(value, Value::Bytes(vec![b'v'; expected]));
            assert_eq!(schema.read_column(&row.key, &row.row, 1), Ok(Value::Int64(0)));
        }
    }
}
