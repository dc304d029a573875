//! Runs experiments: each run of each experiment is a job, and threads take the jobs in order.

use super::{AblationArgs, RunArgs, ordered};
use isomer::failure::Failure;
use isomer::{clock, out};
use isomer_lab::{
    Costs, Experiment, Measured, Row, Sample, System, ablation_experiments, ablation_page,
    claims_experiments, claims_page, draw, page, rows, rules,
};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One run.
struct Job {
    /// Indexes of its experiment, and of its sample in that.
    sample: (usize, usize),
    /// The value of the varied parameter.
    x: Option<f64>,
    experiment: Experiment,
    system: System,
    seed: u64,
}

/// Runs the experiments that `args` names, and prints or writes their results.
pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    if let Some(experiments) = ordered::meant(args)? {
        return ordered::run(args, &experiments);
    }
    let experiments = experiments(args)?;
    let systems = systems(&experiments)?;
    let samples = samples(&experiments, &systems, args.threads, &costs(args)?);
    tell(args, &experiments, &samples)
}

/// Runs the autopilot without each of its rules, and beside every other system.
pub(super) fn ablation(args: &AblationArgs) -> Result<(), Failure> {
    let asked = |mut experiments: Vec<Experiment>| {
        for experiment in &mut experiments {
            match args.smoke {
                true => *experiment = experiment.smoke(),
                false => experiment.seeds = args.seeds,
            }
        }
        experiments
    };
    let experiments = asked(ablation_experiments());
    let without: Vec<System> = rules().iter().map(|rule| rule.system).collect();
    let without = vec![without; experiments.len()];
    let of_rules = samples(&experiments, &without, args.threads, &Costs::standard());
    let ablation = ablation_page(&experiments, &of_rules);
    let experiments = asked(claims_experiments());
    let systems = systems(&experiments)?;
    let of_systems = samples(&experiments, &systems, args.threads, &Costs::standard());
    let claims = claims_page(&experiments, &of_systems);
    for (name, text) in [("ablation.md", &ablation), ("claims.md", &claims)] {
        out::print(text);
        if let Some(folder) = &args.out {
            fs::create_dir_all(folder).map_err(Failure::failed)?;
            fs::write(folder.join(name), text).map_err(Failure::failed)?;
        }
    }
    let all = of_rules.iter().chain(&of_systems).flatten();
    let failures: usize = all.map(|sample| sample.failures.len()).sum();
    if failures == 0 { Ok(()) } else { Err(Failure::Told) }
}

/// The systems of each experiment.
fn systems(experiments: &[Experiment]) -> Result<Vec<Vec<System>>, Failure> {
    let named = |experiment: &Experiment| -> Result<Vec<System>, Failure> {
        experiment.systems.iter().map(|name| System::named(name).map_err(Failure::usage)).collect()
    };
    experiments.iter().map(named).collect()
}

/// Runs each experiment with each of its systems, at each point, with each seed.
fn samples(
    experiments: &[Experiment],
    systems: &[Vec<System>],
    threads: Option<u16>,
    costs: &Costs,
) -> Vec<Vec<Sample>> {
    let (mut jobs, mut samples) = (Vec::new(), Vec::new());
    for (at, (experiment, systems)) in experiments.iter().zip(systems).enumerate() {
        let mut of_this: Vec<Sample> = Vec::new();
        for &system in systems {
            for (x, point) in experiment.points() {
                let sample = (at, of_this.len());
                of_this.push(Sample {
                    system: system.name.to_owned(),
                    x,
                    runs: Vec::new(),
                    failures: Vec::new(),
                });
                let job = |seed| Job { sample, x, experiment: point.clone(), system, seed };
                jobs.extend((1..=experiment.seeds).map(job));
            }
        }
        samples.push(of_this);
    }
    let work = |job: &Job| isomer_lab::run(&job.experiment, &job.system, costs, job.seed);
    for (job, result) in jobs.iter().zip(carry_out(&jobs, threads, work, told)) {
        let sample: &mut Sample = &mut samples[job.sample.0][job.sample.1];
        match result {
            Ok(measured) => sample.runs.push(measured),
            Err(why) => sample.failures.push(why),
        }
    }
    samples
}

