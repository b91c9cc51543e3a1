//! Problems in a branch and their remedies, as text.

use std::fmt;

use vnode::Errno;

use crate::union::branch::losses::Losses;

/// A problem with an object in a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It has a whiteout beside it, and is visible all the same.
    BesideWhiteout,
    /// It is a directory with a whiteout beside it, which hides the lower branches.
    DirectoryBesideWhiteout,
    /// It is a whiteout, and there is another of the same name.
    TwoWhiteouts,
    /// It is a whiteout that hides nothing.
    IdleWhiteout,
    /// It is a directory that is opaque, but has a redirect to a lower part.
    OpaqueAndMoved,
    /// It is not a directory, but has an opaque mark.
    OpaqueFile,
    /// It is not a directory, but has a redirect mark.
    MovedFile,
    /// Its redirect leads to this path, at which no lower branch has a directory.
    MovedFromNowhere(Vec<u8>),
    /// Its redirect is unreadable.
    UnreadableRedirect,
    /// Its stored origin is unreadable.
    UnreadableOrigin,
    /// It has the same identity as this other file of the branch.
    SameIdentity(Vec<u8>),
    /// Its original is gone.
    OriginGone,
    /// It is a metadata-only copy of a file that does not exist: at this path, or by its name.
    DataGone(Option<Vec<u8>>),
    /// It is a metadata-only copy whose mark anybody who may write it could have set.
    DataUnbelieved,
    /// It has a mark of directories that others than the server could have set.
    Unbelieved,
    /// It is a copy without these, which the branch could not preserve.
    NotKept(Losses),
    /// It is the record of what copies lack, and has this line, which was not written to its end.
    UnreadableLoss(Vec<u8>),
    /// It says that the branch has metadata-only copies, but there are none.
    NoMetacopies,
    /// It was being created or removed when a union was interrupted.
    LeftOver,
    /// It is the record of an interrupted rename.
    UnfinishedRename,
    /// It is a layer that was being merged into the one below it when a union was interrupted.
    UnfinishedMerge,
    /// It is a link entry of a copied file that no name of the original needs.
    OrphanedLink,
    /// It is a link entry of a copied file that leads to another file.
    WrongLink,
    /// It is a link entry of a copied file whose original is in none of these branches.
    LinkOfNoBranch,
    /// It, or what it covers in another branch, cannot be read for this reason, and was not checked, nor what is in it. Somebody
    /// else's file system may be mounted there.
    Unavailable(Errno),
    /// It is in the state directory, but not put there by a union.
    Unknown,
    /// It is in the work directory, and of a kind that later versions may know.
    UnknownKind,
}

impl Problem {
    /// Description of the problem, as a predicate of the object.
    pub fn description(&self) -> String {
        match self {
            Self::BesideWhiteout => "stands beside its own whiteout".into(),
            Self::DirectoryBesideWhiteout => "is a directory beside its own whiteout".into(),
            Self::TwoWhiteouts => "is hidden by two whiteouts".into(),
            Self::IdleWhiteout => "is a whiteout that hides nothing".into(),
            Self::OpaqueAndMoved => "is marked both as opaque and as moved".into(),
            Self::OpaqueFile => "is marked as an opaque directory, but is no directory".into(),
            Self::MovedFile => "is marked as a moved directory, but is no directory".into(),
            Self::MovedFromNowhere(path) => {
                format!("was moved from {}, where there is no directory", String::from_utf8_lossy(path))
            }
            Self::UnreadableRedirect => "does not tell where it was moved from".into(),
            Self::UnreadableOrigin => "does not tell what it is a copy of".into(),
            Self::SameIdentity(path) => format!("has the same identity as {}", String::from_utf8_lossy(path)),
            Self::OriginGone => "is a copy of what is gone".into(),
            Self::DataGone(Some(path)) => {
                format!("has its data in {}, where no branch on the right has them", String::from_utf8_lossy(path))
            }
            Self::DataGone(None) => "has its data elsewhere, and no branch on the right has them".into(),
            Self::DataUnbelieved => "says that its data are elsewhere, which the superuser does not believe".into(),
            Self::Unbelieved => "is marked as opaque or moved by an attribute that others could have set".into(),
            Self::NotKept(losses) => {
                format!("is a copy without what the branch does not keep: {losses}")
            }
            Self::UnreadableLoss(line) => {
                format!("has a line that was not written to its end: {}", line.escape_ascii())
            }
            Self::NoMetacopies => "says that files have their data elsewhere, and none has".into(),
            Self::LeftOver => "is left over from an operation that was stopped".into(),
            Self::UnfinishedRename => "is the record of a rename that was stopped".into(),
            Self::UnfinishedMerge => "is a layer whose merge was stopped".into(),
            Self::OrphanedLink => "keeps a copied file that has no name any more".into(),
            Self::WrongLink => "leads to another copy than its name says".into(),
            Self::LinkOfNoBranch => {
                "leads to the copy of a file with several names that is in none of these branches".into()
            }
            Self::Unavailable(errno) => {
                format!("was not checked, since it, or what it covers, cannot be read: {errno}")
            }
            Self::Unknown => "is nothing that a union puts there".into(),
            Self::UnknownKind => "is of a kind that this version does not know".into(),
        }
    }

    /// Returns whether a repair can fix it, without the administrator of the branches.
    pub fn can_be_repaired(&self) -> bool {
        !matches!(
            self,
            Self::DataGone(_)
                | Self::DataUnbelieved
                | Self::Unbelieved
                | Self::NotKept(_)
                | Self::LinkOfNoBranch
                | Self::Unavailable(_)
                | Self::UnknownKind
        )
    }

    /// The action of a repair, or the one that the administrator of the branches has to take.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::BesideWhiteout | Self::IdleWhiteout => "remove the whiteout",
            Self::DirectoryBesideWhiteout => "mark the directory as opaque and remove the whiteout",
            Self::TwoWhiteouts => "remove one of them",
            Self::OpaqueAndMoved | Self::OpaqueFile => "remove the mark of opaque directories",
            Self::MovedFile | Self::UnreadableRedirect => "remove the mark of moved directories",
            Self::MovedFromNowhere(_) => "mark the directory as opaque instead",
            Self::UnreadableOrigin | Self::SameIdentity(_) | Self::OriginGone => "give it an identity of its own",
            Self::DataGone(_) => "bring back the branch that has the data, or delete it",
            Self::DataUnbelieved => "mount the branches once as the user who wrote them, and open it for writing",
            Self::Unbelieved => "mount the branches as the user who wrote them, or remove the attribute",
            Self::NotKept(_) => "copy it from the original to a branch that keeps it, if it is needed",
            Self::NoMetacopies | Self::LeftOver | Self::OrphanedLink | Self::WrongLink | Self::Unknown => "remove it",
            Self::UnreadableLoss(_) => "remove the line",
            Self::LinkOfNoBranch => {
                "bring back the branch that has the original, or delete it if that is gone for good"
            }
            Self::Unavailable(_) => "give access to it, or unmount what a user has mounted there, and check again",
            Self::UnknownKind => "mount the branches with the version that has made it, which removes it",
            Self::UnfinishedMerge => "finish the merge",
            Self::UnfinishedRename => "finish or forget the rename",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.description())
    }
}
