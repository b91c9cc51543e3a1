//! Pairwise coverage: rows of values in which every two values of different factors occur together.

use fastrand::Rng;

/// Number of random candidate rows compared for each row that is kept.
const CANDIDATES: usize = 40;

/// Returns the rows for factors with these numbers of values, found greedily: each begins with an uncovered pair, and of many
/// random completions the one that covers most new pairs is kept. The same factors give the same rows.
pub fn covering(factors: &[usize]) -> Vec<Vec<usize>> {
    let mut uncovered = UncoveredPairs::all(factors);
    let mut random = Rng::with_seed(factors.len() as u64);
    let mut rows = Vec::new();
    while let Some(pair) = uncovered.first() {
        let candidates = (0..CANDIDATES).map(|_| uncovered.complete(pair, factors, &mut random));
        let row = candidates.max_by_key(|row| uncovered.new_pairs(row)).expect("there are candidates");
        uncovered.remove(&row);
        rows.push(row);
    }
    rows
}

/// Two values of different factors, each as factor and value, with the earlier factor first.
type Pair = ((usize, usize), (usize, usize));

/// The pairs that are not covered yet.
struct UncoveredPairs {
    /// Ordered by the two factors, then the two values.
    pairs: std::collections::BTreeSet<Pair>,
}

impl UncoveredPairs {
    fn all(factors: &[usize]) -> Self {
        let mut pairs = std::collections::BTreeSet::new();
        for (first, one) in factors.iter().enumerate() {
            for (second, other) in factors.iter().enumerate().skip(first + 1) {
                for value in 0..*one {
                    pairs.extend((0..*other).map(|with| ((first, value), (second, with))));
                }
            }
        }
        Self { pairs }
    }

    fn first(&self) -> Option<Pair> {
        self.pairs.first().copied()
    }

    /// Returns a row with this pair; the other factors, in random order, each get the value that covers most new pairs.
    fn complete(&self, pair: Pair, factors: &[usize], random: &mut Rng) -> Vec<usize> {
        let mut row: Vec<Option<usize>> = vec![None; factors.len()];
        for (factor, value) in [pair.0, pair.1] {
            row[factor] = Some(value);
        }
        let mut open: Vec<usize> = (0..factors.len()).filter(|factor| row[*factor].is_none()).collect();
        random.shuffle(&mut open);
        for factor in open {
            let offset = random.usize(..factors[factor]);
            let values = (0..factors[factor]).map(|value| (value + offset) % factors[factor]);
            row[factor] = values.max_by_key(|value| self.new_with(&row, (factor, *value)));
        }
        row.into_iter().map(Option::unwrap_or_default).collect()
    }

    fn new_with(&self, row: &[Option<usize>], one: (usize, usize)) -> usize {
        let others = row.iter().enumerate().filter_map(|(factor, value)| Some((factor, (*value)?)));
        others.filter(|other| self.pairs.contains(&(one.min(*other), one.max(*other)))).count()
    }

    fn new_pairs(&self, row: &[usize]) -> usize {
        pairs_of(row).filter(|pair| self.pairs.contains(pair)).count()
    }

    fn remove(&mut self, row: &[usize]) {
        for pair in pairs_of(row) {
            self.pairs.remove(&pair);
        }
    }
}

fn pairs_of(row: &[usize]) -> impl Iterator<Item = Pair> {
    let values = move |from: usize| row.iter().copied().enumerate().skip(from);
    values(0).flat_map(move |one| values(one.0 + 1).map(move |other| (one, other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_cover_every_two_values() {
        let factors = [10, 10, 7, 3, 3, 3, 2, 2, 2];
        let rows = covering(&factors);
        let mut uncovered = UncoveredPairs::all(&factors);
        for row in &rows {
            assert!(row.iter().zip(&factors).all(|(value, factor)| value < factor));
            uncovered.remove(row);
        }
        assert_eq!(uncovered.first(), None);
        assert!(rows.len() < 140, "{} rows", rows.len());
        assert_eq!(rows, covering(&factors));
    }
}
