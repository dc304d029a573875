//! `docs/reference.md` agrees with the program: its tables are made from a running server, and the
//! server accepts its statements. `UPDATE_GOLDENFILES=1` writes the tables anew.

use isomer_cluster::Options;
use isomer_server::{Decider, Engine, Server, ServerOptions, Trust};
use postgres::{Client, NoTls, SimpleQueryMessage};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// The rows of a query.
fn rows(client: &mut Client, query: &str) -> Vec<Vec<String>> {
    let answer = client.simple_query(query).expect("an answer");
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned()).collect())
        }
        _ => None,
    };
    answer.iter().filter_map(row).collect()
}

/// A row of a table of the page.
fn line(cells: &[&str]) -> String {
    format!("| {} |\n", cells.join(" | ").replace('\n', " "))
}

fn settings(client: &mut Client) -> String {
    let mut text = line(&["setting", "at first", "meaning"]) + &line(&["---"; 3]);
    for row in rows(client, "select name, value, meaning from isomer.settings order by name") {
        text += &line(&[&format!("`{}`", row[0]), &row[1], &row[2]]);
    }
    text
}

fn views(client: &mut Client) -> String {
    let query = "select c.relname, obj_description(c.oid), a.attname, \
         format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum) \
         from pg_class c join pg_namespace n on n.oid = c.relnamespace \
         join pg_attribute a on a.attrelid = c.oid \
         where n.nspname = 'isomer' and a.attnum > 0 order by c.relname, a.attnum";
    let (mut text, mut last) = (String::new(), String::new());
    for row in rows(client, query) {
        if row[0] != last {
            let _ = write!(text, "### isomer.{}\n\n{}\n\n", row[0], row[1]);
            text += &(line(&["column", "type", "meaning"]) + &line(&["---"; 3]));
            last.clone_from(&row[0]);
        }
        text += &line(&[&format!("`{}`", row[2]), &row[3], &row[4]]);
    }
    text.replace("|\n###", "|\n\n###")
}

/// A metric: its kind, the names of its labels, and its meaning.
type Metric = (String, BTreeSet<String>, String);

/// The metrics of the server until now. Some come once something of their kind has happened.
fn metrics(client: &mut Client) -> BTreeMap<String, Metric> {
    let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
    for row in rows(client, "select name, kind, help, labels from isomer.metrics") {
        let [name, kind, help, labels] = row.try_into().expect("four columns");
        let name = match &*kind {
            "histogram" => {
                let ends = ["_bucket", "_count", "_sum"];
                ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name).to_owned()
            }
            _ => name,
        };
        let names = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0));
        let names = names.filter(|name| *name != "le").map(str::to_owned);
        metrics.entry(name).or_insert((kind, BTreeSet::new(), help)).1.extend(names);
    }
    metrics
}

/// The metrics of the page.
fn told_metrics(page: &str) -> BTreeMap<String, Metric> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `isomer_"));
    let metric = |row: &str| {
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        let [name, kind, labels, help] = cells[..] else { panic!("four columns: {row}") };
        let labels = labels.split(", ").filter(|it| !it.is_empty()).map(str::to_owned).collect();
        let name = format!("isomer_{}", name.trim_end_matches('`'));
        (name, (kind.to_owned(), labels, help.to_owned()))
    };
    rows.map(metric).collect()
}

fn table_of(metrics: &BTreeMap<String, Metric>) -> String {
    let mut text = line(&["metric", "kind", "labels", "meaning"]) + &line(&["---"; 4]);
    for (name, (kind, labels, help)) in metrics {
        let labels: Vec<&str> = labels.iter().map(|label| &**label).collect();
        text += &line(&[&format!("`{name}`"), kind, &labels.join(", "), help]);
    }
    text
}

/// The page with this part between its marks.
fn with_part(page: &str, name: &str, part: &str) -> String {
    let begin = format!("<!-- {name} -->\n");
    let (before, rest) = page.split_once(&begin).expect("the mark of the part");
    let (_, after) = rest.split_once("<!-- end -->").expect("the end of the part");
    format!("{before}{begin}{part}<!-- end -->{after}")
}

/// The statements of the page, in its order.
fn statements(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("```sql\n").skip(1);
    let blocks = blocks.filter_map(|block| Some(block.split_once("```")?.0));
    blocks.flat_map(|block| block.split(';')).map(str::trim).filter(|it| !it.is_empty())
}

#[test]
fn the_reference_is_that_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let folder = tempfile::TempDir::new().expect("a folder");
    let options = Options::in_folder(folder.path(), 2);
    let engine = Engine::open(options, Decider::default(), None).expect("a catalog");
    let listen = "127.0.0.1:0".parse().expect("an address");
    let options = ServerOptions::new(listen, || 1_700_000_000_000_000, |bytes| bytes.fill(7));
    let options = ServerOptions { trust: Trust::Loopback, ..options };
    let server = Server::start(engine, options).expect("a free port");
    let port = server.address().port();
    let config = format!("host=127.0.0.1 port={port} user=isomer dbname=test");
    let mut client = Client::connect(&config, NoTls).expect("the server answers");

    let made = with_part(&page, "settings", &settings(&mut client));
    let made = with_part(&made, "views", &views(&mut client));
    let running = "select count(*) from isomer.reconfigurations where ended is null";
    for statement in statements(&page) {
        if let Err(error) = client.simple_query(statement) {
            panic!("`{statement}` of the page fails: {error:?}");
        }
        while rows(&mut client, running) != [["0"]] {
            std::thread::yield_now();
        }
    }
    // Some figures exist once something of their kind has happened, or after some seconds. Those
    // that the page has are kept.
    client.simple_query("select 1 / 0").expect_err("a division by zero");
    client.simple_query("alter table notes merge at (7)").expect_err("none begins there");
    let writes = std::env::var_os("UPDATE_GOLDENFILES").is_some();
    if writes {
        client.simple_query("select pg_sleep(3)").expect("a pause");
    }
    let mut told = told_metrics(&page);
    for (name, (kind, labels, help)) in metrics(&mut client) {
        let known = told.entry(name).or_default();
        (known.0, known.2) = (kind, help);
        known.1.extend(labels);
    }
    let made = with_part(&made, "metrics", &table_of(&told));
    match writes {
        true => std::fs::write(&path, &made).expect("the page is written"),
        false => assert!(made == page, "docs/reference.md is old: UPDATE_GOLDENFILES=1 renews it"),
    }
}
