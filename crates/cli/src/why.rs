//! `isomer why`: how a key came to be where it is, the autopilot's learned costs, and how often its
//! decisions kept their promises.
//!
//! Both are read from the strategy's saved state in the database's folder. A server writes it every
//! 30 seconds, and when it closes the database. So the database may be open in another process, and
//! then the last moments are missing.

use crate::failure::Failure;
use crate::{autopilot, out};
use isomer_cluster::OpenDatabaseError;
use isomer_design::Design;
use isomer_plan::learned::Memory;
use std::path::PathBuf;

/// Explains the current place of a key, or shows the learned costs
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer why accounts 17 --data shop
  isomer why orders \"5, 'north'\" --data shop
  isomer why model --data shop             learned costs: weights, and how well they foretell; and how many
                                           decisions brought what they promised")]
pub(crate) struct WhyArgs {
    /// A table; or `model`, without a key
    table: String,
    /// A key of it, in SQL notation; columns separated by commas
    key: Option<String>,
    /// The folder of the database; it may be open elsewhere
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The most decisions to show
    #[arg(long, default_value_t = 10, value_name = "N")]
    most: usize,
}

/// Prints the answer.
///
/// # Errors
/// If there is no such database, table or key, or its strategy does not learn.
pub(crate) fn run(args: &WhyArgs) -> Result<(), Failure> {
    let folder = args.data.display();
    let is_model = args.key.is_none() && args.table == "model";
    // The learned costs are in the folder, wherever the redo logs are.
    let (design, memory) = match is_model {
        true => (None, isomer_cluster::look_at_memory(&args.data, "learned")),
        false => {
            let (design, memory) = look(args)?;
            (Some(design), memory)
        }
    };
    let memory = memory.ok_or_else(|| {
        let what = "its strategy has kept nothing yet; the autopilot is `--strategy learned`, and a server keeps what \
                    that has learned every 30 s; of a cluster, in the folder of the process with the conductor";
        Failure::failed(format!("{folder}: {what}"))
    })?;
    let memory =
        Memory::parse(&memory).map_err(|what| Failure::failed(format!("{folder}: {what}")))?;
    let Some(design) = design else {
        out::print(autopilot::costs(&memory.costs));
        out::print(format!("\n{}", memory.summary.to_text()));
        return Ok(());
    };
    let Some(key) = &args.key else {
        let what = format!("which key of {}? Or `isomer why model`", args.table);
        return Err(Failure::usage(what));
    };
    let Some((_, table)) = design.find_table(&args.table) else {
        let known: Vec<&str> = design.tables().map(|(_, table)| table.name()).collect();
        let what = format!("there is no table `{}`; there are: {}", args.table, known.join(", "));
        return Err(Failure::usage(what));
    };
    let key = table.schema().parse_key(key).map_err(Failure::usage)?;
    let decisions: Vec<&str> = memory
        .about(&design, &args.table, &key)
        .take(args.most)
        .map(|told| told.text.as_str())
        .collect();
    match decisions.is_empty() {
        true => out::line("no decision that is remembered changed its partition"),
        false => out::print(decisions.concat() + "\n" + &memory.summary.to_text()),
    }
    Ok(())
}

/// The design of the database in the folder, and what its strategy has kept.
fn look(args: &WhyArgs) -> Result<(Design, Option<String>), Failure> {
    isomer_cluster::look(&args.data, "learned").map_err(|error| match error {
        OpenDatabaseError::LogsElsewhere { .. } => Failure::failed(format!(
            "{error}. Ask a running server: psql -c 'select * from isomer.decisions'"
        )),
        error => Failure::failed(error),
    })
}
