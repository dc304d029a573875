//! Executes definitions of views.

use crate::ddl::Definer;
use isomer_sql::catalog::{Named, Relation, TEMPORARY};
use isomer_sql::view::View;
use isomer_sql::{SqlError, code};
use sqlparser::ast::{CreateView, ObjectName};
use std::sync::Arc;

impl Definer<'_> {
    pub(crate) fn create_view(&mut self, create: &CreateView) -> Result<(), SqlError> {
        let catalog = self.catalog();
        let mut view = View::wanted(create, &catalog, &self.around.budget)?;
        let name = view.full_name();
        if name.schema == TEMPORARY
            && !create.temporary
            && Named::of(&create.name)?.schema.is_none()
        {
            let message = format!("view \"{}\" will be a temporary view", view.name);
            self.notices.push(SqlError::new("00000", message));
        }
        match catalog.views.get(&name) {
            Some(old) if create.or_replace => {
                view.check_replaces(old, &catalog)?;
                view.oid = old.oid;
            }
            _ => {
                self.check_free(&name)?;
                self.check_no_type(&name)?;
                view.oid = self.engine.fresh_oid();
            }
        }
        self.change(|catalog| catalog.views.insert(Arc::new(view)));
        Ok(())
    }

    pub(crate) fn drop_named_views(
        &mut self,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<(), SqlError> {
        let (catalog, mut views) = (self.catalog(), Vec::new());
        for name in names {
            let name = Named::of(name)?;
            match catalog.lookup(&name) {
                Some(Relation::View(view)) => views.push(view.clone()),
                Some(_) => {
                    let message = format!("\"{}\" is not a view", name.name);
                    return Err(SqlError::new(code::WRONG_OBJECT, message));
                }
                None if if_exists => {
                    let message = format!("view \"{name}\" does not exist, skipping");
                    self.notices.push(SqlError::new("00000", message));
                }
                None => {
                    let message = format!("view \"{name}\" does not exist");
                    return Err(SqlError::new(code::UNDEFINED_TABLE, message));
                }
            }
        }
        self.drop_views(&views, cascade)
    }
}
