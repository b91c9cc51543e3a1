//! Random operations, each compared with a map of paths to contents.

use std::collections::BTreeMap;

use vnode::{Cookie, FileSystem, OpenFlags, RenameMode};

use super::*;

/// Returns the seed of a random test: `SEED`, or a new one; printed, so that a failure can be replayed.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("SEED={seed}");
    seed
}

/// Files with their contents, directories as `None`, by path. Every directory except the root `""` is listed.
#[derive(Default)]
struct Model {
    tree: BTreeMap<String, Option<Vec<u8>>>,
}

impl Model {
    fn is_directory(&self, path: &str) -> bool {
        path.is_empty() || matches!(self.tree.get(path), Some(None))
    }

    fn has_parent(&self, path: &str) -> bool {
        self.is_directory(path.rsplit_once('/').map_or("", |(parent, _)| parent))
    }

    fn is_empty(&self, path: &str) -> bool {
        !self.tree.keys().any(|other| other.starts_with(&format!("{path}/")))
    }

    fn write(&mut self, path: &str, offset: usize, data: &[u8]) -> bool {
        if !self.has_parent(path) || self.is_directory(path) {
            return false;
        }
        let bytes = self.tree.entry(path.to_owned()).or_insert_with(|| Some(Vec::new())).as_mut().unwrap();
        bytes.resize(bytes.len().max(offset + data.len()), 0);
        bytes[offset..offset + data.len()].copy_from_slice(data);
        true
    }

    fn mkdir(&mut self, path: &str) -> bool {
        let can = self.has_parent(path) && !self.tree.contains_key(path);
        if can {
            self.tree.insert(path.to_owned(), None);
        }
        can
    }

    fn remove(&mut self, path: &str, directory: bool) -> bool {
        let can = self.tree.contains_key(path) && self.is_directory(path) == directory && self.is_empty(path);
        if can {
            self.tree.remove(path);
        }
        can
    }

    fn rename(&mut self, from: &str, to: &str) -> bool {
        let inside = to.starts_with(&format!("{from}/"));
        if !self.tree.contains_key(from) || !self.has_parent(to) || inside {
            return false;
        }
        if from == to {
            return true;
        }
        let target_fits = self.is_directory(from) == self.is_directory(to) && self.is_empty(to);
        if self.tree.contains_key(to) && !target_fits {
            return false;
        }
        let below = format!("{from}/");
        let moved: Vec<String> =
            self.tree.keys().filter(|path| *path == from || path.starts_with(&below)).cloned().collect();
        for path in moved {
            let content = self.tree.remove(&path).unwrap();
            self.tree.insert(format!("{to}{}", &path[from.len()..]), content);
        }
        true
    }
}

/// Returns the parent directory of a path, and the path's last name.
fn parent_of<'a>(root: &VnodeRef, path: &'a str) -> Option<(VnodeRef, Name<'a>)> {
    let (parent, last) = path.rsplit_once('/').unwrap_or(("", path));
    let mut directory = root.clone();
    for part in parent.split('/').filter(|part| !part.is_empty()) {
        directory = lookup(&directory, part).ok()?.vnode;
    }
    Some((directory, name(last)))
}

fn write(root: &VnodeRef, path: &str, offset: usize, data: &[u8]) -> bool {
    let Some((directory, last)) = parent_of(root, path) else { return false };
    match directory.create(&superuser(), last, &how(0o644, OpenFlags::WRITE)) {
        Ok(created) => created.file.write_at(&superuser(), offset as u64, data).is_ok(),
        Err(_) => false,
    }
}

/// Reads back the whole tree.
fn read_back(directory: &VnodeRef, path: &str, tree: &mut BTreeMap<String, Option<Vec<u8>>>) {
    for (text, kind, _) in entries_after(directory, Cookie::START) {
        let entry = lookup(directory, &text).unwrap();
        let path = if path.is_empty() { text } else { format!("{path}/{text}") };
        let content = (kind == FileKind::Regular).then(|| {
            let mut bytes = vec![0; entry.attributes.size as usize];
            let file = entry.vnode.open(&superuser(), OpenFlags::READ).unwrap();
            assert_eq!(file.read_at(&superuser(), 0, &mut bytes), Ok(bytes.len()));
            bytes
        });
        if kind == FileKind::Directory {
            read_back(&entry.vnode, &path, tree);
        }
        assert_eq!(entry.vnode.path().unwrap(), path.as_bytes());
        tree.insert(path, content);
    }
}

#[test]
fn random_operations_agree_with_a_map_of_paths() {
    let mut random = fastrand::Rng::with_seed(seed());
    let memory = file_system();
    let (root, mut model) = (memory.root(), Model::default());
    for step in 0..10_000 {
        let mut path = || {
            let depth = random.usize(1..4);
            let parts: Vec<String> = (0..depth).map(|_| ["a", "b", "c", "d"][random.usize(0..4)].to_owned()).collect();
            parts.join("/")
        };
        let (one, two) = (path(), path());
        let (got, expected) = match random.u8(0..10) {
            0..=2 => {
                let (offset, data) = (random.usize(0..10_000), vec![random.u8(..); random.usize(1..5_000)]);
                (write(&root, &one, offset, &data), model.write(&one, offset, &data))
            }
            3..=4 => {
                let got = parent_of(&root, &one)
                    .is_some_and(|(parent, last)| parent.mkdir(&superuser(), last, 0o755).is_ok());
                (got, model.mkdir(&one))
            }
            5 => {
                let got =
                    parent_of(&root, &one).is_some_and(|(parent, last)| parent.unlink(&superuser(), last).is_ok());
                (got, model.remove(&one, false))
            }
            6 => {
                let got = parent_of(&root, &one).is_some_and(|(parent, last)| parent.rmdir(&superuser(), last).is_ok());
                (got, model.remove(&one, true))
            }
            _ => {
                let got =
                    parent_of(&root, &one).zip(parent_of(&root, &two)).is_some_and(|((from, last), (to, to_last))| {
                        from.rename(&superuser(), last, &to, to_last, RenameMode::Replace).is_ok()
                    });
                (got, model.rename(&one, &two))
            }
        };
        assert_eq!(got, expected, "step {step}: {one} {two}");
        if step % 100 == 0 {
            let mut tree = BTreeMap::new();
            read_back(&root, "", &mut tree);
            assert!(tree == model.tree, "step {step}");
        }
    }
}
