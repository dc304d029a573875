//! The rows of `information_schema`, and of sessions and locks.

use super::rows::{written_as, written_default};
use super::{LockRow, Locked, int, text, yes};
use crate::catalog::{Catalog, Check, Index, Name, PG_CATALOG, Table, TableColumn};
use crate::datum::Datum;
use crate::domains::Domain;
use crate::error::SqlError;
use crate::foreign::{ForeignKey, unique_over};
use crate::rights::READ_ALL_STATS;
use crate::sequence::{Sequence, shown};
use crate::system::{SessionShown, Sessions};
use crate::transaction::Surroundings;
use crate::types::SqlType;
use crate::view::View;
use isomer_design::TableId;
use std::sync::Arc;

fn yes_or_no(truth: bool) -> Datum {
    text(if truth { "YES" } else { "NO" })
}

/// The columns of a table.
pub(super) fn information_columns(
    table: &Arc<Table>,
    catalog: &Catalog,
    around: &Surroundings,
) -> Vec<Vec<Datum>> {
    let row = |(at, column): (usize, &TableColumn)| {
        let own = column.identity.and_then(|_| catalog.sequence_of(table.oid, &column.name));
        let of_domain = column.domain.as_ref().is_some_and(|domain| domain.not_null);
        let nullable = !(column.not_null || table.key.contains(&at) || of_domain);
        let place = (&table.full_name(), at);
        information_column(place, column, nullable, (own, catalog), around)
    };
    table.columns.iter().enumerate().map(row).collect()
}

/// The columns of a view.
pub(super) fn information_view_columns(
    view: &View,
    catalog: &Catalog,
    around: &Surroundings,
) -> Vec<Vec<Datum>> {
    let row = |(at, (name, ty)): (usize, &(String, SqlType))| {
        let column = TableColumn::plain(name.clone(), *ty);
        let place = (&view.full_name(), at);
        information_column(place, &column, true, (None, catalog), around)
    };
    view.columns.iter().enumerate().map(row).collect()
}

/// The columns of a view of the system.
pub(super) fn own_columns(
    name: &Name,
    columns: &[(&str, SqlType)],
    catalog: &Catalog,
    around: &Surroundings,
) -> Vec<Vec<Datum>> {
    let row = |(at, (column, ty)): (usize, &(&str, SqlType))| {
        let column = TableColumn::plain((*column).to_owned(), *ty);
        information_column((name, at), &column, true, (None, catalog), around)
    };
    columns.iter().enumerate().map(row).collect()
}

fn information_column(
    (relation, at): (&Name, usize),
    column: &TableColumn,
    nullable: bool,
    (own, catalog): (Option<&Arc<Sequence>>, &Catalog),
    around: &Surroundings,
) -> Vec<Datum> {
    let identity =
        |of: fn(&Sequence) -> i64| own.map_or(Datum::Null, |own| Datum::Text(of(own).to_string()));
    let [ty, length, precision, radix, scale, fraction, udt_schema, udt_name] =
        base_columns(column.ty, column.domain.as_deref(), catalog);
    let default = written_default(column).filter(|_| !column.is_generated);
    let default = default.map(|default| shown(&default, catalog));
    let domain = column.domain.as_deref();
    let of_domain = |of: fn(&Domain) -> &String| domain.map_or(Datum::Null, |own| text(of(own)));
    vec![
        text(&around.database),
        text(&relation.schema),
        text(&relation.name),
        text(&column.name),
        int(at as i64 + 1),
        default.map_or(Datum::Null, Datum::Text),
        yes_or_no(nullable),
        ty,
        length,
        precision,
        radix,
        scale,
        fraction,
        text(&around.database),
        udt_schema,
        udt_name,
        yes_or_no(column.identity.is_some()),
        column.identity.map_or(Datum::Null, |identity| text(identity.words())),
        text(if column.is_generated { "ALWAYS" } else { "NEVER" }),
        column.generated().map_or(Datum::Null, text),
        yes_or_no(true),
        Datum::Null,
        identity(|of| of.start),
        identity(|of| of.increment),
        identity(|of| of.max),
        identity(|of| of.min),
        own.map_or(Datum::Null, |of| yes_or_no(of.cycle)),
        domain.map_or(Datum::Null, |_| text(&around.database)),
        of_domain(|domain| &domain.name.schema),
        of_domain(|domain| &domain.name.name),
    ]
}

