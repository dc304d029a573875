//! ANALYZE: reads the rows of a table, and gathers the [statistics](isomer_sql::statistics) of a
//! sample of them. Plans that were made before are made anew, because the catalog changes.

use crate::backend::Backend;
use isomer_sql::catalog::{Catalog, Table};
use isomer_sql::datum::Datum;
use isomer_sql::statement::compile;
use isomer_sql::statistics::{Sample, TableStatistics};
use isomer_sql::transaction::Surroundings;
use isomer_sql::{SqlError, parse};
use std::sync::Arc;

/// The statistics of a table, as the transaction sees it.
///
/// # Errors
/// The errors of reading all of its rows.
pub(crate) fn statistics(
    table: &Arc<Table>,
    catalog: &Catalog,
    backend: &mut Backend,
    around: &Surroundings,
) -> Result<TableStatistics, SqlError> {
    let mut sample = Sample::new(u64::from(table.oid));
    let text = format!("select * from {}", table.full_name().written());
    if let Some(parsed) = parse::parse(&text)?.pop().filter(|_| !table.columns.is_empty()) {
        let compiled = compile(&parsed, &text, catalog, &[], &around.budget)?;
        backend.planned_for = compiled.version;
        compiled.run(backend, &[], around, catalog, &mut |row: &[Datum]| {
            sample.add(row);
            Ok(())
        })?;
    }
    Ok(sample.statistics(table.columns.iter().map(|column| (&*column.name, column.ty))))
}
