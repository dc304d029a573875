//! `isomer top`: the overview of the console, in a terminal, by SQL.

use crate::failure::Failure;
use crate::reconfigure::Server;
use crate::screen::Screen;
use crate::{clock, out, text};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Intervals that are remembered for the lines of bars.
const SPARKS: usize = 40;
/// Statements and changes that are shown at least.
const ROWS_MIN: usize = 4;

/// Shows the load, the sites, the alarms, the statements and the changes of a running server
#[derive(clap::Args, Clone, Debug)]
#[command(
    after_help = "q ends it. Without a terminal, or with --once, it prints two seconds as text.

Examples:
  isomer top --server 'host=/tmp/shop port=5433 user=isomer dbname=isomer'
  isomer top --once"
)]
pub(crate) struct TopArgs {
    /// The server, as a connection string of PostgreSQL's clients
    #[arg(
        long,
        value_name = "CONNECTION",
        default_value = "host=127.0.0.1 port=5433 user=isomer dbname=isomer"
    )]
    server: String,
    /// The seconds between two looks
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60))]
    interval: u32,
    /// Prints one interval as text
    #[arg(long)]
    once: bool,
}

/// Figures by name and labels.
type Figures = BTreeMap<(String, String), f64>;
/// The figures of one moment, by process.
type Moment = BTreeMap<String, Figures>;

/// The rates between two looks.
#[derive(Default)]
struct Interval {
    statements: f64,
    errors: f64,
    p50_s: Option<f64>,
    p99_s: Option<f64>,
    commits: f64,
    local: Option<f64>,
    changes: f64,
    /// Commits a second by site.
    sites: BTreeMap<String, f64>,
}

/// The rest of the screen.
#[derive(Default)]
struct Shown {
    sites: Vec<Site>,
    attention: Vec<String>,
    statements: Vec<[String; 5]>,
    changes: Vec<[String; 2]>,
    autopilot: String,
}

struct Site {
    name: String,
    health: String,
    busy: Option<f64>,
    memory: i64,
    masters: i64,
}

/// Runs `isomer top`.
///
/// # Errors
/// If the server cannot be reached, or the terminal not be used.
pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    let mut server = Server::connect(&args.server)?;
    let pause = Duration::from_secs(args.interval.into());
    let mut before = figures(&mut server)?;
    if args.once || !std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        clock::sleep(pause);
        let now = figures(&mut server)?;
        let past = VecDeque::from([Interval::of(&growth(&before, &now), pause.as_secs_f64())]);
        let shown = look(&mut server)?;
        lines(&past, &shown, 120, 40).into_iter().for_each(out::line);
        return Ok(());
    }
    let mut screen = Screen::open().map_err(Failure::failed)?;
    let (mut past, mut at) = (VecDeque::new(), clock::now());
    loop {
        let shown = look(&mut server)?;
        screen
            .draw(|width, height| lines(&past, &shown, width, height))
            .map_err(Failure::failed)?;
        if screen.wait(pause).map_err(Failure::failed)? {
            return Ok(());
        }
        let (now, then) = (figures(&mut server)?, clock::now());
        let seconds = then.duration_since(at).as_secs_f64();
        if past.len() == SPARKS {
            past.pop_front();
        }
        past.push_back(Interval::of(&growth(&before, &now), seconds));
        (before, at) = (now, then);
    }
}

fn figures(server: &mut Server) -> Result<Moment, Failure> {
    let figures = "select coalesce(process, ''), name, labels, value from isomer.all_metrics";
    let mut moment = Moment::new();
    for row in server.query(figures)? {
        let of = moment.entry(row.get(0)).or_default();
        of.insert((row.get(1), row.get(2)), row.get(3));
    }
    Ok(moment)
}

/// The growth of the counters of all processes between two moments. A process without an answer at
/// the first one is left out: all that it ever did would seem to be new.
fn growth(before: &Moment, now: &Moment) -> Figures {
    let mut growth = Figures::new();
    for (process, now) in now {
        let Some(before) = before.get(process) else { continue };
        for (key, value) in now {
            let since = value - before.get(key).copied().unwrap_or_default();
            // A process that was restarted counts anew.
            let since = if since < 0.0 { *value } else { since };
            *growth.entry(key.clone()).or_default() += since;
        }
    }
    growth
}

