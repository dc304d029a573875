//! Sends a statement to the process that has its rows.
//!
//! ```text
//!   statement outside of a block ─▶ its rows ─▶ all at masters of one other process?
//!      no ─▶ runs here                            │ yes
//!      ▲                                          ▼
//!      ├──────────────── nothing was done ──── runs there, as a guest
//!      └── lost, and it only reads ───────────────┤
//!                                                 ▼
//!                          messages to the client, or an error; 08007 if a write was lost
//! ```
//!
//! A statement that writes to ordered tables asks before that where and when it is to run, if there
//! is a router ([`StatementTurn`]). It then keeps its turn until its transaction has ended.
//!
//! *Invariants.*
//! - A statement that may have had an effect is not run again.
//! - The client sees no difference but speed. A statement that could tell where it runs, or that
//!   reads or changes the state of its session, runs here.
//!
//! The session's time limits and requests to cancel are passed on by
//! [`isomer_cluster::gateways::shipping`].

use super::calls::places_of;
use super::run::Call;
use super::{Session, until_seated};
use crate::backend::{explain, explain_commit};
use crate::engine::ordered::moved_of;
use crate::settings::{Settings, sent};
use crate::shipping::{
    Answer, Answered, Asked, Early, Outcome, Shipped, columns, formats, params, read, write,
};
use crate::wire::Out;
use isomer_cluster::gateways::shipping::MastersAt;
use isomer_cluster::open::take_rows;
use isomer_cluster::{Near, OpenError, OrderRouter, StatementTurn, Unanswered};
use isomer_design::{SiteId, Time};
use isomer_sql::statement::{Action, Compiled, Places, places};
use isomer_sql::{SqlError, SqlType};
use std::sync::Arc;

/// A statement as its client has sent it.
#[derive(Clone, Copy)]
pub(crate) struct Said<'c> {
    pub(crate) text: &'c str,
    /// The types of its parameters that the client has specified.
    pub(crate) given: &'c [SqlType],
    /// True if its transaction ends with it.
    pub(crate) is_alone: bool,
}

/// The state of a session for its statements elsewhere, and for those whose rows are here.
#[derive(Default)]
pub(super) struct Shipping {
    /// The number of statements that it has sent.
    count: u64,
    /// The settings that it has sent last.
    settings: Option<(Arc<Settings>, Arc<[u8]>)>,
    /// The rows of the statement that is about to run, if their masters are here.
    pub(super) near: Option<Near>,
    /// The turn of the statement that runs here.
    turn: Option<StatementTurn>,
    /// The rows of ordered tables that the transaction writes move here.
    pub(super) takes_rows: bool,
}

/// A statement that runs elsewhere.
struct Choice {
    site: SiteId,
    is_read_only: bool,
    /// The rows of ordered tables that it writes move there.
    takes_rows: bool,
    compiled: Arc<Compiled>,
}

/// True for a statement over rows, where several processes have gateways, or a router.
fn is_to_be_placed(session: &Session, call: Call<'_>) -> bool {
    let is_about_rows = matches!(
        call.compiled.action,
        Action::Select(_)
            | Action::Insert(_)
            | Action::Update(_)
            | Action::Delete(_)
            | Action::Merge(_)
            | Action::Call(_)
    );
    let database = session.engine.database();
    let may_ask =
        || !matches!(call.compiled.action, Action::Select(_)) && OrderRouter(database).is_set();
    is_about_rows && (database.others().are_there() || may_ask())
}

/// The statement of a session has ended: the next one about its rows has its turn.
pub(super) fn end_turn(session: &mut Session) {
    (session.shipping.turn, session.shipping.takes_rows) = (None, false);
}

/// Begins the transaction of a statement that was routed here.
pub(super) fn settle(session: &mut Session) {
    if session.shipping.takes_rows
        && let Some(backend) = &mut session.txn
    {
        take_rows(&mut backend.txn);
    }
}

