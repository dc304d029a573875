//! The planning commands as a shell sees them: input files, advice, and errors about bad input.

mod run;

use run::isomer;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Runs a command that must succeed.
fn done(args: &[&str]) -> String {
    let ended = isomer(args);
    assert_eq!(ended.code, 0, "{args:?}: {}", ended.err);
    ended.out
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A folder of files for one test.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Files {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("planner").join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        Files(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).expect("a file for the test");
        self.path(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).expect(name)
    }
}

/// A recording of accounts 0 to 47: most transactions touch keys 3 and 5 together, a quarter one
/// key.
fn accounts() -> String {
    let mut text = "time,transaction,table,key,access\n".to_owned();
    for number in 0..400 {
        let line = |key: i32| format!("{}.0,{number},accounts,{key},w\n", number / 10);
        match number % 4 {
            0 => text += &line(number % 48),
            _ => text += &(line(3) + &line(5)),
        }
    }
    text
}

#[test]
fn advice_becomes_changes_that_a_database_carries_out() {
    let files = Files::new("advice");
    let database = files.path("database");
    done(&["crash-child", &database, "--show"]);
    let today = files.write("today.design", &done(&["design", "show", &database, "--full"]));
    let trace = files.write("accounts.csv", &accounts());
    let (plan, after) = (files.path("plan"), files.path("after.design"));
    let sites = ["--sites", "3", "--placement", &today];
    let args = [&["advise", &trace], &sites[..], &["--plan", &plan, "--design", &after]].concat();
    let said = done(&args);
    assert!(said.contains("plan of clay"), "{said}");

    let changes = files.read("plan");
    assert!(changes.lines().count() > 2, "{changes}");
    assert!(changes.contains("# accounts/"), "{changes}");
    let apply: Vec<&str> =
        ["design", "apply", &database].into_iter().chain(changes.lines()).collect();
    done(&apply);
    assert_eq!(done(&["design", "show", &database, "--full"]), files.read("after.design"));

    // The design after the plan is a placement, too, and needs fewer moves.
    let sites = ["--sites", "3", "--placement", &after, "--json"];
    let again = json(&done(&[&["advise", &trace], &sites[..]].concat()));
    let moves = |answer: &Value| answer["moves"].as_array().map(Vec::len);
    let sites = ["--sites", "3", "--placement", &today, "--json"];
    let first = json(&done(&[&["advise", &trace], &sites[..]].concat()));
    assert!(moves(&again) < moves(&first), "{again}\n{first}");
}

#[test]
fn clumps_are_remembered_and_go_home() {
    let files = Files::new("clumps");
    let hot = files.write("hot.csv", &accounts());
    let (plan, clumps) = (files.path("hot.design"), files.path("clumps.csv"));
    let args = ["--sites", "3", "--hot-share", "0.05"];
    let args = [&["advise", &hot], &args[..], &["--clumps-after", &clumps, "--design", &plan]];
    done(&args.concat());
    let remembered = files.read("clumps.csv");
    assert!(remembered.lines().any(|line| line.contains(",accounts,0,")), "{remembered}");

    // Later transactions touch only keys that stayed at home.
    let mut later = "time,transaction,table,key,access\n".to_owned();
    (0..96).for_each(|n| later += &format!("{n},{n},accounts,{},r\n", 20 + n % 28));
    let cool = files.write("cool.csv", &later);
    let args = ["--sites", "3", "--hot-share", "0.05", "--placement", &plan, "--clumps", &clumps];
    let said = done(&[&["advise", &cool], &args[..], &["--clumps-after", &clumps]].concat());
    assert!(said.contains("cooled: load 0.0"), "{said}");
    assert!(said.contains("of cooled clumps went home"), "{said}");
    assert!(!files.read("clumps.csv").contains(",accounts,0,"), "{}", files.read("clumps.csv"));
}

#[test]
fn strategies_are_compared_in_a_table_and_a_picture() {
    let files = Files::new("compare");
    let trace = files.write("accounts.csv", &accounts());
    let plot = files.path("compare.svg");
    let answer = json(&done(&["compare", &trace, "--sites", "3", "--json", "--plot", &plot]));
    let names: Vec<&str> = answer["strategies"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|strategy| strategy["name"].as_str())
        .collect();
    assert_eq!(names, ["now", "clay", "drift", "estore", "drtmb", "metis", "schism"]);
    let drawn = files.read("compare.svg");
    for text in ["accounts.csv on 3 sites", "schism", "Keys that have to move"] {
        assert!(drawn.contains(text), "{text}");
    }
}