fn experiments(args: &RunArgs) -> Result<Vec<Experiment>, Failure> {
    let mut found = match args.what.as_str() {
        "all" => Experiment::all(),
        file if Path::new(file).exists() => {
            let text = fs::read_to_string(file)
                .map_err(|error| Failure::failed(format!("{file}: {error}")))?;
            vec![
                Experiment::read(&text)
                    .map_err(|error| Failure::usage(format!("{file}: {error}")))?,
            ]
        }
        name => vec![Experiment::named(name).map_err(Failure::usage)?],
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
    Ok(found)
}

/// The table of costs that `args` names.
pub(super) fn costs(args: &RunArgs) -> Result<Costs, Failure> {
    let Some(file) = &args.costs else { return Ok(Costs::standard()) };
    let wrong = |what: String| Failure::usage(format!("{}: {what}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    Costs::read(&text).map_err(wrong)
}

/// Runs jobs in parallel and reports each on standard error. The results are in the order of the
/// jobs.
pub(super) fn carry_out<J: Sync, M: Send>(
    jobs: &[J],
    threads: Option<u16>,
    work: impl Fn(&J) -> Result<M, String> + Sync,
    told: impl Fn(&J, &Result<M, String>, f64) -> String + Sync,
) -> Vec<Result<M, String>> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.map_or_else(cores, usize::from);
    let results: Mutex<Vec<Option<Result<M, String>>>> =
        Mutex::new(jobs.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at) else { break };
                    let begun = clock::now();
                    let result = work(job);
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    let what = told(job, &result, begun.elapsed().as_secs_f64());
                    eprintln!("{done} of {}: {what}", jobs.len());
                    results.lock().expect("no thread panics with it")[at] = Some(result);
                }
            });
        }
    });
    let results = results.into_inner().expect("no thread panics with it");
    results.into_iter().map(|result| result.expect("every job was taken")).collect()
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
    let Job { x, experiment, system, seed, .. } = job;
    let at = x.map(|x| format!(" at {x}")).unwrap_or_default();
    format!("{}{at} {} seed {seed}: {what}", experiment.name, system.name)
}

fn tell(
    args: &RunArgs,
    experiments: &[Experiment],
    samples: &[Vec<Sample>],
) -> Result<(), Failure> {
    let (mut all, mut sections) = (Vec::<Row>::new(), String::new());
    for (experiment, samples) in experiments.iter().zip(samples) {
        let rows = rows(experiment, samples);
        let plot = format!("{}.svg", experiment.name);
        if let Some(folder) = &args.out {
            fs::create_dir_all(folder).map_err(Failure::failed)?;
            draw(&folder.join(&plot), experiment, samples).map_err(Failure::failed)?;
        }
        let plot = args.out.as_ref().map(|_| plot.as_str());
        sections += &page::section(experiment, samples, &rows, plot);
        all.extend(rows);
    }
    let seeds = args.seeds.map(|seeds| format!(" --seeds {seeds}")).unwrap_or_default();
    let text = page::head(&format!("isomer-lab run {}{seeds}", args.what), &all) + &sections;
    let lines: Result<Vec<String>, _> = all.iter().map(serde_json::to_string).collect();
    let lines = lines.map_err(Failure::failed)?.join("\n") + "\n";
    match args.json {
        true => out::print(&lines),
        false => out::print(&text),
    }
    if let Some(folder) = &args.out {
        fs::write(folder.join("morphosys.jsonl"), &lines).map_err(Failure::failed)?;
        fs::write(folder.join("morphosys.md"), &text).map_err(Failure::failed)?;
    }
    let failures: usize = samples.iter().flatten().map(|sample| sample.failures.len()).sum();
    if failures == 0 { Ok(()) } else { Err(Failure::Told) }
}