/// The name of a type, its maximal length, its precision (three columns), the precision of its
/// seconds, its schema, and its name in the catalog.
fn type_columns(ty: SqlType) -> [Datum; 8] {
    let length = match ty {
        SqlType::Varchar(Some(length)) | SqlType::Char(Some(length)) => int(length.into()),
        _ => Datum::Null,
    };
    let shown = match ty {
        SqlType::Enum(_) => "USER-DEFINED".to_owned(),
        SqlType::Array(_) | SqlType::EnumArray(_) | SqlType::Limited(..) => "ARRAY".to_owned(),
        ty => crate::bind::bare(ty).to_string(),
    };
    let shown = if shown == "bpchar" { "character".to_owned() } else { shown };
    let (udt_schema, udt_name) = match ty {
        SqlType::Enum(labels) => (labels.name().schema, labels.name().name),
        SqlType::EnumArray(labels) => (labels.name().schema, format!("_{}", labels.name().name)),
        SqlType::Array(element) | SqlType::Limited(element, _) => {
            (PG_CATALOG.to_owned(), format!("_{}", element.catalog_name()))
        }
        ty => (PG_CATALOG.to_owned(), crate::bind::bare(ty).catalog_name()),
    };
    let (precision, radix, scale) = digits(ty);
    let fraction = match ty {
        SqlType::Rounded(_, digits) | SqlType::Spanned(_, Some(digits)) => int(digits.into()),
        SqlType::Date => int(0),
        ty if ty.plain().rounded(0).is_some() => int(6),
        _ => Datum::Null,
    };
    let names = (Datum::Text(udt_schema), Datum::Text(udt_name));
    [Datum::Text(shown), length, precision, radix, scale, fraction, names.0, names.1]
}

/// As [`type_columns`]; for a domain, of its base type, which may be a domain as well.
fn base_columns(ty: SqlType, domain: Option<&Domain>, catalog: &Catalog) -> [Datum; 8] {
    let over = domain.and_then(|domain| catalog.domain_numbered(domain.over?));
    let Some(over) = over else { return type_columns(ty) };
    let mut columns = [const { Datum::Null }; 8];
    columns[0] = text("USER-DEFINED");
    (columns[6], columns[7]) = (text(&over.name.schema), text(&over.name.name));
    columns
}

/// A domain.
pub(super) fn information_domain(
    domain: &Domain,
    catalog: &Catalog,
    around: &Surroundings,
) -> Vec<Datum> {
    let [ty, length, precision, radix, scale, fraction, udt_schema, udt_name] =
        base_columns(domain.ty, Some(domain), catalog);
    // For a domain over an array, this is the type.
    let ty = match domain.ty {
        ty if (ty.is_array() || matches!(ty, SqlType::Limited(..))) && domain.over.is_none() => {
            Datum::Text(domain.ty.plain().to_string())
        }
        _ => ty,
    };
    let default = domain.default.as_deref().map(|default| written_as(default, domain.ty));
    let default = default.map(|default| Datum::Text(shown(&default, catalog)));
    let mut row = domain_name(domain, around).to_vec();
    row.extend([ty, length, precision, radix, scale, fraction]);
    row.push(default.unwrap_or(Datum::Null));
    row.extend([text(&around.database), udt_schema, udt_name]);
    row
}

fn domain_name(domain: &Domain, around: &Surroundings) -> [Datum; 3] {
    [text(&around.database), text(&domain.name.schema), text(&domain.name.name)]
}

/// The constraints of a domain.
pub(super) fn domain_constraints(domain: &Domain, around: &Surroundings) -> Vec<Vec<Datum>> {
    let row = |check: &Check| {
        let mut row = vec![text(&around.database), text(&domain.name.schema), text(&check.name)];
        row.extend(domain_name(domain, around));
        row.extend([yes_or_no(false), yes_or_no(false)]);
        row
    };
    domain.checks.iter().map(row).collect()
}

