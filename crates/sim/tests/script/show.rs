//! The commands `show …`: the router's design, the partitions of sites, their rows and their logs.

use super::Answer;
use super::words::{everything, site};
use isomer_design::{KeyRange, SiteId, TableId, Time};
use isomer_log::Log;
use isomer_sim::cluster::Cluster;
use isomer_site::{Event, FrameKind, Hearing, Record, read_any_frame};
use std::cell::RefCell;
use std::error::Error;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::rc::Rc;

/// `accounts[0..20)` or `accounts[5]`
pub(crate) fn range(cluster: &Cluster, text: &str) -> Result<(TableId, KeyRange), Box<dyn Error>> {
    let at = text.find('[').ok_or(format!("`{text}` names no keys, as accounts[5] does"))?;
    let (name, keys) = text.split_at(at);
    let design = cluster.conductor().design();
    let (id, table) = design.find_table(name).ok_or(format!("there is no table {name}"))?;
    Ok((id, table.schema().parse_range(keys)?))
}

pub(crate) fn show(cluster: &Rc<Cluster>, what: &str) -> Answer {
    match what.split_once(' ').unwrap_or((what, "")) {
        ("design", _) => Ok(design(cluster)),
        ("holdings", _) => Ok(holdings(cluster)),
        ("copies", _) => copies(cluster),
        ("log", at) => log(cluster, site(at)?),
        _ => Err("design, holdings, copies or log s1".into()),
    }
}

fn design(cluster: &Cluster) -> String {
    let design = cluster.conductor().design();
    let mut text = String::new();
    for (range, placement) in design.partitions_in(TableId(1), &everything()) {
        let _ = writeln!(text, "accounts{range} {placement}");
    }
    text
}

fn holdings(cluster: &Cluster) -> String {
    let mut text = String::new();
    for (site, held) in cluster.holdings() {
        let range = &held.range;
        let role = match (held.source, held.released_to) {
            (None, _) if held.followers.is_empty() => "master".to_owned(),
            (None, _) => format!("master, followed by {}", held.followers),
            (Some(source), None) => format!("replica of {source}"),
            (Some(_), Some(to)) => {
                let to = if to == site { "it".to_owned() } else { to.to_string() };
                format!("replica, released to {to}, to be followed by {}", held.followers)
            }
        };
        let _ = writeln!(text, "{site}  accounts{range} v{}  {role}", held.version);
    }
    text
}

/// Shows only rows whose value differs from 100, the value of loaded rows.
fn copies(cluster: &Rc<Cluster>) -> Answer {
    let output = Rc::new(RefCell::new(String::new()));
    let (slot, reader) = (output.clone(), cluster.clone());
    let task = cluster.world.spawn("the reader".into(), async move {
        for (site, held) in reader.holdings() {
            let rows = reader.rows_at(site, held.table, &held.range, Time::ZERO).await;
            let words = match rows {
                Ok(rows) => {
                    let rows = rows.iter().filter(|(_, value)| *value != 100);
                    rows.map(|(key, value)| format!("{key} = {value}"))
                        .collect::<Vec<_>>()
                        .join(", ")
                }
                Err(why) => why,
            };
            let range = &held.range;
            let _ = writeln!(slot.borrow_mut(), "{site}  accounts{range}  {words}");
        }
    });
    cluster.world.run_for(super::SETTLE_NS, || cluster.world.is_done(task));
    cluster.world.take_lines();
    Ok(output.take().lines().map(|line| format!("{}\n", line.trim_end())).collect())
}

fn log(cluster: &Cluster, site: SiteId) -> Answer {
    let log = cluster.world.log(site).ok_or("no such site")?;
    let mut text = String::new();
    let durable = log.durable();
    let begin = cluster.world.site(site).map_or(log.begin(), |site| site.log().begin());
    log.read(begin, &mut |position, frame| {
        let (head, records) = read_any_frame(frame).expect("the site wrote it");
        let from = head.kind.origin().map(|(from, _)| format!("  from {from}")).unwrap_or_default();
        let mark = if position >= durable { "  not durable" } else { "" };
        let stage = match head.kind {
            FrameKind::Commit | FrameKind::Refresh { .. } => String::new(),
            FrameKind::Prepare(txn) => format!("  {txn} is prepared"),
            FrameKind::Decide { txn, others } => format!("  {txn} is decided, {others} to be told"),
            FrameKind::End(txn) => format!("  {txn} has ended"),
            FrameKind::Batch(outcomes) => {
                let number = outcomes.last().map_or(0, |outcome| outcome.number);
                format!("  batch {number}")
            }
            FrameKind::Hears(site, Hearing::Open) => format!("  {site} is heard again"),
            FrameKind::Hears(site, _) => format!("  {site} is heard no more"),
        };
        for record in &records {
            let _ = writeln!(text, "{}{from}{stage}{mark}", words(record));
        }
        if records.is_empty() {
            let _ = writeln!(text, "{}{mark}", stage.trim_start());
        }
        ControlFlow::Continue(())
    })?;
    Ok(text)
}

fn words(record: &Record<'_>) -> String {
    let Record { start, previous, version, event, .. } = record;
    let event = match event {
        Event::Write(rows) => {
            let keys = rows.iter().map(|row| isomer_design::Key::from_bytes(row.key).to_string());
            match &keys.collect::<Vec<_>>()[..] {
                [] => "write no rows".to_owned(),
                keys if keys.len() > 3 => format!("write {} rows", keys.len()),
                keys => format!("write {}", keys.join(", ")),
            }
        }
        Event::Create { range, .. } => format!("create {range}"),
        Event::Split { at } => format!("split at {at}"),
        Event::Merge { right, right_version } => format!("merge with [{right}] v{right_version}"),
        Event::Follow(site) => format!("{site} follows"),
        Event::Unfollow(site) => format!("{site} no longer follows"),
        Event::Release { to, .. } => format!("release to {to}"),
        Event::Acquire { followers } => format!("acquire, followed by {followers}"),
        Event::Promote { to, followers } => format!("promote {to}, followed by {followers}"),
        Event::Install(install) => {
            format!("install {} rows {}", install.rows.iter().count(), install.range)
        }
        Event::Copy { range, number, rows } => {
            format!("copy {number} of {range}, {} rows", rows.len())
        }
        Event::Drop => "drop".into(),
        Event::Forget => "forget the table".into(),
        Event::Backups(backups) => format!("the table has backups: {backups}"),
    };
    let start = if start.is_empty() { String::new() } else { start.to_string() };
    format!("accounts[{start}] v{previous}→v{version}  {event}")
}