fn look(server: &mut Server) -> Result<Shown, Failure> {
    let mut shown = Shown::default();
    let sites = "select site, health, busy, memory_bytes, masters, memory_max from isomer.sites \
                 order by length(site), site";
    for row in server.query(sites)? {
        let (name, health): (String, String) = (row.get(0), row.get(1));
        if !health.starts_with("ok") {
            shown.attention.push(format!("site {name}: {health}"));
        }
        let (memory, max): (i64, Option<i64>) = (row.get(3), row.get(5));
        if let Some(max) = max.filter(|max| memory as f64 > 0.85 * *max as f64 && memory < *max) {
            let share = text::percent(memory as f64 / max as f64);
            shown.attention.push(format!("site {name} has used {share} of its memory"));
        }
        shown.sites.push(Site { name, health, busy: row.get(2), memory, masters: row.get(4) });
    }
    if one(server.query("show design_changes")?).is_some_and(|switch| switch == "off") {
        shown.attention.push("changes of the design are turned off".to_owned());
    }
    match look_at_conductor(server, &mut shown) {
        Err(Failure::Failed(why)) => shown.attention.push(format!("the conductor: {why}")),
        looked => looked?,
    }
    let blocked =
        "select count(*) from pg_stat_activity where cardinality(pg_blocking_pids(pid)) > 0";
    let blocked: i64 = server.query(blocked)?.first().map_or(0, |row| row.get(0));
    if blocked > 0 {
        shown.attention.push(format!("{blocked} sessions wait for others: pg_blocking_pids"));
    }
    let statements = "select query, calls, mean_ms, at_one_site_percent, total_ms from isomer.all_statements \
                      where query not like '%isomer.%' \
                      order by total_ms desc limit 20";
    for row in server.query(statements)? {
        let share: Option<f64> = row.get(3);
        shown.statements.push([
            text::duration(row.get::<_, f64>(4) * 1e6),
            text::count(row.get::<_, i64>(1)),
            text::duration(row.get::<_, f64>(2) * 1e6),
            share.map_or("–".to_owned(), |share| text::percent(share / 100.0)),
            row.get(0),
        ]);
    }
    Ok(shown)
}

fn one(row: Vec<postgres::Row>) -> Option<String> {
    row.first().map(|row| row.get(0))
}

/// The part that the process with the conductor answers. While that is down there is none.
fn look_at_conductor(server: &mut Server, shown: &mut Shown) -> Result<(), Failure> {
    shown.autopilot = one(server.query("select mode from isomer.autopilot")?).unwrap_or_default();
    let waiting = "select count(*) from isomer.proposals where state = 'proposed'";
    let waiting: i64 = server.query(waiting)?.first().map_or(0, |row| row.get(0));
    if waiting > 0 {
        shown.attention.push(format!("{waiting} proposals wait: isomer.proposals"));
    }
    // Changes of tables that the user may not see are masked.
    let changes = "select to_char(at, 'HH24:MI:SS'), change || ': ' || reason from isomer.changes \
                   where change is not null and reason is not null order by number desc limit 20";
    for row in server.query(changes)? {
        shown.changes.push([row.get(0), row.get(1)]);
    }
    Ok(())
}

impl Interval {
    fn of(growth: &Figures, seconds: f64) -> Interval {
        let of = |name: &str, label: &str| -> f64 {
            let is_it = |((is, labels), _): &(&(String, String), &f64)| {
                is == name && labels.contains(label)
            };
            growth.iter().filter(is_it).fold(0.0, |all, (_, grown)| all + grown) / seconds
        };
        let mut interval = Interval {
            statements: of("isomer_statement_duration_seconds_count", ""),
            errors: of("isomer_statement_errors_total", ""),
            commits: of("isomer_commits_total", ""),
            changes: of("isomer_design_changes_total", ""),
            ..Interval::default()
        };
        let local = of("isomer_commits_total", "kind=\"local\"");
        interval.local = (interval.commits > 0.0).then(|| local / interval.commits);
        for ((_, labels), grown) in
            growth.iter().filter(|((name, _), _)| name == "isomer_commits_total")
        {
            let site = labels.split('"').nth(1).unwrap_or_default().to_owned();
            *interval.sites.entry(site).or_default() += grown / seconds;
        }
        let mut buckets: Vec<(f64, f64)> = growth
            .iter()
            .filter(|((name, _), _)| name == "isomer_statement_duration_seconds_bucket")
            .filter_map(|((_, labels), grown)| {
                let end = labels.split('"').nth(1)?;
                let end = if end == "+Inf" { f64::INFINITY } else { end.parse().ok()? };
                Some((end, *grown))
            })
            .collect();
        buckets.sort_by(|one, next| one.0.total_cmp(&next.0));
        let quantile = |share: f64| {
            let all = buckets.last().map(|(_, count)| *count).filter(|count| *count > 0.0)?;
            buckets.iter().find(|(_, below)| *below >= share * all).map(|(end, _)| *end)
        };
        (interval.p50_s, interval.p99_s) = (quantile(0.5), quantile(0.99));
        interval
    }
}

