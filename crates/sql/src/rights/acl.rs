//! Access control lists: grants with their grantors and grantees.

use super::{Kind, PUBLIC, Rights};
use crate::error::{SqlError, code};

/// A grant from one role to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// The role that receives the rights, or [`PUBLIC`].
    pub grantee: u32,
    /// The role that granted them.
    pub grantor: u32,
    /// The rights.
    pub rights: Rights,
    /// The rights among them with the grant option.
    pub options: Rights,
}

/// See the [module documentation](self); the items are in the order of their first grant.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Acl {
    items: Vec<Item>,
}

impl Acl {
    /// The rights before the first grant.
    pub fn of_owner(kind: Kind, owner: u32) -> Acl {
        Acl::of_both(owner, kind.of_everybody(), kind.all())
    }

    /// The rights to an object from before there were rights: every role may do everything.
    pub fn of_all(kind: Kind, owner: u32) -> Acl {
        Acl::of_both(owner, kind.all(), kind.all())
    }

    fn of_both(owner: u32, everybody: Rights, own: Rights) -> Acl {
        let item =
            |grantee, rights| Item { grantee, grantor: owner, rights, options: Rights::NONE };
        let mut items = vec![item(PUBLIC, everybody), item(owner, own)];
        items.retain(|item| item.rights != Rights::NONE);
        Acl { items }
    }

    /// The items.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The rights of some roles, including those of PUBLIC.
    pub fn rights_of(&self, is_one: &dyn Fn(u32) -> bool) -> Rights {
        let theirs =
            self.items.iter().filter(|item| item.grantee == PUBLIC || is_one(item.grantee));
        theirs.fold(Rights::NONE, |all, item| all | item.rights)
    }

    /// The rights with grant option of a role itself; the owner has it for all.
    pub fn options_of(&self, owner: u32, role: u32, all: Rights) -> Rights {
        if role == owner {
            return all;
        }
        let own = self.items.iter().filter(|item| item.grantee == role);
        own.fold(Rights::NONE, |all, item| all | item.options)
    }

    /// True if a role is a grantee or a grantor.
    pub fn mentions(&self, role: u32) -> bool {
        self.items.iter().any(|item| item.grantee == role || item.grantor == role)
    }

    /// Grants the rights of an item.
    ///
    /// # Errors
    /// 0LP01 if the grant option would go back to a role that the grantor's own option depends on.
    pub fn grant(&mut self, owner: u32, given: Item) -> Result<(), SqlError> {
        self.check_no_circle(owner, &given)?;
        let place = self
            .items
            .iter()
            .position(|item| item.grantee == given.grantee && item.grantor == given.grantor);
        match place {
            Some(at) => {
                let item = &mut self.items[at];
                item.rights = item.rights | given.rights;
                item.options = item.options | given.options;
            }
            None if given.rights == Rights::NONE => {}
            None => self.items.push(given),
        }
        Ok(())
    }

    /// Revokes the rights of an item and, if it revokes a grant option, the grants that rely on it.
    ///
    /// # Errors
    /// 2BP01 if there are such grants, and `cascade` is false.
    pub fn revoke(&mut self, owner: u32, taken: Item, cascade: bool) -> Result<(), SqlError> {
        let place = self
            .items
            .iter()
            .position(|item| item.grantee == taken.grantee && item.grantor == taken.grantor);
        let Some(at) = place else { return Ok(()) };
        let item = &mut self.items[at];
        let lost = item.options & taken.options;
        item.rights = item.rights - taken.rights;
        item.options = item.options - taken.options;
        if item.rights == Rights::NONE && item.options == Rights::NONE {
            self.items.remove(at);
        }
        self.take_what_hangs_on(owner, taken.grantee, lost, cascade)
    }

    /// Revokes grants in the list of a column whose grantor has lost the option for the whole
    /// relation.
    ///
    /// # Errors
    /// 2BP01 if there are such grants, and `cascade` is false.
    pub fn release(&mut self, owner: u32, whole: &Acl, cascade: bool) -> Result<(), SqlError> {
        let lost = |acl: &Acl, item: &Item| {
            let options = |acl: &Acl| acl.options_of(owner, item.grantor, item.rights);
            item.rights - (options(acl) | options(whole))
        };
        while let Some((item, lost)) = self.items.iter().find_map(|item| {
            let lost = lost(self, item);
            (item.grantor != owner && lost != Rights::NONE).then_some((*item, lost))
        }) {
            if !cascade {
                return Err(dependent());
            }
            self.revoke(owner, Item { rights: lost, options: lost, ..item }, true)?;
        }
        Ok(())
    }

