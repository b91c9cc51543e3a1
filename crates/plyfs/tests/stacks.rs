//! Stacks in a process: built, read, walked, and the errors of each.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use plyfs::vnode::{Creation, Errno, Name, OpenFlags};
use plyfs::{Error, Kind, Registry, Stack, own_caller};

/// Returns a directory with a file, a symlink, and a directory with a file in it.
fn sample() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("b"), "content of b").unwrap();
    symlink("c/d", directory.path().join("a")).unwrap();
    fs::create_dir(directory.path().join("c")).unwrap();
    fs::write(directory.path().join("c/d"), vec![7; (1 << 20) + 1]).unwrap();
    directory
}

fn open(directory: &Path, layers: &str) -> Stack {
    Stack::open(&format!("{}{layers}", directory.display())).unwrap()
}

fn walked(stack: &Stack, path: &str) -> Vec<PathBuf> {
    stack.walk(path).unwrap().map(|entry| entry.unwrap().path).collect()
}

#[test]
fn a_walk_comes_to_everything_in_the_order_of_names() {
    let directory = sample();
    let stack = open(directory.path(), " | readonly");
    assert_eq!(walked(&stack, "/"), ["/", "/a", "/b", "/c", "/c/d"].map(PathBuf::from));
    assert_eq!(walked(&stack, ""), walked(&stack, "/"));
    assert_eq!(walked(&stack, "c"), ["/c", "/c/d"].map(PathBuf::from));
    assert_eq!(walked(&stack, "/a"), ["/c/d"].map(PathBuf::from), "a symlink as the start is followed");
    let sizes = stack.walk("/").unwrap().map(|entry| entry.unwrap());
    let size = sizes.filter(|entry| entry.path.ends_with("b")).map(|entry| entry.attributes.size).next();
    assert_eq!(size, Some(12));
}

#[test]
fn a_walk_leaves_out_what_is_removed_meanwhile() {
    let directory = sample();
    let stack = open(directory.path(), "");
    let mut walk = stack.walk("/").unwrap();
    assert_eq!(walk.next().unwrap().unwrap().path, Path::new("/"));
    fs::remove_file(directory.path().join("b")).unwrap();
    let rest: Vec<PathBuf> = walk.map(|entry| entry.unwrap().path).collect();
    assert_eq!(rest, ["/a", "/c", "/c/d"].map(PathBuf::from));
}

#[test]
fn a_walk_reports_what_it_cannot_reach_and_continues() {
    let directory = sample();
    let walk = |fault: &str| {
        let stack = open(directory.path(), &format!(" | faulty(operations={fault}, times=1, error=EIO)"));
        let describe = |entry: Result<plyfs::WalkEntry, Error>| match entry {
            Ok(entry) => entry.path.display().to_string(),
            Err(error) => error.to_string(),
        };
        stack.walk("/").unwrap().map(describe).collect::<Vec<_>>()
    };
    let failed = |path: &str| Error::Object { path: path.into(), errno: Errno::EIO }.to_string();
    assert_eq!(walk("lookup, from=2"), ["/", "/a", &failed("/b"), "/c", "/c/d"]);
    assert_eq!(walk("opendir, from=2"), ["/", "/a", "/b", "/c", &failed("/c")]);
}

#[test]
fn files_are_read_by_paths_through_symlinks() {
    let directory = sample();
    let stack = open(directory.path(), "");
    assert_eq!(stack.read("/b").unwrap(), b"content of b");
    assert_eq!(stack.read("a").unwrap(), vec![7; (1 << 20) + 1]);
    for (path, expected) in [("/none", Errno::ENOENT), ("c", Errno::EISDIR), ("b/x", Errno::ENOTDIR)] {
        match stack.read(path) {
            Err(Error::Object { path: named, errno }) => {
                assert_eq!((named.as_path(), errno), (Path::new(path), expected))
            }
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn errors_name_the_expression_the_column_and_the_remedy() {
    let message = |expression: &str| Stack::open(expression).unwrap_err().to_string();
    assert_eq!(
        message("mem: | readnoly"),
        "cannot build 'mem: | readnoly': column 8: there is no layer 'readnoly'; did you mean 'readonly'?"
    );
    assert!(message("mem: |").starts_with("cannot build 'mem: |': column 7: "), "{}", message("mem: |"));
    assert!(message("/none/at/all").contains("there is no directory `/none/at/all`"));
}

#[test]
fn paths_in_expressions_become_absolute() {
    let current = std::env::current_dir().unwrap();
    let stack = Stack::open("src").unwrap();
    assert_eq!(stack.expression(), current.join("src").display().to_string());
    assert!(walked(&stack, "/").contains(&PathBuf::from("/lib.rs")));
}

#[test]
fn a_registry_adds_layers() {
    const LOCKED: Kind = Kind::over("locked", "refuses every change", &[], |pairs, lower| {
        plyfs::layers::kind("readonly").expect("the layer is built in").stack(pairs, lower)
    });
    let registry = Registry::default().with_layer(LOCKED);
    assert!(Stack::open_with(&registry, "mem: | locked").unwrap().file_system().properties().needs.read_only);
    assert!(matches!(Stack::open("mem: | locked"), Err(Error::Build { .. })));
}

#[test]
fn a_closed_stack_leaves_its_disk_unmounted() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("disk");
    fs::write(&image, vec![0; 1 << 20]).unwrap();
    let made = std::process::Command::new("mkfs.fat").arg(&image).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let stack = open(&image, "");
    let caller = own_caller();
    let root = stack.file_system().root();
    let how = Creation { mode: 0o644, flags: OpenFlags::WRITE };
    root.create(&caller, Name::new(b"file").unwrap(), &how).unwrap();
    // Of FAT12, the state of the boot sector says whether the volume is in use.
    let is_in_use = || fs::read(&image).unwrap()[37] & 1 == 1;
    assert!(is_in_use());
    stack.close().unwrap();
    assert!(!is_in_use());
    assert_eq!(stack.walk("/").unwrap().count(), 2);
}
