//! Changes by chance to the objects of a file system.

use fastrand::Rng;
use vnode::{
    AllocateMode, Caller, Creation, FileKind, FileSystem, Name, OpenFlags, RenameMode, SetAttributes, VnodeRef,
    XattrMode,
};

/// Number of changes.
const CHANGES: usize = 24;
/// Names that are created, of all lengths and forms.
const NAMES: &[&str] = &["a", "B.TXT", "a longer name with spaces.text", "ÄÖ", "name.", "con", ".hidden", "x~1"];

/// Changes the objects that were found.
pub(crate) fn change(file_system: &dyn FileSystem, objects: &[VnodeRef], caller: &Caller, random: &mut Rng) {
    for _ in 0..CHANGES {
        let object = random.choice(objects).cloned().unwrap_or_else(|| file_system.root());
        match object.kind() {
            FileKind::Directory => change_directory(&object, objects, caller, random),
            FileKind::Regular => change_file(&object, caller, random),
            _ => {}
        }
        change_attributes(&object, caller, random);
    }
}

fn change_directory(directory: &VnodeRef, objects: &[VnodeRef], caller: &Caller, random: &mut Rng) {
    let text = names(random);
    let (Ok(name), other) = (Name::new(text.as_bytes()), names(random)) else { return };
    let Ok(other) = Name::new(other.as_bytes()) else { return };
    match random.u8(..8) {
        0 => {
            let how = Creation { mode: 0o640, flags: OpenFlags::WRITE };
            if let Ok(created) = directory.create(caller, name, &how) {
                let _ = created.file.write_at(caller, random.u64(..5000), &vec![7; random.usize(..3000)]);
            }
        }
        1 => drop(directory.mkdir(caller, name, 0o755)),
        2 => drop(directory.symlink(caller, name, b"target")),
        3 => drop(directory.unlink(caller, name)),
        4 => drop(directory.rmdir(caller, name)),
        5 => {
            let mode = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange][random.usize(..3)];
            let to = objects.iter().rfind(|object| object.kind() == FileKind::Directory);
            let _ = directory.rename(caller, name, to.unwrap_or(directory), other, mode);
        }
        6 => drop(directory.mknod(caller, name, FileKind::Fifo, 0o600, Default::default())),
        _ => {
            if let Some(target) = random.choice(objects) {
                let _ = directory.link(caller, target, name);
            }
        }
    }
}

fn change_file(file: &VnodeRef, caller: &Caller, random: &mut Rng) {
    let Ok(open) = file.open(caller, OpenFlags::READ_WRITE) else { return };
    let size = open.getattr(caller).map_or(0, |attributes| attributes.size);
    match random.u8(..5) {
        0 => drop(open.write_at(caller, random.u64(..=size), &vec![1; random.usize(..4000)])),
        1 => drop(open.write_at(caller, size + random.u64(..20_000), b"end")),
        2 => drop(open.truncate(caller, random.u64(..=size))),
        3 => drop(open.truncate(caller, size.saturating_add(random.u64(..20_000)))),
        _ => {
            let mode = [AllocateMode::ALLOCATE, AllocateMode::KEEP_SIZE, AllocateMode::ZERO_RANGE][random.usize(..3)];
            let _ = open.allocate(caller, mode, size, random.u64(..5000));
        }
    }
    let _ = open.fsync(caller, random.bool());
}

fn change_attributes(object: &VnodeRef, caller: &Caller, random: &mut Rng) {
    let changes = SetAttributes {
        mode: random.bool().then(|| random.u32(..0o10000)),
        uid: random.bool().then(|| random.u32(..3)),
        ..SetAttributes::default()
    };
    match random.u8(..4) {
        0 => drop(object.setattr(caller, &changes)),
        1 => drop(object.setxattr(caller, b"user.a", &vec![3; random.usize(..200)], XattrMode::Set)),
        2 => drop(object.removexattr(caller, b"user.a")),
        _ => {}
    }
}

/// Returns a name, mostly one of a few.
fn names(random: &mut Rng) -> String {
    match random.u8(..6) {
        0 => "n".repeat(random.usize(1..256)),
        _ => NAMES[random.usize(..NAMES.len())].to_owned(),
    }
}
