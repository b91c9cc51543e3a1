//! Data in shards, each with a lock of its own, so that threads seldom wait for each other.

/// `N` shards of one kind of data; `T` has the lock.
#[derive(Debug)]
pub struct Sharded<T, const N: usize>([T; N]);

impl<T: Default, const N: usize> Default for Sharded<T, N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| T::default()))
    }
}

impl<T, const N: usize> Sharded<T, N> {
    /// Returns the shard of a number. Consecutive numbers are in different shards.
    pub fn of_number(&self, number: u64) -> &T {
        &self.0[(number % N as u64) as usize]
    }

    /// Returns the shard of a hash. Shards hold different numbers of hashes, by a factor of up to two, so that tables do not
    /// all double their capacity at once. The lowest 25 bits and the highest 7, by which hash tables find slots, do not matter.
    pub fn of_hash(&self, hash: u64) -> &T {
        // Scaled to 0..1.
        let part = f64::from((hash >> 25) as u32) / (f64::from(u32::MAX) + 1.0);
        let index = (part * (1.34 - 0.34 * part) * N as f64) as usize;
        &self.0[index.min(N - 1)]
    }

    /// Returns all shards.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread_evenly_and_hashes_unevenly() {
        let shards: Sharded<std::cell::Cell<usize>, 64> = Sharded::default();
        let counts = |of: &dyn Fn(u64)| {
            shards.iter().for_each(|shard| shard.set(0));
            (0..64_000).for_each(of);
            let counts: Vec<usize> = shards.iter().map(std::cell::Cell::get).collect();
            (*counts.iter().min().unwrap(), *counts.iter().max().unwrap())
        };
        let add = |shard: &std::cell::Cell<usize>| shard.set(shard.get() + 1);
        assert_eq!(counts(&|number| add(shards.of_number(number))), (1_000, 1_000));
        let (least, most) = counts(&|number| add(shards.of_hash(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
        assert!(least > 600 && most > 1_300 && most < 2_400, "{least} {most}");
    }

    #[test]
    fn every_hash_has_a_shard() {
        let shards: Sharded<u8, 3> = Sharded::default();
        [0, 1 << 25, u64::MAX].into_iter().for_each(|hash| assert_eq!(*shards.of_hash(hash), 0));
    }
}