fn lines(past: &VecDeque<Interval>, shown: &Shown, width: usize, height: usize) -> Vec<String> {
    let spark = |of: &dyn Fn(&Interval) -> f64| {
        let numbers: Vec<f64> = past.iter().map(of).collect();
        let most = numbers.iter().copied().fold(1e-9, f64::max);
        format!("{:<SPARKS$}", text::sparkline(&numbers, most, SPARKS))
    };
    let none = Interval::default();
    let now = past.back().unwrap_or(&none);
    let seconds =
        |s: Option<f64>| s.map_or("–".to_owned(), |s| format!("≤ {}", text::duration(s * 1e9)));
    let mut lines = vec![
        format!("Isomer top   autopilot {}   (q ends it)", shown.autopilot),
        String::new(),
        format!(
            " statements   {}  {:>8}/s   {:.1} errors/s",
            spark(&|it| it.statements),
            text::count(now.statements as u64),
            now.errors
        ),
        format!(
            " commits      {}  {:>8}/s",
            spark(&|it| it.commits),
            text::count(now.commits as u64)
        ),
        format!(
            " at one site  {}  {:>8}",
            spark(&|it| it.local.unwrap_or_default()),
            now.local.map_or("–".to_owned(), text::percent)
        ),
        format!(" changes      {}  {:>8.1}/s", spark(&|it| it.changes), now.changes),
        format!(
            " duration     median {}   99th percentile {}",
            seconds(now.p50_s),
            seconds(now.p99_s)
        ),
        String::new(),
    ];
    let most = now.sites.values().copied().fold(1.0, f64::max);
    for site in &shown.sites {
        let commits = now.sites.get(&site.name).copied().unwrap_or_default();
        lines.push(format!(
            " {:<4} {} {:>8} commits/s   processor {:>6}   {:>9} of rows   {:>6} masters   {}",
            site.name,
            text::bar(commits / most, 20),
            text::count(commits as u64),
            site.busy.map_or("–".to_owned(), text::percent),
            text::bytes(site.memory as usize),
            text::count(site.masters as u64),
            site.health
        ));
    }
    lines.push(String::new());
    match shown.attention.is_empty() {
        true => lines.push(" nothing needs attention".to_owned()),
        false => lines.extend(shown.attention.iter().map(|what| format!(" ! {what}"))),
    }
    let room = height.saturating_sub(lines.len() + 4);
    let rows = (room / 2).max(ROWS_MIN);
    lines.push(String::new());
    lines.push(format!(
        "{:>10} {:>10} {:>10} {:>9}  statement",
        "total", "calls", "mean", "one site"
    ));
    for [total, calls, mean, share, query] in shown.statements.iter().take(rows) {
        lines.push(format!("{total:>10} {calls:>10} {mean:>10} {share:>9}  {query}"));
    }
    lines.push(String::new());
    for [at, change] in shown.changes.iter().take(rows) {
        lines.push(format!(" {at}  {change}"));
    }
    lines.into_iter().map(|line| text::fit(&line, width)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(of: &[(&str, &str, f64)]) -> Figures {
        let figure = |(name, labels, value): &(&str, &str, f64)| {
            (((*name).to_owned(), (*labels).to_owned()), *value)
        };
        of.iter().map(figure).collect()
    }

    #[test]
    fn an_interval_is_what_happened_between_two_looks() {
        let [local, across] = ["site=\"s1\",kind=\"local\"", "site=\"s2\",kind=\"distributed\""];
        let bucket = "isomer_statement_duration_seconds_bucket";
        let count = "isomer_statement_duration_seconds_count";
        let commits = "isomer_commits_total";
        let before =
            figures(&[(commits, local, 10.0), (count, "", 5.0), (bucket, "le=\"+Inf\"", 5.0)]);
        let now = figures(&[
            (commits, local, 40.0),
            (commits, across, 10.0),
            (count, "", 105.0),
            (bucket, "le=\"0.001\"", 60.0),
            (bucket, "le=\"0.01\"", 99.0),
            (bucket, "le=\"+Inf\"", 105.0),
        ]);
        let moment = |name: &str, of: &Figures| Moment::from([(name.to_owned(), of.clone())]);
        let (first, mut second) = (moment("a", &before), moment("a", &now));
        second.insert("came back".to_owned(), figures(&[(commits, local, 1_000_000.0)]));
        let interval = Interval::of(&growth(&first, &second), 2.0);
        assert_eq!((interval.statements, interval.commits), (50.0, 20.0));
        assert_eq!((interval.local, interval.p50_s), (Some(0.75), Some(0.001)));
        assert_eq!(interval.sites["s1"], 15.0);
        let shown = Shown { autopilot: "approve".to_owned(), ..Shown::default() };
        let lines = lines(&VecDeque::from([interval]), &shown, 100, 30);
        assert!(
            lines.iter().any(|line| line.contains("75.0 %") || line.contains("75 %")),
            "{lines:?}"
        );
        assert!(lines.iter().all(|line| line.chars().count() <= 100));
    }
}