/// The conditions of a domain.
pub(super) fn domain_checks(domain: &Domain, around: &Surroundings) -> Vec<Vec<Datum>> {
    let row = |check: &Check| {
        let name = [text(&around.database), text(&domain.name.schema), text(&check.name)];
        [&name[..], &[text(&check.condition)]].concat()
    };
    domain.checks.iter().map(row).collect()
}

/// The precision of a number, its radix, and its scale.
fn digits(ty: SqlType) -> (Datum, Datum, Datum) {
    let whole = |bits| (int(bits), int(2), int(0));
    match ty {
        SqlType::Int2 => whole(16),
        SqlType::Int4 => whole(32),
        SqlType::Int8 => whole(64),
        SqlType::Float4 => (int(24), int(2), Datum::Null),
        SqlType::Float8 => (int(53), int(2), Datum::Null),
        SqlType::Numeric(Some((precision, scale))) => {
            (int(precision.into()), int(10), int(scale.into()))
        }
        SqlType::Numeric(None) => (Datum::Null, int(10), Datum::Null),
        _ => (Datum::Null, Datum::Null, Datum::Null),
    }
}

/// A constraint of a table.
pub(super) struct Constraint<'c> {
    pub(super) table: &'c Table,
    name: &'c str,
    kind: &'static str,
    columns: &'c [usize],
    condition: Option<&'c str>,
    /// For a foreign key: the key, and its parent.
    refers: Option<(&'c ForeignKey, &'c Table)>,
}

/// All constraints of all tables.
pub(super) fn constraints_of(catalog: &Catalog) -> impl Iterator<Item = Constraint<'_>> {
    catalog.tables.values().flat_map(move |table| {
        let table: &Table = table;
        let key = table.has_key().then_some((&*table.key_name, "PRIMARY KEY", &*table.key));
        let unique = table.readable_indexes().filter(|index| index.constraint);
        let unique = unique.map(|index| (&*index.name, "UNIQUE", &*index.columns));
        let keys = key.into_iter().chain(unique).map(move |(name, kind, columns)| Constraint {
            table,
            name,
            kind,
            columns,
            condition: None,
            refers: None,
        });
        let checks = table.checks.iter().map(move |check| Constraint {
            table,
            name: &check.name,
            kind: "CHECK",
            columns: &[],
            condition: Some(&check.condition),
            refers: None,
        });
        let foreign = table.foreign_keys.iter().filter_map(move |key| {
            let parent: &Table = catalog.table_of(key.parent)?;
            Some(Constraint {
                table,
                name: &key.name,
                kind: "FOREIGN KEY",
                columns: &key.columns,
                condition: None,
                refers: Some((key, parent)),
            })
        });
        keys.chain(checks).chain(foreign)
    })
}

