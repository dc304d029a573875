//! The common input of `advise` and `compare`: a recording, a placement, and costs.
//!
//! The recording is cut in two by time. Planners see the earlier part, or a sample of it, and are
//! judged on both. The placement is a design, a list of rules, or by default equal ranges. If it is
//! a design, plans are changes of that design.

use super::progress::Progress;
use super::{open_file, read_text};
use isomer_design::Design;
use isomer_plan::evaluate::Evaluator;
use isomer_plan::heat::{HeatGraph, Sampling};
use isomer_plan::problem::{Cost, MappedDesign, MappedError, Placement, PlacementRules, Problem};
use isomer_plan::recording::{
    Access, KeyRef, KeyTable, OnFault, Recording, RecordingError, Skipped, Source, open,
};
use std::error::Error;
use std::path::PathBuf;

/// The most sites of a plan.
const SITES_MAX: usize = 60_000;

/// The common arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Input {
    /// The recording: CSV or compact, plain or zstd.
    pub(crate) trace: PathBuf,
    /// Number of sites.
    #[arg(long)]
    pub(crate) sites: usize,
    /// The current placement: a design, or table,from,site lines; by default every table in equal
    /// ranges.
    #[arg(long)]
    pub(crate) placement: Option<PathBuf>,
    /// The share of the recording, at its end, that plans are judged on but not made with.
    #[arg(long, default_value_t = 0.3, allow_negative_numbers = true)]
    pub(crate) hold_out: f64,
    /// The cost of a co-access between servers, in accesses.
    #[arg(long, default_value_t = 50.0, allow_negative_numbers = true)]
    pub(crate) k: f64,
    /// The same between sites of one server.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) k_near: Option<f64>,
    /// Sites on one server.
    #[arg(long, default_value_t = 1)]
    pub(crate) sites_per_server: usize,
    /// How far above the mean load a site may be, as a share.
    #[arg(long, default_value_t = 0.2, allow_negative_numbers = true)]
    pub(crate) imbalance: f64,
    /// Plan with a sample of the transactions: a share.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) sample: f64,
    /// Leave malformed lines out instead of stopping.
    #[arg(long)]
    pub(crate) skip_faults: bool,
}

/// The parsed input.
pub(crate) struct Loaded {
    pub(crate) earlier: Recording,
    pub(crate) later: Recording,
    /// The earlier part's graph, possibly of a sample.
    pub(crate) graph: HeatGraph,
    pub(crate) placement: Placement,
    /// The design that the placement was read from.
    design: Option<MappedDesign>,
    pub(crate) cost: Cost,
    pub(crate) imbalance: f64,
    /// Warnings about the input.
    pub(crate) notes: Vec<String>,
}

impl Input {
    /// How to treat malformed lines.
    fn on_fault(&self) -> OnFault {
        if self.skip_faults { OnFault::Skip } else { OnFault::Stop }
    }

    /// The recording's name, for titles.
    pub(crate) fn name(&self) -> String {
        self.trace.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Reads the recording and the placement, and builds the graph.
    pub(crate) fn load(&self, progress: &mut Progress) -> Result<Loaded, Box<dyn Error>> {
        self.load_knowing(progress, [])
    }

    /// Like [`Input::load`], with further keys to place, which the recording may not have.
    pub(crate) fn load_knowing<'k>(
        &self,
        progress: &mut Progress,
        known: impl IntoIterator<Item = (&'k str, KeyRef<'k>)>,
    ) -> Result<Loaded, Box<dyn Error>> {
        if self.sites == 0 || self.sites > SITES_MAX {
            return Err(format!("{} sites: 1 to {SITES_MAX} are possible", self.sites).into());
        }
        let mut source = open(open_file(&self.trace)?, self.on_fault())
            .map_err(|error| format!("{}: {error}", self.trace.display()))?;
        let counted = Counted { source: &mut source, read: 0, progress };
        let recording = Recording::read_knowing(counted, known)
            .map_err(|error| format!("{}: {error}", self.trace.display()))?;
        let mut notes = skipped_notes(source.skipped());
        let (earlier, later) = recording.hold_out(self.hold_out)?;
        if later.is_empty() || earlier.is_empty() {
            return Err("one transaction cannot be cut in two: record more".into());
        }
        progress.stage("building the heat graph");
        let sampling = Sampling::new(self.sample, 1)?;
        let graph = HeatGraph::of(&earlier, sampling)?;
        if self.sample < 1.0 {
            let error = 100.0 * sampling.site_error(&graph, self.sites);
            notes.push(format!("sampled: a site's mean load is known within {error:.1} %"));
        }
        let (placement, design) = self.place(graph.keys(), &mut notes)?;
        let near = self.k_near.unwrap_or(self.k);
        let cost = Cost { far: self.k, near, sites_per_server: self.sites_per_server };
        let imbalance = self.imbalance;
        let loaded = Loaded { earlier, later, graph, placement, design, cost, imbalance, notes };
        loaded.problem().validate()?;
        Ok(loaded)
    }

