//! Positions: where the clusters of a file are, as far as its chain was followed.

use vnode::Result;

use super::run::Run;
use super::run_budget::{Charge, RUN_SIZE};
use super::storage::Storage;
use super::table::Table;

/// Maximum number of runs that are remembered for a file; of more, those are forgotten from which others are not far. While a chain is
/// followed, twice as many are remembered.
const RUNS_MAX: usize = 2048;

const _: () = assert!(size_of::<KnownRun>() == RUN_SIZE);

/// A run of a file, as far as it is known.
#[derive(Clone, Copy, Debug)]
struct KnownRun {
    /// Index of the first cluster in the file.
    index: u32,
    run: Run,
}

impl KnownRun {
    fn end(&self) -> u32 {
        self.index + self.run.count
    }
}

/// The known runs of a chain, in order. Between two of them there may be unknown clusters.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    runs: Vec<KnownRun>,
    charge: Charge,
}

impl Positions {
    /// Returns the positions of a chain of which only the first cluster is known; 0 is that of an empty chain.
    pub(crate) fn new(first: u32) -> Self {
        let run = KnownRun { index: 0, run: Run { cluster: first, count: 1 } };
        Self { runs: if first == 0 { Vec::new() } else { vec![run] }, charge: Charge::default() }
    }

    /// Returns the first cluster; `None` of an empty chain.
    pub(crate) fn first(&self) -> Option<u32> {
        self.runs.first().map(|known| known.run.cluster)
    }

    /// Returns the clusters from `index` on, up to `count` and as far as they follow each other on the disk; `None` if the chain
    /// ends before.
    ///
    /// # Errors
    /// `EIO` if the chain is damaged up to there, or the table cannot be read.
    pub(crate) fn find(&mut self, table: &mut Table, storage: &Storage, index: u32, count: u32) -> Result<Option<Run>> {
        let at = match self.follow(table, storage, index, u32::MAX)? {
            Followed::To(at) => at,
            Followed::Partly | Followed::ToEnd => return Ok(None),
        };
        // Looks ahead, so that what is read or written at once is as large as possible.
        while self.runs[at].end() - index < count && self.step(table, storage, at)? == Some(at) {}
        let known = self.runs[at];
        let skipped = index - known.index;
        let run = Run { cluster: known.run.cluster + skipped, count: (known.run.count - skipped).min(count) };
        self.limit(table, at);
        Ok(Some(run))
    }

    /// Follows the chain by `steps_max` clusters at most, so that less is left to follow for [`Positions::find`]. Returns whether that
    /// is nothing.
    ///
    /// # Errors
    /// As [`Positions::find`].
    pub(crate) fn approach(
        &mut self,
        table: &mut Table,
        storage: &Storage,
        index: u32,
        steps_max: u32,
    ) -> Result<bool> {
        let followed = self.follow(table, storage, index, steps_max)?;
        Ok(!matches!(followed, Followed::Partly))
    }

    /// Follows the chain up to a cluster, by `steps_max` clusters at most.
    fn follow(&mut self, table: &mut Table, storage: &Storage, index: u32, steps_max: u32) -> Result<Followed> {
        let after = self.runs.partition_point(|known| known.index <= index);
        let Some(mut at) = after.checked_sub(1) else { return Ok(Followed::ToEnd) };
        let mut steps = 0;
        while self.runs[at].end() <= index {
            if steps == steps_max {
                return Ok(Followed::Partly);
            }
            steps += 1;
            match self.step(table, storage, at)? {
                Some(next) => at = next,
                None => return Ok(Followed::ToEnd),
            }
            if self.runs.len() > 2 * RUNS_MAX {
                at = self.thin_out(at, RUNS_MAX);
            }
        }
        Ok(Followed::To(at))
    }

    /// Follows the chain by one cluster from the end of a known run. Returns the run that has the cluster, `None` at the end of the
    /// chain.
    fn step(&mut self, table: &mut Table, storage: &Storage, at: usize) -> Result<Option<usize>> {
        let known = self.runs[at];
        if self.runs.get(at + 1).is_some_and(|next| next.index == known.end()) {
            return Ok(Some(at + 1));
        }
        if known.end() > storage.geometry().clusters() {
            let first = self.first().unwrap_or(0);
            return Err(storage.damage("chain-loop", format_args!("the chain of cluster {first} has no end")));
        }
        match table.next(storage, known.run.last())? {
            None => Ok(None),
            Some(next) if next == known.run.last() + 1 => {
                self.runs[at].run.count += 1;
                Ok(Some(at))
            }
            Some(next) => {
                self.runs.insert(at + 1, KnownRun { index: known.end(), run: Run { cluster: next, count: 1 } });
                Ok(Some(at + 1))
            }
        }
    }

    /// Adds runs at the end of a chain of `length` clusters.
    pub(crate) fn append(&mut self, length: u32, runs: &[Run]) {
        let mut index = length;
        for &run in runs {
            match self.runs.last_mut() {
                Some(last) if last.end() == index && last.run.last() + 1 == run.cluster => last.run.count += run.count,
                _ => self.runs.push(KnownRun { index, run }),
            }
            index += run.count;
            if self.runs.len() > 2 * RUNS_MAX {
                self.thin_out(0, RUNS_MAX);
            }
        }
    }

    /// Forgets the clusters of a chain that is cut to `length` clusters.
    pub(crate) fn truncate(&mut self, length: u32) {
        self.runs.truncate(self.runs.partition_point(|known| known.index < length));
        if let Some(last) = self.runs.last_mut() {
            last.run.count = last.run.count.min(length - last.index);
        }
    }

