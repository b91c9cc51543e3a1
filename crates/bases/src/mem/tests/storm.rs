//! Many concurrent threads: nothing is lost, miscounted or deadlocked.

use std::collections::HashMap;

use vnode::{Cookie, FileSystem, InodeNumber, OpenFlags, RenameMode, XattrMode};

use super::*;

const THREADS: u64 = 4;
const STEPS: usize = 20_000;

/// Performs one random operation in one of the directories; it may fail in any way that the others cause.
fn step(random: &mut fastrand::Rng, root: &VnodeRef) {
    let caller = superuser();
    let pick = |random: &mut fastrand::Rng| format!("{}", random.u8(b'a'..b'g') as char);
    let walk = |random: &mut fastrand::Rng| {
        let mut directory = root.clone();
        for _ in 0..random.usize(0..3) {
            match directory.lookup(&caller, name(&pick(random))) {
                Ok(entry) if entry.attributes.is_directory() => directory = entry.vnode,
                _ => break,
            }
        }
        directory
    };
    let (directory, text) = (walk(random), pick(random));
    match random.u8(0..12) {
        0..=2 => {
            let created = directory.create(&caller, name(&text), &how(0o644, OpenFlags::READ_WRITE));
            if let Ok(created) = created {
                let data = vec![random.u8(..); random.usize(..20_000)];
                let _ = created.file.write_at(&caller, random.u64(..20_000), &data);
                let _ = created.file.truncate(&caller, random.u64(..30_000));
            }
        }
        3..=4 => drop(directory.mkdir(&caller, name(&text), 0o755)),
        5 => drop(directory.unlink(&caller, name(&text))),
        6 => drop(directory.rmdir(&caller, name(&text))),
        7 => {
            let target = walk(random).lookup(&caller, name(&pick(random)));
            if let Ok(target) = target {
                let _ = directory.link(&caller, &target.vnode, name(&text));
            }
        }
        8..=9 => {
            let modes = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange, RenameMode::Whiteout];
            let (to, to_name) = (walk(random), pick(random));
            let _ = directory.rename(&caller, name(&text), &to, name(&to_name), modes[random.usize(..4)]);
        }
        10 => {
            let _ = directory.setxattr(&caller, b"user.x", &vec![1; random.usize(..9000)], XattrMode::Set);
            let _ = directory.path();
        }
        _ => drop(names_of(&directory)),
    }
}

fn names_of(directory: &VnodeRef) -> Result<usize> {
    let mut count = 0;
    directory.open_directory(&superuser())?.read(&superuser(), Cookie::START, &mut |_| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

/// Sums over the objects below a directory.
#[derive(Default)]
struct Totals {
    blocks: u64,
    inodes: u64,
    /// Number of names found and link count, by inode number.
    names: HashMap<InodeNumber, (u32, u32)>,
}

impl Totals {
    fn add(&mut self, directory: &VnodeRef) {
        let mut below = 0;
        self.inodes += 1;
        self.blocks += attributes(directory).blocks;
        for (text, ..) in entries_after(directory, Cookie::START) {
            let entry = lookup(directory, &text).unwrap();
            if entry.attributes.is_directory() {
                below += 1;
                assert_eq!(entry.vnode.parent(&superuser()).unwrap().handle(), directory.handle());
                self.add(&entry.vnode);
                continue;
            }
            let (names, _) = *self.names.entry(entry.attributes.ino).or_default();
            if names == 0 {
                self.inodes += 1;
                self.blocks += entry.attributes.blocks;
            }
            self.names.insert(entry.attributes.ino, (names + 1, entry.attributes.nlink));
        }
        assert_eq!(attributes(directory).nlink, 2 + below);
    }
}

fn remove_below(directory: &VnodeRef) {
    for (text, kind, _) in entries_after(directory, Cookie::START) {
        if kind == FileKind::Directory {
            remove_below(&lookup(directory, &text).unwrap().vnode);
            directory.rmdir(&superuser(), name(&text)).unwrap();
        } else {
            directory.unlink(&superuser(), name(&text)).unwrap();
        }
    }
}

#[test]
fn concurrent_operations_keep_all_counts_right() {
    let seed = random::seed();
    let memory = file_system();
    let root = memory.root();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let root = &root;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed + thread);
                (0..STEPS).for_each(|_| step(&mut random, root));
            });
        }
    });
    let mut totals = Totals::default();
    totals.add(&root);
    assert!(totals.names.values().all(|(names, links)| names == links));
    let state = root.statfs(&superuser()).unwrap();
    assert_eq!(state.files - state.files_free, totals.inodes);
    assert_eq!((state.blocks - state.blocks_free) * 8, totals.blocks);
    remove_below(&root);
    let _ = root.removexattr(&superuser(), b"user.x");
    let state = root.statfs(&superuser()).unwrap();
    assert_eq!((state.files - state.files_free, state.blocks_free), (1, state.blocks));
}
