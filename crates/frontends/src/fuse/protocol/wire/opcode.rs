//! Operation numbers.

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub(crate) enum Opcode {
    Lookup = 1,
    Forget = 2,
    GetAttributes = 3,
    SetAttributes = 4,
    ReadLink = 5,
    SymbolicLink = 6,
    MakeNode = 8,
    MakeDirectory = 9,
    Unlink = 10,
    RemoveDirectory = 11,
    Rename = 12,
    Link = 13,
    Open = 14,
    Read = 15,
    Write = 16,
    StatFs = 17,
    Release = 18,
    Fsync = 20,
    SetXattr = 21,
    GetXattr = 22,
    ListXattr = 23,
    RemoveXattr = 24,
    Flush = 25,
    Init = 26,
    OpenDirectory = 27,
    ReadDirectory = 28,
    ReleaseDirectory = 29,
    FsyncDirectory = 30,
    GetLock = 31,
    SetLock = 32,
    SetLockWait = 33,
    Access = 34,
    Create = 35,
    Interrupt = 36,
    BlockMap = 37,
    Destroy = 38,
    Ioctl = 39,
    Poll = 40,
    NotifyReply = 41,
    BatchForget = 42,
    Fallocate = 43,
    ReadDirectoryPlus = 44,
    Rename2 = 45,
    Seek = 46,
    CopyFileRange = 47,
    SetUpMapping = 48,
    RemoveMapping = 49,
    SyncFs = 50,
    TemporaryFile = 51,
    Statx = 52,
    CopyFileRange64 = 53,
}

impl Opcode {
    /// Number of table slots: one more than the largest number, for tables indexed by operation.
    pub(crate) const COUNT: usize = 54;

    /// Every operation with its name in Linux, in numerical order.
    const ALL: [(Opcode, &'static str); 51] = [
        (Opcode::Lookup, "LOOKUP"),
        (Opcode::Forget, "FORGET"),
        (Opcode::GetAttributes, "GETATTR"),
        (Opcode::SetAttributes, "SETATTR"),
        (Opcode::ReadLink, "READLINK"),
        (Opcode::SymbolicLink, "SYMLINK"),
        (Opcode::MakeNode, "MKNOD"),
        (Opcode::MakeDirectory, "MKDIR"),
        (Opcode::Unlink, "UNLINK"),
        (Opcode::RemoveDirectory, "RMDIR"),
        (Opcode::Rename, "RENAME"),
        (Opcode::Link, "LINK"),
        (Opcode::Open, "OPEN"),
        (Opcode::Read, "READ"),
        (Opcode::Write, "WRITE"),
        (Opcode::StatFs, "STATFS"),
        (Opcode::Release, "RELEASE"),
        (Opcode::Fsync, "FSYNC"),
        (Opcode::SetXattr, "SETXATTR"),
        (Opcode::GetXattr, "GETXATTR"),
        (Opcode::ListXattr, "LISTXATTR"),
        (Opcode::RemoveXattr, "REMOVEXATTR"),
        (Opcode::Flush, "FLUSH"),
        (Opcode::Init, "INIT"),
        (Opcode::OpenDirectory, "OPENDIR"),
        (Opcode::ReadDirectory, "READDIR"),
        (Opcode::ReleaseDirectory, "RELEASEDIR"),
        (Opcode::FsyncDirectory, "FSYNCDIR"),
        (Opcode::GetLock, "GETLK"),
        (Opcode::SetLock, "SETLK"),
        (Opcode::SetLockWait, "SETLKW"),
        (Opcode::Access, "ACCESS"),
        (Opcode::Create, "CREATE"),
        (Opcode::Interrupt, "INTERRUPT"),
        (Opcode::BlockMap, "BMAP"),
        (Opcode::Destroy, "DESTROY"),
        (Opcode::Ioctl, "IOCTL"),
        (Opcode::Poll, "POLL"),
        (Opcode::NotifyReply, "NOTIFY_REPLY"),
        (Opcode::BatchForget, "BATCH_FORGET"),
        (Opcode::Fallocate, "FALLOCATE"),
        (Opcode::ReadDirectoryPlus, "READDIRPLUS"),
        (Opcode::Rename2, "RENAME2"),
        (Opcode::Seek, "LSEEK"),
        (Opcode::CopyFileRange, "COPY_FILE_RANGE"),
        (Opcode::SetUpMapping, "SETUPMAPPING"),
        (Opcode::RemoveMapping, "REMOVEMAPPING"),
        (Opcode::SyncFs, "SYNCFS"),
        (Opcode::TemporaryFile, "TMPFILE"),
        (Opcode::Statx, "STATX"),
        (Opcode::CopyFileRange64, "COPY_FILE_RANGE_64"),
    ];

    /// Returns the operation with this number, if this front end knows it.
    pub(crate) fn from_number(number: u32) -> Option<Opcode> {
        // The numbers have gaps at 7 and 19 only, so the index in the table follows from the number.
        let index = match number {
            1..=6 => number - 1,
            8..=18 => number - 2,
            20..=53 => number - 3,
            _ => return None,
        };
        Some(Opcode::ALL[index as usize].0)
    }

    /// Returns the operation's name in Linux, as it appears in traces.
    pub(crate) fn name(self) -> &'static str {
        let number = self as u32;
        let gaps = 1 + u32::from(number > 7) + u32::from(number > 19);
        Opcode::ALL[(number - gaps) as usize].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_agree() {
        for (opcode, name) in Opcode::ALL {
            assert_eq!(Opcode::from_number(opcode as u32), Some(opcode));
            assert_eq!(opcode.name(), name);
            assert!((opcode as usize) < Opcode::COUNT);
        }
        for number in [0, 7, 19, 54, 4096, u32::MAX] {
            assert_eq!(Opcode::from_number(number), None);
        }
    }
}