    /// Reads the current placement, and the design if the file has one.
    fn place(
        &self,
        keys: &KeyTable,
        notes: &mut Vec<String>,
    ) -> Result<(Placement, Option<MappedDesign>), Box<dyn Error>> {
        let Some(path) = &self.placement else {
            return Ok((Placement::by_range(keys, self.sites), None));
        };
        let name = |error: &dyn Error| format!("{}: {error}", path.display());
        let text = read_text(path)?;
        if !is_design(&text) {
            let rules = PlacementRules::parse(&text).map_err(|error| name(&error))?;
            notes.extend(rules.unrecorded(keys).map(|table| {
                format!("{}: rules for {table}, which was not recorded", path.display())
            }));
            return Ok((rules.place(keys, self.sites).map_err(|error| name(&error))?, None));
        }
        let design = Design::parse(&text).map_err(|error| name(&error))?;
        let mapped = MappedDesign::new(design, keys).map_err(|error| name(&error))?;
        let mut placement = mapped.placement();
        if placement.sites() > self.sites {
            let (there, asked) = (placement.sites(), self.sites);
            let wrong = format!("the design has {there} sites: give --sites {there}, not {asked}");
            return Err(format!("{}: {wrong}", path.display()).into());
        }
        placement.add_sites(self.sites - placement.sites());
        Ok((placement, Some(mapped)))
    }
}

/// A design begins with its sites, a list of rules with the names of its columns.
fn is_design(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.find(|line| !line.starts_with('#')).is_some_and(|line| line.starts_with("sites"))
}

impl Loaded {
    /// The problem that the planners get.
    pub(crate) fn problem(&self) -> Problem<'_> {
        let Loaded { graph, placement, cost, imbalance, .. } = self;
        Problem { graph, placement, cost: *cost, imbalance: *imbalance }
    }

    /// The current placement as a design.
    pub(crate) fn design(&self) -> Result<MappedDesign, MappedError> {
        match &self.design {
            Some(design) => Ok(design.clone()),
            None => MappedDesign::of_placement(self.graph.keys(), &self.placement),
        }
    }

    /// Evaluators of the earlier and the later part.
    pub(crate) fn evaluators(&self) -> Result<[Evaluator<'_>; 2], Box<dyn Error>> {
        Ok([Evaluator::new(&self.earlier, self.cost)?, Evaluator::new(&self.later, self.cost)?])
    }
}

/// Notes about lines that were skipped.
pub(crate) fn skipped_notes(skipped: Skipped<'_>) -> Vec<String> {
    let mut notes: Vec<String> =
        skipped.first.iter().map(|fault| format!("left out: {fault}")).collect();
    if skipped.lines > 0 {
        notes.push(format!("{} malformed lines were left out", skipped.lines));
    }
    notes
}

/// A source that reports its progress.
pub(crate) struct Counted<'p, S> {
    pub(crate) source: S,
    pub(crate) read: u64,
    pub(crate) progress: &'p mut Progress,
}

impl<S: Source> Source for Counted<'_, S> {
    fn next_access(&mut self) -> Result<Option<Access<'_>>, RecordingError> {
        self.read += 1;
        if self.read.is_multiple_of(65_536) {
            let millions = self.read as f64 / 1e6;
            self.progress.tick(|| format!("reading: {millions:.1} million accesses"));
        }
        self.source.next_access()
    }

    fn skipped(&self) -> Skipped<'_> {
        self.source.skipped()
    }
}
