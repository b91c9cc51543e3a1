//! Options of tuning.

use crate::fat::format::CodePage;

/// Options of tuning.
#[derive(Clone, Copy, Debug, Default)]
pub struct TuneOptions {
    /// Code page of short names.
    pub page: CodePage,
    /// Whether the file system has entries of DosFs, see [`crate::fat::tools::fsck::FsckOptions::dosfs`]. Default: no.
    pub dosfs: bool,
}
