//! Sealfs and cryptfs: who gives the key, and what changes below show as.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::super::behaviour::{TestDirectories, can_mount, error, names, set};
use super::Mounted;

/// Bytes of a chunk above, and below.
const CHUNK: u64 = 64 << 10;
const CHUNK_BELOW: u64 = 128 << 10;

/// Text of so many bytes.
fn text(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7 % 251) as u8).collect()
}

/// Changes files below while nothing is mounted, and reads a file of the mount again: the error, or what is read.
fn reread(sizes: &[(&str, u64)], change: impl Fn(&dyn Fn(&str) -> PathBuf), name: &str) -> Result<Vec<u8>, i32> {
    let directories = TestDirectories::new();
    let mounted = super::super::mounted(&directories, "sealfs", &[]);
    set(&directories.mount(), &[7; 64]).unwrap();
    for (name, size) in sizes {
        fs::write(directories.mount().join(name), text(*size)).unwrap();
    }
    drop(mounted);
    change(&|name| directories.base().join(name));
    let _mounted = super::super::mounted(&directories, "sealfs", &[]);
    set(&directories.mount(), &[7; 64]).unwrap();
    fs::read(directories.mount().join(name)).map_err(|error| error.raw_os_error().unwrap())
}

fn open(path: &Path) -> File {
    File::options().read(true).write(true).open(path).unwrap()
}

fn copy_chunk((from, at): (&Path, u64), (to, to_at): (&Path, u64)) {
    let mut chunk = vec![0; CHUNK_BELOW as usize];
    open(from).read_exact_at(&mut chunk, at * CHUNK_BELOW).unwrap();
    open(to).write_all_at(&chunk, to_at * CHUNK_BELOW).unwrap();
}

#[test]
fn only_the_superuser_gives_keys() {
    for (sample, bytes) in [("sealfs", 64), ("cryptfs", 16)] {
        let Some(mounted) = Mounted::new(sample, &[]) else { return };
        set(&mounted.directories.mount(), &vec![7; bytes]).unwrap();
        fs::write(mounted.path("file"), "secret").unwrap();
        assert!(mounted.user("echo mine > mine && chmod 777 .; echo x >> mine").is_some());
        // The number of _IOW('F', 1, data).
        let command = 1 << 30 | bytes << 16 | usize::from(b'F') << 8 | 1;
        let script = |path: &str| {
            format!(
                "perl -e 'open(F, \"<\", \"{path}\") or exit 3; $d = \"x\" x {bytes}; exit(ioctl(F, {command}, $d) ? 0 : $!{{EPERM}} ? 1 : 2)'; echo $?"
            )
        };
        for path in [".", "mine"] {
            assert_eq!(mounted.user(&script(path)).as_deref(), Some("1"), "{sample}: the key was set on {path}");
        }
        assert_eq!(fs::read_to_string(mounted.path("file")).unwrap(), "secret");
        assert_eq!(mounted.user("cat mine").as_deref(), Some("mine\nx"));
    }
}

