//! Counting pairs: sorted runs of (pair, count), merged like the levels of a log-structured tree.

/// Pairs gathered before they are sorted: 32 MiB.
const BATCH: usize = 1 << 22;

/// Two vertices as one number, the lower in the high half.
pub(super) fn pair(a: u32, b: u32) -> u64 {
    u64::from(a.min(b)) << 32 | u64::from(a.max(b))
}

/// The two vertices of a pair, lower first.
pub(super) fn ends(pair: u64) -> (u32, u32) {
    ((pair >> 32) as u32, pair as u32)
}

/// Counts how often each pair was added.
#[derive(Default)]
pub(super) struct PairCounter {
    batch: Vec<u64>,
    scratch: Vec<u64>,
    /// Sorted runs, each at least twice as long as the next.
    runs: Vec<Vec<(u64, u32)>>,
}

impl PairCounter {
    /// Adds one pair.
    pub(super) fn add(&mut self, pair: u64) {
        self.batch.push(pair);
        if self.batch.len() == BATCH {
            self.flush();
        }
    }

    /// All pairs in order, with their counts.
    pub(super) fn finish(mut self) -> Vec<(u64, u32)> {
        self.flush();
        self.scratch = Vec::new();
        let mut all = self.runs.pop().unwrap_or_default();
        while let Some(run) = self.runs.pop() {
            all = merge(&run, &all);
        }
        all
    }

    fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        sort(&mut self.batch, &mut self.scratch);
        let mut run = Vec::with_capacity(self.batch.len());
        for same in self.batch.chunk_by(|a, b| a == b) {
            run.push((same[0], same.len() as u32));
        }
        self.batch.clear();
        while self.runs.last().is_some_and(|last| last.len() < 2 * run.len()) {
            let last = self.runs.pop().unwrap_or_default();
            run = merge(&last, &run);
        }
        self.runs.push(run);
    }
}

fn merge(a: &[(u64, u32)], b: &[(u64, u32)]) -> Vec<(u64, u32)> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while let (Some(&x), Some(&y)) = (a.get(i), b.get(j)) {
        match x.0.cmp(&y.0) {
            std::cmp::Ordering::Less => {
                out.push(x);
                i += 1;
            }
            std::cmp::Ordering::Greater => {
                out.push(y);
                j += 1;
            }
            std::cmp::Ordering::Equal => {
                out.push((x.0, x.1.saturating_add(y.1)));
                i += 1;
                j += 1;
            }
        }
    }
    out.extend_from_slice(&a[i..]);
    out.extend_from_slice(&b[j..]);
    out
}

/// Radix sort, eleven bits a pass, leaving out the passes in which all numbers agree.
pub(super) fn sort(numbers: &mut Vec<u64>, scratch: &mut Vec<u64>) {
    const BITS: u32 = 11;
    if numbers.len() < 1 << 12 {
        numbers.sort_unstable();
        return;
    }
    let differing = numbers.iter().fold(0, |bits, number| bits | (number ^ numbers[0]));
    scratch.resize(numbers.len(), 0);
    for shift in (0..64).step_by(BITS as usize) {
        let mask = (1u64 << BITS) - 1;
        if differing >> shift & mask == 0 {
            continue;
        }
        let digit = |number: u64| (number >> shift & mask) as usize;
        let mut places = [0usize; 1 << BITS];
        numbers.iter().for_each(|&number| places[digit(number)] += 1);
        let mut sum = 0;
        for place in &mut places {
            sum += std::mem::replace(place, sum);
        }
        for &number in numbers.iter() {
            let place = &mut places[digit(number)];
            scratch[*place] = number;
            *place += 1;
        }
        std::mem::swap(numbers, scratch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_across_batches() {
        let mut counter = PairCounter::default();
        let mut state = 1u64;
        let mut expected = std::collections::BTreeMap::new();
        for step in 0..20_000u32 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let made = pair((state >> 40) as u32 % 90, (state >> 20) as u32 % 90_000);
            counter.add(made);
            *expected.entry(made).or_insert(0u32) += 1;
            if step % 5000 == 0 {
                counter.flush();
            }
        }
        assert_eq!(counter.finish(), expected.into_iter().collect::<Vec<_>>());
    }
}