/// Asks where a statement on ordered tables is to run, and waits for its turn. `None` if it does
/// not ask.
fn turn(
    session: &mut Session,
    call: Call<'_>,
    found: &Found,
) -> Result<Option<StatementTurn>, SqlError> {
    let Ok((places, ..)) = found else { return Ok(None) };
    let engine = session.engine.clone();
    let router = OrderRouter(engine.database());
    let is_alone = check_alone(session, call, call.said).is_ok();
    let asks = is_alone && !places.is_read_only && session.shipping.turn.is_none();
    if !asks || !router.is_set() {
        return Ok(None);
    }
    let footprint = places.footprint();
    match router.is_about(&footprint) {
        true => {
            let turn = router.turn(footprint, &session.cancel).map(Some);
            turn.map_err(|why| explain(OpenError::Canceled(why)))
        }
        false => Ok(None),
    }
}

/// Runs a statement at the process that has its rows. `None` if it has to run here.
pub(super) fn ship(
    session: &mut Session,
    call: Call<'_>,
    out: &mut Out,
) -> Option<Result<(), SqlError>> {
    if !is_to_be_placed(session, call) {
        return None;
    }
    let mut found = find(session, call);
    session.shipping.near = near(session, &found);
    let said = call.said.filter(|_| !session.in_block)?;
    let engine = session.engine.clone();
    let turn = match turn(session, call, &found) {
        Ok(turn) => turn,
        Err(error) => return Some(Err(error)),
    };
    let takes_rows = turn.as_ref().is_some_and(|turn| turn.keeps_rows);
    if let (Some(turn), Ok((_, _, at))) = (turn, &mut found) {
        *at = turn.elsewhere.map_or(MastersAt::Here, MastersAt::Elsewhere);
        (session.shipping.turn, session.shipping.takes_rows) = (Some(turn), takes_rows);
    }
    let choice = match choose(session, call, said, found) {
        Ok(choice) => Choice { takes_rows, ..choice },
        Err(outcome) => {
            engine.shipments.count(outcome);
            return None;
        }
    };
    let (done, outcome) = match send(session, call, said, &choice, out) {
        Sent::Done(done) => (Some(done), Outcome::Shipped),
        Sent::NotHere(outcome) => (None, outcome),
        Sent::Lost(None) => (None, Outcome::Repeated),
        Sent::Lost(Some(known)) => match find_out(session, &known, out) {
            Some(done) => (Some(done), Outcome::Lost),
            None => (None, Outcome::Repeated),
        },
    };
    engine.shipments.count(outcome);
    done
}

/// Notes the rows of a statement of a client of another process, if their masters are here.
pub(super) fn look_near(session: &mut Session, call: Call<'_>) {
    session.shipping.near = None;
    if is_to_be_placed(session, call) {
        let found = find(session, call);
        session.shipping.near = near(session, &found);
    }
}

/// The rows of a statement, its plan for the current catalog, and where the masters are.
type Found = Result<(Places, Arc<Compiled>, MastersAt), Outcome>;

fn find(session: &mut Session, call: Call<'_>) -> Found {
    let catalog = session.catalog();
    let compiled = match call.compiled.version == catalog.version {
        true => call.compiled.clone(),
        // If it fails, it fails where it runs.
        false => (call.again)(&catalog).map_err(|_| Outcome::RowsUnknown)?,
    };
    let places = match &compiled.action {
        Action::Call(plan) => places_of(session, plan, call.params, &catalog)?,
        _ => places(&compiled, call.params, &session.surroundings(), &catalog)?,
    };
    let at = session.engine.database().others().masters_of(&places.spans);
    Ok((places, compiled, at))
}

fn near(session: &Session, found: &Found) -> Option<Near> {
    let is_shared = session.temporaries.is_empty();
    match found {
        Ok((places, _, MastersAt::Here)) if !places.has_others && is_shared => {
            Some(Near::of(places.spans.clone()))
        }
        _ => None,
    }
}

