//! The layer `readonly`: every change is refused with `EROFS`.

mod options;

use vnode::layer::{self, Layer, LayerVnode, Operation};
use vnode::{Caller, Errno, FileKind, Properties, Result};

use crate::Kind;
pub use options::create;

/// What whoever builds stacks knows of it.
pub const KIND: Kind = Kind {
    name: "readonly",
    summary: "refuses every change",
    options: options::KNOWN,
    build: |pairs, lower| Ok(layer::stack(create(pairs)?, lower)),
};

/// Refuses every change. Sockets, fifos and devices are written through, not on, the file system: access to them stays.
#[derive(Debug)]
pub struct ReadOnly;

impl Layer for ReadOnly {
    type State = ();

    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn properties(&self) -> Properties {
        Properties { admission_untouched: false, read_only: true, ..Properties::TRANSPARENT }
    }

    fn admit(&self, node: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> Result<()> {
        match operation {
            Operation::Access(_) if is_special(node) => Ok(()),
            Operation::Ioctl { command } if changes(*command) => Err(Errno::EROFS),
            _ if operation.modifies() => Err(Errno::EROFS),
            _ => Ok(()),
        }
    }
}

fn is_special(node: &LayerVnode<ReadOnly>) -> bool {
    !matches!(vnode::Vnode::kind(node), FileKind::Regular | FileKind::Directory | FileKind::Symlink)
}

/// Whether an ioctl changes the object. By the convention of `_IOC` a command that only reads has the direction "read"
/// and no other, but the oldest commands, `_IO` without a size, do all sorts of things; so do `FS_IOC_SETFLAGS` and
/// its kin, which have the direction "write".
fn changes(command: u32) -> bool {
    const FIGETBSZ: u32 = 2;
    const FIONREAD: u32 = 0x541b;
    // struct fiemap goes both ways: the request is written, the extents are read.
    const FS_IOC_FIEMAP: u32 = 0xc020_660b;
    let direction = command >> 30;
    let terminal = command >> 8 == 0x54;
    let reads_only = direction == 2;
    !(reads_only || terminal || matches!(command, FIGETBSZ | FIONREAD | FS_IOC_FIEMAP))
}

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
