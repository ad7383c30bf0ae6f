//! Ratios that hold on a noisy machine: both sides in one run, in interleaved blocks, and the
//! first side against itself to show the noise.

/// One thing against another, block by block.
pub(crate) struct Comparison {
    /// The other over the one.
    pub(crate) ratios: Vec<f64>,
    /// The one over itself.
    pub(crate) noise: Vec<f64>,
}

/// Measures in `blocks` blocks of the order one, other, one; a measure is a time, in any unit.
pub(crate) fn compare(
    blocks: usize,
    mut one: impl FnMut() -> f64,
    mut other: impl FnMut() -> f64,
) -> Comparison {
    one();
    other();
    let mut comparison = Comparison { ratios: Vec::new(), noise: Vec::new() };
    for _ in 0..blocks {
        let first = one();
        let middle = other();
        let last = one();
        comparison.ratios.push(middle / ((first + last) / 2.0));
        comparison.noise.push(last / first);
    }
    comparison
}

impl Comparison {
    /// Prints the medians and their upper bounds; whether the ratio's bound is at most `most`.
    pub(crate) fn report(&self, what: &str, most: f64) -> bool {
        let (ratio, noise) = (median(&self.ratios), median(&self.noise));
        let upper = upper_bound(&self.ratios);
        let holds = upper <= most;
        println!(
            "{what}: {ratio:.2}, at most {upper:.2} at 95 % (bound {most:.2}, {}); the first \
             against itself {noise:.2}, at most {:.2}; {} blocks",
            if holds { "holds" } else { "BROKEN" },
            upper_bound(&self.noise),
            self.ratios.len()
        );
        holds
    }
}

/// The middle of `values`.
pub(crate) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    } else {
        sorted[middle]
    }
}

/// A one-sided 95 % upper confidence bound of the median, by order statistics: the smallest value
/// with at most a 5 % chance that so few of n fair coins fall on its far side.
pub(crate) fn upper_bound(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let n = sorted.len();
    let mut chance = 0.5f64.powi(i32::try_from(n).expect("a few blocks"));
    let mut below = chance;
    let mut at = n - 1;
    for k in 1..n {
        chance *= (n - k + 1) as f64 / k as f64;
        below += chance;
        if below > 0.05 {
            break;
        }
        at -= 1;
    }
    sorted[at]
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}
