//! The problems that a check finds, and their codes.

use crate::fat::format::{GeometryError, LongNameError, LongNameFault, ShortNameError};
use crate::fat::tools::chain::ChainEnd;

/// A problem of a file system, or of the object whose path the finding has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The boot sector describes no file system.
    BootInvalid(GeometryError),
    /// The tables are not where the boot sector says, but where its copy says.
    BootDiffers,
    /// The boot sector cannot be read.
    BootUnreadable,
    /// The boot sector lacks its signature.
    BootSignature,
    /// The copy of the boot sector differs from it.
    BackupDiffers,
    /// FAT32 has no copy of the boot sector, and this reserved sector has room for it.
    BackupMissing(u16),
    /// FAT32 has no information sector, and this reserved sector has room for it.
    InfoMissing(u16),
    /// The tables have no entries for this number of clusters.
    TableShort(u32),
    /// The first entry of the tables does not repeat the media byte.
    TableMedia,
    /// This number of sectors of the tables differ.
    TablesDiffer(u32),
    /// This number of sectors of this table cannot be read.
    TableUnreadable(u8, u32),
    /// The information sector lacks its signatures.
    InfoInvalid,
    /// The information sector has this number of free clusters, but there are others.
    FreeCount(u32, u32),
    /// The information sector says that a free cluster is after this one, which does not exist.
    NextFree(u32),
    /// The file system was not unmounted.
    Dirty,
    /// The disk had errors.
    DiskErrors,
    /// The first cluster of the root directory is free or bad.
    RootStart(ChainEnd),
    /// The chain leads back to this cluster of its own.
    ChainLoop(u32),
    /// The chain leads to this cluster of another object, whose path this is if it is known.
    CrossLink(u32, Option<String>),
    /// The chain leads to a cluster that does not exist.
    LinkMissing(u32),
    /// The chain leads to a cluster that is free.
    LinkFree(u32),
    /// The chain leads to a cluster that must not be used.
    LinkBad(u32),
    /// The entry has a first cluster that does not exist, is free or bad.
    StartInvalid(ChainEnd),
    /// The directory has no first cluster.
    DirectoryWithoutCluster,
    /// The file of this size has no first cluster.
    SizeWithoutChain(u32),
    /// The file of this size has more clusters than it needs.
    ChainBeyondSize(u32),
    /// The file of this size has only clusters for so many bytes.
    SizeBeyondChain(u32, u32),
    /// The directory has a size.
    DirectorySize(u32),
    /// Most entries of the directory, this number of how many, make no sense.
    DirectoryCorrupt(u32, u32),
    /// The directory has more entries than the format allows.
    DirectoryTooLarge,
    /// This cluster of the directory cannot be read; 0 for the root directory of fixed size.
    DirectoryUnreadable(u32),
    /// The first entry of the directory is not `.`.
    DotMissing,
    /// The second entry of the directory is not `..`.
    DotDotMissing,
    /// The entry `.` is no directory, or has a first cluster that is not this directory.
    DotWrong,
    /// The entry `..` is no directory, or has a first cluster that is not the directory above.
    DotDotWrong,
    /// An entry `.` or `..` is at another position than the first or second, or in the root directory.
    DotMisplaced,
    /// This number of slots after the end of the directory are entries for systems that ignore the end.
    EntriesAfterEnd(u32),
    /// This number of slots after the end of the directory are entries that are sound, so it has ended by mistake.
    EntriesHidden(u32),
    /// The short name breaks a rule.
    ShortName(ShortNameError),
    /// These bits, beside those of lower case, are set though they mean nothing.
    ReservedBits(u8),
    /// The long name breaks a rule.
    LongName(LongNameError),
    /// Another entry of the directory has this name.
    DuplicateName,
    /// Slots of a long name belong to no entry.
    LongNameSlots(LongNameFault),
    /// Slots of the long name have a field that should be 0.
    LongNameReserved,
    /// The label of the root directory has forbidden characters.
    LabelInvalid,
    /// The root directory has more than one label.
    LabelDuplicate,
    /// A directory other than the root has a label.
    LabelMisplaced,
    /// The label of the boot sector is not that of the root directory.
    LabelDiffers,
    /// This number of clusters are a chain that belongs to no file.
    LostChain(u32),
    /// The cluster is the first one of a directory that has no entry.
    LostDirectory(u32),
    /// The log of Unix metadata is not hidden, so that it does not count.
    SidecarVisible,
    /// A directory has the contents of a log of Unix metadata.
    SidecarDirectory,
    /// The file with the name of a log of Unix metadata is none of a known version.
    SidecarInvalid,
    /// The object in the store has this number of names according to the store, if any, but others were found.
    HardLinkCount(Option<u32>, u32),
    /// The object in the store has no name.
    HardLinkNameless,
}

/// How much a repair may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairKind {
    /// There is no repair.
    None,
    /// Loses nothing: preening does it.
    Safe,
    /// Loses names or data that are wrong, or decides between two possibilities.
    Full,
    /// Needs an answer.
    Asked,
}

