//! `isomer-lab run hermes`: experiments on transactions in a total order.

use super::RunArgs;
use super::run::{carry_out, costs};
use crate::loads;
use isomer::failure::Failure;
use isomer::out;
use isomer_lab::ordered::{
    Experiment, Load, Measured, Sample, System, WorkloadSpec, draw, page, run as run_in_lab,
};
use isomer_plan::generate::LoadTrace;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The name of all experiments of this kind.
pub(super) const ALL: &str = "hermes";

/// One run.
struct Job {
    /// Indexes of its experiment, and of its sample in that.
    sample: (usize, usize),
    experiment: Experiment,
    system: System,
    seed: u64,
}

/// The experiments that `args` names, if they are of this kind; `None` otherwise.
pub(super) fn meant(args: &RunArgs) -> Result<Option<Vec<Experiment>>, Failure> {
    let mut found = match args.what.as_str() {
        ALL => Experiment::all(),
        file if Path::new(file).exists() => {
            let wrong = |error: String| Failure::usage(format!("{file}: {error}"));
            let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
            let table: toml::Table =
                text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
            if !table.contains_key("batch") {
                return Ok(None);
            }
            vec![Experiment::read(&text).map_err(wrong)?]
        }
        name => {
            Experiment::all().into_iter().filter(|experiment| experiment.name == name).collect()
        }
    };
    for experiment in &mut found {
        if args.smoke {
            *experiment = experiment.smoke();
        }
        if let Some(seeds) = args.seeds {
            experiment.seeds = seeds;
        }
        if !args.systems.is_empty() {
            experiment.systems.clone_from(&args.systems);
        }
    }
    Ok((!found.is_empty()).then_some(found))
}

/// Runs the experiments and prints or writes their results.
pub(super) fn run(args: &RunArgs, experiments: &[Experiment]) -> Result<(), Failure> {
    let (mut jobs, mut samples) = (Vec::new(), Vec::new());
    for (at, experiment) in experiments.iter().enumerate() {
        let mut of_this: Vec<Sample> = Vec::new();
        for name in &experiment.systems {
            let system = System::named(name).map_err(Failure::usage)?;
            for (x, point) in experiment.points() {
                let sample = (at, of_this.len());
                let (runs, failures) = (Vec::new(), Vec::new());
                of_this.push(Sample { system: name.clone(), x, runs, failures });
                let job = |seed| Job { sample, experiment: point.clone(), system, seed };
                jobs.extend((1..=experiment.seeds).map(job));
            }
        }
        samples.push(of_this);
    }
    let (loads, costs) = (loads_of(experiments)?, costs(args)?);
    let work = |job: &Job| {
        let load = &loads[&load_of(&job.experiment)];
        run_in_lab(&job.experiment, &job.system, &costs, load, job.seed, args.smoke)
    };
    let results = carry_out(&jobs, args.threads, work, told);
    for (job, result) in jobs.iter().zip(results) {
        let sample = &mut samples[job.sample.0][job.sample.1];
        match result {
            Ok(measured) => sample.runs.push(measured),
            Err(why) => sample.failures.push(why),
        }
    }
    tell(args, experiments, &samples)
}

/// The machine loads of an experiment. Workloads without such loads get one that they ignore.
fn load_of(experiment: &Experiment) -> Load {
    match &experiment.workload {
        WorkloadSpec::Google(google) => google.load,
        _ => Load::Wandering,
    }
}

fn loads_of(experiments: &[Experiment]) -> Result<BTreeMap<Load, LoadTrace>, Failure> {
    let read = |experiment| {
        let load = load_of(experiment);
        loads::built_in(load).map(|trace| (load, trace)).map_err(Failure::failed)
    };
    experiments.iter().map(read).collect()
}

fn told(job: &Job, result: &Result<Measured, String>, seconds: f64) -> String {
    let what = match result {
        Ok(run) => format!(
            "{:.0}/s, {:.1} ms ({:.0} a real second)",
            run.throughput_per_s,
            run.latency_ms,
            run.simulated as f64 / seconds
        ),
        Err(why) => why.clone(),
    };
    let Job { experiment, system, seed, .. } = job;
    format!("{} {} seed {seed}: {what}", experiment.name, system.name)
}

fn tell(
    args: &RunArgs,
    experiments: &[Experiment],
    samples: &[Vec<Sample>],
) -> Result<(), Failure> {
    let (mut lines, mut sections, mut all) = (String::new(), String::new(), Vec::new());
    for (experiment, samples) in experiments.iter().zip(samples) {
        let mut plots = Vec::new();
        if let Some(folder) = &args.out {
            fs::create_dir_all(folder).map_err(Failure::failed)?;
            plots = draw(folder, experiment, samples).map_err(Failure::failed)?;
        }
        sections += &page::section(experiment, samples, &plots);
        for row in page::rows(experiment, samples) {
            lines += &serde_json::to_string(&row).map_err(Failure::failed)?;
            lines.push('\n');
        }
        all.push((experiment, &samples[..]));
    }
    let seeds = args.seeds.map(|seeds| format!(" --seeds {seeds}")).unwrap_or_default();
    let text = page::head(&format!("isomer-lab run {}{seeds}", args.what), &all) + &sections;
    match args.json {
        true => out::print(&lines),
        false => out::print(&text),
    }
    if let Some(folder) = &args.out {
        fs::write(folder.join("hermes.jsonl"), &lines).map_err(Failure::failed)?;
        fs::write(folder.join("hermes.md"), text.trim_end().to_owned() + "\n")
            .map_err(Failure::failed)?;
    }
    let failures: usize = samples.iter().flatten().map(|sample| sample.failures.len()).sum();
    if failures == 0 { Ok(()) } else { Err(Failure::Told) }
}
