//! Classification of ioctls: those that modify the object, and those that query where its data are.

/// Returns whether an ioctl modifies the object. By the `_IOC` convention, a command that only reads has the direction
/// "read" and no other, but the oldest commands, `_IO` without a size, do all sorts of things; so do `FS_IOC_SETFLAGS`
/// and its kin, which have the direction "write".
pub(crate) fn changes(command: u32) -> bool {
    const FIGETBSZ: u32 = 2;
    const FIONREAD: u32 = 0x541b;
    let direction = command >> 30;
    let terminal = command >> 8 == 0x54;
    let reads_only = direction == 2;
    !(reads_only || terminal || matches!(command, FIGETBSZ | FIONREAD | FS_IOC_FIEMAP))
}

/// Returns whether the ioctl queries where the data of a file are.
pub(crate) fn asks_for_data(command: u32) -> bool {
    command == FS_IOC_FIEMAP
}

/// The command of `struct fiemap`, which has both directions: the request is written, the extents are read.
const FS_IOC_FIEMAP: u32 = 0xc020_660b;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ioctls_that_set_are_changes() {
        const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
        const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
        const FICLONE: u32 = 0x4004_9409;
        const TCGETS: u32 = 0x5401;
        assert!(!changes(FS_IOC_GETFLAGS) && !changes(TCGETS));
        assert!(changes(FS_IOC_SETFLAGS) && changes(FICLONE));
    }
}
