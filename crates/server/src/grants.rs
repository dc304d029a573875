//! GRANT, REVOKE and OWNER TO, as part of the current transaction.
//!
//! A role grants as the owner if it can act as the owner. Otherwise it grants as itself, or as one
//! of the roles whose rights it has, by their grant options. Rights without a grant option are
//! skipped with a warning, as in PostgreSQL; without any grant option the statement is refused.
//!
//! REVOKE on a table also revokes the rights on each column.

use crate::alter::folded;
use crate::ddl::Definer;
use crate::rights::schema_of;
use isomer_sql::catalog::{Catalog, MadeType, Named, Relation, SYSTEM};
use isomer_sql::parse::{Grant, RightsStatement, RoleName, Signature, Target};
use isomer_sql::rights::check::{denied, described, object_of};
use isomer_sql::rights::{Acl, Identity, Item, Kind, Object, Owned, Ownership, PUBLIC, Rights};
use isomer_sql::{SqlError, code};
use sqlparser::ast::{ObjectName, Owner};
use std::sync::Arc;

impl Definer<'_> {
    pub(crate) fn define_rights(&mut self, statement: &RightsStatement) -> Result<(), SqlError> {
        match statement {
            RightsStatement::Rights(grant) => self.grant(grant),
            RightsStatement::Roles(grant) => self.grant_roles(grant),
            RightsStatement::Reassign(from, to) => self.reassign(from, to),
            RightsStatement::DropOwned(..) => Err(SqlError::unsupported("DROP OWNED")),
        }
    }

    fn grant(&mut self, grant: &Grant) -> Result<(), SqlError> {
        let roles = grant.roles.iter().map(|role| match (role, grant.grants && grant.option) {
            (RoleName::Public, true) => {
                let message = "grant options can only be granted to roles";
                Err(SqlError::new(code::INVALID_GRANT, message))
            }
            (RoleName::Public, false) => Ok(PUBLIC),
            (role, _) => self.role(role),
        });
        let roles = roles.collect::<Result<Vec<u32>, SqlError>>()?;
        let mut ownership = self.catalog().ownership.clone();
        for (object, kind) in self.targets(&grant.target)? {
            let wanted = self.wanted(grant, object, kind)?;
            let mut owned = self.owned(&ownership, object);
            if wanted.all != Rights::NONE || wanted.columns.is_empty() {
                self.grant_on(grant, (object, kind), (wanted.all, &mut owned), &roles)?;
            }
            for (column, rights) in wanted.columns {
                self.grant_on_column(grant, object, (&column, rights, &mut owned), &roles)?;
            }
            ownership.insert(object, Arc::new(owned));
        }
        self.change(|catalog| catalog.ownership = ownership);
        Ok(())
    }

    /// The ownership of an object within the current transaction.
    fn owned(&self, ownership: &Ownership, object: Object) -> Owned {
        let found = ownership.get(&object).map(|owned| Owned::clone(owned));
        found.unwrap_or_else(|| from_before(&self.catalog(), object, &self.around.identity))
    }

    /// The role that a statement names.
    pub(crate) fn role(&self, named: &RoleName) -> Result<u32, SqlError> {
        let roles = self.around.identity.roles();
        let name: &str = match named {
            RoleName::Named(name) => name,
            RoleName::Current => &self.around.identity.name,
            RoleName::Session => &self.around.user,
            RoleName::Public => "public",
        };
        Ok(roles.named(name)?.oid as u32)
    }

    fn targets(&self, target: &Target) -> Result<Vec<(Object, Kind)>, SqlError> {
        let catalog = self.catalog();
        let found = |name: &ObjectName| {
            let named = Named::of(name)?;
            match catalog.lookup(&named) {
                None => Err(catalog.no_relation(&named, "table")),
                Some(Relation::Index(..) | Relation::Key(_)) => {
                    let message = format!("\"{}\" is an index", named.name);
                    Err(SqlError::new(code::WRONG_OBJECT, message))
                }
                Some(found) => Ok(object_of(&found)),
            }
        };
        match target {
            Target::Relations(names) => names.iter().map(found).collect(),
            Target::Sequences(names) => {
                let sequence = |name: &ObjectName| match found(name)? {
                    (_, Kind::Table) => {
                        let message = format!("\"{}\" is not a sequence", Named::of(name)?.name);
                        Err(SqlError::new(code::WRONG_OBJECT, message))
                    }
                    found => Ok(found),
                };
                names.iter().map(sequence).collect()
            }
            Target::AllIn(schemas, sequences) => {
                if let Some(missing) = schemas.iter().find(|schema| !catalog.has_schema(schema)) {
                    return Err(catalog.no_schema(missing));
                }
                Ok(all_in(&catalog, schemas, *sequences))
            }
            Target::Procedures(all) => {
                let procedure = |of: &Signature| {
                    let found = crate::procedures::found(&catalog, of)?;
                    Ok((Object::Procedure(found.oid), Kind::Procedure))
                };
                all.iter().map(procedure).collect()
            }
            Target::Schemas(names) => {
                let schema = |name: &String| match catalog.schemas.get(name) {
                    Some(schema) => Ok((Object::Schema(schema.oid), Kind::Schema)),
                    None if SYSTEM.contains(&name.as_str()) => {
                        Err(denied(&format!("schema {name}")))
                    }
                    None => Err(catalog.no_schema(name)),
                };
                names.iter().map(schema).collect()
            }
        }
    }

    /// The rights that a statement wants on one object.
    fn wanted(&mut self, grant: &Grant, object: Object, kind: Kind) -> Result<Wanted, SqlError> {
        let Some(named) = &grant.rights else {
            return Ok(Wanted { all: kind.all(), columns: Vec::new() });
        };
        let catalog = self.catalog();
        let mut wanted = Wanted { all: Rights::NONE, columns: Vec::new() };
        for (word, columns) in named {
            let right = Rights::named(word).expect("others were refused before");
            let of = if columns.is_empty() { kind } else { Kind::Column };
            let upper = word.to_uppercase();
            if !columns.is_empty() && kind != Kind::Table {
                let message = "column privileges are only valid for relations";
                return Err(SqlError::new(code::INVALID_GRANT, message));
            }
            if !of.all().has(right) {
                let what = match of {
                    Kind::Sequence
                        if matches!(grant.target, Target::Relations(_))
                            && Kind::Table.all().has(right) =>
                    {
                        let message = format!(
                            "{} only supports USAGE, SELECT, and UPDATE privileges",
                            described(&catalog, object).replacen("sequence ", "sequence \"", 1)
                                + "\""
                        );
                        self.notices.push(SqlError::new(code::INVALID_GRANT, message));
                        continue;
                    }
                    Kind::Table => "table",
                    Kind::Column => "column",
                    Kind::Sequence => "sequence",
                    Kind::Schema => "schema",
                    Kind::Type => "type",
                    Kind::Procedure => "procedure",
                };
                let message = format!("invalid privilege type {upper} for {what}");
                return Err(SqlError::new(code::INVALID_GRANT, message));
            }
            if columns.is_empty() {
                wanted.all = wanted.all | right;
            }
            for column in columns {
                check_column(&catalog, object, column)?;
                match wanted.columns.iter_mut().find(|(name, _)| name == column) {
                    Some((_, rights)) => *rights = *rights | right,
                    None => wanted.columns.push((column.clone(), right)),
                }
            }
        }
        Ok(wanted)
    }

    fn grant_on(
        &mut self,
        grant: &Grant,
        (object, kind): (Object, Kind),
        (wanted, owned): (Rights, &mut Owned),
        roles: &[u32],
    ) -> Result<(), SqlError> {
        let who = self.around.identity.clone();
        let what = described(&self.catalog(), object);
        let mut acl = owned.list(kind);
        let (grantor, options) = best_grantor(&who, owned.owner, wanted, &[&acl]);
        let has_any = who.is_superuser || acl.rights_of(&|role| who.acts_as(role)) != Rights::NONE;
        if options == Rights::NONE && !has_any {
            return Err(denied(&what));
        }
        self.tell_left_out(grant, wanted, options, &what);
        change(&mut acl, grant, owned.owner, (grantor, options), roles)?;
        owned.acl = Some(acl);
        if !grant.grants && kind == Kind::Table {
            let rights = options & Kind::Column.all();
            let whole = owned.list(kind);
            for acl in owned.columns.values_mut() {
                change(acl, grant, owned.owner, (grantor, rights), roles)?;
                acl.release(owned.owner, &whole, grant.cascade)?;
            }
            owned.columns.retain(|_, acl| !acl.items().is_empty());
        }
        Ok(())
    }

    fn grant_on_column(
        &mut self,
        grant: &Grant,
        object: Object,
        (column, wanted, owned): (&str, Rights, &mut Owned),
        roles: &[u32],
    ) -> Result<(), SqlError> {
        let who = self.around.identity.clone();
        let what = described(&self.catalog(), object);
        let all = owned.list(Kind::Table);
        let mut acl = owned.columns.get(column).cloned().unwrap_or_default();
        let (grantor, options) = best_grantor(&who, owned.owner, wanted, &[&all, &acl]);
        let rights = |acl: &Acl| acl.rights_of(&|role| who.acts_as(role)) & Kind::Column.all();
        let has_any = who.is_superuser || (rights(&all) | rights(&acl)) != Rights::NONE;
        if options == Rights::NONE && !has_any {
            let relation = what.split_once(' ').map_or("", |(_, name)| name);
            return Err(denied(&format!("column \"{column}\" of relation \"{relation}\"")));
        }
        self.tell_left_out(grant, wanted, options, &what);
        change(&mut acl, grant, owned.owner, (grantor, options), roles)?;
        match acl.items().is_empty() {
            true => drop(owned.columns.remove(column)),
            false => drop(owned.columns.insert(column.to_owned(), acl)),
        }
        Ok(())
    }

    /// Warns about rights that were skipped for lack of a grant option.
    fn tell_left_out(&mut self, grant: &Grant, wanted: Rights, options: Rights, what: &str) {
        let name = what.split_once(' ').map_or(what, |(_, name)| name);
        let (none, done, code) = match grant.grants {
            true => ("no privileges were granted", "not all privileges were granted", "01007"),
            false => {
                ("no privileges could be revoked", "not all privileges could be revoked", "01006")
            }
        };
        let message = match options {
            _ if wanted == Rights::NONE => return,
            Rights::NONE => none,
            options if options != wanted && grant.rights.is_some() => done,
            _ => return,
        };
        self.notices.push(SqlError::new(code, format!("{message} for \"{name}\"")));
    }

    /// The role that OWNER TO names.
    pub(crate) fn new_owner(&self, owner: &Owner) -> Result<u32, SqlError> {
        let named = match owner {
            Owner::Ident(name) if name.quote_style.is_none() => match folded(name).as_str() {
                "session_user" => RoleName::Session,
                "current_user" | "current_role" => RoleName::Current,
                name => RoleName::Named(name.to_owned()),
            },
            Owner::Ident(name) => RoleName::Named(name.value.clone()),
            Owner::SessionUser => RoleName::Session,
            Owner::CurrentUser | Owner::CurrentRole => RoleName::Current,
        };
        let role = self.role(&named)?;
        let who = &self.around.identity;
        let found = who.roles().numbered(role).expect("it was just found");
        who.check_member(found)?;
        Ok(role)
    }

    /// Refuses an owner that could not have created the object in its schema.
    pub(crate) fn check_place(&self, owner: u32, schema: &str) -> Result<(), SqlError> {
        let (catalog, who) = (self.catalog(), &self.around.identity);
        let Some(schema) = catalog.schemas.get(schema).filter(|_| !who.is_superuser) else {
            return Ok(());
        };
        let owner = Identity::numbered(owner, who.roles(), &catalog.members);
        owner.check(&catalog, (Object::Schema(schema.oid), Kind::Schema), Rights::CREATE)
    }

    /// OWNER TO, of a type.
    pub(crate) fn set_type_owner(
        &mut self,
        made: &MadeType,
        owner: &Owner,
    ) -> Result<(), SqlError> {
        let role = self.new_owner(owner)?;
        self.check_place(role, &made.name().schema)?;
        self.hand_over(Object::Type(made.oid()), role);
        Ok(())
    }

    /// OWNER TO, of a table, a view or a sequence.
    pub(crate) fn set_owner(&mut self, name: &ObjectName, owner: &Owner) -> Result<(), SqlError> {
        let (named, catalog) = (Named::of(name)?, self.catalog());
        let found = match catalog.lookup(&named) {
            None => return catalog.table(&named).map(drop),
            Some(Relation::Index(..) | Relation::Key(_)) => {
                let message = format!("\"{}\" is not a table, view, or sequence", named.name);
                return Err(SqlError::new(code::WRONG_OBJECT, message));
            }
            Some(found) => found,
        };
        let role = self.new_owner(owner)?;
        let object = object_of(&found).0;
        let has_it = ownership(&catalog, object, &self.around.identity).owner == role;
        if let (Relation::Sequence(sequence), false) = (&found, has_it)
            && let Some(linked) = &sequence.owner
        {
            let message = format!("cannot change owner of sequence \"{}\"", sequence.name);
            let table = catalog.table_of(linked.table).map_or("", |table| &table.name);
            let detail = format!("Sequence \"{}\" is linked to table \"{table}\".", sequence.name);
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message).detail(detail));
        }
        let own = match &found {
            Relation::Table(table) => catalog.owned(table.oid),
            _ => Vec::new(),
        };
        if !has_it {
            self.check_place(role, schema_of(&found))?;
        }
        self.hand_over(object, role);
        own.iter().for_each(|own| self.hand_over(Object::Relation(own.oid), role));
        Ok(())
    }

    /// Changes the owner of an object.
    pub(crate) fn hand_over(&mut self, object: Object, to: u32) {
        let mut owned = ownership(&self.catalog(), object, &self.around.identity);
        owned.hand_over(to);
        self.change(|catalog| drop(catalog.ownership.insert(object, Arc::new(owned))));
    }
}

