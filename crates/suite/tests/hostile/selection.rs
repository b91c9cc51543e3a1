//! Which calls are tried: all, or a share that a seed chooses, another for each user in each stack.

#[derive(Clone, Copy)]
pub(crate) struct CallSelection {
    pub seed: u64,
    /// One of so many calls.
    pub share: u64,
}

impl CallSelection {
    /// As the environment says.
    pub(crate) fn from_environment() -> Self {
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
        // The same each time, so that a share fails for what was changed only.
        Self { seed: number("HOSTILE_SEED").unwrap_or(1), share: number("HOSTILE_SHARE").unwrap_or(1).max(1) }
    }

    /// How many objects one is chosen of. Many calls on few objects take less than few on many: what a call leaves as it was
    /// is not made anew.
    fn objects(self) -> u64 {
        self.share.isqrt()
    }

    /// Whether a user in a stack tries an object, by its place in the list.
    pub(crate) fn has_object(self, trial: &str, object: usize) -> bool {
        self.number(&format!("{trial} {object}")).is_multiple_of(self.objects())
    }

    /// Whether a call is tried on an object that is, in a way, by their places in the lists.
    pub(crate) fn has_call(self, trial: &str, (object, call, route): (usize, usize, usize)) -> bool {
        self.number(&format!("{trial} {object} {call} {route}")).is_multiple_of(self.share / self.objects())
    }

    /// A number for a name, by the seed: the FNV-1a hash, mixed by the generator.
    fn number(self, name: &str) -> u64 {
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        fastrand::Rng::with_seed(self.seed ^ hash).u64(..)
    }
}