#[test]
fn a_new_shard_key_comes_with_flows_rounds_and_a_design() {
    let files = Files::new("reshard");
    let rows: String = (0..40).map(|n| format!("{n},{},{}\n", n * 7 % 40, n % 3 + 1)).collect();
    let table = files.write("rows.csv", &format!("old,new,bytes\n{rows}"));
    let links = "from,to,latency_ms\ns1,r1,1\ns2,r2,1\nr1,r2,5\n";
    let topology = files.write("topology.csv", links);
    let replicas = "site,replica,centre,role\ns1,a1,east,primary\ns1,a2,east,secondary\n\
                    s2,b1,west,primary\ns2,b2,west,secondary\n";
    let replicas = files.write("replicas.csv", replicas);
    let design = files.path("rows.design");
    let args = ["--old", "old", "--new", "new", "--chunks", "8", "--sites", "2"];
    let more = ["--topology", &topology, "--replicas", &replicas, "--weight", "bytes"];
    let all = [&["reshard-plan", &table], &args[..], &more[..], &["--design", &design]].concat();
    let said = done(&all);
    assert!(said.contains("a2 b2") && said.contains("across the wide area"), "{said}");
    let answer = json(&done(&[&all[..], &["--json"]].concat()));
    assert_eq!(answer["first_of_chunk"].as_array().map(Vec::len), Some(8));
    assert_eq!(answer["rounds"].as_array().map(Vec::len), Some(2));
    let design = isomer_design::Design::parse(&files.read("rows.design")).expect("a design");
    assert_eq!(design.partition_count(), 8);
}

/// Each case: a command, the content of FILE, and a part of the error.
#[test]
fn errors_about_bad_input_name_the_place_and_the_remedy() {
    let files = Files::new("bad");
    let header = "time,transaction,table,key,access\n";
    let good = format!("{header}0,1,orders,1,r\n0,1,orders,2,w\n1,2,orders,5,r\n2,3,orders,6,r\n");
    let table = "a,b\n1,2\n2,1\n3,9\n4,8\n";
    let cases: [(&str, &str, &str); 30] = [
        (
            "advise FILE --sites 2",
            &format!("{header}0,x,orders,1,r\n"),
            "line 2, column 3 (transaction)",
        ),
        (
            "trace stat FILE",
            &format!("{header}0,1,orders,1,q\n"),
            "line 2, column 14 (access): \"q\" is not r or w",
        ),
        ("advise FILE --sites 2", header, "the recording is empty"),
        ("advise FILE --sites 2", "", "the recording is empty"),
        ("compare FILE --sites 9", &good, "9 sites for 3 accessed keys"),
        ("advise FILE --sites 0", &good, "0 sites: 1 to 60000 are possible"),
        ("advise FILE --sites 2 --k NaN", &good, "k is NaN: a finite cost of at least 0 is needed"),
        ("advise FILE --sites 2 --k -1", &good, "k is -1"),
        ("advise FILE --sites 2 --imbalance inf", &good, "imbalance is inf"),
        (
            "advise FILE --sites 2 --sites-per-server 0",
            &good,
            "the number of sites on one server is 0",
        ),
        ("advise FILE --sites 2 --hold-out 1", &good, "cannot hold out 1 of the recording"),
        (
            "advise FILE --sites 2 --clumps-after x --strategy metis",
            &good,
            "--clumps is for --strategy clay",
        ),
        ("advise FILE --sites 1025 --plan x", &keys(2000), "1025 sites: a design has at most 1024"),
        (
            "shard-key FILE --table z",
            "time,transaction,table,access,k\n0,1,a,r,5\n",
            "no table \"z\" in the recording; it has a",
        ),
        (
            "shard-key FILE --table z",
            "time,transaction,access,k\nNaN,1,r,5\n",
            "line 2, column 1 (time): \"NaN\" is no time",
        ),
        (
            "shard-key FILE --table z --sites 5000",
            "time,transaction,access,k\n0,1,r,5\n",
            "at most 4096 can be planned for",
        ),
        (
            "route FILE --sites 2",
            "{\"transactions\":[{\"id\":1},{\"id\":1}]}",
            "transaction 1 is there twice",
        ),
        (
            "route FILE --sites 2",
            "{\"transactions\":[{\"id\":1,\"reads\":[1]}]}",
            "\"reads\" is none of id, read, write",
        ),
        (
            "route FILE --sites 2",
            "{\"transactions\":[{\"id\":1,\"read\":[-1]}]}",
            "whole numbers from 0 on",
        ),
        (
            "route FILE --sites 2 --home-width 5",
            "{\"transactions\":[{\"id\":1,\"read\":[10]}]}",
            "2 sites of 5 keys end at 9",
        ),
        (
            "route FILE --sites 2 --alpha NaN",
            "{\"transactions\":[]}",
            "a decimal number of at least 0",
        ),
        (
            "reshard-plan FILE --old a --new b --chunks 9 --sites 2",
            table,
            "9 chunks of 4 different values of b",
        ),
        (
            "reshard-plan FILE --old a --new z --chunks 2 --sites 2",
            table,
            "no column \"z\": the table has a, b",
        ),
        (
            "reshard-plan FILE --old a --new b --chunks 2 --sites 9999",
            table,
            "at most 4096 can be planned for",
        ),
        (
            "reshard-plan FILE --old a --new b --chunks 2 --sites 2 --weight b",
            "a,b\n1,NaN\n2,x\n",
            "\"NaN\" is no weight",
        ),
        (
            "reshard-plan FILE --old a --new b --chunks 2 --sites 1 --topology FILE",
            table,
            "is not the header from,to,latency_ms",
        ),
        (
            "reshard-plan FILE --old a --new b --chunks 2 --sites 1 --replicas FILE",
            table,
            "is not the header site,replica,centre,role",
        ),
        (
            "trace import flights FILE --out /dev/null",
            &good,
            "expected the columns tailnum,carrier,origin,dest",
        ),
        ("trace generate google --size 99999999999 --out FILE", "", "at most 10 thousand"),
        (
            "trace generate google --load FILE --out /dev/null",
            "t,m,l\n0,-1,2\n",
            "line 2: -1 is no machine",
        ),
    ];
    for (args, text, error) in cases {
        let path = files.write("file.csv", text);
        let args: Vec<&str> =
            args.split(' ').map(|a| if a == "FILE" { &path } else { a }).collect();
        let ended = isomer(&args);
        assert!(ended.code == 1 || ended.code == 2, "{args:?} ended with {}", ended.code);
        assert!(ended.err.contains(error), "{args:?}: {}", ended.err);
        assert_eq!(ended.out, "", "{args:?}");
    }
}