/// The rights of a GRANT on one relation.
struct Wanted {
    all: Rights,
    columns: Vec<(String, Rights)>,
}

/// The ownership of an object; of one older than the ownership catalog, the default.
fn ownership(catalog: &Catalog, object: Object, who: &Identity) -> Owned {
    let owned = catalog.ownership.get(&object).map(|owned| Owned::clone(owned));
    owned.unwrap_or_else(|| from_before(catalog, object, who))
}

fn from_before(catalog: &Catalog, object: Object, who: &Identity) -> Owned {
    let kind = match object {
        Object::Schema(_) => Kind::Schema,
        Object::Type(_) => Kind::Type,
        Object::Procedure(_) => Kind::Procedure,
        Object::Relation(oid) if catalog.sequences.values().any(|one| one.oid == oid) => {
            Kind::Sequence
        }
        Object::Relation(_) => Kind::Table,
    };
    let owner = who.roles().first();
    Owned { acl: Some(Acl::of_all(kind, owner)), ..Owned::by(owner) }
}

/// The grantor, and the rights it can grant: the owner all, other roles those with a grant option.
fn best_grantor(who: &Identity, owner: u32, wanted: Rights, lists: &[&Acl]) -> (u32, Rights) {
    if who.acts_as(owner) {
        return (owner, wanted);
    }
    let options = |role| {
        let all = lists.iter().map(|acl| acl.options_of(owner, role, wanted));
        all.fold(Rights::NONE, |all, options| all | options) & wanted
    };
    let others = who.all().filter(|role| *role != who.role);
    let mut best = (who.role, options(who.role));
    for role in others {
        let has = options(role);
        if has.each().count() > best.1.each().count() {
            best = (role, has);
        }
    }
    best
}

