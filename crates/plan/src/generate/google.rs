//! YCSB under the load of a real cluster (Hermes, section 5.2).
//!
//! Every transaction touches two keys. The machine is drawn by a load trace that changes with
//! time; the first key comes from its range by Zipf, newest first. With probability one half the
//! second does too, else it comes from a two-sided Zipf over all keys around a centre that moves
//! through the whole key space three times. Half of the transactions write both keys.

use super::{GenerateError, KEYS_MAX, Random, Touch, Workload, Zipf, at_least_one, sized};
use rand::RngExt;

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

    /// A stand-in for a recorded trace: every machine idles at 1, and one after the other spikes
    /// to ten times that.
    pub fn wandering(machines: usize) -> Result<LoadTrace, GenerateError> {
        sized("machines", machines as u64, 10_000, "at most 10 thousand")?;
        let row = |hot: usize| (0..machines).map(|m| if m == hot { 10.0 } else { 1.0 }).collect();
        LoadTrace::new((0..machines).map(row).collect())
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
}

impl Google {
    /// Over `keys_per_machine` keys each (10 million in the paper); the trace is stretched over
    /// `seconds`; `theta` is Zipf's (0.9 or 0.99).
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
        Ok(Google { trace, keys_per_machine, length_us: seconds * 1e6, local, global })
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
        let share = (at_us as f64 / self.length_us).clamp(0.0, 1.0);
        let machine = self.trace.draw(share, random);
        let first = self.local_key(machine, random);
        let second = match random.random_bool(0.5) {
            true => self.global_key(share, random),
            false => self.local_key(machine, random),
        };
        let write = random.random_bool(0.5);
        touches.extend([first, second].map(|key| Touch { table: 0, key: key as i64, write }));
    }
}