/// A recording of `count` keys, each touched once.
fn keys(count: u32) -> String {
    let line = |n: u32| format!("{n},{n},orders,{n},r\n");
    "time,transaction,table,key,access\n".to_owned() + &(0..count).map(line).collect::<String>()
}

#[test]
fn a_topology_must_join_all_sites() {
    let files = Files::new("topology");
    let table = files.write("rows.csv", "a,b\n1,2\n2,1\n3,9\n4,8\n");
    let args = ["--old", "a", "--new", "b", "--chunks", "2", "--sites", "2", "--topology"];
    for (links, error) in [
        ("s1,r1,1\ns2,r2,1\n", "no path from s1 to s2"),
        ("s1,r1,1\n", "the topology does not mention s2"),
        ("s1,s2,NaN\n", "line 2: \"NaN\" is no latency above 0"),
    ] {
        let topology = files.write("net.csv", &format!("from,to,latency_ms\n{links}"));
        let ended = isomer(&[&["reshard-plan", &table], &args[..], &[&topology]].concat());
        assert!(ended.code == 1 && ended.err.contains(error), "{links}: {}", ended.err);
    }
}

#[test]
fn a_placement_that_does_not_fit_is_refused() {
    let files = Files::new("placement");
    let trace = files.write("accounts.csv", &accounts());
    let table = "table accounts\ncolumn id int64\nkey id\npartition [] master";
    for (text, error) in [
        ("x\n", "is not the header table,from,site"),
        ("table,from,site\naccounts,3,s1\n", "says nothing about accounts/0"),
        ("table,from,site\n*,0,s9\n", "uses site s9, and there are 3 sites"),
        ("table,from,site\n*,0,1\n", "\"1\" is no site: s1, s2, ... are"),
        ("sites s1\ntable people\ncolumn id int64\nkey id\npartition [] master s1\n", "has people"),
        (&format!("sites s1\n{table} s9\n"), "line 5, column 11: there is no site s9"),
        (&format!("sites s1 s2 s3 s4\n{table} s1\n"), "give --sites 4, not 3"),
    ] {
        let path = files.write("placement", text);
        let ended = isomer(&["advise", &trace, "--sites", "3", "--placement", &path]);
        assert!(ended.code == 1 && ended.err.contains(error), "{text}: {}", ended.err);
        assert!(ended.err.contains(&path), "{}", ended.err);
    }
    // Rules for tables without accesses may be right, so they are a note and no error.
    let path = files.write("placement", "table,from,site\n*,0,s1\nacounts,0,s2\n");
    let said = done(&["advise", &trace, "--sites", "3", "--placement", &path]);
    assert!(said.contains("rules for acounts, which was not recorded"), "{said}");
}

#[test]
fn malformed_lines_are_left_out_if_asked() {
    let files = Files::new("skip");
    let trace = files.write("accounts.csv", &(accounts() + "oops\n"));
    assert_eq!(isomer(&["advise", &trace, "--sites", "3"]).code, 1);
    let said = done(&["advise", &trace, "--sites", "3", "--skip-faults"]);
    assert!(said.contains("1 malformed lines were left out"), "{said}");
}

#[test]
fn every_planning_command_has_help_with_an_example() {
    let commands: [&[&str]; 8] = [
        &["advise"],
        &["compare"],
        &["route"],
        &["reshard-plan"],
        &["shard-key"],
        &["trace", "import"],
        &["trace", "stat"],
        &["trace", "generate"],
    ];
    for command in commands {
        let help = done(&[command, &["--help"]].concat());
        assert!(help.contains("Example"), "{command:?}: {help}");
        assert!(help.contains(&format!("isomer {} ", command.join(" "))), "{command:?}: {help}");
    }
}