#[test]
fn without_a_key_files_are_not_cut_either() {
    let Some(mounted) = Mounted::new("sealfs", &[]) else { return };
    fs::write(mounted.below("file"), text(10)).unwrap();
    fs::set_permissions(mounted.below("file"), fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(error(fs::write(mounted.path("new"), "x")), libc::ENOKEY);
    assert_eq!(error(fs::read(mounted.path("file"))), libc::ENOKEY);
    assert_eq!(mounted.user("truncate -s 0 file || perl -e 'truncate(\"file\", 0) or exit 1'"), None);
    assert_eq!(fs::read(mounted.below("file")).unwrap(), text(10));
}

#[test]
fn without_a_key_there_are_no_names_and_nothing_is_written() {
    let Some(mounted) = Mounted::new("cryptfs", &[]) else { return };
    let no_key = Some(libc::ENOKEY);
    fs::write(mounted.below("file"), text(10)).unwrap();
    let root = mounted.directories.mount();
    assert_eq!(names(&root), [""; 0]);
    for made in [
        fs::write(mounted.path("file"), "plain"),
        fs::read(mounted.path("file")).map(drop),
        fs::create_dir(mounted.path("directory")),
        std::os::unix::fs::symlink("target", mounted.path("link")),
        fs::rename(mounted.path("file"), mounted.path("other")),
        fs::remove_file(mounted.path("file")),
    ] {
        assert_eq!(made.unwrap_err().raw_os_error(), no_key);
    }
    let unnamed = File::options().read(true).write(true).custom_flags(libc::O_TMPFILE).open(&root);
    assert_eq!(unnamed.unwrap_err().raw_os_error(), no_key);
    assert_eq!(names(&mounted.directories.base()), ["file"], "nothing is made under the key of zeros");
    set(&root, b"0123456789abcdef").unwrap();
    fs::write(mounted.path("file"), "secret").unwrap();
    assert_eq!(fs::read_to_string(mounted.path("file")).unwrap(), "secret");
}

#[test]
fn what_is_changed_below_is_a_bad_message() {
    if !can_mount() {
        return;
    }
    let bad = Err(libc::EBADMSG);
    let size = 3 * CHUNK;
    let one = &[("file", size)][..];
    let untouched = reread(one, |_| {}, "file");
    assert!(untouched == Ok(text(size)));
    type Change<'a> = &'a dyn Fn(&dyn Fn(&str) -> PathBuf);
    let changes: [(&str, Change<'_>); 8] = [
        ("a byte", &|below| open(&below("file")).write_all_at(b"x", CHUNK_BELOW + 99).unwrap()),
        ("zeros", &|below| open(&below("file")).write_all_at(&vec![0; CHUNK_BELOW as usize], CHUNK_BELOW).unwrap()),
        ("a length", &|below| open(&below("file")).write_all_at(&[0; 4], 0).unwrap()),
        ("a chunk moved", &|below| copy_chunk((&below("file"), 0), (&below("file"), 1))),
        ("chunks cut off", &|below| open(&below("file")).set_len(2 * CHUNK_BELOW).unwrap()),
        ("bytes cut off", &|below| open(&below("file")).set_len(3 * CHUNK_BELOW - 1).unwrap()),
        ("a hole added", &|below| open(&below("file")).set_len(4 * CHUNK_BELOW).unwrap()),
        ("the last chunk added again", &|below| copy_chunk((&below("file"), 2), (&below("file"), 3))),
    ];
    for (what, change) in changes {
        assert!(reread(one, change, "file") == bad, "{what}");
    }
    // The last one may be short.
    let short = &[("file", CHUNK + 100)][..];
    let grown = |below: &dyn Fn(&str) -> PathBuf| {
        let file = open(&below("file"));
        file.set_len(file.metadata().unwrap().len() + 1).unwrap();
    };
    assert!(reread(short, grown, "file") == bad, "a byte added");
    let cut = |below: &dyn Fn(&str) -> PathBuf| open(&below("file")).set_len(CHUNK_BELOW).unwrap();
    assert!(reread(short, cut, "file") == bad, "the short chunk cut off");
}

#[test]
fn what_is_of_another_file_is_a_bad_message() {
    if !can_mount() {
        return;
    }
    let two = &[("file", 2 * CHUNK), ("other", 2 * CHUNK)][..];
    let swapped = reread(two, |below| copy_chunk((&below("other"), 0), (&below("file"), 0)), "file");
    assert!(swapped == Err(libc::EBADMSG));
    let whole = reread(two, |below| assert!(fs::copy(below("other"), below("file")).is_ok()), "file");
    assert!(whole == Err(libc::EBADMSG));
    // What the sample says it does not notice.
    let renamed = reread(two, |below| fs::rename(below("other"), below("file")).unwrap(), "file");
    assert!(renamed == Ok(text(2 * CHUNK)));
    let emptied = reread(two, |below| open(&below("file")).set_len(0).unwrap(), "file");
    assert!(emptied == Ok(Vec::new()));
}

#[test]
fn a_file_that_gets_the_number_of_another_is_another() {
    let Some(mounted) = Mounted::new("sealfs", &[]) else { return };
    set(&mounted.directories.mount(), &[7; 64]).unwrap();
    let number = |name: &str| std::os::unix::fs::MetadataExt::ino(&fs::metadata(mounted.below(name)).unwrap());
    let kept = mounted.directories.first().with_file_name("kept");
    // File systems as ext4 give a number again at once.
    for attempt in 0..200 {
        let name = format!("file{attempt}");
        fs::write(mounted.path("old"), text(2 * CHUNK)).unwrap();
        let old = number("old");
        fs::copy(mounted.below("old"), &kept).unwrap();
        fs::remove_file(mounted.path("old")).unwrap();
        fs::write(mounted.path(&name), vec![1; 2 * CHUNK as usize]).unwrap();
        if number(&name) == old {
            copy_chunk((&kept, 0), (&mounted.below(&name), 0));
            // What the kernel has kept of it does not count.
            drop(mounted._mount);
            let _mounted = super::super::mounted(&mounted.directories, "sealfs", &[]);
            set(&mounted.directories.mount(), &[7; 64]).unwrap();
            assert_eq!(error(fs::read(mounted.directories.mount().join(name))), libc::EBADMSG);
            return;
        }
    }
    eprintln!("skipped: the file system gives no number again");
}

#[test]
fn files_that_grow_and_are_cut_at_chunks_stay_whole() {
    for tier in ["interpreted", "compiled"] {
        let Some(mounted) = Mounted::new("sealfs", &[("tier", tier)]) else { return };
        set(&mounted.directories.mount(), &[7; 64]).unwrap();
        let path = mounted.path("file");
        fs::write(&path, b"").unwrap();
        let file = open(&path);
        let mut model = Vec::new();
        let sizes = [CHUNK, 3 * CHUNK, 2 * CHUNK, 2 * CHUNK + 5, CHUNK, 4 * CHUNK - 1, 4 * CHUNK, 0, CHUNK / 2];
        for size in sizes {
            file.set_len(size).unwrap();
            model.resize(size as usize, 0);
            assert!(fs::read(&path).unwrap() == model, "cut to {size}");
            for gap in [0, 1, CHUNK - 1, CHUNK, 2 * CHUNK] {
                for length in [1, CHUNK / 2, CHUNK, CHUNK + 1] {
                    file.set_len(size).unwrap();
                    model.resize(size as usize, 0);
                    let data = text(length);
                    let at = (size + gap) as usize;
                    file.write_all_at(&data, at as u64).unwrap();
                    model.resize(at + data.len(), 0);
                    model[at..].copy_from_slice(&data);
                    assert!(fs::read(&path).unwrap() == model, "{length} bytes {gap} after {size}");
                    let back = at.saturating_sub(10);
                    file.write_all_at(&data, back as u64).unwrap();
                    model[back..][..data.len()].copy_from_slice(&data);
                    assert!(fs::read(&path).unwrap() == model, "again {length} bytes at {back}");
                }
            }
            file.set_len(size).unwrap();
            model.resize(size as usize, 0);
        }
    }
}