fn change(
    acl: &mut Acl,
    grant: &Grant,
    owner: u32,
    (grantor, rights): (u32, Rights),
    roles: &[u32],
) -> Result<(), SqlError> {
    for &grantee in roles {
        let item = |rights, options| Item { grantee, grantor, rights, options };
        match (grant.grants, grant.option) {
            (true, true) => acl.grant(owner, item(rights, rights))?,
            (true, false) => acl.grant(owner, item(rights, Rights::NONE))?,
            (false, true) => acl.revoke(owner, item(Rights::NONE, rights), grant.cascade)?,
            (false, false) => acl.revoke(owner, item(rights, rights), grant.cascade)?,
        }
    }
    Ok(())
}

fn all_in(catalog: &Catalog, schemas: &[String], sequences: bool) -> Vec<(Object, Kind)> {
    let is_in = |schema: &String| schemas.contains(schema);
    if sequences {
        let all = catalog.sequences.values().filter(|one| is_in(&one.schema));
        return all.map(|one| (Object::Relation(one.oid), Kind::Sequence)).collect();
    }
    let tables = catalog.tables.values().filter(|table| is_in(&table.schema_name));
    let views = catalog.views.values().filter(|view| is_in(&view.schema));
    let oids = tables.map(|table| table.oid).chain(views.map(|view| view.oid));
    oids.map(|oid| (Object::Relation(oid), Kind::Table)).collect()
}

fn check_column(catalog: &Catalog, object: Object, column: &str) -> Result<(), SqlError> {
    let Object::Relation(oid) = object else { return Ok(()) };
    if let Some(table) = catalog.table_of(oid) {
        return table.column(column).map(drop);
    }
    let view = catalog.view_of(oid);
    match view.is_some_and(|view| view.columns.iter().any(|(name, _)| name == column)) {
        true => Ok(()),
        false => {
            let name = view.map_or("", |view| &view.name);
            let message = format!("column \"{column}\" of relation \"{name}\" does not exist");
            Err(SqlError::new(code::UNDEFINED_COLUMN, message))
        }
    }
}