impl Constraint<'_> {
    fn named(&self, around: &Surroundings) -> Vec<Datum> {
        vec![text(&around.database), text(&self.table.schema_name), text(self.name)]
    }

    fn of_table(&self, around: &Surroundings) -> Vec<Datum> {
        vec![text(&around.database), text(&self.table.schema_name), text(&self.table.name)]
    }

    pub(super) fn row(&self, around: &Surroundings) -> Vec<Datum> {
        let mut row = [self.named(around), self.of_table(around)].concat();
        let is = |of: fn(&ForeignKey) -> bool| self.refers.is_some_and(|(key, _)| of(key));
        row.extend([
            text(self.kind),
            yes_or_no(is(|key| key.deferrable)),
            yes_or_no(is(|key| key.deferred)),
            yes_or_no(true),
        ]);
        row.push(if self.kind == "UNIQUE" { yes_or_no(true) } else { Datum::Null });
        row
    }

    pub(super) fn key_columns(&self, around: &Surroundings) -> Vec<Vec<Datum>> {
        let row = |(number, at): (usize, &usize)| {
            let mut row = [self.named(around), self.of_table(around)].concat();
            let place = self.refers.and_then(|(key, parent)| {
                let unique = unique_over(parent, &key.referenced)?;
                let columns = unique.map_or(&parent.key, |index| &index.columns);
                columns.iter().position(|at| *at == key.referenced[number])
            });
            row.extend([
                text(&self.table.columns[*at].name),
                int(number as i64 + 1),
                place.map_or(Datum::Null, |place| int(place as i64 + 1)),
            ]);
            row
        };
        self.columns.iter().enumerate().map(row).collect()
    }

    /// The table and columns that it refers to: for a foreign key, those of the parent.
    pub(super) fn used(&self) -> (&Table, &[usize]) {
        match self.refers {
            None => (self.table, self.columns),
            Some((key, parent)) => (parent, &key.referenced),
        }
    }

    pub(super) fn used_columns(&self, around: &Surroundings) -> Vec<Vec<Datum>> {
        let (table, columns) = self.used();
        let row = |at: &usize| {
            let mut row = vec![text(&around.database), text(&table.schema_name), text(&table.name)];
            row.push(text(&table.columns[*at].name));
            row.extend(self.named(around));
            row
        };
        columns.iter().map(row).collect()
    }

    /// The referential constraint of a foreign key: the unique constraint of the parent, and the
    /// actions.
    pub(super) fn reference(&self, around: &Surroundings) -> Option<Vec<Datum>> {
        let (key, parent) = self.refers?;
        let unique = match unique_over(parent, &key.referenced)? {
            None => Some(&parent.key_name),
            Some(index) => index.constraint.then_some(&index.name),
        };
        let mut row = self.named(around);
        row.extend(match unique {
            Some(name) => [text(&around.database), text(&parent.schema_name), text(name)],
            None => [Datum::Null, Datum::Null, Datum::Null],
        });
        row.push(text(if key.full { "FULL" } else { "NONE" }));
        row.extend([text(key.on_update.words()), text(key.on_delete.words())]);
        Some(row)
    }

    pub(super) fn check(&self, around: &Surroundings) -> Option<Vec<Datum>> {
        let mut row = self.named(around);
        row.push(text(self.condition?));
        Some(row)
    }
}

/// The encoding of the database, which has no collation of its own.
pub(super) fn character_set() -> Vec<Datum> {
    let null = || Datum::Null;
    let [name, repertoire, form] = ["UTF8", "UCS", "UTF8"].map(text);
    vec![null(), null(), name, repertoire, form, null(), null(), null()]
}

/// A sequence, unless it belongs to an identity column.
pub(super) fn sequences(sequence: &Arc<Sequence>, around: &Surroundings) -> Option<Vec<Datum>> {
    if sequence.owner.as_ref().is_some_and(|owner| owner.is_identity) {
        return None;
    }
    let number = |value: i64| Datum::Text(value.to_string());
    let (bits, base, scale) = digits(sequence.ty);
    Some(vec![
        text(&around.database),
        text(&sequence.schema),
        text(&sequence.name),
        Datum::Text(sequence.ty.to_string()),
        bits,
        base,
        scale,
        number(sequence.start),
        number(sequence.min),
        number(sequence.max),
        number(sequence.increment),
        yes_or_no(sequence.cycle),
    ])
}

/// The sessions. Superusers and members of `pg_read_all_stats` or `isomer_design` see the activity
/// of all; other roles see that of the sessions whose user's rights they have.
pub(super) fn sessions(around: &Surroundings) -> Vec<Vec<Datum>> {
    let who = &around.identity;
    let sees_all =
        who.is_superuser || who.acts_as(READ_ALL_STATS) || who.acts_as(super::DESIGN_ROLE);
    let row = |shown: SessionShown| {
        let role = who.roles().named(&shown.user).ok().map(|role| role.oid);
        let is_own = shown.process == around.process;
        let sees = sees_all || is_own || role.is_some_and(|role| who.acts_as(role as u32));
        let open = |value: Option<Datum>| value.filter(|_| sees).unwrap_or(Datum::Null);
        let time = |us: Option<i64>| open(us.map(Datum::Timestamp));
        let hidden = || text("<insufficient privilege>");
        vec![
            int(super::DATABASE),
            Datum::Text(shown.database),
            int(shown.process.into()),
            Datum::Null,
            role.map_or(Datum::Null, int),
            Datum::Text(shown.user),
            Datum::Text(shown.application),
            open(shown.client_address.map(Datum::Text)),
            Datum::Null,
            open(Some(int(shown.client_port))),
            time(Some(shown.begun_us)),
            time(shown.transaction_us),
            time(shown.query_us),
            time(Some(shown.changed_us)),
            open(shown.wait.as_ref().map(|(kind, _)| text(kind))),
            open(shown.wait.as_ref().map(|(_, name)| text(name))),
            open(Some(text(&shown.state))),
            Datum::Null,
            Datum::Null,
            Datum::Null,
            if sees { Datum::Text(shown.text) } else { hidden() },
            text("client backend"),
        ]
    };
    known_sessions(around).shown.into_iter().map(row).collect()
}

