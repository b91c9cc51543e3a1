//! Usenetfs breaks large flat directories of articles, whose names are numbers, into a thousand small ones, by the last
//! three digits. A directory is managed so if its set-user-id bit is set while it is empty.

use std::sync::Arc;

use vnode::layer::{Layer, LayerVnode};
use vnode::{
    Caller, Created, Creation, Device, Entry, Errno, FileKind, Name, Needs, OpenDirectoryRef, Promises, RenameMode,
    Result, VnodeRef,
};

use super::listing::{Listing, Names};

/// A directory of the layer.
type Directory = LayerVnode<Usenetfs>;

/// Puts articles into small directories.
pub struct Usenetfs;

impl Usenetfs {
    /// The directory that a name is in.
    fn place(node: &Directory, caller: &Caller, name: Name<'_>) -> Result<Arc<Directory>> {
        if !is_article(node, name)? {
            return Ok(node.shared());
        }
        Ok(node.wrap(node.lower().lookup(caller, Name::new(&bucket(name))?)?.vnode))
    }

    /// The directory that a new name is to be in: made if it is not there.
    fn place_of_new(node: &Directory, caller: &Caller, name: Name<'_>) -> Result<Arc<Directory>> {
        if is_article(node, name)? {
            let mode = node.lower().getattr(&Caller::server())?.mode & 0o777;
            match node.lower().mkdir(caller, Name::new(&bucket(name))?, mode) {
                Ok(_) | Err(Errno::EEXIST) => {}
                Err(error) => return Err(error),
            }
        }
        Self::place(node, caller, name)
    }

    fn collect(node: &Directory, caller: &Caller, names: &mut Names) -> Result<()> {
        if !is_managed(node)? {
            return names.add(caller, node.lower(), |_| true);
        }
        names.add(caller, node.lower(), |name| !is_number(name))?;
        for number in 0..1000 {
            match node.lower().lookup(caller, Name::new(format!("{number:03}").as_bytes())?) {
                Ok(bucket) => names.add(caller, &bucket.vnode, |_| true)?,
                Err(Errno::ENOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn is_managed(node: &Directory) -> Result<bool> {
    Ok(node.lower().getattr(&Caller::server())?.mode & libc::S_ISUID != 0)
}

fn is_number(name: &[u8]) -> bool {
    name.iter().all(u8::is_ascii_digit)
}

fn is_article(node: &Directory, name: Name<'_>) -> Result<bool> {
    Ok(is_number(name.as_bytes()) && is_managed(node)?)
}

/// The name of the directory of an article.
fn bucket(article: Name<'_>) -> Vec<u8> {
    let padded = [b"00", article.as_bytes()].concat();
    padded[padded.len() - 3..].to_vec()
}

impl Layer for Usenetfs {
    type State = ();

    fn kind(&self) -> &'static str {
        "usenetfs"
    }

    fn promises(&self) -> Promises {
        Promises { exclusive: false, ..Promises::TRANSPARENT }
    }

    fn needs(&self) -> Needs {
        Needs { every_lookup: true, failed_lookups: true, ..Needs::NONE }
    }

    fn lookup(&self, node: &Directory, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        Self::place(node, caller, name)?.forward_lookup(caller, name)
    }

    fn create(&self, node: &Directory, caller: &Caller, name: Name<'_>, how: &Creation) -> Result<Created> {
        Self::place_of_new(node, caller, name)?.forward_create(caller, name, how)
    }

    fn mkdir(&self, node: &Directory, caller: &Caller, name: Name<'_>, mode: u32) -> Result<Entry> {
        Self::place_of_new(node, caller, name)?.forward_mkdir(caller, name, mode)
    }

    fn mknod(
        &self,
        node: &Directory,
        caller: &Caller,
        name: Name<'_>,
        kind: FileKind,
        mode: u32,
        device: Device,
    ) -> Result<Entry> {
        Self::place_of_new(node, caller, name)?.forward_mknod(caller, name, kind, mode, device)
    }

    fn symlink(&self, node: &Directory, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<Entry> {
        Self::place_of_new(node, caller, name)?.forward_symlink(caller, name, target)
    }

    fn link(&self, node: &Directory, caller: &Caller, target: &VnodeRef, name: Name<'_>) -> Result<Entry> {
        Self::place_of_new(node, caller, name)?.forward_link(caller, target, name)
    }

    fn unlink(&self, node: &Directory, caller: &Caller, name: Name<'_>) -> Result<()> {
        Self::place(node, caller, name)?.forward_unlink(caller, name)
    }

    fn rmdir(&self, node: &Directory, caller: &Caller, name: Name<'_>) -> Result<()> {
        Self::place(node, caller, name)?.forward_rmdir(caller, name)
    }

    fn rename(
        &self,
        node: &Directory,
        caller: &Caller,
        name: Name<'_>,
        to: &VnodeRef,
        to_name: Name<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        let to_directory = to.as_any().downcast_ref::<Directory>().ok_or(Errno::EXDEV)?;
        // Programs copy what cannot be renamed.
        if is_article(node, name)? || is_article(to_directory, to_name)? {
            return Err(Errno::EXDEV);
        }
        node.forward_rename(caller, name, to, to_name, mode)
    }

    fn open_directory(&self, node: &Directory, caller: &Caller) -> Result<OpenDirectoryRef> {
        Listing::open(node, caller, Self::collect)
    }
}
