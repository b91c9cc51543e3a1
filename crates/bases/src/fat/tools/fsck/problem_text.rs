//! Problems and their repairs in words.

use super::problem::Problem;
use crate::fat::format::LongNameFault;
use crate::fat::tools::chain::ChainEnd;

impl Problem {
    /// Returns the description of the problem, as a predicate of its object.
    pub fn description(&self) -> String {
        match self {
            Self::BootInvalid(error) => format!("has a boot sector that describes no file system: {error}"),
            Self::BootDiffers => "has its tables not where the boot sector says, but where its copy says".into(),
            Self::BootUnreadable => "has a boot sector that cannot be read".into(),
            Self::BootSignature => "has a boot sector without its signature".into(),
            Self::BackupDiffers => "has a copy of the boot sector that differs from it".into(),
            Self::BackupMissing(_) => "has no copy of the boot sector".into(),
            Self::InfoMissing(_) => "has no information sector".into(),
            Self::TableShort(clusters) => format!("has {clusters} clusters without entries in the tables"),
            Self::TableMedia => "has tables whose first entry does not repeat the media byte".into(),
            Self::TablesDiffer(sectors) => format!("has tables that differ in {sectors} sectors"),
            Self::TableUnreadable(table, sectors) => {
                format!("has {sectors} sectors of table {} that cannot be read", u16::from(*table) + 1)
            }
            Self::InfoInvalid => "has an information sector without its signatures".into(),
            Self::FreeCount(stored, free) => {
                format!("has {free} free clusters, but {stored} according to the information sector")
            }
            Self::NextFree(cluster) => {
                format!("has an information sector that refers to cluster {cluster}, which does not exist")
            }
            Self::Dirty => "was not unmounted".into(),
            Self::DiskErrors => "is marked as being on a disk that had errors".into(),
            Self::RootStart(end) => format!("starts in {}", end_text(*end)),
            Self::ChainLoop(cluster) => format!("has a chain that leads back to its cluster {cluster}"),
            Self::CrossLink(cluster, Some(other)) => format!("shares cluster {cluster} with {other}"),
            Self::CrossLink(cluster, None) => format!("shares cluster {cluster} with another file"),
            Self::LinkMissing(cluster) => format!("has a chain that leads to cluster {cluster}, which does not exist"),
            Self::LinkFree(cluster) => format!("has a chain that leads to cluster {cluster}, which is free"),
            Self::LinkBad(cluster) => format!("has a chain that leads to cluster {cluster}, which is bad"),
            Self::StartInvalid(end) => format!("starts in {}", end_text(*end)),
            Self::DirectoryWithoutCluster => "is a directory without a cluster".into(),
            Self::SizeWithoutChain(size) => format!("has a size of {size} bytes and no cluster"),
            Self::ChainBeyondSize(size) => format!("has more clusters than its size of {size} bytes needs"),
            Self::SizeBeyondChain(size, chain) => format!("has a size of {size} bytes and clusters for {chain}"),
            Self::DirectorySize(size) => format!("is a directory with a size of {size} bytes"),
            Self::DirectoryCorrupt(bad, all) => {
                format!("is a directory in which {bad} of {all} entries make no sense")
            }
            Self::DirectoryTooLarge => "is a directory with more than 65536 slots".into(),
            Self::DirectoryUnreadable(0) => "is a directory parts of which cannot be read".into(),
            Self::DirectoryUnreadable(cluster) => {
                format!("is a directory whose cluster {cluster} cannot be read")
            }
            Self::DotMissing => "is a directory whose first entry is not `.`".into(),
            Self::DotDotMissing => "is a directory whose second entry is not `..`".into(),
            Self::DotWrong => "is a directory whose entry `.` is not for itself".into(),
            Self::DotDotWrong => "is a directory whose entry `..` is not for the directory above".into(),
            Self::DotMisplaced => "is an entry of a directory for itself or the one above, at a wrong position".into(),
            Self::EntriesAfterEnd(count) => format!("is a directory with {count} entries after its end"),
            Self::EntriesHidden(count) => format!("is a directory that ends before {count} of its entries"),
            Self::ShortName(error) => format!("has an invalid name: {error}"),
            Self::ReservedBits(bits) => format!("has reserved bits ({bits:#04x}) beside those of lower case"),
            Self::LongName(error) => format!("has an invalid long name: {error}"),
            Self::DuplicateName => "has the name of another entry".into(),
            Self::LongNameSlots(fault) => fault_text(*fault).into(),
            Self::LongNameReserved => "has a long name with a field that should be 0".into(),
            Self::LabelInvalid => "has a label with forbidden characters, a size or clusters".into(),
            Self::LabelDuplicate => "has more than one label".into(),
            Self::LabelMisplaced => "has a label, which only the root directory has".into(),
            Self::LabelDiffers => "has another label in the boot sector than in the root directory".into(),
            Self::LostChain(clusters) => format!("has {clusters} clusters in a chain that belongs to no file"),
            Self::LostDirectory(cluster) => format!("has a directory in cluster {cluster} that has no entry"),
            Self::SidecarVisible => "is a log of Unix metadata, and neither hidden nor system".into(),
            Self::SidecarDirectory => "is a directory with the contents of a log of Unix metadata".into(),
            Self::HardLinkCount(Some(stored), names) => {
                format!("is a file with {names} names, but {stored} according to its entry of the store")
            }
            Self::HardLinkCount(None, names) => format!("is a file with {names} names that are not counted"),
            Self::HardLinkNameless => "is a file with several names of which none is there".into(),
            Self::SidecarInvalid => "is no log of Unix metadata of a known version, and has the name of one".into(),
        }
    }