/// The sessions of all gateways, with a warning if some are missing.
fn known_sessions(around: &Surroundings) -> Sessions {
    let sessions = around.sessions.sessions();
    let warning = sessions.missing().map(|who| {
        let message = format!("the sessions of {who} are not known");
        SqlError::new("01000", message).detail("Its gateway gave no answer within a second.")
    });
    around.warnings.borrow_mut().extend(warning);
    sessions
}

/// Granted and waiting locks. A row is shown while a transaction waits for it.
pub(super) fn locks(catalog: &Catalog, around: &Surroundings) -> Vec<Vec<Datum>> {
    let relation = |id: TableId| {
        let of_table = |table: &Arc<Table>| {
            let is_key = |index: &Arc<Index>| index.id == id;
            match table.indexes.iter().find(|index| index.id == id) {
                Some(index) => Some(i64::from(index.oid)),
                None if table.primary.iter().any(is_key) => Some(super::key_oid(table)),
                None => (table.id == id).then(|| i64::from(table.oid)),
            }
        };
        catalog.tables.values().find_map(of_table)
    };
    let sessions = known_sessions(around);
    let row = |lock: LockRow| {
        let (kind, relation, numbers) = match lock.of {
            Locked::Table(id) => ("relation", relation(id), [None; 3]),
            Locked::Row(id) => ("tuple", relation(id), [None; 3]),
            // A 64-bit number is shown as two 32-bit ones.
            Locked::Numbers(numbers) => match numbers.as_slice() {
                [one] => {
                    let (high, low) = ((*one as u64 >> 32) as i64, i64::from(*one as u32));
                    ("advisory", None, [Some(high), Some(low), Some(1)])
                }
                many => {
                    let at = |at: usize| many.get(at).map(|number| i64::from(*number as u32));
                    ("advisory", None, [at(0), at(1), Some(2)])
                }
            },
        };
        let number = |number: Option<i64>| number.map_or(Datum::Null, int);
        let process = sessions.with(lock.transaction).map(|shown| i64::from(shown.process));
        let [class, object, part] = numbers.map(number);
        vec![
            text(kind),
            int(super::DATABASE),
            number(relation),
            Datum::Null,
            Datum::Null,
            Datum::Null,
            Datum::Null,
            class,
            object,
            part,
            text(&lock.transaction.to_string()),
            number(process),
            text(lock.mode),
            yes(lock.is_granted),
            yes(false),
            Datum::Null,
        ]
    };
    // Locks of system tables are not shown.
    let is_known = |lock: &LockRow| match &lock.of {
        Locked::Table(id) | Locked::Row(id) => relation(*id).is_some(),
        Locked::Numbers(_) => true,
    };
    around.design.locks().into_iter().filter(is_known).map(row).collect()
}

/// The connections that block this one.
pub(crate) fn blocking(process: i64, around: &Surroundings) -> Vec<i32> {
    let all = known_sessions(around);
    let Some(own) = all.of(process) else { return Vec::new() };
    let blockers = around.design.blockers(own.transaction);
    let is_one = |shown: &&SessionShown| blockers.contains(&shown.transaction);
    all.shown.iter().filter(is_one).map(|shown| shown.process).collect()
}