    /// Forgets runs until there are no more than the file may have; that at `at` stays.
    fn limit(&mut self, table: &Table, at: usize) {
        let allowed = table.run_budget().allowed(&self.charge, self.runs.len().min(RUNS_MAX));
        // A few more, so that this is not done each time.
        if self.runs.len() > allowed + allowed / 4 {
            self.thin_out(at, allowed);
            self.runs.shrink_to_fit();
        }
        self.charge.set(table.run_budget(), self.runs.len());
    }

    /// Forgets runs so that no more than about `runs_max` are left, at equal distances: what is followed again later is about as long
    /// everywhere. The first and the last stay, and that at `at`, whose new position is returned.
    fn thin_out(&mut self, at: usize, runs_max: usize) -> usize {
        let Some(last) = self.runs.len().checked_sub(1) else { return at };
        let distance = self.runs[last].end() / runs_max.max(1) as u32 + 1;
        let (mut position, mut kept, mut kept_end, mut new_at) = (0, 0, 0, 0);
        self.runs.retain(|known| {
            let is_kept =
                position == 0 || position == last || position == at || known.end().saturating_sub(kept_end) >= distance;
            if position == at {
                new_at = kept;
            }
            if is_kept {
                (kept, kept_end) = (kept + 1, known.end());
            }
            position += 1;
            is_kept
        });
        new_at
    }
}

/// How far a chain was followed.
enum Followed {
    /// To the cluster, which is in the run with this position.
    To(usize),
    /// Not to the cluster, to which it may lead.
    Partly,
    /// To its end, which is before the cluster.
    ToEnd,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::device::MemoryDevice;
    use crate::fat::format::{
        BOOT_SECTOR_SIZE, BootSector, ExtendedFields, FatWidth, Geometry, Link, MirroringFlags, entry_offset,
        write_entry,
    };
    use crate::fat::options::Options;

    use super::*;

    const FAT_SECTORS: u32 = 2000;
    const RESERVED: u16 = 32;
    const WIDTH: FatWidth = FatWidth::Fat32;

    /// Returns a volume on which one chain has every other cluster from 3 on, and how many those are.
    fn fragmented() -> (Storage, u32) {
        let mirroring = MirroringFlags(0);
        let extended = ExtendedFields { mirroring, version: 0, root_cluster: 2, info_sector: 0, backup_sector: 0 };
        let clusters = FAT_SECTORS * 128 - 2;
        let boot = BootSector {
            bytes_per_sector: 512,
            sectors_per_cluster: 1,
            reserved_sectors: RESERVED,
            fats: 1,
            total_sectors: u32::from(RESERVED) + FAT_SECTORS + clusters,
            media: 0xF8,
            fat_sectors: FAT_SECTORS,
            extended: Some(extended),
            ..BootSector::decode(&[0; BOOT_SECTOR_SIZE])
        };
        let size = u64::from(boot.total_sectors) * 512;
        let geometry = Geometry::new(&boot, size).unwrap();
        assert_eq!((geometry.width(), geometry.clusters()), (WIDTH, clusters));
        let device = MemoryDevice::new(size);
        let mut table = vec![0; FAT_SECTORS as usize * 512];
        let chain = (3..clusters + 2).step_by(2);
        let count = chain.clone().count() as u32;
        for (cluster, index) in chain.zip(1..) {
            let link = if index == count { Link::End } else { Link::Next(cluster + 2) };
            let at = entry_offset(WIDTH, cluster) as usize;
            write_entry(WIDTH, cluster, &mut table[at..], link.encode(WIDTH)).unwrap();
        }
        crate::device::Device::write_at(&device, u64::from(RESERVED) * 512, &table).unwrap();
        (Storage::new(Arc::new(device), geometry, "test".to_owned(), &Options::default()), count)
    }

    fn cluster_of(index: u32) -> u32 {
        3 + 2 * index
    }

    #[test]
    fn few_runs_of_a_chain_in_pieces_are_remembered_and_all_are_found() {
        let (storage, count) = fragmented();
        let mut table = Table::new(16 << 20);
        let mut positions = Positions::new(3);
        for index in [count - 1, 0, count / 2, 5, count - 2, count / 3] {
            while !positions.approach(&mut table, &storage, index, 1000).unwrap() {
                assert!(positions.runs.len() <= 2 * RUNS_MAX);
            }
            let run = positions.find(&mut table, &storage, index, 10).unwrap();
            assert_eq!(run, Some(Run { cluster: cluster_of(index), count: 1 }), "{index}");
            assert!(positions.runs.len() <= RUNS_MAX + RUNS_MAX / 4 && positions.runs.capacity() <= 3 * RUNS_MAX);
        }
        let gaps = positions.runs.windows(2).map(|pair| pair[1].index - pair[0].end());
        let longest = gaps.max().unwrap();
        assert!(longest <= 4 * (count / RUNS_MAX as u32 + 1), "{longest} clusters to follow, of {count}");
        assert_eq!(positions.find(&mut table, &storage, count, 1), Ok(None));
    }

    #[test]
    fn many_files_in_pieces_remember_less_together() {
        let (storage, count) = fragmented();
        let mut table = Table::new(4 * (3 * RUNS_MAX * RUN_SIZE) as u64);
        let mut files: Vec<Positions> = (0..50).map(|index| Positions::new(cluster_of(index))).collect();
        for (positions, index) in files.iter_mut().zip(0..) {
            let run = positions.find(&mut table, &storage, count - 1 - index, 1).unwrap();
            assert_eq!(run.map(|run| run.cluster), Some(cluster_of(count - 1)));
        }
        let total: usize = files.iter().map(|positions| positions.runs.len()).sum();
        assert!(total <= 4 * RUNS_MAX + 50 * 80, "{total}");
    }
}
