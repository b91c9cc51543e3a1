//! Images of file systems in memory, as text: one is written once, kept, and restored by every later version.
//!
//! A line for each object, in the order of their inode numbers: number, kind, mode, owner, group, modification time, data, extended
//! attributes, and its names. Numbers stay the same in what is restored, and the identifier of the file system, which is part of
//! handles, is replaced wherever it is stored.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::ops::ControlFlow;

use plyfs_layers::union::attributes_of_marks;
use vnode::{
    Attributes, Caller, Cookie, Creation, Device, FileKind, FileSystemRef, InodeNumber, NameBuf, OpenFlags, RenameMode,
    SetAttributes, SetTime, Timestamp, VnodeRef, XattrMode,
};

use super::{contents, memory};

/// For each file system of an image, its identifier there, and that of the restored one.
type Identifiers = Vec<(Vec<u8>, Vec<u8>)>;

/// An object with all its names.
struct Object {
    vnode: VnodeRef,
    attributes: Attributes,
    names: Vec<Vec<u8>>,
}

/// Returns the image of a file system in memory.
pub(crate) fn dump(file_system: &FileSystemRef) -> String {
    let root = file_system.root();
    let mut text = format!("file-system {}\n", hex(&identifier(&root)));
    for (number, Object { vnode, attributes, mut names }) in objects(&root) {
        names.sort();
        let kind = kind_word(attributes.kind);
        let Attributes { mode, uid, gid, mtime: Timestamp { seconds, nanoseconds }, .. } = attributes;
        let data = match attributes.kind {
            FileKind::Regular => contents(&vnode, &Caller::server()),
            FileKind::Symlink => vnode.readlink(&Caller::server()).unwrap().to_vec(),
            FileKind::CharacterDevice | FileKind::BlockDevice => {
                format!("{}:{}", attributes.rdev.major, attributes.rdev.minor).into_bytes()
            }
            _ => Vec::new(),
        };
        let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        let (data, attributes, names) = (quoted(&data), xattrs(&vnode), names.join(" "));
        writeln!(text, "{number} {kind} {mode:o} {uid} {gid} {seconds}.{nanoseconds:09} {data} {attributes} {names}")
            .unwrap();
    }
    text
}

/// Returns the file systems of an image, which has each as [`dump`] wrote it, with handles that fit.
pub(crate) fn restore(image: &str) -> Vec<FileSystemRef> {
    let parts: Vec<&str> = image.split("file-system ").skip(1).collect();
    let restored: Vec<FileSystemRef> = parts.iter().map(|_| memory()).collect();
    let old = parts.iter().map(|part| unhex(part.lines().next().unwrap()));
    let identifiers: Identifiers = old.zip(restored.iter().map(|one| identifier(&one.root()))).collect();
    for (part, file_system) in parts.iter().zip(&restored) {
        let lines: Vec<Vec<Vec<u8>>> = part.lines().skip(1).map(|line| words(line, &identifiers)).collect();
        restore_one(file_system, &lines, &identifiers);
    }
    restored
}

