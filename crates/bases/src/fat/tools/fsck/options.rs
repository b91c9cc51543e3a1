//! Options of a check.

use vnode::Timestamp;

use crate::fat::format::CodePage;

/// Whether a check writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FsckMode {
    /// Only reports. The default.
    #[default]
    Check,
    /// Makes the repairs by which nothing can be lost, without questions.
    Preen,
    /// Makes all repairs, and asks where only the user knows what is right.
    Repair,
}

/// What becomes of clusters that belong to no file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LostChains {
    /// They become files and directories in the root directory, `FSCK0000.REC` and `FSCK0000.DIR`. The default. On a volume with Unix
    /// metadata, they belong to the superuser, and nobody else may use them, until they get other metadata.
    #[default]
    Save,
    /// They become free.
    Free,
}

/// Options of a check.
#[derive(Clone, Debug)]
pub struct FsckOptions {
    /// Whether it writes.
    pub mode: FsckMode,
    /// What becomes of lost clusters.
    pub lost: LostChains,
    /// Code page of short names.
    pub page: CodePage,
    /// Whether entries with reserved attribute bits are those of DosFs: they may own a cluster without a size, have any short
    /// name, and be followed by a label that is the rest of their name. Default: no.
    pub dosfs: bool,
    /// Number of findings that the report lists; further ones are only counted. Default: 10,000.
    pub findings_max: usize,
    /// Time of modification of saved files. Default: that of the call.
    pub time: Timestamp,
    /// Minutes by which local time is ahead of UTC. Default: 0.
    pub offset_minutes: i32,
}

impl Default for FsckOptions {
    fn default() -> Self {
        Self {
            mode: FsckMode::default(),
            lost: LostChains::default(),
            page: CodePage::default(),
            dosfs: false,
            findings_max: 10_000,
            time: Timestamp::now(),
            offset_minutes: 0,
        }
    }
}
