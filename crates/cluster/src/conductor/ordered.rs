//! The property of a table that its transactions are ordered ([`crate::ordered`]).

use super::Conductor;
use super::copy::{home, tell_table};
use crate::catalog::Definition;
use crate::error::Error;
use crate::fusion::homeward::bring_home;
use crate::ordered::NotOrdered;
use crate::transport::Transport;
use isomer_design::TableId;
use isomer_site::{BatchStep, Failure};

/// Says whether transactions on tables are ordered. The caller knows that they have no rows and no
/// transactions; or it keeps writers out of them, and no transaction that has written to them is
/// open.
///
/// # Errors
/// [`Error::Invalid`] if there is no such table. [`Error::Open`] if there can be no order. A part
/// of the tables may have changed then; this can be repeated.
pub(crate) async fn set_ordered<T: Transport>(
    conductor: &Conductor<T>,
    tables: &[TableId],
    is_ordered: bool,
) -> Result<(), Error> {
    if is_ordered {
        home(conductor).begin_order()?;
    }
    if !is_ordered {
        for &table in tables {
            bring_home(conductor, table).await?;
        }
    }
    settle(conductor).await?;
    let _reserved = conductor.reserve_definitions().await;
    for &table in tables {
        let mut after = conductor.design();
        after.set_ordered(table, is_ordered).map_err(Box::new)?;
        home(conductor).keep(&after, Definition::Table(table))?;
        let mut design = conductor.design.lock();
        design.set_ordered(table, is_ordered).map_err(Box::new)?;
        conductor.ordered.follow(table, design.table(table).map_err(Box::new)?);
        tell_table(conductor, &design, table);
    }
    Ok(())
}

/// Executes all that is ordered. On return the outcomes and the rows are durable, like all other
/// commits at the sites.
pub(super) async fn settle<T: Transport>(conductor: &Conductor<T>) -> Result<(), Error> {
    if !conductor.order.is_running() {
        return Ok(());
    }
    conductor.order.settle().await.map_err(|error| match error {
        NotOrdered::Refused(error) | NotOrdered::Unknown(error) => {
            Error::Failure(Failure::Log(error))
        }
        NotOrdered::NotHere | NotOrdered::Never => Error::NoSeat,
        NotOrdered::Conflict(_) => unreachable!("a commit without reads has no conflict"),
    })?;
    for site in conductor.design().sites().iter().filter(|site| conductor.is_usable(*site)) {
        let settled = conductor.transport.batch(site, BatchStep::Settle { number: 0 }).await;
        settled.map_err(Error::Failure)?;
    }
    Ok(())
}

/// Brings the fused rows of a table home that is about to be dropped, and waits until no batch that
/// is not settled names it.
///
/// # Errors
/// As [`set_ordered`].
pub(super) async fn settle_before_drop<T: Transport>(
    conductor: &Conductor<T>,
    table: TableId,
) -> Result<(), Error> {
    if !conductor.ordered.has(table) {
        return Ok(());
    }
    bring_home(conductor, table).await?;
    settle(conductor).await
}