/// Where a statement runs: the site of another process, or why it runs here.
fn choose(
    session: &Session,
    call: Call<'_>,
    said: Said<'_>,
    found: Found,
) -> Result<Choice, Outcome> {
    check_alone(session, call, Some(said))?;
    let (Places { is_read_only, .. }, compiled, at) = found?;
    let site = match at {
        MastersAt::Here => return Err(Outcome::RowsHere),
        MastersAt::Several => return Err(Outcome::RowsSpread),
        MastersAt::Unknown => return Err(Outcome::RowsUnknown),
        MastersAt::Elsewhere(site) => site,
    };
    // Only types that their numbers name can be sent.
    let catalog = session.catalog();
    let types = said.given.iter().filter(|ty| **ty != SqlType::Unknown).chain(&compiled.params);
    match types.into_iter().all(|ty| catalog.type_numbered(ty.oid()) == Some(*ty)) {
        true => Ok(Choice { site, is_read_only, takes_rows: false, compiled }),
        false => Err(Outcome::Session),
    }
}

/// Refuses a statement that is not alone in its transaction, or whose session is not like others.
fn check_alone(session: &Session, call: Call<'_>, said: Option<Said<'_>>) -> Result<(), Outcome> {
    if !session.settings.ships {
        return Err(Outcome::Off);
    }
    let is_alone = said.is_some_and(|said| said.is_alone) && !session.in_block;
    if session.txn.is_some() || session.is_one_of_many || !is_alone || call.keeps.is_some() {
        return Err(Outcome::NotAlone);
    }
    if !session.temporaries.is_empty() || !session.numbers.borrow().is_empty() {
        return Err(Outcome::Session);
    }
    Ok(())
}

/// True if the values of all parameters are known, as without parameters.
fn has_values(call: Call<'_>) -> bool {
    call.params.len() == call.compiled.params.len()
}

/// The name of the other process where a statement would run, if it would.
pub(super) fn place(session: &mut Session, call: Call<'_>) -> Option<String> {
    let others = session.engine.clone();
    let others = others.database().others();
    if !others.are_there() || !has_values(call) || !session.settings.ships {
        return None;
    }
    let catalog = session.catalog();
    let around = session.surroundings();
    let places = places(call.compiled, call.params, &around, &catalog).ok()?;
    match others.masters_of(&places.spans) {
        MastersAt::Elsewhere(site) => others.process_of(site),
        _ => None,
    }
}

/// The name of the router that a statement would ask where to run, if it would.
pub(super) fn router(session: &mut Session, call: Call<'_>) -> Option<String> {
    let engine = session.engine.clone();
    let router = OrderRouter(engine.database());
    let name = router.name().filter(|_| session.settings.ships)?;
    if !has_values(call) {
        return None;
    }
    let (catalog, around) = (session.catalog(), session.surroundings());
    let places = places(call.compiled, call.params, &around, &catalog).ok()?;
    (!places.is_read_only && router.is_about(&places.footprint())).then_some(name)
}

/// EXPLAIN's lines about the rows of a statement that have [moved](moved_of).
pub(super) fn moved(session: &mut Session, call: Call<'_>) -> Vec<String> {
    if !has_values(call) {
        return Vec::new();
    }
    let (catalog, around) = (session.catalog(), session.surroundings());
    match places(call.compiled, call.params, &around, &catalog) {
        Ok(places) => moved_of(&session.engine, &catalog, &places.spans),
        Err(_) => Vec::new(),
    }
}

/// The outcome of a statement that was sent.
enum Sent {
    /// It was carried out, or has failed.
    Done(Result<(), SqlError>),
    /// Nothing was done.
    NotHere(Outcome),
    /// The process was lost. Nothing was committed before it had told this.
    Lost(Option<Known>),
}

/// The last word of a process that was lost in a commit.
#[derive(Default)]
struct Known {
    messages: Vec<u8>,
    rows: u64,
    commit: Vec<u8>,
    published: Option<Time>,
}

