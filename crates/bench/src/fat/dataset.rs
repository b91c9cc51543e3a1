//! The data set of the utilisation test: as many files, directories and bytes as the paper's, with sizes like those of sources,
//! objects and manual pages.

/// Total size of the files in bytes.
pub(crate) const TOTAL_BYTES: u64 = 978_634;
const DIRECTORIES: [&str; 7] =
    ["editor", "editor/lib", "editor/doc", "editor/man", "mailer", "mailer/doc", "mailer/man"];

/// Groups of files: directory, extension, number, median size in bytes, and spread (standard deviation of the logarithm).
const GROUPS: [(&str, &str, usize, f64, f64); 10] = [
    ("editor", "c", 34, 4_500.0, 1.0),
    ("editor", "o", 34, 4_000.0, 0.9),
    ("editor", "h", 12, 900.0, 0.9),
    ("editor/lib", "c", 20, 2_500.0, 0.9),
    ("editor/lib", "o", 20, 1_800.0, 0.8),
    ("editor/doc", "txt", 8, 9_000.0, 1.0),
    ("editor/man", "1", 18, 2_600.0, 0.9),
    ("mailer", "c", 22, 4_500.0, 1.0),
    ("mailer/doc", "txt", 6, 9_000.0, 1.0),
    ("mailer/man", "1", 20, 2_600.0, 0.9),
];

/// The files and directories, parents first.
pub(crate) struct DataSet {
    /// Paths of the directories.
    pub directories: Vec<String>,
    /// The files, in an order that goes through all directories in turn, as an archive made by date would.
    pub files: Vec<DataFile>,
}

/// A file of the set.
pub(crate) struct DataFile {
    /// Path below the root of the set.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
}

impl DataSet {
    /// Returns the set, the same every time.
    pub(crate) fn paper() -> Self {
        let mut random = fastrand::Rng::with_seed(1994);
        let mut files = Vec::new();
        for (directory, extension, count, median, spread) in GROUPS {
            for number in 0..count {
                let path = format!("{directory}/part{number:02}.{extension}");
                files.push(DataFile { path, size: (median * (spread * normal(&mut random)).exp()) as u64 });
            }
        }
        scale(&mut files);
        Self { directories: DIRECTORIES.map(str::to_owned).to_vec(), files }
    }

    /// Returns the bytes that are allocated and not used where space is allocated in pieces of `allocation` bytes, with
    /// directories of FAT: 32 bytes for each entry and two more.
    pub(crate) fn waste(&self, allocation: u64) -> u64 {
        let unused = |bytes: u64| bytes.next_multiple_of(allocation) - bytes;
        let entries = |directory: &String| {
            let parent_of = |path: &str| path.rsplit_once('/').is_some_and(|(parent, _)| parent == directory);
            let paths = self.files.iter().map(|file| &file.path).chain(&self.directories);
            paths.filter(|path| parent_of(path)).count() as u64 + 2
        };
        let files: u64 = self.files.iter().map(|file| unused(file.size)).sum();
        files + self.directories.iter().map(|directory| unused(32 * entries(directory))).sum::<u64>()
    }
}

impl DataFile {
    /// Returns the contents, which differ from those of every other file.
    pub(crate) fn contents(&self) -> Vec<u8> {
        let seed = self.path.bytes().fold(self.size, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let mut random = fastrand::Rng::with_seed(seed);
        (0..self.size).map(|_| random.u8(..)).collect()
    }
}

/// Scales the sizes to the total of the paper.
fn scale(files: &mut [DataFile]) {
    let sum: u64 = files.iter().map(|file| file.size).sum();
    for file in &mut *files {
        file.size = (file.size * TOTAL_BYTES / sum).max(1);
    }
    let sum: u64 = files.iter().map(|file| file.size).sum();
    if let Some(largest) = files.iter_mut().max_by_key(|file| file.size) {
        largest.size = (largest.size + TOTAL_BYTES).saturating_sub(sum);
    }
}

/// Returns a value of nearly normal distribution, with mean 0 and standard deviation 1.
fn normal(random: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_bytes_are_those_of_the_paper() {
        let set = DataSet::paper();
        assert_eq!((set.files.len(), set.directories.len()), (194, 7));
        assert_eq!(set.files.iter().map(|file| file.size).sum::<u64>(), TOTAL_BYTES);
        assert_eq!(set.files[0].contents(), DataSet::paper().files[0].contents());
    }

    #[test]
    fn waste_is_near_that_of_the_paper() {
        let set = DataSet::paper();
        for (allocation, kibibytes) in [(512, 50.0), (1024, 105.0), (2048, 220.0), (4096, 475.0)] {
            let own = set.waste(allocation) as f64 / 1024.0;
            assert!((own / kibibytes - 1.0).abs() < 0.15, "{allocation}: {own} KiB, the paper's {kibibytes}");
        }
    }
}