    /// Returns what the repair does, as an infinitive; none if there is no repair.
    pub const fn repair_text(&self) -> Option<&'static str> {
        Some(match self {
            Self::TableShort(_) | Self::DirectoryTooLarge => return None,
            Self::BootInvalid(_) | Self::BootDiffers | Self::BootUnreadable => "restore the boot sector from its copy",
            Self::BootSignature => "write the signature",
            Self::BackupDiffers | Self::BackupMissing(_) => "copy the boot sector",
            Self::InfoMissing(_) => "create the sector",
            Self::TableMedia => "write the media byte",
            Self::TablesDiffer(_) => "make the tables alike",
            Self::TableUnreadable(..) => "write the sectors from another table",
            Self::InfoInvalid | Self::FreeCount(..) | Self::NextFree(_) => "write the number of free clusters",
            Self::Dirty => "mark it as unmounted",
            Self::DiskErrors => "remove the mark",
            Self::RootStart(_) => "take the cluster into use",
            Self::ChainLoop(_) => "end the chain before it repeats",
            Self::CrossLink(..) => "copy the shared clusters, or end one of the chains",
            Self::LinkMissing(_) | Self::LinkFree(_) | Self::LinkBad(_) => "end the chain",
            Self::StartInvalid(_) => "remove the reference: a file becomes empty, a directory is removed",
            Self::DirectoryWithoutCluster => "remove the directory",
            Self::SizeWithoutChain(_) => "set the size to 0",
            Self::ChainBeyondSize(_) => "free the clusters after the end",
            Self::SizeBeyondChain(..) => "reduce the size to the clusters",
            Self::DirectorySize(_) => "set the size to 0",
            Self::DirectoryCorrupt(..) => "make it a file",
            Self::DirectoryUnreadable(_) => "move what can be read to another cluster",
            Self::DotMissing | Self::DotDotMissing => "create the entry",
            Self::DotWrong | Self::DotDotWrong => "correct the entry",
            Self::DotMisplaced => "remove the entry",
            Self::EntriesAfterEnd(_) => "remove the entries",
            Self::EntriesHidden(_) => "mark the slots before them as deleted",
            Self::ShortName(_) | Self::DuplicateName => "rename it",
            Self::ReservedBits(_) => "clear the bits",
            Self::LongName(_) => "remove the long name",
            Self::LongNameSlots(_) => "remove the slots",
            Self::LongNameReserved => "set the field to 0",
            Self::LabelInvalid | Self::LabelDuplicate | Self::LabelMisplaced => "remove the label",
            Self::LabelDiffers => "copy the label of the root directory",
            Self::LostChain(_) => "save it as a file, or free it",
            Self::LostDirectory(_) => "give it an entry in the root directory, or free it",
            Self::SidecarVisible => "set the attributes hidden and system",
            Self::SidecarDirectory => "make it a file",
            Self::HardLinkCount(..) => "store the number of names",
            Self::HardLinkNameless => "give it a name in the root directory",
            Self::SidecarInvalid => "make it a visible file with another name",
        })
    }
}

fn end_text(end: ChainEnd) -> String {
    match end {
        ChainEnd::Free(cluster) => format!("cluster {cluster}, which is free"),
        ChainEnd::Bad(cluster) => format!("cluster {cluster}, which is bad"),
        ChainEnd::Missing(cluster) => format!("cluster {cluster}, which does not exist"),
        ChainEnd::Marked | ChainEnd::Endless => "no cluster".into(),
    }
}

const fn fault_text(fault: LongNameFault) -> &'static str {
    match fault {
        LongNameFault::NoStart => "has slots of a long name without its beginning",
        LongNameFault::StartInside => "has slots of a long name that is not finished when another begins",
        LongNameFault::Sequence => "has slots of a long name out of sequence",
        LongNameFault::ChecksumDiffers => "has slots of a long name with different checksums",
        LongNameFault::WrongChecksum => "has slots of a long name that is not that of the entry after them",
        LongNameFault::Padding => "has slots of a long name with a wrong length",
        LongNameFault::Unfinished => "has slots of a long name whose last ones are missing",
        LongNameFault::Orphan => "has slots of a long name with no entry after them",
    }
}