fn send(
    session: &mut Session,
    call: Call<'_>,
    said: Said<'_>,
    choice: &Choice,
    out: &mut Out,
) -> Sent {
    // As each statement, it begins only while its gateway has a seat.
    if let Err(error) = until_seated(&session.engine, &session.cancel) {
        return Sent::Done(Err(error));
    }
    session.shipping.count += 1;
    let (number, settings) =
        ((session.settings.process, session.shipping.count), settings(session));
    let begun_us = (session.clock)();
    session.activity.begin_transaction(begun_us);
    let compiled = &choice.compiled;
    let oid = |ty: &SqlType| if *ty == SqlType::Unknown { 0 } else { ty.oid() };
    let width = compiled.output.as_ref().map_or(0, Vec::len);
    let shipped = Shipped {
        number,
        settings: &settings,
        begun_us,
        text: said.text,
        given: said.given.iter().map(oid).collect(),
        types: compiled.params.iter().map(oid).collect(),
        params: &params(call.params, &compiled.params),
        formats: &formats(call.formats, width),
        describes: call.describes,
        columns: columns(compiled.output.as_deref()),
        takes_rows: choice.takes_rows,
    };
    let request = write(&Asked::Run(shipped));
    let ends = |why| write(&Asked::End(number, why as u8));
    let engine = session.engine.clone();
    let others = engine.database().others();
    let mut known = None;
    let hear = |bytes: &[u8]| match read(bytes)? {
        Early::Promise(Answered { messages, rows, .. }, commit) => {
            let (messages, commit) = (messages.to_owned(), commit.to_owned());
            known = Some(Known { messages, rows, commit, published: None });
            Some(write(&Asked::Go(number)))
        }
        Early::Published(time) => {
            known.iter_mut().for_each(|known: &mut Known| known.published = Some(Time(time)));
            None
        }
    };
    let answer = others.ship(choice.site, request, &session.cancel, ends, hear);
    let bytes = match answer {
        Ok(bytes) => bytes,
        Err(Unanswered::Unreachable(_)) => return Sent::NotHere(Outcome::Unreachable),
        Err(Unanswered::Lost) => return Sent::Lost(known.filter(|_| !choice.is_read_only)),
    };
    match read(&bytes) {
        Some(Answer::Ran(answered)) => {
            session.sites_read = vec![choice.site];
            session.shape.iter().for_each(|shape| shape.reached((1, 0)));
            Sent::Done(take(session, answered, out))
        }
        Some(Answer::NotHere(why)) => {
            tracing::debug!(why, "a statement runs here, not at its rows");
            Sent::NotHere(Outcome::Refused)
        }
        None => Sent::Lost(known),
    }
}

/// Finds out the outcome of a statement at a process that was lost before it has answered. `None`
/// if nothing of it remains, so that it can run here.
fn find_out(session: &mut Session, known: &Known, out: &mut Out) -> Option<Result<(), SqlError>> {
    let engine = session.engine.clone();
    let found = engine.gateway().find_out(&known.commit, known.published, &session.cancel);
    let ran = match found {
        Ok(ran) => ran,
        Err(OpenError::Undone) => return None,
        Err(error) => return Some(Err(explain_commit(error, &session.catalog()))),
    };
    let Known { messages, rows, .. } = known;
    let ran = Some(crate::shipping::sent(&ran));
    Some(take(session, Answered { messages, error: None, rows: *rows, ran }, out))
}

/// Passes the result of a statement on, as if it had run here.
fn take(session: &mut Session, answered: Answered<'_>, out: &mut Out) -> Result<(), SqlError> {
    // The statement has had its effect, and its answer is small.
    let _ = session.memory.statement.charge(answered.messages.len());
    out.made(answered.messages);
    session.rows = answered.rows;
    if let Some(ran) = answered.ran() {
        session.engine.database().others().has_committed(ran.committed.session());
        session.last_commit = Some(ran);
        session.route = Some(ran.place);
        session.shape.iter().for_each(|shape| shape.committed(ran.place));
    }
    answered.error.map_or(Ok(()), |error| Err((*error).into()))
}

/// The settings as bytes.
fn settings(session: &mut Session) -> Arc<[u8]> {
    if let Some((of, bytes)) = &session.shipping.settings
        && Arc::ptr_eq(of, &session.settings)
    {
        return bytes.clone();
    }
    let bytes: Arc<[u8]> = sent::written(&session.settings).into();
    session.shipping.settings = Some((session.settings.clone(), bytes.clone()));
    bytes
}
