//! The tested operations: each modifies or reads part of the tree of a fixture.

use std::ops::ControlFlow;

use vnode::{
    AccessMode, AllocateMode, Caller, Cookie, Creation, Device, FileKind, OpenFileRef, OpenFlags, RenameMode, Result,
    SetAttributes, VnodeRef, XattrMode, read_fully, write_fully,
};

use super::fixture::{FILE_BYTES, name, pattern};

/// An operation on the root of a fixture; it returns what the caller sees.
pub struct Operation {
    /// Description of the operation.
    pub name: &'static str,
    pub(crate) run: fn(&VnodeRef) -> Result<Vec<u8>>,
}

const fn operation(name: &'static str, run: fn(&VnodeRef) -> Result<Vec<u8>>) -> Operation {
    Operation { name, run }
}

fn caller() -> Caller {
    Caller::with_groups(0, 0, &[], 0o022)
}

/// Returns the object at a path.
fn at(root: &VnodeRef, path: &str) -> Result<VnodeRef> {
    path.split('/').try_fold(root.clone(), |node, part| Ok(node.lookup(&caller(), name(part))?.vnode))
}

fn open(root: &VnodeRef, path: &str, flags: OpenFlags) -> Result<OpenFileRef> {
    at(root, path)?.open(&caller(), flags)
}

/// Writes to the file, and reports errors of closing it.
fn write(root: &VnodeRef, flags: OpenFlags, offset: usize, bytes: usize) -> Result<Vec<u8>> {
    let file = open(root, "file", flags)?;
    write_fully(&*file, &caller(), offset as u64, &pattern(bytes, 99)).map(|()| Vec::new())
}

fn set_attributes(root: &VnodeRef, path: &str, changes: SetAttributes) -> Result<Vec<u8>> {
    let attributes = at(root, path)?.setattr(&caller(), &changes)?;
    Ok(format!("{:o} {} {}", attributes.mode, attributes.uid, attributes.size).into_bytes())
}

fn set_size(size: usize) -> SetAttributes {
    SetAttributes { size: Some(size as u64), ..SetAttributes::default() }
}

fn allocate(root: &VnodeRef, mode: u32, offset: u64, length: u64) -> Result<Vec<u8>> {
    let file = open(root, "file", OpenFlags::READ_WRITE)?;
    file.allocate(&caller(), AllocateMode::from_bits(mode), offset, length).map(|()| Vec::new())
}

fn rename(root: &VnodeRef, from: &str, to: &str, mode: RenameMode) -> Result<Vec<u8>> {
    let parent = |path: &str| -> Result<(VnodeRef, String)> {
        match path.rsplit_once('/') {
            Some((above, last)) => Ok((at(root, above)?, last.to_owned())),
            None => Ok((root.clone(), path.to_owned())),
        }
    };
    let ((from, name_from), (to, name_to)) = (parent(from)?, parent(to)?);
    from.rename(&caller(), name(&name_from), &to, name(&name_to), mode).map(|()| Vec::new())
}

fn create(root: &VnodeRef, directory: &str, text: &str, flags: OpenFlags) -> Result<Vec<u8>> {
    let how = Creation { mode: 0o640, flags };
    let directory = if directory.is_empty() { root.clone() } else { at(root, directory)? };
    directory.create(&caller(), name(text), &how).map(|_| Vec::new())
}

fn list(node: &VnodeRef) -> Result<Vec<u8>> {
    let mut names = Vec::new();
    node.open_directory(&caller())?.read(&caller(), Cookie::START, &mut |entry| {
        names.push(entry.name.as_bytes().to_vec());
        ControlFlow::Continue(())
    })?;
    names.sort();
    Ok(names.join(&0))
}

const PUNCH: u32 = AllocateMode::PUNCH_HOLE.bits() | AllocateMode::KEEP_SIZE.bits();