/// Creates the objects in the root, by their numbers, then moves them to their names.
fn restore_one(file_system: &FileSystemRef, lines: &[Vec<Vec<u8>>], identifiers: &Identifiers) {
    let (root, server) = (file_system.root(), Caller::server());
    let mut made: HashMap<Vec<u8>, (VnodeRef, NameBuf)> = HashMap::new();
    let mut next = root.getattr(&server).unwrap().ino.get() + 1;
    for line in lines.iter().filter(|line| line[8] != b"/") {
        let number = number(&line[0]);
        let name = NameBuf::new(format!("object {number}").into_bytes()).unwrap();
        while next < number {
            root.mkdir(&server, name.as_name(), 0o700).unwrap();
            root.rmdir(&server, name.as_name()).unwrap();
            next += 1;
        }
        next += 1;
        let vnode = create(&root, &name, &line[1], &line[6]);
        assert_eq!(vnode.getattr(&server).unwrap().ino.get(), number);
        made.insert(line[0].clone(), (vnode, name));
    }
    let mut places: Vec<(usize, &Vec<u8>, &Vec<u8>)> = Vec::new();
    for line in lines.iter().filter(|line| line[8] != b"/") {
        places.extend(line[8..].iter().map(|path| (path.split(|&byte| byte == b'/').count(), path, &line[0])));
    }
    places.sort();
    for (_, path, number) in places {
        let (vnode, name) = &made[number];
        let (directory, last) = parent(&root, path);
        if vnode.kind() == FileKind::Directory {
            root.rename(&server, name.as_name(), &directory, last.as_name(), RenameMode::NoReplace).unwrap();
        } else {
            directory.link(&server, vnode, last.as_name()).unwrap();
        }
    }
    for (_, name) in made.values().filter(|(vnode, _)| vnode.kind() != FileKind::Directory) {
        root.unlink(&server, name.as_name()).unwrap();
    }
    for line in lines {
        let vnode = made.get(&line[0]).map_or_else(|| root.clone(), |(vnode, _)| vnode.clone());
        set_attributes(&vnode, line, identifiers);
    }
}

fn create(root: &VnodeRef, name: &NameBuf, kind: &[u8], data: &[u8]) -> VnodeRef {
    let (server, name) = (Caller::server(), name.as_name());
    match kind {
        b"file" => {
            let created = root.create(&server, name, &Creation { mode: 0o600, flags: OpenFlags::READ_WRITE }).unwrap();
            vnode::write_fully(&*created.file, &server, 0, data).unwrap();
            created.entry.vnode
        }
        b"directory" => root.mkdir(&server, name, 0o700).unwrap().vnode,
        b"symlink" => root.symlink(&server, name, data).unwrap().vnode,
        b"device" => {
            let text = std::str::from_utf8(data).unwrap();
            let (major, minor) = text.split_once(':').unwrap();
            let device = Device { major: major.parse().unwrap(), minor: minor.parse().unwrap() };
            root.mknod(&server, name, FileKind::CharacterDevice, 0o600, device).unwrap().vnode
        }
        other => panic!("{}", other.escape_ascii()),
    }
}

fn set_attributes(vnode: &VnodeRef, line: &[Vec<u8>], identifiers: &Identifiers) {
    let server = Caller::server();
    for pair in line[7].split(|&byte| byte == b',').filter(|pair| *pair != b"-") {
        let at = pair.iter().position(|&byte| byte == b'=').unwrap();
        let value = present(unquoted(std::str::from_utf8(&pair[at + 1..]).unwrap()), identifiers);
        // The server that wrote the image acted for the superuser; another one believes other attributes.
        let name = match pair[..at].strip_prefix(b"trusted.") {
            Some(rest) => [attributes_of_marks().as_bytes(), b".", rest].concat(),
            None => pair[..at].to_vec(),
        };
        vnode.setxattr(&server, &name, &value, XattrMode::Set).unwrap();
    }
    let text = |index: usize| std::str::from_utf8(&line[index]).unwrap();
    let (seconds, nanoseconds) = text(5).split_once('.').unwrap();
    let mtime = Timestamp { seconds: seconds.parse().unwrap(), nanoseconds: nanoseconds.parse().unwrap() };
    let mode = (vnode.kind() != FileKind::Symlink).then(|| u32::from_str_radix(text(2), 8).unwrap());
    let (uid, gid) = (Some(text(3).parse().unwrap()), Some(text(4).parse().unwrap()));
    vnode.setattr(&server, &SetAttributes { uid, gid, ..SetAttributes::default() }).unwrap();
    vnode
        .setattr(&server, &SetAttributes { mode, mtime: Some(SetTime::To(mtime)), ..SetAttributes::default() })
        .unwrap();
}

/// Returns the directory of a path and the last name in it.
fn parent(root: &VnodeRef, path: &[u8]) -> (VnodeRef, NameBuf) {
    let mut names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).collect::<Vec<_>>();
    let last = NameBuf::new(names.pop().unwrap().to_vec()).unwrap();
    let directory = names.into_iter().fold(root.clone(), |directory, name| {
        directory.lookup(&Caller::server(), vnode::Name::new(name).unwrap()).unwrap().vnode
    });
    (directory, last)
}

