//! Memberships of roles: GRANT and REVOKE of roles, REASSIGN OWNED, and the dependents that keep a
//! role from being dropped.
//!
//! ```text
//!   grant readers to ann        ann has the rights of readers, and may SET ROLE readers
//!   drop role readers           2BP01 if it owns an object, or was granted or has granted a right;
//!                               otherwise its memberships and members are removed
//! ```

use crate::ddl::Definer;
use isomer_sql::catalog::Catalog;
use isomer_sql::parse::{GrantRoles, RoleName};
use isomer_sql::rights::check::{all_of, described};
use isomer_sql::rights::{Membership, Object, Role};
use isomer_sql::system::DATABASE_OWNER;
use isomer_sql::{SqlError, code};

impl Definer<'_> {
    pub(crate) fn grant_roles(&mut self, grant: &GrantRoles) -> Result<(), SqlError> {
        let all = self.around.identity.roles().clone();
        let members = grant.members.iter().map(|member| self.role(member));
        let members = members.collect::<Result<Vec<u32>, SqlError>>()?;
        let grantor = grantor(self, grant.grantor.as_ref())?;
        for name in &grant.roles {
            let role = all.named(name)?;
            self.check_admin(role)?;
            for &member in &members {
                match grant.grants {
                    true => {
                        self.let_in(role, member, Membership { grantor, is_admin: grant.option })?
                    }
                    false => self.take_out(role, member, grant.option),
                }
            }
        }
        Ok(())
    }

    /// Granting a role requires a superuser or its admin option.
    fn check_admin(&self, role: &Role) -> Result<(), SqlError> {
        let (who, catalog, oid) = (&self.around.identity, self.catalog(), role.oid as u32);
        if i64::from(oid) == DATABASE_OWNER {
            let message = format!("role \"{}\" cannot have explicit members", role.name);
            return Err(SqlError::new(code::INVALID_GRANT, message));
        }
        let is_admin = |of: u32| catalog.members.get(&(oid, of)).is_some_and(|how| how.is_admin);
        if who.is_superuser || (!role.superuser && who.all().any(is_admin)) {
            return Ok(());
        }
        let message = match role.superuser {
            true => "must be superuser to alter superusers".to_owned(),
            false => format!("must have admin option on role \"{}\"", role.name),
        };
        Err(SqlError::new(code::INSUFFICIENT_PRIVILEGE, message))
    }

    fn let_in(&mut self, role: &Role, member: u32, how: Membership) -> Result<(), SqlError> {
        let (catalog, who) = (self.catalog(), self.around.identity.clone());
        let (oid, name) = (role.oid as u32, who.roles().name(member));
        if all_of(oid, who.roles(), &catalog.members).contains(&member) {
            let message = format!("role \"{}\" is a member of role \"{name}\"", role.name);
            return Err(SqlError::new(code::INVALID_GRANT, message));
        }
        let before = catalog.members.get(&(oid, member));
        if before.is_some_and(|before| before.is_admin || !how.is_admin) {
            let message = format!("role \"{name}\" is already a member of role \"{}\"", role.name);
            self.notices.push(SqlError::new("00000", message));
            return Ok(());
        }
        self.change(|catalog| _ = catalog.members.insert((oid, member), how));
        Ok(())
    }

    fn take_out(&mut self, role: &Role, member: u32, option: bool) {
        let (catalog, oid) = (self.catalog(), role.oid as u32);
        let Some(how) = catalog.members.get(&(oid, member)).copied() else {
            let name = self.around.identity.roles().name(member);
            let message = format!("role \"{name}\" is not a member of role \"{}\"", role.name);
            self.notices.push(SqlError::new("01000", message));
            return;
        };
        let left = option.then_some(Membership { is_admin: false, ..how });
        self.change(|catalog| {
            catalog.members.remove(&(oid, member));
            catalog.members.extend(left.map(|how| ((oid, member), how)));
        });
    }

    /// REASSIGN OWNED: changes the owner of all objects of some roles.
    pub(crate) fn reassign(&mut self, from: &[RoleName], to: &RoleName) -> Result<(), SqlError> {
        let who = self.around.identity.clone();
        let check =
            |oid: u32| who.roles().numbered(oid).map_or(Ok(()), |role| who.check_member(role));
        let to = self.role(to)?;
        for named in from {
            let role = self.role(named)?;
            check(role)?;
            check(to)?;
            let catalog = self.catalog();
            let owned = catalog.objects().filter(|object| who.owner_of(&catalog, *object) == role);
            owned.for_each(|object| self.hand_over(object, to));
        }
        Ok(())
    }

    /// Removes a role's memberships and members, before it is dropped.
    ///
    /// # Errors
    /// 2BP01 if it owns an object, or was granted a right or has granted one.
    pub(crate) fn forget_role(&mut self, role: u32, name: &str) -> Result<(), SqlError> {
        self.backend.begin_definition()?;
        let catalog = self.catalog();
        let owned = dependents(&catalog, role);
        if !owned.is_empty() {
            let message =
                format!("role \"{name}\" cannot be dropped because some objects depend on it");
            return Err(SqlError::new(code::DEPENDENT_OBJECTS, message).detail(owned.join("\n")));
        }
        let is_its = |roles: &(u32, u32)| roles.0 == role || roles.1 == role;
        if catalog.members.keys().any(is_its) {
            self.change(|catalog| catalog.members.retain(|roles, _| !is_its(roles)));
        }
        Ok(())
    }
}

/// The objects that a role owns or has rights to, in words.
fn dependents(catalog: &Catalog, role: u32) -> Vec<String> {
    let of = |(object, owned): (&Object, &std::sync::Arc<isomer_sql::rights::Owned>)| {
        let what = described(catalog, *object);
        match owned.owner == role {
            true => Some(format!("owner of {what}")),
            false => owned.mentions(role).then(|| format!("privileges for {what}")),
        }
    };
    catalog.ownership.iter().filter_map(of).collect()
}

/// The role in whose name a role is granted: another than the current role for superusers only.
fn grantor(definer: &Definer<'_>, named: Option<&RoleName>) -> Result<u32, SqlError> {
    let who = &definer.around.identity;
    let Some(named) = named else { return Ok(who.role) };
    let grantor = definer.role(named)?;
    if grantor == who.role || who.is_superuser {
        return Ok(grantor);
    }
    let message =
        format!("permission denied to grant privileges as role \"{}\"", who.roles().name(grantor));
    Err(SqlError::new(code::INSUFFICIENT_PRIVILEGE, message))
}