/// All tested operations.
pub static OPERATIONS: &[Operation] = &[
    operation("read", |root| {
        let file = open(root, "file", OpenFlags::READ)?;
        let mut data = vec![0; FILE_BYTES + 10];
        let length = read_fully(&*file, &caller(), 0, &mut data)?;
        data.truncate(length);
        Ok(data)
    }),
    operation("list", list),
    operation("list a directory", |root| list(&at(root, "directory")?)),
    operation("read a symlink", |root| at(root, "symlink")?.readlink(&caller())),
    operation("read an attribute", |root| at(root, "file")?.getxattr(&caller(), b"user.kept")),
    operation("access", |root| at(root, "file")?.access(&caller(), AccessMode::WRITE).map(|()| Vec::new())),
    operation("overwrite a block", |root| write(root, OpenFlags::WRITE, 4096, 4096)),
    operation("overwrite parts of blocks", |root| write(root, OpenFlags::READ_WRITE, 4000, 5000)),
    operation("overwrite the end", |root| write(root, OpenFlags::WRITE, FILE_BYTES - 50, 50)),
    operation("write over the end", |root| write(root, OpenFlags::WRITE, FILE_BYTES - 50, 5000)),
    operation("write far past the end", |root| write(root, OpenFlags::WRITE, FILE_BYTES + 9000, 10)),
    operation("append", |root| write(root, OpenFlags::WRITE.with(OpenFlags::APPEND), 0, 300)),
    operation("open to be emptied", |root| {
        open(root, "file", OpenFlags::WRITE.with(OpenFlags::TRUNCATE)).map(|_| Vec::new())
    }),
    operation("cut within a block", |root| set_attributes(root, "file", set_size(5000))),
    operation("cut at a block", |root| set_attributes(root, "file", set_size(4096))),
    operation("cut to nothing", |root| set_attributes(root, "file", set_size(0))),
    operation("cut an open file", |root| {
        let file = open(root, "file", OpenFlags::READ_WRITE)?;
        file.truncate(&caller(), 100).map(|()| Vec::new())
    }),
    operation("make longer", |root| set_attributes(root, "file", set_size(FILE_BYTES + 20_000))),
    operation("punch a hole", |root| allocate(root, PUNCH, 1000, 9000)),
    operation("zero past the end", |root| allocate(root, AllocateMode::ZERO_RANGE.bits(), 9000, 9000)),
    operation("allocate", |root| allocate(root, AllocateMode::ALLOCATE.bits(), 9000, 9000)),
    operation("copy a range", |root| {
        let (from, to) = (open(root, "other", OpenFlags::READ)?, open(root, "file", OpenFlags::WRITE)?);
        let mut done = 0;
        while done < 5000 {
            done += from.copy_range(&caller(), done, &to, done, 5000 - done)?;
        }
        Ok(Vec::new())
    }),
    operation("synchronize", |root| open(root, "file", OpenFlags::WRITE)?.fsync(&caller(), false).map(|()| Vec::new())),
    operation("create", |root| create(root, "", "new", OpenFlags::WRITE.with(OpenFlags::EXCLUSIVE))),
    operation("create in a directory", |root| create(root, "directory", "new", OpenFlags::READ_WRITE)),
    operation("create what exists", |root| create(root, "", "other", OpenFlags::WRITE.with(OpenFlags::TRUNCATE))),
    operation("make a directory", |root| root.mkdir(&caller(), name("new"), 0o750).map(|_| Vec::new())),
    operation("make a pipe", |root| {
        let directory = at(root, "directory")?;
        directory.mknod(&caller(), name("new"), FileKind::Fifo, 0o600, Device::default()).map(|_| Vec::new())
    }),
    operation("make a symlink", |root| root.symlink(&caller(), name("new"), b"somewhere").map(|_| Vec::new())),
    operation("link", |root| root.link(&caller(), &at(root, "file")?, name("new")).map(|_| Vec::new())),
    operation("link what has two names", |root| {
        at(root, "directory")?.link(&caller(), &at(root, "second name")?, name("third name")).map(|_| Vec::new())
    }),
    operation("unlink", |root| root.unlink(&caller(), name("file")).map(|()| Vec::new())),
    operation("unlink one of two names", |root| root.unlink(&caller(), name("second name")).map(|()| Vec::new())),
    operation("remove a directory", |root| root.rmdir(&caller(), name("empty")).map(|()| Vec::new())),
    operation("rename", |root| rename(root, "file", "new", RenameMode::Replace)),
    operation("rename over a file", |root| rename(root, "file", "other", RenameMode::Replace)),
    operation("rename into a directory", |root| rename(root, "file", "directory/new", RenameMode::NoReplace)),
    operation("rename one of two names", |root| rename(root, "second name", "third name", RenameMode::Replace)),
    operation("rename a directory", |root| rename(root, "directory", "new", RenameMode::Replace)),
    operation("rename over a directory", |root| rename(root, "directory", "empty", RenameMode::Replace)),
    operation("exchange files", |root| rename(root, "file", "directory/inner", RenameMode::Exchange)),
    operation("exchange directories", |root| rename(root, "directory", "empty", RenameMode::Exchange)),
    operation("change the mode", |root| {
        set_attributes(root, "file", SetAttributes { mode: Some(0o600), ..SetAttributes::default() })
    }),
    operation("change the owner of a directory", |root| {
        set_attributes(root, "directory", SetAttributes { uid: Some(7), ..SetAttributes::default() })
    }),
    operation("change the mode of what has two names", |root| {
        set_attributes(root, "second name", SetAttributes { mode: Some(0o600), ..SetAttributes::default() })
    }),
    operation("set an attribute", |root| {
        at(root, "file")?.setxattr(&caller(), b"user.new", b"value", XattrMode::Create).map(|()| Vec::new())
    }),
    operation("remove an attribute", |root| {
        at(root, "file")?.removexattr(&caller(), b"user.kept").map(|()| Vec::new())
    }),
    operation("make a file without a name", |root| {
        let how = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE };
        let created = root.tmpfile(&caller(), &how)?;
        write_fully(&*created.file, &caller(), 0, &pattern(5000, 3))?;
        root.link(&caller(), &created.entry.vnode, name("new")).map(|_| Vec::new())
    }),
];
