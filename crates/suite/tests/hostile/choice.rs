//! Which combinations are tried: all, or a share that a seed chooses.

#[derive(Clone, Copy)]
pub struct Choice {
    pub seed: u64,
    /// One of so many combinations.
    pub share: u64,
}

impl Choice {
    /// As the environment says.
    pub fn given() -> Self {
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
        // The same each time, so that a share fails for what was changed only.
        Self { seed: number("HOSTILE_SEED").unwrap_or(1), share: number("HOSTILE_SHARE").unwrap_or(1).max(1) }
    }

    /// Whether the combination of an object, a call and a way, by their places in the lists, is among them.
    pub fn has(self, (object, call, way): (usize, usize, usize)) -> bool {
        let number = (object * 1009 + call) * 4 + way;
        fastrand::Rng::with_seed(self.seed ^ number as u64).u64(..self.share) == 0
    }
}
