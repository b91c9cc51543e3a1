//! What users see of a file system, in words that can be compared.

use std::collections::HashMap;
use std::ops::ControlFlow;

use vnode::{Attributes, Caller, Cookie, FileKind, FileSystem, InodeNumber, Name, NameBuf, OpenFlags, VnodeRef};

/// Modification times from before this second were set on purpose; any later one is "now".
const SET_TIME_MAX: i64 = 1 << 30;

/// A whole tree: each path with its object.
#[derive(Debug)]
pub(crate) struct View(Vec<(String, Seen)>);

#[derive(Debug)]
struct Seen {
    ino: InodeNumber,
    text: String,
}

impl View {
    /// All that the superuser sees.
    pub(crate) fn of(file_system: &dyn FileSystem) -> Self {
        let root = file_system.root();
        let mut seen = vec![("/".to_owned(), describe(&root, &root.getattr(&Caller::server()).unwrap()))];
        gather(&root, "", &mut seen);
        Self(seen)
    }

    /// One line for each path. Inode numbers are told by the first path that had them in an earlier view.
    pub(crate) fn since(&self, earlier: &View) -> Vec<String> {
        let mut names: HashMap<InodeNumber, &str> = HashMap::new();
        for (path, seen) in earlier.0.iter().rev() {
            names.insert(seen.ino, path);
        }
        let line = |(path, seen): &(String, Seen)| {
            let origin = names.get(&seen.ino).copied().unwrap_or("new");
            format!("{path}: [{origin}] {}", seen.text)
        };
        self.0.iter().map(line).collect()
    }
}

fn gather(directory: &VnodeRef, path: &str, seen: &mut Vec<(String, Seen)>) {
    let server = Caller::server();
    let mut names: Vec<(NameBuf, InodeNumber)> = Vec::new();
    let opened = directory.open_directory(&server).unwrap();
    let listed = opened.read(&server, Cookie::START, &mut |entry| {
        names.push((entry.name.to_owned(), entry.ino));
        ControlFlow::Continue(())
    });
    listed.unwrap();
    names.sort_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
    for (name, ino) in names {
        let path = format!("{path}/{}", String::from_utf8_lossy(name.as_bytes()));
        let entry = directory.lookup(&server, name.as_name()).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(ino, entry.attributes.ino, "{path}: reading the directory and looking up differ");
        seen.push((path.clone(), describe(&entry.vnode, &entry.attributes)));
        if entry.attributes.is_directory() {
            gather(&entry.vnode, &path, seen);
        }
    }
}

fn describe(vnode: &VnodeRef, attributes: &Attributes) -> Seen {
    let server = Caller::server();
    let Attributes { kind, mode, uid, gid, ino, .. } = *attributes;
    let mut text = format!("{kind:?} {mode:o} {uid}:{gid}");
    match kind {
        FileKind::Directory => {}
        FileKind::Symlink => text += &format!(" -> {}", String::from_utf8_lossy(&vnode.readlink(&server).unwrap())),
        FileKind::Regular => text += &format!(" {} bytes {:?}", attributes.size, contents(vnode, attributes.size)),
        _ => text += &format!(" {:?}", attributes.rdev),
    }
    if kind != FileKind::Directory {
        // Those of a directory of several branches nobody counts, and what makes way for a file may change its time.
        let is_set = attributes.mtime.seconds < SET_TIME_MAX;
        let time = if is_set { attributes.mtime.seconds.to_string() } else { "now".to_owned() };
        text += &format!(" {} names, of {time}", attributes.nlink);
    }
    let names = vnode.listxattr(&server).unwrap();
    let mut names: Vec<&[u8]> = names.split(|&byte| byte == 0).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    for name in names {
        let value = vnode.getxattr(&server, name).unwrap();
        text += &format!(" {}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(&value));
    }
    Seen { ino, text }
}

fn contents(file: &VnodeRef, size: u64) -> String {
    let server = Caller::server();
    let mut buffer = vec![0; size as usize];
    let read = file.open(&server, OpenFlags::READ).unwrap().read_at(&server, 0, &mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..read]).into_owned()
}

/// The vnode at a path.
pub(crate) fn at(file_system: &dyn FileSystem, path: &str) -> VnodeRef {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.fold(file_system.root(), |vnode, part| {
        let name = Name::new(part.as_bytes()).unwrap();
        vnode.lookup(&Caller::server(), name).unwrap_or_else(|error| panic!("{path}: {error}")).vnode
    })
}
