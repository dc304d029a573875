//! The commands as a shell sees them: help, exit codes, messages, lines of JSON.

mod run;

use run::isomer;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// A folder with a database of the table `accounts`, with keys 0 to 47 at three sites.
fn database(name: &str) -> String {
    let folder = folder(name).display().to_string();
    let made = isomer(&["crash-child", &folder, "--show"]);
    assert_eq!(made.code, 0, "{}", made.err);
    folder
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn every_command_has_help_with_an_example() {
    let commands: [&[&str]; 7] = [
        &[],
        &["demo"],
        &["top"],
        &["reshard"],
        &["design", "show"],
        &["design", "apply"],
        &["design", "check"],
    ];
    for command in commands {
        let help = isomer(&[command, &["--help"]].concat());
        assert_eq!(help.code, 0, "{command:?}");
        assert!(help.out.contains("Example"), "{command:?}: {}", help.out);
        assert!(help.out.contains(&format!("isomer {}", command.join(" "))), "{command:?}");
    }
    assert_eq!(isomer(&["--version"]).out, format!("isomer {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn bad_requests_end_with_2_and_name_the_fault() {
    let cases: [(&[&str], &str); 8] = [
        (&["frob"], "frob"),
        (&["top", "--interval", "0"], "0 is not in 1..=60"),
        (&["demo", "--scenario", "hotspot", "--console"], "--console is for --scenario reshard"),
        (&["demo", "--sites", "1"], "1 is not in 2..=64"),
        (&["demo", "--isolation", "ordered", "--sites", "2"], "--sites 3 to 9"),
        (&["demo", "--isolation", "ordered", "--scenario", "trace"], "cannot be used with"),
        (&["demo", "--seconds", "soon"], "soon"),
        (&["design", "apply", "folder"], "<CHANGE>"),
    ];
    for (args, what) in cases {
        let ended = isomer(args);
        assert_eq!(ended.code, 2, "{args:?}: {}", ended.err);
        assert!(ended.err.contains(what), "{args:?}: {}", ended.err);
        assert_eq!(ended.out, "", "{args:?}");
    }
}

#[test]
fn folders_that_are_no_database_end_with_1_and_are_left_alone() {
    let missing = folder("missing");
    let path = missing.display().to_string();
    let ended = isomer(&["design", "show", &path]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains(&path), "{}", ended.err);
    assert!(!missing.exists());
    std::fs::create_dir_all(&missing).expect("a folder for the test");
    let ended = isomer(&["design", "check", &path]);
    assert!(ended.code == 1 && ended.err.contains("is empty"), "{}", ended.err);
    std::fs::write(missing.join("letter.txt"), "hello").expect("a file for the test");
    let ended = isomer(&["design", "show", &path]);
    assert!(ended.code == 1 && ended.err.contains("is not an Isomer database"), "{}", ended.err);
}

#[test]
fn a_server_that_cannot_have_the_socket_it_was_asked_for_does_not_start() {
    let data = folder("socket").display().to_string();
    let nowhere = folder("nowhere").display().to_string();
    let served =
        isomer(&["serve", "--data", &data, "--listen", "127.0.0.1:0", "--socket", &nowhere]);
    assert_eq!((served.code, served.out.as_str()), (1, ""), "{}", served.err);
    assert!(served.err.contains(&nowhere) && served.err.contains("missing"), "{}", served.err);
}

#[test]
fn a_design_is_shown_changed_and_checked() {
    let folder = database("design");
    let shown = isomer(&["design", "show", &folder]);
    assert!(shown.out.contains("table accounts"), "{}", shown.out);
    let full = isomer(&["design", "show", &folder, "--full"]).out;
    isomer_design::Design::parse(&full).expect("the text form can be read");

    let tried = isomer(&["design", "apply", &folder, "--dry-run", "split accounts at 40"]);
    assert!(tried.out.starts_with("split accounts at 40\n"), "{}", tried.out);
    assert!(tried.out.contains("  + accounts[40..)"), "{}", tried.out);
    assert_eq!(isomer(&["design", "show", &folder, "--full"]).out, full, "nothing changed");

    let done = isomer(&["design", "apply", &folder, "split accounts at 40", "add_site s4"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let shown = json(&isomer(&["design", "show", &folder, "--json"]).out);
    assert_eq!(shown["sites"].as_array().map(Vec::len), Some(4));
    let partitions = shown["tables"][0]["partitions"].as_array().expect("a list");
    assert!(partitions.iter().any(|part| part["partition"] == "accounts[40]"));

    let again = isomer(&["design", "apply", &folder, "add_site s5", "split accounts at 40"]);
    assert_eq!(again.code, 1);
    assert!(again.err.contains("nothing was changed"), "{}", again.err);
    let sites = &json(&isomer(&["design", "show", &folder, "--json"]).out)["sites"];
    assert_eq!(sites.as_array().map(Vec::len), Some(4), "the first change was not made either");

    let plan = format!("{folder}.plan");
    std::fs::write(
        &plan,
        "# a plan\nsplit accounts at 60   # a hot half\n\nsplit accounts at 70\n",
    )
    .expect("a file for the test");
    let planned = isomer(&["design", "apply", &folder, "--plan", &plan]);
    assert_eq!(planned.code, 0, "{}", planned.err);
    assert_eq!(planned.out.lines().count(), 2, "{}", planned.out);
    let again = isomer(&["design", "apply", &folder, "--plan", &plan]);
    assert!(
        again.code == 1 && again.err.contains("line 2: `split accounts at 60"),
        "{}",
        again.err
    );

    let wrong = isomer(&["design", "apply", &folder, "splat accounts at 40"]);
    assert!(wrong.code == 1 && wrong.err.contains("splat"), "{}", wrong.err);
    let checked = json(&isomer(&["design", "check", &folder, "--json"]).out);
    assert_eq!(checked["ok"], true);
}

#[test]
fn a_short_demo_passes_its_checks_and_draws() {
    let plot = folder("demo").join("demo.svg");
    let path = plot.display().to_string();
    let args = ["demo", "--seconds", "4", "--partition-keys", "1", "--json", "--plot", &path];
    let ended = isomer(&args);
    assert_eq!(ended.code, 0, "{}\n{}", ended.out, ended.err);
    let line = json(&ended.out);
    let checks = line["checks"].as_array().expect("a list");
    assert!(checks.len() >= 6 && checks.iter().all(|check| check["ok"] == true), "{}", ended.out);
    let drawn = std::fs::read_to_string(&plot).expect("the plot was written");
    assert!(drawn.starts_with("<svg"), "{drawn}");
}

#[test]
fn a_shard_key_changes_while_clients_work_and_no_request_fails() {
    let ended = isomer(&["demo", "--scenario", "reshard", "--seconds", "3", "--json"]);
    assert_eq!(ended.code, 0, "{}\n{}", ended.out, ended.err);
    let line = json(&ended.out);
    let checks = line["checks"].as_array().expect("a list");
    assert!(checks.len() == 2 && checks.iter().all(|check| check["ok"] == true), "{}", ended.out);
    let share = |part: &str| line[part]["single_site"].as_f64().expect("a share");
    assert!(share("before") < 0.9, "{}", ended.out);
    // A transaction may begin before the change and commit after it.
    assert!(share("after") > 0.99, "{}", ended.out);
}

#[test]
fn rows_of_an_ordered_table_gather_where_they_are_written() {
    let args = ["demo", "--isolation", "ordered", "--sites", "3", "--seconds", "9", "--json"];
    let ended = isomer(&args);
    assert_eq!(ended.code, 0, "{}\n{}", ended.out, ended.err);
    let line = json(&ended.out);
    let checks = line["checks"].as_array().expect("a list");
    assert!(checks.len() == 4 && checks.iter().all(|check| check["ok"] == true), "{}", ended.out);
    assert!(line["rows_moved"].as_u64().is_some_and(|moved| moved > 0), "{}", ended.out);
    let summary = line["summary"].as_str().expect("a sentence");
    assert!(summary.contains("rows moved"), "{summary}");
    println!("{summary}");
}

#[test]
fn a_plot_that_cannot_be_written_is_refused_before_the_run() {
    let ended = isomer(&["demo", "--plot", "/dev/null/demo.svg"]);
    assert_eq!((ended.code, ended.out.as_str()), (1, ""));
    assert!(ended.err.contains("/dev/null/demo.svg"), "{}", ended.err);
}

/// Sends a GET request, and returns the answer.
fn get(address: &str, path: &str, cookie: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).expect("the console listens");
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn the_demo_opens_its_console() {
    use std::io::{BufRead, BufReader};
    let mut demo = std::process::Command::new(env!("CARGO_BIN_EXE_isomer"))
        .args(["demo", "--console", "127.0.0.1:0", "--seconds", "6", "--plain"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(demo.stdout.take().expect("a pipe")).lines();
    let link = lines.find_map(|line| {
        let line = line.expect("a line");
        line.strip_prefix("console: http://").map(str::to_owned)
    });
    let link = link.expect("it tells the link");
    let (address, path) = link.split_at(link.find('/').expect("a path"));
    let entered = get(address, path, "");
    let cookie = entered.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    let cookie = cookie.and_then(|cookie| cookie.split(';').next()).expect(&entered).to_owned();
    assert!(get(address, "/", &cookie).contains("<title>Isomer</title>"));
    let sites = get(address, "/api/ask/sites", &cookie);
    assert!(sites.contains("200 OK") && sites.contains("\"s4\""), "{sites}");
    // The page goes on after the end of the run.
    let is_end = |line: &std::io::Result<String>| {
        line.as_ref().is_ok_and(|line| line.contains("the console goes on"))
    };
    assert!(lines.any(|line| is_end(&line)), "it says that the console goes on");
    let tables = get(address, "/api/ask/tables", &cookie);
    assert!(tables.contains("ratings"), "{tables}");
    let changes = get(address, "/api/ask/statements", &cookie);
    assert!(changes.contains("200 OK"), "{changes}");
    demo.kill().expect("it runs");
    demo.wait().expect("it ends");
}