impl Problem {
    /// Returns the code of the problem, which does not change between versions.
    pub const fn code(&self) -> &'static str {
        use LongNameFault as Fault;
        match self {
            Self::BootInvalid(_) => "boot-invalid",
            Self::BootDiffers => "boot-differs",
            Self::BootUnreadable => "boot-unreadable",
            Self::BootSignature => "boot-signature",
            Self::BackupDiffers => "backup-differs",
            Self::BackupMissing(_) => "backup-missing",
            Self::InfoMissing(_) => "info-missing",
            Self::TableShort(_) => "table-short",
            Self::TableMedia => "table-media",
            Self::TablesDiffer(_) => "tables-differ",
            Self::TableUnreadable(..) => "table-unreadable",
            Self::InfoInvalid => "info-invalid",
            Self::FreeCount(..) => "free-count",
            Self::NextFree(_) => "next-free",
            Self::Dirty => "dirty",
            Self::DiskErrors => "disk-errors",
            Self::RootStart(_) => "root-start",
            Self::ChainLoop(_) => "chain-loop",
            Self::CrossLink(..) => "cross-link",
            Self::LinkMissing(_) => "link-missing",
            Self::LinkFree(_) => "link-free",
            Self::LinkBad(_) => "link-bad",
            Self::StartInvalid(_) => "start-invalid",
            Self::DirectoryWithoutCluster => "directory-without-cluster",
            Self::SizeWithoutChain(_) => "size-without-chain",
            Self::ChainBeyondSize(_) => "chain-beyond-size",
            Self::SizeBeyondChain(..) => "size-beyond-chain",
            Self::DirectorySize(_) => "directory-size",
            Self::DirectoryCorrupt(..) => "directory-corrupt",
            Self::DirectoryTooLarge => "directory-too-large",
            Self::DirectoryUnreadable(_) => "directory-unreadable",
            Self::DotMissing => "dot-missing",
            Self::DotDotMissing => "dotdot-missing",
            Self::DotWrong => "dot-wrong",
            Self::DotDotWrong => "dotdot-wrong",
            Self::DotMisplaced => "dot-misplaced",
            Self::EntriesAfterEnd(_) => "entries-after-end",
            Self::EntriesHidden(_) => "entries-hidden",
            Self::ShortName(_) => "name-invalid",
            Self::ReservedBits(_) => "reserved-bits",
            Self::LongName(_) => "long-name-invalid",
            Self::DuplicateName => "name-duplicate",
            Self::LongNameSlots(Fault::NoStart) => "long-name-stray",
            Self::LongNameSlots(Fault::StartInside) => "long-name-nested",
            Self::LongNameSlots(Fault::Sequence) => "long-name-sequence",
            Self::LongNameSlots(Fault::ChecksumDiffers) => "long-name-checksums",
            Self::LongNameSlots(Fault::WrongChecksum) => "long-name-checksum",
            Self::LongNameSlots(Fault::Padding) => "long-name-length",
            Self::LongNameSlots(Fault::Unfinished) => "long-name-unfinished",
            Self::LongNameSlots(Fault::Orphan) => "long-name-orphan",
            Self::LongNameReserved => "long-name-reserved",
            Self::LabelInvalid => "label-invalid",
            Self::LabelDuplicate => "label-duplicate",
            Self::LabelMisplaced => "label-misplaced",
            Self::LabelDiffers => "label-differs",
            Self::LostChain(_) => "lost-chain",
            Self::LostDirectory(_) => "lost-directory",
            Self::SidecarVisible => "sidecar-visible",
            Self::SidecarDirectory => "sidecar-directory",
            Self::SidecarInvalid => "sidecar-invalid",
            Self::HardLinkCount(..) => "hard-link-count",
            Self::HardLinkNameless => "hard-link-nameless",
        }
    }

    /// Returns how much the repair may change.
    pub const fn repair_kind(&self) -> RepairKind {
        match self {
            Self::TableShort(_) | Self::DirectoryTooLarge => RepairKind::None,
            Self::ChainLoop(_) | Self::CrossLink(..) => RepairKind::Asked,
            Self::BackupDiffers
            | Self::BackupMissing(_)
            | Self::InfoMissing(_)
            | Self::TableMedia
            | Self::TablesDiffer(_)
            | Self::TableUnreadable(..)
            | Self::InfoInvalid
            | Self::FreeCount(..)
            | Self::NextFree(_)
            | Self::Dirty
            | Self::LinkMissing(_)
            | Self::LinkFree(_)
            | Self::LinkBad(_)
            | Self::ChainBeyondSize(_)
            | Self::SizeBeyondChain(..)
            | Self::SizeWithoutChain(_)
            | Self::DirectorySize(_)
            | Self::DotWrong
            | Self::DotDotWrong
            | Self::EntriesHidden(_)
            | Self::ReservedBits(_)
            | Self::LongNameSlots(_)
            | Self::LongNameReserved
            | Self::LabelDiffers
            | Self::LostChain(_)
            | Self::LostDirectory(_)
            | Self::HardLinkCount(..)
            | Self::HardLinkNameless => RepairKind::Safe,
            Self::BootInvalid(_)
            | Self::BootDiffers
            | Self::BootUnreadable
            | Self::BootSignature
            | Self::DiskErrors
            | Self::RootStart(_)
            | Self::StartInvalid(_)
            | Self::DirectoryWithoutCluster
            | Self::DirectoryCorrupt(..)
            | Self::DirectoryUnreadable(_)
            | Self::DotMissing
            | Self::DotDotMissing
            | Self::DotMisplaced
            | Self::EntriesAfterEnd(_)
            | Self::ShortName(_)
            | Self::LongName(_)
            | Self::DuplicateName
            | Self::LabelInvalid
            | Self::LabelDuplicate
            | Self::LabelMisplaced
            | Self::SidecarVisible
            | Self::SidecarDirectory
            | Self::SidecarInvalid => RepairKind::Full,
        }
    }
}
