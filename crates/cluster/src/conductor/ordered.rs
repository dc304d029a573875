//! The property of a table that its transactions are ordered ([`crate::ordered`]).

use super::Conductor;
use super::copy::{home, tell_table};
use crate::catalog::Definition;
use crate::error::Error;
use crate::transport::Transport;
use isomer_design::TableId;

/// Says whether transactions on a table are ordered. The caller knows that it has no rows and no
/// transactions.
///
/// # Errors
/// [`Error::Invalid`] if there is no such table; nothing has changed then.
pub(crate) async fn set_ordered<T: Transport>(
    conductor: &Conductor<T>,
    table: TableId,
    is_ordered: bool,
) -> Result<(), Error> {
    let _reserved = conductor.reserve_definitions().await;
    let mut after = conductor.design();
    after.set_ordered(table, is_ordered).map_err(Box::new)?;
    home(conductor).keep(&after, Definition::Table(table))?;
    let mut design = conductor.design.lock();
    design.set_ordered(table, is_ordered).map_err(Box::new)?;
    tell_table(conductor, &design, table);
    Ok(())
}
