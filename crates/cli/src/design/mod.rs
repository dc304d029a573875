//! `isomer design`: shows, changes and checks the design of a database in a folder.
//!
//! Each command opens the database, which finishes changes that were under way when it stopped, and
//! locks out other processes meanwhile. Only `apply` changes the design.

mod apply;
mod check;
mod show;

use crate::failure::Failure;
use isomer_cluster::{Database, Options};
use isomer_strategy::Static;
use std::path::{Path, PathBuf};

/// Bytes; `None` means no limit.
type SiteMemory = Option<usize>;

/// Shows, changes and checks the design of a database in a folder
#[derive(clap::Subcommand, Debug)]
pub(crate) enum DesignCommand {
    Show(ShowArgs),
    Apply(ApplyArgs),
    Check(CheckArgs),
}

/// Prints the partitions and the sites that hold them
///
/// Neighbouring partitions of one placement are one line. --full prints the text form instead,
/// which has every partition and can be parsed again.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer design show shop
  isomer design show shop --full > shop.design")]
pub(crate) struct ShowArgs {
    /// The folder of the database
    folder: PathBuf,
    /// Prints every column and every partition
    #[arg(long, conflicts_with = "json")]
    full: bool,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

/// Changes the design: split, merge, add_replica, remove_replica, remaster, add_site, remove_site
///
/// All changes are parsed and tried on a copy of the design first. If one of them is impossible,
/// none is made.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  isomer design apply shop 'split accounts at 500'
  isomer design apply shop 'add_replica accounts[500] s2' 'remaster accounts[500] s2'
  isomer design apply shop --dry-run 'merge accounts at 500'
  isomer design apply shop --plan shop.plan        a plan of `isomer advise --plan`")]
pub(crate) struct ApplyArgs {
    /// The folder of the database
    folder: PathBuf,
    /// The changes, in this order; each in quotes
    #[arg(required_unless_present = "plan", conflicts_with = "plan", value_name = "CHANGE")]
    changes: Vec<String>,
    /// A file with one change a line, and reasons behind `#`
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Shows what the changes would do, and makes none
    #[arg(long)]
    dry_run: bool,
    /// Memory for the rows of each site, such as 512MB or 4GB; a site without room for it gets no
    /// replica [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = isomer_server::read_site_memory)]
    site_memory: Option<SiteMemory>,
    /// Prints one line of JSON for each change
    #[arg(long)]
    json: bool,
}

/// Checks the invariants of the design, and that all copies of a partition agree
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Example:
  isomer design check shop")]
pub(crate) struct CheckArgs {
    /// The folder of the database
    folder: PathBuf,
    /// Prints one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs a subcommand of `isomer design`.
///
/// [`Failure`] if the folder is no database, in use, or damaged; if a change is impossible; if a
/// check fails.
pub(crate) fn run(command: &DesignCommand) -> Result<(), Failure> {
    match command {
        DesignCommand::Show(args) => show::run(args),
        DesignCommand::Apply(args) => apply::run(args),
        DesignCommand::Check(args) => check::run(args),
    }
}

/// Opens an existing database.
fn open(folder: &Path) -> Result<Database, Failure> {
    // The library would create a database in a folder that is missing or empty.
    let entries = std::fs::read_dir(folder)
        .map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
    if entries.count() == 0 {
        let folder = folder.display();
        return Err(Failure::failed(format!("{folder} is empty; give the folder of a database")));
    }
    let db = Database::open(Options::in_folder(folder, 1).strategy(Static))?;
    db.notes().iter().for_each(|note| eprintln!("note: {note}"));
    Ok(db)
}
