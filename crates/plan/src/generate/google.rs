//! YCSB under the load of a real cluster (Hermes, section 5.2).
//!
//! Every transaction touches two keys. A load trace that changes with time selects the machine. The
//! first key comes from its range by Zipf, newest first. With probability one half the second key
//! does too. Otherwise it comes from a two-sided Zipf over all keys; its centre moves through the
//! whole key space three times. Half of the transactions write both keys. The paper has longer
//! transactions as well ([`Google::with_length`]).

use super::{GenerateError, KEYS_MAX, Random, Touch, Workload, Zipf, at_least_one, sized};
use rand::RngExt;
use rand_distr::{Distribution, Normal};

/// Load per machine over time.
#[derive(Clone, Debug)]
pub struct LoadTrace {
    /// One row per point in time, one load per machine.
    points: Vec<Vec<f64>>,
}

impl LoadTrace {
    /// From rows of loads, all of one length.
    pub fn new(points: Vec<Vec<f64>>) -> Result<LoadTrace, GenerateError> {
        at_least_one("points of the load trace", points.len() as u64)?;
        at_least_one("machines of the load trace", points[0].len() as u64)?;
        for row in &points {
            if row.len() != points[0].len() {
                let right = "the same number of machines at every point";
                return Err(GenerateError { what: "machines", value: row.len() as f64, right });
            }
            let sane = |load: &&f64| !(load.is_finite() && **load >= 0.0);
            if let Some(&value) = row.iter().find(sane) {
                let right = "a finite load of at least 0";
                return Err(GenerateError { what: "load of a machine", value, right });
            }
        }
        Ok(LoadTrace { points })
    }

    /// A substitute for a recorded trace: every machine idles at 1, and one after the other spikes
    /// to ten times that.
    pub fn wandering(machines: usize) -> Result<LoadTrace, GenerateError> {
        sized("machines", machines as u64, 10_000, "at most 10 thousand")?;
        let row = |hot: usize| (0..machines).map(|m| if m == hot { 10.0 } else { 1.0 }).collect();
        LoadTrace::new((0..machines).map(row).collect())
    }

    /// The loads of the first `machines` machines only.
    pub fn first(&self, machines: usize) -> Result<LoadTrace, GenerateError> {
        if self.points[0].len() < machines {
            let (value, right) = (machines as f64, "no more than the load trace has");
            return Err(GenerateError { what: "machines", value, right });
        }
        LoadTrace::new(self.points.iter().map(|row| row[..machines].to_vec()).collect())
    }

    fn draw(&self, share: f64, random: &mut Random) -> usize {
        let at = ((share * self.points.len() as f64) as usize).min(self.points.len() - 1);
        let row = &self.points[at];
        let mut aim = random.random::<f64>() * row.iter().sum::<f64>();
        for (machine, &load) in row.iter().enumerate() {
            aim -= load;
            if aim < 0.0 {
                return machine;
            }
        }
        random.random_range(0..row.len())
    }
}

/// The generator.
#[derive(Clone, Debug)]
pub struct Google {
    trace: LoadTrace,
    keys_per_machine: u64,
    length_us: f64,
    local: Zipf,
    global: Zipf,
    /// The number of keys of a transaction: two, or drawn from a normal distribution.
    length: Option<Normal<f64>>,
    /// The number of steps in which the load and the centre change, if they change in steps.
    steps: Option<u32>,
}

impl Google {
    /// A generator with `keys_per_machine` keys per machine (10 million in the paper). The trace is
    /// stretched over `seconds`; `theta` is Zipf's parameter (0.9 or 0.99).
    pub fn new(
        trace: LoadTrace,
        keys_per_machine: u64,
        seconds: f64,
        theta: f64,
    ) -> Result<Google, GenerateError> {
        sized(
            "keys per machine",
            keys_per_machine,
            KEYS_MAX / trace.points[0].len() as u64,
            "at most 2^40 keys in all",
        )?;
        if !(seconds.is_finite() && seconds > 0.0) {
            let right = "a finite time above 0";
            return Err(GenerateError { what: "seconds", value: seconds, right });
        }
        let all = keys_per_machine * trace.points[0].len() as u64;
        let (local, global) = (Zipf::new(keys_per_machine, theta)?, Zipf::new(all, theta)?);
        let length_us = seconds * 1e6;
        let (length, steps) = (None, None);
        Ok(Google { trace, keys_per_machine, length_us, local, global, length, steps })
    }

    /// The same with the length of transactions drawn from a normal distribution, at least 1
    /// (section 5.2.6).
    pub fn with_length(mut self, mean: f64, deviation: f64) -> Result<Google, GenerateError> {
        let sane = mean.is_finite() && mean >= 1.0 && deviation.is_finite() && deviation >= 0.0;
        let right = "a mean of at least 1 and a deviation of at least 0";
        let error = GenerateError { what: "the mean length of a transaction", value: mean, right };
        self.length = Some(Normal::new(mean, deviation).ok().filter(|_| sane).ok_or(error)?);
        Ok(self)
    }

    /// The same with loads and a centre that change in `steps` steps and stay constant in between.
    /// The public code has 2160 steps of one second.
    pub fn in_steps(self, steps: u32) -> Result<Google, GenerateError> {
        at_least_one("steps", u64::from(steps))?;
        Ok(Google { steps: Some(steps), ..self })
    }

    fn local_key(&self, machine: usize, random: &mut Random) -> u64 {
        let newest = (machine as u64 + 1) * self.keys_per_machine - 1;
        newest - self.local.draw(random)
    }

    fn global_key(&self, share: f64, random: &mut Random) -> u64 {
        let all = self.keys_per_machine * self.trace.points[0].len() as u64;
        let centre = ((share * 3.0).fract() * all as f64) as u64;
        let far = self.global.draw(random);
        match random.random_bool(centre as f64 / all as f64) {
            true => centre.saturating_sub(far),
            false => (centre + far).min(all - 1),
        }
    }
}

impl Workload for Google {
    fn tables(&self) -> &'static [&'static str] {
        &["usertable"]
    }

    fn transaction(&mut self, at_us: i64, random: &mut Random, touches: &mut Vec<Touch>) {
        let mut share = (at_us as f64 / self.length_us).clamp(0.0, 1.0);
        if let Some(steps) = self.steps {
            share = (share * f64::from(steps)).floor() / f64::from(steps);
        }
        let machine = self.trace.draw(share, random);
        let keys = self.length.map_or(2, |length| length.sample(random).round().max(1.0) as usize);
        let begin = touches.len();
        let mut touch = |key: u64| touches.push(Touch { table: 0, key: key as i64, write: false });
        touch(self.local_key(machine, random));
        let is_distributed = random.random_bool(0.5);
        for at in 1..keys {
            // Half of the keys of a distributed transaction are anywhere: of two keys, the second.
            touch(match is_distributed && at % 2 == 1 {
                true => self.global_key(share, random),
                false => self.local_key(machine, random),
            });
        }
        let write = random.random_bool(0.5);
        touches[begin..].iter_mut().for_each(|touch| touch.write = write);
    }
}
