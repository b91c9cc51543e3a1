//! A layer that makes of any file system one that has as little as FAT, NFS and others: it refuses what those do not have.

use std::borrow::Cow;
use std::ops::ControlFlow;

use vnode::layer::{Layer, LayerVnode, stack};
use vnode::{
    Attributes, Caller, Cookie, Device, Entry, Errno, FileKind, FileSystemRef, Name, Promises, RenameMode, Result,
    SetAttributes, Timestamp, VnodeRef, XattrMode,
};

/// What a file system does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lacks {
    /// renameat2(2) with `RENAME_NOREPLACE`.
    pub no_replace: bool,
    /// renameat2(2) with other flags.
    pub exchange: bool,
    /// Owners: all is root's.
    pub owners: bool,
    /// Modes: all is 0755, and set-id bits are refused.
    pub modes: bool,
    pub attributes: bool,
    pub links: bool,
    pub symlinks: bool,
    pub devices: bool,
    /// Names that differ in case only, or end with a dot.
    pub exact_names: bool,
    /// Times of less than two seconds.
    pub fine_times: bool,
}

pub(crate) const NOTHING: Lacks = Lacks {
    no_replace: false,
    exchange: false,
    owners: false,
    modes: false,
    attributes: false,
    links: false,
    symlinks: false,
    devices: false,
    exact_names: false,
    fine_times: false,
};

/// As NFSv4 has it.
pub(crate) const NFS: Lacks = Lacks { no_replace: true, exchange: true, attributes: true, ..NOTHING };

/// As FAT has it.
pub(crate) const FAT: Lacks = Lacks {
    owners: true,
    modes: true,
    attributes: true,
    links: true,
    symlinks: true,
    devices: true,
    exact_names: true,
    fine_times: true,
    ..NOTHING
};

pub(crate) const EVERYTHING: Lacks = Lacks { no_replace: true, exchange: true, ..FAT };

/// Each lack alone, and those of known file systems.
pub(crate) fn cases() -> Vec<Lacks> {
    vec![
        NOTHING,
        Lacks { no_replace: true, ..NOTHING },
        Lacks { exchange: true, ..NOTHING },
        Lacks { owners: true, ..NOTHING },
        Lacks { modes: true, ..NOTHING },
        Lacks { attributes: true, ..NOTHING },
        Lacks { links: true, ..NOTHING },
        Lacks { symlinks: true, ..NOTHING },
        Lacks { devices: true, ..NOTHING },
        Lacks { exact_names: true, ..NOTHING },
        Lacks { fine_times: true, ..NOTHING },
        NFS,
        FAT,
        EVERYTHING,
    ]
}

/// A file system without that.
pub(crate) fn without(lacks: Lacks, lower: FileSystemRef) -> FileSystemRef {
    stack(Plain(lacks), lower)
}

struct Plain(Lacks);

fn refuse_if(lacks: bool, error: Errno) -> Result<()> {
    if lacks { Err(error) } else { Ok(()) }
}

fn coarse(time: &mut Timestamp) {
    *time = Timestamp { seconds: time.seconds & !1, nanoseconds: 0 };
}

impl Layer for Plain {
    type State = ();

    fn kind(&self) -> &'static str {
        "plain"
    }

    fn promises(&self) -> Promises {
        let Lacks { exact_names, attributes, .. } = self.0;
        Promises { exact_names: !exact_names, persistent_handles: !attributes, ..Promises::TRANSPARENT }
    }

    fn map_attributes(&self, _: &Caller, attributes: &mut Attributes) {
        if self.0.owners {
            (attributes.uid, attributes.gid) = (0, 0);
        }
        if self.0.modes && attributes.kind != FileKind::Symlink {
            attributes.mode = 0o755;
        }
        if self.0.fine_times {
            [&mut attributes.atime, &mut attributes.mtime, &mut attributes.ctime].into_iter().for_each(coarse);
        }
    }

    fn encode_name<'a>(&self, directory: &LayerVnode<Self>, _: &Caller, name: Name<'a>) -> Result<Cow<'a, [u8]>> {
        if !self.0.exact_names {
            return Ok(Cow::Borrowed(name.as_bytes()));
        }
        let wanted = name.as_bytes().trim_ascii_end().to_vec();
        let wanted =
            wanted.iter().rposition(|&byte| byte != b'.').map_or(wanted.clone(), |end| wanted[..=end].to_vec());
        let (mut found, server) = (None, Caller::server());
        directory.lower().open_directory(&server)?.read(&server, Cookie::START, &mut |entry| {
            if entry.name.as_bytes().eq_ignore_ascii_case(&wanted) {
                found = Some(entry.name.as_bytes().to_vec());
            }
            ControlFlow::Continue(())
        })?;
        Ok(Cow::Owned(found.unwrap_or(wanted)))
    }

    fn setattr(&self, node: &LayerVnode<Self>, caller: &Caller, changes: &SetAttributes) -> Result<Attributes> {
        let Lacks { owners, modes, .. } = self.0;
        let is_not_roots = |id: Option<u32>| id.is_some_and(|id| id != 0);
        refuse_if(owners && (is_not_roots(changes.uid) || is_not_roots(changes.gid)), Errno::EPERM)?;
        refuse_if(modes && changes.mode.is_some_and(|mode| mode & 0o7000 != 0), Errno::EPERM)?;
        node.forward_setattr(caller, &SetAttributes { mode: changes.mode.filter(|_| !modes), ..*changes })
    }

    fn mknod(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        kind: FileKind,
        mode: u32,
        device: Device,
    ) -> Result<Entry> {
        refuse_if(self.0.devices && kind != FileKind::Regular, Errno::EPERM)?;
        node.forward_mknod(caller, name, kind, mode, device)
    }

    fn symlink(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        refuse_if(self.0.symlinks, Errno::EPERM)?;
        node.forward_symlink(caller, name, target)
    }

    fn link(&self, node: &LayerVnode<Self>, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        refuse_if(self.0.links, Errno::EPERM)?;
        node.forward_link(caller, target, name)
    }

    fn rename(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        let is_lacking = match mode {
            RenameMode::Replace => false,
            RenameMode::NoReplace => self.0.no_replace,
            _ => self.0.exchange,
        };
        refuse_if(is_lacking, Errno::EINVAL)?;
        node.forward_rename(caller, name, to, to_name, mode)
    }

    fn getxattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<Vec<u8>> {
        refuse_if(self.0.attributes, Errno::EOPNOTSUPP)?;
        node.forward_getxattr(caller, name)
    }

    fn setxattr(
        &self,
        node: &LayerVnode<Self>,
        caller: &Caller,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        refuse_if(self.0.attributes, Errno::EOPNOTSUPP)?;
        node.forward_setxattr(caller, name, value, mode)
    }

    fn listxattr(&self, node: &LayerVnode<Self>, caller: &Caller) -> Result<Vec<u8>> {
        if self.0.attributes { Ok(Vec::new()) } else { node.forward_listxattr(caller) }
    }

    fn removexattr(&self, node: &LayerVnode<Self>, caller: &Caller, name: &[u8]) -> Result<()> {
        refuse_if(self.0.attributes, Errno::EOPNOTSUPP)?;
        node.forward_removexattr(caller, name)
    }
}
