//! The extended protocol: Parse, Bind, Describe, Execute, Close.

use super::{
    Call, Flush, PlanAgain, Portal, Rest, Said, Session, Statement, Written, may_run_again,
};
use crate::wire::{Formats, Out, Reader, violation};
use isomer_sql::budget::{Budget, Holding};
use isomer_sql::catalog::Catalog;
use isomer_sql::dates::TimeStyle;
use isomer_sql::datum::Datum;
use isomer_sql::parse::read;
use isomer_sql::plan::OutputColumn;
use isomer_sql::statement::{Action, Compiled, Cursor, Prepared, compile};
use isomer_sql::system::SettingsView;
use isomer_sql::transaction::PreparedShown;
use isomer_sql::{SqlError, SqlType, binary, code, text};
use std::rc::Rc;
use std::sync::Arc;

/// The most prepared statements of a session, and the most portals.
const PREPARED_MAX: usize = 10_000;

/// Closes a prepared statement, or all of them.
pub(super) fn close_statements(session: &mut Session, name: Option<&str>) {
    match name {
        Some(name) => {
            session.statements.remove(name);
            session.prepared.borrow_mut().remove(name);
        }
        None => {
            session.statements.clear();
            session.prepared.borrow_mut().clear();
        }
    }
}

impl Session {
    pub(super) fn parse(&mut self, reader: &mut Reader<'_>, out: &mut Out) -> Result<(), SqlError> {
        let (name, text) = (reader.text()?, reader.text()?);
        let catalog = self.catalog();
        let mut given = Vec::new();
        for _ in 0..reader.count()? {
            let oid = reader.i32()? as u32;
            given.push(if oid == 0 { SqlType::Unknown } else { type_of(oid, &catalog)? });
        }
        reader.end()?;
        if !name.is_empty() && self.statements.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new("42P05", message));
        }
        self.cancel.renew();
        let _limited = self.limited();
        let statement = self.prepare(text, given, out)?;
        self.keep(name, statement, false)?;
        out.empty(b'1');
        Ok(())
    }

    pub(super) fn keep(
        &mut self,
        name: &str,
        statement: Statement,
        from_sql: bool,
    ) -> Result<(), SqlError> {
        if self.statements.len() >= PREPARED_MAX {
            let message = format!("a session may prepare at most {PREPARED_MAX} statements");
            return Err(SqlError::new(code::PROGRAM_LIMIT, message).hint("Close some of them."));
        }
        if !name.is_empty() {
            let compiled = statement.compiled.as_ref();
            let shown = PreparedShown {
                statement: statement.written.text.clone(),
                given: statement.written.given.clone(),
                types: compiled.map_or_else(Vec::new, |compiled| compiled.params.clone()),
                from_sql,
                prepared_us: (self.clock)(),
            };
            self.prepared.borrow_mut().insert(name.to_owned(), shown);
        }
        self.statements.insert(name.to_owned(), statement);
        Ok(())
    }

    pub(super) fn prepare(
        &mut self,
        text: &str,
        given: Vec<SqlType>,
        out: &mut Out,
    ) -> Result<Statement, SqlError> {
        let (budget, mut notices) = (self.memory.statement.clone(), Vec::new());
        let before = budget.mark();
        budget.charge(text.len())?;
        let text: Arc<str> = Arc::from(text);
        let mut parsed = read(&text, &budget, &mut notices)?;
        notices.iter().for_each(|notice| out.notice("NOTICE", notice));
        if parsed.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(SqlError::new(code::SYNTAX, message));
        }
        let parsed = parsed.pop();
        if let Some(parsed) = &parsed {
            self.check_not_failed(parsed)?;
        }
        let written = Arc::new(Written { text, parsed, given });
        let mut statement = Statement { written, compiled: None, _kept: None };
        self.compile(&mut statement)?;
        let kept = self.memory.session.keep(budget.mark() - before)?;
        statement._kept = Some(Rc::new(kept));
        Ok(statement)
    }

    /// The plan of a statement for the current catalog.
    pub(super) fn compile(
        &self,
        statement: &mut Statement,
    ) -> Result<Option<Arc<Compiled>>, SqlError> {
        let Written { text, parsed: Some(parsed), given } = &*statement.written else {
            return Ok(None);
        };
        let (catalog, budget) = (self.catalog(), &*self.memory.statement);
        let old = statement.compiled.as_ref();
        if let Some(compiled) = old.filter(|old| old.version == catalog.version) {
            return Ok(Some(compiled.clone()));
        }
        let untyped = given.iter().all(|ty| *ty == SqlType::Unknown);
        let known = if untyped { self.known(text) } else { None };
        let shared = known.map_or_else(|| self.compiled(parsed, text, given, budget), Ok);
        let compiled = match (old, shared) {
            (None, shared) => shared?,
            (Some(old), Ok(new)) if new.params == old.params => unchanged(old, new)?,
            (Some(_), _) => statement.planned_for(&catalog, budget)?,
        };
        statement.compiled = Some(compiled.clone());
        Ok(Some(compiled))
    }

    /// A prepared statement, and its plan.
    pub(super) fn planned(
        &mut self,
        name: &str,
    ) -> Result<(Statement, Option<Arc<Compiled>>), SqlError> {
        let mut statement = self.statement(name)?.clone();
        let compiled = self.compile(&mut statement)?;
        if let Some(kept) = self.statements.get_mut(name) {
            kept.compiled.clone_from(&compiled);
        }
        Ok((statement, compiled))
    }

    pub(super) fn bind(&mut self, reader: &mut Reader<'_>, out: &mut Out) -> Result<(), SqlError> {
        let (portal, name) = (reader.text()?.to_owned(), reader.text()?);
        if let Some(parsed) = &self.statement(name)?.written.parsed {
            self.check_not_failed(parsed)?;
        }
        let (statement, compiled) = self.planned(name)?;
        let types: &[SqlType] = compiled.as_ref().map_or(&[], |compiled| &compiled.params);
        let formats = Formats::read(reader)?;
        let count = reader.count()?;
        if count != types.len() || (formats.count() > 1 && formats.count() != count) {
            let message = format!(
                "bind message supplies {count} parameters, but prepared statement \"{name}\" requires {}",
                types.len()
            );
            return Err(SqlError::new("08P01", message));
        }
        // A parsed parameter takes at most twice the size of its text, and the same again during
        // parsing.
        let bytes = count * size_of::<Datum>() + 2 * reader.left();
        self.cancel.renew();
        let _limited = self.limited();
        self.memory.statement.charge(2 * bytes)?;
        let mut kept = self.memory.session.keep(bytes)?;
        let (mut params, now_us) = (Vec::with_capacity(count), self.begun_us());
        for (at, ty) in types.iter().enumerate() {
            let (is_binary, times) = (formats.is_binary(at), (self.settings.times(), now_us));
            params.push(parameter(reader, *ty, is_binary, times, &mut kept)?);
        }
        let formats = Formats::read(reader)?;
        reader.end()?;
        if self.cursors.contains_key(&portal) {
            return Err(SqlError::new("42P03", format!("cursor \"{portal}\" already exists")));
        }
        if self.portals.len() >= PREPARED_MAX {
            let message = format!("a session may have at most {PREPARED_MAX} portals");
            return Err(SqlError::new(code::PROGRAM_LIMIT, message));
        }
        let portal_of = Portal { statement, params, formats, rest: None, _kept: kept };
        self.portals.insert(portal, portal_of);
        out.empty(b'2');
        Ok(())
    }

    pub(super) fn statement(&self, name: &str) -> Result<&Statement, SqlError> {
        self.statements.get(name).ok_or_else(|| {
            let message = format!("prepared statement \"{name}\" does not exist");
            SqlError::new("26000", message)
        })
    }

    pub(super) fn describe(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Out,
    ) -> Result<(), SqlError> {
        let (kind, name) = (reader.byte()?, reader.text()?);
        reader.end()?;
        let (compiled, formats) = match kind {
            b'S' => {
                let (_, compiled) = self.planned(name)?;
                let types = compiled.as_ref().map_or(&[][..], |compiled| &compiled.params);
                out.parameter_description(types);
                (compiled, Formats::default())
            }
            b'P' if self.describe_cursor(name, out) => return Ok(()),
            b'P' => {
                let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
                (portal.statement.compiled.clone(), portal.formats.clone())
            }
            _ => return Err(violation("neither a statement nor a portal is described")),
        };
        match compiled.as_ref().and_then(|compiled| self.output_of(compiled)) {
            Some(output) => out.row_description(output, &formats),
            None => out.empty(b'n'),
        }
        Ok(())
    }

    /// The columns of a statement's result.
    fn output_of<'c>(&'c self, compiled: &'c Compiled) -> Option<&'c [OutputColumn]> {
        if let Action::Prepared(Prepared::Execute(name, _)) = &compiled.action {
            let inner = self.statements.get(name)?.compiled.as_ref()?;
            return inner.output.as_deref();
        }
        if let Action::Cursor(cursor) = &compiled.action
            && let Cursor::Fetch(fetch) = &**cursor
        {
            return self.fetched(fetch);
        }
        compiled.output.as_deref()
    }

    pub(super) fn close(&mut self, reader: &mut Reader<'_>, out: &mut Out) -> Result<(), SqlError> {
        let (kind, name) = (reader.byte()?, reader.text()?);
        match kind {
            b'S' => close_statements(self, Some(name)),
            b'P' => {
                self.portals.remove(name);
                self.close_cursor(name);
            }
            _ => return Err(violation("neither a statement nor a portal is closed")),
        }
        out.empty(b'3');
        Ok(())
    }

    /// Ends an implicit transaction. A statement that was alone in it is repeated if its commit
    /// fails with a serialization error.
    pub(super) fn sync(&mut self, out: &mut Out, flush: &mut dyn Flush) {
        let alone = self.alone.take().filter(|_| !self.in_block);
        let alone = alone
            .and_then(|(name, mark)| Some((self.portals.remove(&name)?, mark)))
            .filter(|(portal, _)| portal.rest.is_none());
        for run in 1.. {
            let Err(error) = self.end_implicit() else { return };
            let again = alone.as_ref().filter(|_| may_run_again(&error, run));
            let Some((portal, _)) = again.filter(|(_, mark)| out.back_to(*mark)) else {
                super::count_failure(self, &error);
                return out.error(&error);
            };
            let before = std::mem::take(&mut self.numbers_before);
            self.numbers_back_to(&before);
            if let Err(error) = self.run_again(portal, out, flush) {
                self.tell(error, out);
            }
        }
    }

    fn run_again(
        &mut self,
        portal: &Portal,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        let mut statement = portal.statement.clone();
        let Some(compiled) = self.compile(&mut statement)? else { return Ok(()) };
        let budget = self.memory.statement.clone();
        let again: PlanAgain<'_> = &|catalog| statement.planned_for(catalog, &budget);
        let call = Call::new(&compiled, again, &portal.params, &portal.formats);
        self.run(call, out, flush)
    }

    pub(super) fn execute(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Out,
        flush: &mut dyn Flush,
    ) -> Result<(), SqlError> {
        let (name, most) = (reader.text()?, reader.i32()?);
        reader.end()?;
        self.cancel.renew();
        let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        let text = portal.statement.written.text.clone();
        self.shows(&text);
        let most = usize::try_from(most).unwrap_or(0);
        let is_first = self.txn.is_none() && !self.in_block;
        self.alone = (most == 0 && is_first).then(|| (name.to_owned(), out.mark()));
        let Some(compiled) = self.compile(&mut portal.statement)? else {
            out.empty(b'I');
            return Ok(());
        };
        let budget = self.memory.statement.clone();
        let again: PlanAgain<'_> = &|catalog| portal.statement.planned_for(catalog, &budget);
        let Written { text, given, .. } = &*portal.statement.written;
        let is_alone = most == 0 && portal.rest.is_none() && self.next == Some(b'S');
        let said = Some(Said { text, given, is_alone });
        let call = Call { said, ..Call::new(&compiled, again, &portal.params, &portal.formats) };
        if most == 0 && portal.rest.is_none() {
            let done = self.run(call, out, flush);
            if !name.is_empty() || done.is_ok() {
                self.portals.insert(name.to_owned(), portal);
            }
            return done;
        }
        if portal.rest.is_none() {
            let (mut all, kept) = (Out::default(), self.memory.session.keep(0)?);
            let mut keeping = Keeping { kept };
            self.run(call, &mut all, &mut keeping)?;
            portal.rest = Some(Rest { messages: all.bytes, at: 0, _kept: keeping.kept });
        }
        let rest = portal.rest.as_mut().expect("just filled");
        rest.show(if most == 0 { usize::MAX } else { most }, out, flush)?;
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }
}

