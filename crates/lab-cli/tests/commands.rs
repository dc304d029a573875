//! The commands as a shell sees them: help, exit codes, messages, lines of JSON.

use isomer_cluster::{Database, Options};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The result of a command.
struct Ended {
    code: i32,
    out: String,
    err: String,
}

fn lab(args: &[&str]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_isomer-lab")).args(args).output();
    let output = output.expect("the program starts");
    Ended {
        code: output.status.code().expect("it ends by itself"),
        out: String::from_utf8(output.stdout).expect("it writes text"),
        err: String::from_utf8(output.stderr).expect("it writes text"),
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn every_command_has_help_with_an_example() {
    let commands: [&[&str]; 11] = [
        &[],
        &["bench", "ycsb"],
        &["bench", "smallbank"],
        &["bench", "trace"],
        &["bench", "store"],
        &["bench", "reshard"],
        &["bench", "moves"],
        &["bench", "plan"],
        &["bench", "sql"],
        &["sim"],
        &["run"],
    ];
    for command in commands {
        let help = lab(&[command, &["--help"]].concat());
        assert_eq!(help.code, 0, "{command:?}");
        assert!(help.out.contains("Example"), "{command:?}: {}", help.out);
        let name = format!("isomer-lab {}", command.join(" "));
        assert!(help.out.contains(name.trim_end()), "{command:?}: {}", help.out);
    }
}

#[test]
fn bad_requests_end_with_2_and_name_the_fault() {
    let cases: [(&[&str], &str); 9] = [
        (&["frob"], "frob"),
        (
            &["bench", "ycsb", "--skew", "zapf"],
            "`zapf` is none of: uniform, zipf:0.99, zipf:0.99:of:50000000",
        ),
        (&["bench", "ycsb", "--rows", "2"], "2 rows in a YCSB table"),
        (&["bench", "smallbank", "--mix", "1,2"], "six weights"),
        (&["bench", "trace", "--durability", "none"], "--folder"),
        (&["bench", "moves", "--sites", "3"], "give more than --copies 3"),
        (&["bench", "sql", "--scale", "7"], "a scale is a number from 0.0001 to 1"),
        (&["bench", "sql", "--only", "tpce"], "no query's name begins with tpce"),
        (&["sim", "--seeds", "8..3"], "8..3 has no seed in it"),
    ];
    for (args, what) in cases {
        let ended = lab(args);
        assert_eq!(ended.code, 2, "{args:?}: {}", ended.err);
        assert!(ended.err.contains(what), "{args:?}: {}", ended.err);
        assert_eq!(ended.out, "", "{args:?}");
    }
}

#[test]
fn benchmarks_print_a_line_of_json_with_their_inputs_and_checks() {
    let small = ["--seconds", "1", "--json", "--seed", "7"];
    for (name, args) in [
        ("ycsb", vec!["--rows", "5000", "--skew", "zipf:0.99"]),
        ("smallbank", vec!["--rows", "1000", "--skew", "hot:100:0.5"]),
        ("smallbank", vec!["--rows", "1000", "--skew", "uniform", "--strategy", "static-2pc"]),
    ] {
        let ended = lab(&[&["bench", name], &small[..], &args[..]].concat());
        assert_eq!(ended.code, 0, "{}\n{}", ended.out, ended.err);
        let line = json(&ended.out);
        assert_eq!(line["command"], format!("bench {name}"));
        assert_eq!((&line["seed"], &line["skew"]), (&7.into(), &args[3].into()));
        assert!(line["throughput_per_s"].as_f64() > Some(0.0));
        let checks = line["checks"].as_array().expect("a list");
        assert!(!checks.is_empty() && checks.iter().all(|check| check["ok"] == true));
    }
}

/// Without PostgreSQL. The server is the program beside this one, which only a build of the whole
/// workspace makes.
#[test]
fn queries_are_measured_without_postgresql() {
    let beside = Path::new(env!("CARGO_BIN_EXE_isomer-lab")).with_file_name("isomer");
    if !beside.exists() {
        eprintln!("{} is missing: not tested", beside.display());
        return;
    }
    let small = ["--alone", "--scale", "0.001", "--rows", "1000", "--runs", "1"];
    let ended = lab(&[&["bench", "sql", "--json"], &small[..]].concat());
    assert_eq!(ended.code, 0, "{}\n{}", ended.out, ended.err);
    let lines: Vec<Value> = ended.out.lines().map(json).collect();
    let (aims, queries) = lines.split_last().expect("a line with the aims");
    assert_eq!(aims["aims"], Value::Array(Vec::new()), "there is nothing to compare with");
    assert!(queries.len() > 40, "{}", ended.out);
    for line in queries {
        let is_measured = line["isomer_ms"].as_f64() > Some(0.0);
        assert!(is_measured && line["errors"] == Value::Array(Vec::new()), "{line}");
        assert!(line["postgres_ms"].is_null() && line["equal"].is_null(), "{line}");
        assert_eq!((&line["seed"], &line["inputs"]["scale"]), (&1.into(), &0.001.into()));
    }
    for prefix in ["tpch_", "shape_", "point_"] {
        let is_there =
            |line: &Value| line["query"].as_str().is_some_and(|it| it.starts_with(prefix));
        assert!(queries.iter().any(is_there), "{prefix}");
    }
}

#[test]
fn a_benchmark_on_disk_leaves_a_sound_database() {
    let folder = folder("bench").display().to_string();
    let args = ["bench", "ycsb", "--rows", "5000", "--seconds", "1", "--folder", &folder];
    let ended = lab(&args);
    assert_eq!(ended.code, 0, "{}\n{}", ended.out, ended.err);
    let db = Database::open(Options::in_folder(&folder, 0)).expect("a sound database");
    db.design().check().expect("a design that holds");
    drop(db);
    let again = lab(&args);
    assert!(again.code == 1 && again.err.contains("needs a new folder"), "{}", again.err);
}

#[test]
fn seeds_of_the_simulator_repeat_exactly() {
    let args = ["sim", "--seeds", "1..2", "--steps", "40", "--faults", "none", "--json"];
    let (once, again) = (lab(&args), lab(&args));
    assert_eq!(once.code, 0, "{}", once.out);
    assert_eq!(once.out, again.out);
    assert!(once.out.lines().all(|line| json(line)["ok"] == true));
    assert_eq!(once.out.lines().count(), 2);
}
