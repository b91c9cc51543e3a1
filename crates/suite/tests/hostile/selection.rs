//! The selection of tested calls: all, or a share determined by a seed, which differs for each user in each stack.

#[derive(Clone, Copy)]
pub(crate) struct CallSelection {
    pub seed: u64,
    /// Number of calls of which one is selected.
    pub share: u64,
}

impl CallSelection {
    /// Reads the selection from the environment.
    pub(crate) fn from_environment() -> Self {
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
        // Fixed by default, so that new failures of a share come only from changes.
        Self { seed: number("HOSTILE_SEED").unwrap_or(1), share: number("HOSTILE_SHARE").unwrap_or(1).max(1) }
    }

    /// Returns the number of objects of which one is selected. Many calls on few objects are faster than few calls on
    /// many: objects that a call leaves unchanged are not recreated.
    fn objects(self) -> u64 {
        self.share.isqrt()
    }

    /// Returns whether a user in a stack tests the object with this index.
    pub(crate) fn has_object(self, trial: &str, object: usize) -> bool {
        self.number(&format!("{trial} {object}")).is_multiple_of(self.objects())
    }

    /// Returns whether a call is tested on a selected object by a route, all given by their indices.
    pub(crate) fn has_call(self, trial: &str, (object, call, route): (usize, usize, usize)) -> bool {
        self.number(&format!("{trial} {object} {call} {route}")).is_multiple_of(self.share / self.objects())
    }

    /// Returns a number for a name and the seed: the FNV-1a hash, mixed by the random-number generator.
    fn number(self, name: &str) -> u64 {
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        fastrand::Rng::with_seed(self.seed ^ hash).u64(..)
    }
}