    fn take_what_hangs_on(
        &mut self,
        owner: u32,
        role: u32,
        lost: Rights,
        cascade: bool,
    ) -> Result<(), SqlError> {
        let lost = lost - self.options_of(owner, role, lost);
        let hangs = |item: &&Item| item.grantor == role && item.rights.has_any(lost);
        while let Some(item) = self.items.iter().find(hangs).copied() {
            if !cascade {
                return Err(dependent());
            }
            self.revoke(owner, Item { rights: lost, options: lost, ..item }, true)?;
        }
        Ok(())
    }

    /// The grantor's option must not depend on the grantee's.
    fn check_no_circle(&self, owner: u32, given: &Item) -> Result<(), SqlError> {
        if given.options == Rights::NONE || given.grantor == owner {
            return Ok(());
        }
        let mut without = self.clone();
        while let Some(item) = without
            .items
            .iter()
            .find(|item| item.grantee == given.grantee && item.options != Rights::NONE)
            .copied()
        {
            without.revoke(owner, Item { rights: item.options, ..item }, true)?;
        }
        match without.options_of(owner, given.grantor, given.options).has(given.options) {
            true => Ok(()),
            false => Err(SqlError::new(
                code::INVALID_GRANT,
                "grant options cannot be granted back to your own grantor",
            )),
        }
    }

    /// Changes the owner: the rights and grants of one role become the other's.
    pub fn hand_over(&mut self, from: u32, to: u32) {
        let old = std::mem::take(&mut self.items);
        let now = |role| if role == from { to } else { role };
        for item in old {
            let item = Item { grantee: now(item.grantee), grantor: now(item.grantor), ..item };
            let same =
                |other: &&mut Item| other.grantee == item.grantee && other.grantor == item.grantor;
            match self.items.iter_mut().find(same) {
                Some(other) => {
                    other.rights = other.rights | item.rights;
                    other.options = other.options | item.options;
                }
                None => self.items.push(item),
            }
        }
    }

    /// Revokes all rights of a role, and the grants it made.
    pub fn forget(&mut self, owner: u32, role: u32) {
        while let Some(item) = self.items.iter().find(|item| item.grantee == role).copied() {
            // With `cascade` it cannot fail.
            let _ = self.revoke(owner, item, true);
        }
    }

    /// In the form for clients: one text per item, with the names of roles.
    pub fn shown(&self, name: &dyn Fn(u32) -> String) -> Vec<String> {
        let role = |role| if role == PUBLIC { String::new() } else { quoted_role(&name(role)) };
        let item = |item: &Item| {
            format!("{}={}/{}", role(item.grantee), item.letters(), role(item.grantor))
        };
        self.items.iter().map(item).collect()
    }

    /// The stored form: with the oids of roles, separated by commas.
    pub fn kept(&self) -> String {
        let item = |item: &Item| format!("{}={}/{}", item.grantee, item.letters(), item.grantor);
        self.items.iter().map(item).collect::<Vec<_>>().join(",")
    }

    /// Reads the [stored form](Acl::kept).
    pub fn read(kept: &str) -> Option<Acl> {
        let items = kept.split(',').filter(|item| !item.is_empty()).map(Item::read);
        Some(Acl { items: items.collect::<Option<_>>()? })
    }
}

impl Item {
    /// Its rights as letters, with a star behind those with grant option.
    fn letters(&self) -> String {
        let mut letters = String::new();
        for (right, letter, _) in self.rights.each() {
            letters.push(letter);
            if self.options.has(right) {
                letters.push('*');
            }
        }
        letters
    }

    fn read(text: &str) -> Option<Item> {
        let (grantee, rest) = text.split_once('=')?;
        let (letters, grantor) = rest.split_once('/')?;
        let (grantee, grantor) = (grantee.parse().ok()?, grantor.parse().ok()?);
        let mut item = Item { grantee, grantor, rights: Rights::NONE, options: Rights::NONE };
        let mut last = Rights::NONE;
        for letter in letters.chars() {
            match letter {
                '*' => item.options = item.options | last,
                letter => {
                    let known = super::ALL.iter().position(|(known, _)| *known == letter)?;
                    last = Rights(1 << known);
                    item.rights = item.rights | last;
                }
            }
        }
        Some(item)
    }
}

/// 2BP01.
fn dependent() -> SqlError {
    let error = SqlError::new(code::DEPENDENT_OBJECTS, "dependent privileges exist");
    error.hint("Use CASCADE to revoke them too.")
}

