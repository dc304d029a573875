//! The copy of a conductor that is in another process: a design that follows the news.
//!
//! ```text
//!   the conductor   change ─▶ sites ─▶ design, news 18 ──┐
//!   a copy                                               └─▶ design, routing table ─▶ router
//! ```
//!
//! The copy may be behind. A router that acts on it asks a site that has not what it looks for any
//! more, or not yet, and looks again.

use super::event::ChangeEvent;
use super::{Around, Conductor, Home};
use crate::gateways::link::Link;
use crate::gateways::messages::News;
use crate::transport::Transport;
use isomer_design::{Change, Design, Invalid, RoutingTable, SiteId, TableDesign, TableId};
use isomer_strategy::Strategy;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The copy of a conductor of another process. It decides nothing, and changes by news alone; until
/// the first, it has this design.
pub(crate) fn copy_of<T: Transport>(
    transport: T,
    design: Design,
    strategy: Box<dyn Strategy>,
    link: Arc<Link>,
) -> Conductor<T> {
    let conductor = Conductor::new(transport, design, TableId(0), strategy, Box::new(()));
    Conductor { link: Some(link), is_copy: AtomicBool::new(true), ..conductor }
}

/// The way to the conductor, if it is in another process.
pub(crate) fn link_of<T>(conductor: &Conductor<T>) -> Option<&Arc<Link>> {
    conductor.link.as_ref().filter(|_| conductor.is_copy.load(Ordering::SeqCst))
}

/// True if a conductor was a copy, and became the conductor less than a time in nanoseconds ago.
pub(crate) fn is_new<T: Transport>(conductor: &Conductor<T>, time_ns: u64) -> bool {
    let ended = conductor.link.as_ref().and_then(|link| link.ended());
    ended.is_some_and(|ended| conductor.transport.now().0 < ended.0 + time_ns)
}

pub(super) fn around<T>(conductor: &Conductor<T>) -> &Around {
    conductor.later.get().unwrap_or(&conductor.around)
}

/// The environment of a conductor.
pub(super) fn home<T>(conductor: &Conductor<T>) -> &dyn Home {
    &*around(conductor).home
}

/// The design, and the number of the last news that are in it. From now on news are kept.
pub(crate) fn begin_news<T: Transport>(conductor: &Conductor<T>) -> (Design, u64) {
    let design = conductor.design.lock();
    (design.clone(), conductor.news.begin())
}

/// Tells gateways of other processes of a table as it is in a design, which is locked.
pub(super) fn tell_table<T: Transport>(conductor: &Conductor<T>, design: &Design, id: TableId) {
    if !conductor.news.is_read() {
        return;
    }
    let mut only = Design::new(design.sites().iter()).expect("sites were valid before");
    let table = design.table(id).expect("a table that is told of is there");
    enter_table(&mut only, id, table).expect("a table was valid before");
    conductor.news.add(|| News::Table(id, only.to_text()));
}

fn enter_table(design: &mut Design, id: TableId, table: &TableDesign) -> Result<(), Invalid> {
    let partitions = table.partitions().iter();
    let partitions = partitions.map(|(start, at)| (start.clone(), at.clone()));
    design.create_table(id, table.schema().clone(), partitions)?;
    design.set_backups(id, table.backups())?;
    design.set_ordered(id, table.is_ordered())?;
    design.set_pins(id, table.pins().clone())
}

/// Follows a design from now on.
pub(crate) fn follow_anew<T: Transport>(conductor: &Conductor<T>, design: Design) {
    conductor.transport.learn();
    let mut own = conductor.design.lock();
    conductor.table.store(Arc::new(RoutingTable::of(&design)));
    conductor.ordered.follow_design(&design);
    *own = design;
}

/// Makes a copy the conductor, of sites that hold `design`.
pub(crate) fn become_conductor<T: Transport>(
    conductor: &Conductor<T>,
    design: Design,
    last_table: TableId,
    around: Around,
) {
    // A process takes the conductor's place once: whoever loses it ends.
    let is_first = conductor.later.set(around).is_ok();
    assert!(is_first, "a copy becomes the conductor once");
    *conductor.last_table.lock() = last_table;
    follow_anew(conductor, design);
    conductor.is_copy.store(false, Ordering::SeqCst);
    let now = conductor.transport.now();
    conductor.link.iter().for_each(|link| link.end(now));
}

/// Makes a change that the conductor has made. Returns false if that is not possible: then the copy
/// is another design.
pub(crate) fn follow<T: Transport>(conductor: &Conductor<T>, news: News) -> bool {
    match news {
        News::Changed(change) => {
            let master = master_of(&conductor.design(), &change);
            if let Change::AddSite { .. } = change {
                // If it could not when the process joined.
                conductor.transport.learn();
            }
            if conductor.enter(&change).is_err() {
                return false;
            }
            if let Some(master) = master.filter(|_| matches!(change, Change::Remaster { .. })) {
                // Clients that wait for a failed site find the rows at the new master.
                conductor.transport.set_taken_over(master, None);
            }
            let reason = "the conductor has made it".to_owned();
            let (text, begun) = (change.to_text(&conductor.design()), conductor.transport.now());
            let event = ChangeEvent { change, text, reason, begun, took_ns: 0, rows: 0, bytes: 0 };
            conductor.watchers.tell(&event);
            true
        }
        News::Table(id, text) => {
            let mut design = conductor.design.lock();
            let Ok(of) = Design::parse(&text) else { return false };
            let Ok(table) = of.table(id) else { return false };
            // There is none if it is new.
            let _ = design.drop_table(id);
            let made = enter_table(&mut design, id, table);
            let routing = conductor.table.load().without_table(id).with_table(&design, id);
            conductor.table.store(Arc::new(routing));
            conductor.ordered.follow(id, table);
            made.is_ok()
        }
        News::Dropped(id) => {
            let mut design = conductor.design.lock();
            conductor.table.store(Arc::new(conductor.table.load().without_table(id)));
            conductor.ordered.forget(id);
            design.drop_table(id).is_ok()
        }
        News::Design(text) => match Design::parse(&text) {
            Ok(design) => {
                follow_anew(conductor, design);
                true
            }
            Err(_) => false,
        },
        News::NodeJoined => {
            conductor.transport.learn();
            true
        }
        News::NodeLeft(name) => {
            conductor.transport.left(&name);
            true
        }
        News::TakenOver(site) => {
            conductor.transport.set_taken_over(site, None);
            true
        }
        News::Announced(..) | News::Left(_) | News::Asked(..) => true,
    }
}

fn master_of(design: &Design, change: &Change) -> Option<SiteId> {
    let (table, start) = (change.table()?, change.start()?);
    design.partition_of(table, start).map(|(_, placement)| placement.master)
}
