//! Zipf's law: item i is drawn with a probability proportional to 1/(i+1)^θ.

use super::{GenerateError, Random};
use rand::RngExt;

/// Items of a cumulative table; the rest of a long tail is drawn uniformly.
const TABLE_ITEMS: usize = 100_000;
/// Terms of ζ that are summed; the rest is integrated.
const ZETA_TERMS: u64 = 1_000_000;

/// Draws from 0 to n−1, 0 most often.
#[derive(Clone, Debug)]
pub struct Zipf {
    items: u64,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    /// Gray's closed formula, for θ < 1.
    Formula { theta: f64, zeta: f64, eta: f64 },
    /// Cumulative weights of the first items, and the weight of all, for θ ≥ 1.
    Table { cumulative: Vec<f64>, total: f64 },
}

impl Zipf {
    /// Over `items` items; θ = 0 is uniform.
    pub fn new(items: u64, theta: f64) -> Result<Zipf, GenerateError> {
        super::at_least_one("items", items)?;
        if !(theta.is_finite() && theta >= 0.0) {
            let right = "a finite number of at least 0";
            return Err(GenerateError { what: "Zipf's theta", value: theta, right });
        }
        let form = if theta < 1.0 { formula(items, theta) } else { table(items, theta) };
        Ok(Zipf { items, form })
    }

    /// Draws one.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let u: f64 = random.random();
        match &self.form {
            Form::Formula { theta, zeta, eta } => {
                let scaled = u * zeta;
                if scaled < 1.0 || self.items == 1 {
                    return 0;
                }
                if scaled < 1.0 + 0.5f64.powf(*theta) || self.items == 2 {
                    return 1;
                }
                let share = (eta * u - eta + 1.0).powf(1.0 / (1.0 - theta));
                ((self.items as f64 * share) as u64).min(self.items - 1)
            }
            Form::Table { cumulative, total } => {
                let aim = u * total;
                let item = cumulative.partition_point(|&sum| sum <= aim) as u64;
                if item < cumulative.len() as u64 || self.items <= cumulative.len() as u64 {
                    return item.min(self.items - 1);
                }
                random.random_range(cumulative.len() as u64..self.items)
            }
        }
    }
}

fn formula(items: u64, theta: f64) -> Form {
    let zeta = zeta(items, theta);
    let two = 1.0 + 0.5f64.powf(theta);
    let eta = (1.0 - (2.0 / items as f64).powf(1.0 - theta)) / (1.0 - two / zeta);
    Form::Formula { theta, zeta, eta }
}

fn zeta(items: u64, theta: f64) -> f64 {
    let summed = items.min(ZETA_TERMS);
    let sum: f64 = (1..=summed).map(|i| (i as f64).powf(-theta)).sum();
    let tail = |x: f64| x.powf(1.0 - theta) / (1.0 - theta);
    sum + if items > summed { tail(items as f64 + 0.5) - tail(summed as f64 + 0.5) } else { 0.0 }
}

fn table(items: u64, theta: f64) -> Form {
    let mut sum = 0.0;
    let kept = items.min(TABLE_ITEMS as u64);
    let cumulative: Vec<f64> = (1..=kept)
        .map(|i| {
            sum += (i as f64).powf(-theta);
            sum
        })
        .collect();
    let tail = |x: f64| if theta == 1.0 { x.ln() } else { x.powf(1.0 - theta) / (1.0 - theta) };
    let rest = if items > kept { tail(items as f64) - tail(kept as f64) } else { 0.0 };
    Form::Table { cumulative, total: sum + rest.max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn frequencies_follow_the_law() {
        for theta in [0.0, 0.1, 0.99, 1.0, 1.75] {
            let zipf = Zipf::new(50, theta).unwrap();
            let mut random = Random::seed_from_u64(7);
            let mut counts = [0u32; 50];
            (0..200_000).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
            let total: f64 = (1..=50).map(|i| f64::from(i).powf(-theta)).sum();
            for item in [0, 1, 2, 9, 30] {
                let expected = 200_000.0 * f64::from(item as u32 + 1).powf(-theta) / total;
                let ratio = f64::from(counts[item]) / expected;
                // Gray's formula is an approximation beyond the first two items.
                assert!((0.8..1.25).contains(&ratio), "theta {theta}, item {item}: {ratio}");
            }
        }
        assert!(Zipf::new(0, 0.5).is_err() && Zipf::new(5, f64::NAN).is_err());
    }
}