/// A role's name in an item: quoted if it has characters other than letters, digits and
/// underscores.
fn quoted_role(name: &str) -> String {
    let is_safe = |sign: char| sign.is_alphanumeric() || sign == '_';
    match name.chars().all(is_safe) && !name.is_empty() {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: u32 = 10;
    const ANN: u32 = 1;
    const BOB: u32 = 2;
    const CAT: u32 = 3;

    fn name(role: u32) -> String {
        ["", "ann", "bob", "cat the 3rd"].get(role as usize).copied().unwrap_or("owner").to_owned()
    }

    fn item(grantor: u32, grantee: u32, rights: Rights, options: Rights) -> Item {
        Item { grantee, grantor, rights, options }
    }

    fn list(acl: &Acl) -> String {
        acl.shown(&name).join(" ")
    }

    #[test]
    fn a_list_is_shown_with_names_and_stored_with_oids() {
        let mut acl = Acl::of_owner(Kind::Table, OWNER);
        let both = Rights::SELECT | Rights::INSERT;
        acl.grant(OWNER, item(OWNER, PUBLIC, Rights::SELECT, Rights::NONE)).expect("it may");
        acl.grant(OWNER, item(OWNER, CAT, both, Rights::SELECT)).expect("it may");
        assert_eq!(
            acl.shown(&name),
            ["owner=arwdDxt/owner", "=r/owner", "\"cat the 3rd\"=ar*/owner"]
        );
        assert_eq!(acl.kept(), "10=arwdDxt/10,0=r/10,3=ar*/10");
        assert_eq!(Acl::read(&acl.kept()), Some(acl));
        assert_eq!(Acl::read("10=z/10"), None);
        assert_eq!(list(&Acl::of_owner(Kind::Type, OWNER)), "=U/owner owner=U/owner");
        assert_eq!(list(&Acl::of_all(Kind::Schema, OWNER)), "=UC/owner owner=UC/owner");
    }

    #[test]
    fn revoking_an_option_revokes_dependent_grants() {
        let mut acl = Acl::of_owner(Kind::Table, OWNER);
        let read = Rights::SELECT;
        acl.grant(OWNER, item(OWNER, ANN, read, read)).expect("it may");
        acl.grant(OWNER, item(ANN, BOB, read, read)).expect("it may");
        acl.grant(OWNER, item(BOB, CAT, read, Rights::NONE)).expect("it may");
        let option = item(OWNER, ANN, Rights::NONE, read);
        let mut kept = acl.clone();
        assert_eq!(kept.revoke(OWNER, option, false).expect_err("a refusal").code, "2BP01");
        acl.revoke(OWNER, option, true).expect("it cascades");
        assert_eq!(list(&acl), "owner=arwdDxt/owner ann=r/owner");
    }

    #[test]
    fn a_right_with_two_grantors_lasts_until_both_revoke_it() {
        let mut acl = Acl::of_owner(Kind::Table, OWNER);
        let read = Rights::SELECT;
        acl.grant(OWNER, item(OWNER, ANN, read, read)).expect("it may");
        acl.grant(OWNER, item(OWNER, BOB, read, read)).expect("it may");
        acl.grant(OWNER, item(ANN, BOB, read, read)).expect("it may");
        acl.grant(OWNER, item(BOB, CAT, read, Rights::NONE)).expect("it may");
        acl.revoke(OWNER, item(OWNER, BOB, read, read), false).expect("ann's is there");
        assert_eq!(acl.rights_of(&|role| role == CAT), read);
        acl.revoke(OWNER, item(ANN, BOB, read, read), true).expect("it cascades");
        assert_eq!(acl.rights_of(&|role| role == CAT), Rights::NONE);
    }

    #[test]
    fn options_do_not_go_in_circles() {
        let mut acl = Acl::of_owner(Kind::Table, OWNER);
        let read = Rights::SELECT;
        acl.grant(OWNER, item(OWNER, ANN, read, read)).expect("it may");
        acl.grant(OWNER, item(ANN, BOB, read, read)).expect("it may");
        let back = acl.grant(OWNER, item(BOB, ANN, read, read));
        assert_eq!(back.expect_err("a circle").code, "0LP01");
        acl.grant(OWNER, item(BOB, ANN, read, Rights::NONE)).expect("no option, no circle");
    }

    #[test]
    fn rights_pass_to_the_new_owner() {
        let mut acl = Acl::of_owner(Kind::Table, OWNER);
        acl.grant(OWNER, item(OWNER, ANN, Rights::SELECT, Rights::NONE)).expect("it may");
        acl.grant(OWNER, item(OWNER, BOB, Rights::SELECT, Rights::NONE)).expect("it may");
        acl.hand_over(OWNER, ANN);
        assert_eq!(list(&acl), "ann=arwdDxt/ann bob=r/ann");
        acl.forget(ANN, BOB);
        assert_eq!(list(&acl), "ann=arwdDxt/ann");
    }
}