impl Statement {
    /// The plan for another catalog. Parameters keep the types that the client knows; a result with
    /// other columns is refused.
    pub(super) fn planned_for(
        &self,
        catalog: &Catalog,
        budget: &Budget,
    ) -> Result<Arc<Compiled>, SqlError> {
        let (Some(old), Some(parsed)) = (&self.compiled, &self.written.parsed) else {
            unreachable!("a statement that was never planned is not planned again")
        };
        let new = compile(parsed, &self.written.text, catalog, &old.params, budget)?;
        unchanged(old, Arc::new(new))
    }
}

/// The new plan of a statement, if its result has the columns that the client knows.
fn unchanged(old: &Compiled, new: Arc<Compiled>) -> Result<Arc<Compiled>, SqlError> {
    let shape = |compiled: &Compiled| {
        let columns = compiled.output.as_ref()?.iter();
        Some(columns.map(|column| (column.name.clone(), column.ty)).collect::<Vec<_>>())
    };
    if shape(old) == shape(&new) {
        return Ok(new);
    }
    let message = "cached plan must not change result type";
    Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message).hint("Prepare the statement again."))
}

/// Keeps all output.
struct Keeping {
    kept: Holding,
}

impl Flush for Keeping {
    fn flush_some(&mut self, out: &mut Out) -> Result<(), SqlError> {
        // A growing buffer has room for twice its size.
        self.kept.resize(2 * out.mark() as usize)
    }
}