/// All objects below a directory, and itself, by their numbers.
fn objects(root: &VnodeRef) -> BTreeMap<InodeNumber, Object> {
    let server = Caller::server();
    let attributes = root.getattr(&server).unwrap();
    let root = Object { vnode: root.clone(), attributes, names: vec![b"/".to_vec()] };
    let mut open = vec![(Vec::new(), root.vnode.clone())];
    let mut found = BTreeMap::from([(attributes.ino, root)]);
    while let Some((path, directory)) = open.pop() {
        let mut names: Vec<NameBuf> = Vec::new();
        let see = &mut |entry: vnode::DirectoryEntry<'_>| {
            names.push(entry.name.to_owned());
            ControlFlow::Continue(())
        };
        directory.open_directory(&server).unwrap().read(&server, Cookie::START, see).unwrap();
        for name in names {
            let entry = directory.lookup(&server, name.as_name()).unwrap();
            let path = [&path[..], b"/", name.as_bytes()].concat();
            if entry.attributes.is_directory() {
                open.push((path.clone(), entry.vnode.clone()));
            }
            let object = Object { vnode: entry.vnode, attributes: entry.attributes, names: Vec::new() };
            found.entry(entry.attributes.ino).or_insert(object).names.push(path);
        }
    }
    found
}

/// Extended attributes as `NAME=VALUE`, separated by commas.
fn xattrs(object: &VnodeRef) -> String {
    let names = object.listxattr(&Caller::server()).unwrap();
    let mut pairs: Vec<String> = names
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| {
            format!("{}={}", String::from_utf8_lossy(name), quoted(&object.getxattr(&Caller::server(), name).unwrap()))
        })
        .collect();
    pairs.sort();
    if pairs.is_empty() { "-".to_owned() } else { pairs.join(",") }
}

/// The words of a line, with the present identifiers; attributes are not decoded yet.
fn words(line: &str, identifiers: &Identifiers) -> Vec<Vec<u8>> {
    let word = |(index, word): (usize, &str)| match index {
        6 | 8.. => present(unquoted(word), identifiers),
        _ => word.as_bytes().to_vec(),
    };
    line.split(' ').enumerate().map(word).collect()
}

/// Replaces the identifiers of the file systems of an image by those of the restored ones, in handles and in their digits.
fn present(bytes: Vec<u8>, identifiers: &Identifiers) -> Vec<u8> {
    identifiers
        .iter()
        .fold(bytes, |bytes, (old, new)| replace(&replace(&bytes, old, new), hex(old).as_bytes(), hex(new).as_bytes()))
}

fn replace(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let mut replaced = bytes.to_vec();
    for at in 0..bytes.len().saturating_sub(old.len() - 1) {
        if &bytes[at..at + old.len()] == old {
            replaced[at..at + new.len()].copy_from_slice(new);
        }
    }
    replaced
}

/// The part of all handles that is the same in one file system in memory.
fn identifier(root: &VnodeRef) -> Vec<u8> {
    root.handle().as_bytes()[..8].to_vec()
}

fn kind_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::CharacterDevice => "device",
        other => panic!("{other:?}"),
    }
}

fn number(word: &[u8]) -> u64 {
    std::str::from_utf8(word).unwrap().parse().unwrap()
}

/// Bytes as one word of printable characters; `-` for none.
fn quoted(bytes: &[u8]) -> String {
    let letter = |byte: &u8| match byte {
        b'!'..=b'~' if !b"\\,-".contains(byte) => char::from(*byte).to_string(),
        byte => format!("\\{byte:02x}"),
    };
    if bytes.is_empty() { "-".to_owned() } else { bytes.iter().map(letter).collect() }
}

fn unquoted(word: &str) -> Vec<u8> {
    let mut parts = word.split('\\');
    let mut bytes = parts.next().filter(|first| *first != "-").unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap()).collect()
}