impl Rest {
    /// Sends up to `most` rows, and the message that follows.
    fn show(&mut self, most: usize, out: &mut Out, flush: &mut dyn Flush) -> Result<(), SqlError> {
        for shown in 0.. {
            let left = &self.messages[self.at..];
            let length = left[1..5].try_into().map(i32::from_be_bytes).expect("four bytes");
            if left[0] == b'C' {
                // Each further Execute gets it again.
                out.made(left);
                break;
            }
            if shown == most {
                out.empty(b's');
                break;
            }
            let length = length as usize + 1;
            out.made(&left[..length]);
            self.at += length;
            flush.flush_some(out)?;
        }
        Ok(())
    }
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new("34000", format!("portal \"{name}\" does not exist"))
}

fn type_of(oid: u32, catalog: &Catalog) -> Result<SqlType, SqlError> {
    catalog.type_numbered(oid).ok_or_else(|| {
        SqlError::unsupported(format!("a parameter of the type with the number {oid}"))
    })
}

fn parameter(
    reader: &mut Reader<'_>,
    ty: SqlType,
    is_binary: bool,
    (times, now_us): (&TimeStyle, i64),
    kept: &mut Holding,
) -> Result<Datum, SqlError> {
    let length = reader.i32()?;
    let Ok(length) = usize::try_from(length) else {
        return if length == -1 { Ok(Datum::Null) } else { Err(violation("a length is negative")) };
    };
    let bytes = reader.bytes(length)?;
    kept.more(isomer_sql::datum::read_bytes(bytes, ty, is_binary))?;
    match is_binary {
        true => binary::decode(bytes, ty),
        false => text::parse_sent(binary::utf8(bytes)?, ty, times, now_us),
    }
}
