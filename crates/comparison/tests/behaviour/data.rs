//! The samples that change data on their way: rot13fs, cryptfs, zstdfs, uuencodefs and sealfs.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

use super::{Mounting, TestDirectories, error, names, set};

/// Rot13fs rotates letters.
pub(crate) fn rot13fs(mounting: Mounting<'_>) {
    let directories = TestDirectories::new();
    let _mounted = mounting(&directories);
    let text = "Hello, FiST!\n".repeat(1000);
    fs::write(directories.mount().join("file"), &text).unwrap();
    assert_eq!(fs::read_to_string(directories.mount().join("file")).unwrap(), text);
    assert!(fs::read_to_string(directories.base().join("file")).unwrap().starts_with("Uryyb, SvFG!\nUryyb"));
    changes_anywhere_are_read_back(&directories);
}

/// Cryptfs enciphers names and data by the key that was set, 16 bytes of data of an ioctl on the root.
pub(crate) fn cryptfs(mounting: Mounting<'_>) {
    let directories = TestDirectories::new();
    let mounted = mounting(&directories);
    let mount = directories.mount();
    assert_eq!(error(fs::write(mount.join("file"), "no key")), libc::ENOKEY);
    assert_eq!((names(&mount), names(&directories.base())), (Vec::new(), Vec::new()));
    set(&mount, b"0123456789abcdef").unwrap();
    let text = "a text that is longer than a block\n".repeat(300);
    fs::create_dir(mount.join("directory")).unwrap();
    fs::write(mount.join("directory/name"), &text).unwrap();
    assert_eq!(names(&mount.join("directory")), ["name"]);
    assert_eq!(fs::read_to_string(mount.join("directory/name")).unwrap(), text);
    let below = names(&directories.base());
    assert!(below.len() == 1 && below[0].len() == 2 * "directory".len(), "{below:?}");
    let directory = directories.base().join(&below[0]);
    let file = fs::read(directory.join(&names(&directory)[0])).unwrap();
    assert_eq!(file.len(), text.len());
    assert!(!file.windows(5).any(|bytes| bytes == b"block"));
    changes_anywhere_are_read_back(&directories);
    // Under another key the names are not those.
    drop(mounted);
    let _mounted = mounting(&directories);
    set(&mount, b"another key here").unwrap();
    assert!(!names(&mount).contains(&"directory".to_owned()));
    set(&mount, b"0123456789abcdef").unwrap();
    assert_eq!(fs::read_to_string(mount.join("directory/name")).unwrap(), text);
}

/// Zstdfs takes less room below.
pub(crate) fn zstdfs(mounting: Mounting<'_>) {
    let directories = TestDirectories::new();
    let _mounted = mounting(&directories);
    has_another_form_below(&directories);
    let taken = fs::metadata(directories.base().join("file")).unwrap().blocks() * 512;
    assert!(taken < 100_000, "{taken} bytes for 300,001");
    changes_anywhere_are_read_back(&directories);
}

/// Uuencodefs writes printable characters below, but for a few bytes that say where they are.
pub(crate) fn uuencodefs(mounting: Mounting<'_>) {
    let directories = TestDirectories::new();
    let _mounted = mounting(&directories);
    has_another_form_below(&directories);
    let below = fs::read(directories.base().join("file")).unwrap();
    assert!(below.len() > 300_001);
    let others = below[..60_000].iter().filter(|byte| !(b' '..=b'_').contains(byte)).count();
    assert!(others < 100, "{others} of 60,000 bytes are no printable characters");
    changes_anywhere_are_read_back(&directories);
}

/// Sealfs keeps data secret and unchanged under the key that was set, 64 bytes of data of an ioctl on the root.
pub(crate) fn sealfs(mounting: Mounting<'_>) {
    let directories = TestDirectories::new();
    let (key, other_key) = ([7; 64], [8; 64]);
    let path = directories.mount().join("file");
    let mounted = mounting(&directories);
    assert_eq!(error(fs::write(&path, "x")), libc::ENOKEY);
    set(&directories.mount(), &key).unwrap();
    has_another_form_below(&directories);
    changes_anywhere_are_read_back(&directories);
    let text = fs::read(&path).unwrap();
    drop(mounted);
    let read = |key: &[u8]| {
        let _mounted = mounting(&directories);
        set(&directories.mount(), key).unwrap();
        fs::read(&path)
    };
    assert_eq!(error(read(&other_key)), libc::EBADMSG);
    assert_eq!(read(&key).unwrap(), text);
    let below = fs::File::options().read(true).write(true).open(directories.base().join("file")).unwrap();
    let mut byte = [0];
    below.read_exact_at(&mut byte, 1000).unwrap();
    below.write_all_at(&[byte[0] ^ 1], 1000).unwrap();
    assert_eq!(error(read(&key)), libc::EBADMSG);
}

/// A file `file` of text, written, read, changed in the middle and cut to 300,001 bytes; below it has another form.
fn has_another_form_below(directories: &TestDirectories) {
    let path = directories.mount().join("file");
    let mut text = "again and again the same words\n".repeat(20_000).into_bytes();
    fs::write(&path, &text).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), text.len() as u64);
    assert_eq!(fs::read(&path).unwrap(), text);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"CHANGED", 100_000).unwrap();
    text[100_000..100_007].copy_from_slice(b"CHANGED");
    file.set_len(300_001).unwrap();
    text.truncate(300_001);
    drop(file);
    assert_eq!(fs::read(&path).unwrap(), text);
    let below = fs::read(directories.base().join("file")).unwrap();
    let plain = b"the same words\nagain and again the same words";
    assert!(!below.windows(plain.len()).any(|bytes| bytes == plain));
}

/// A file `random` that is written, cut and made longer at random is always what a list of bytes would be. Of what
/// nobody wrote but lies before the end only the value is told: zero.
fn changes_anywhere_are_read_back(directories: &TestDirectories) {
    const REACH: usize = 200_000;
    let mut random = fastrand::Rng::with_seed(1);
    let path = directories.mount().join("random");
    let file = fs::File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    let mut model: Vec<u8> = Vec::new();
    for step in 0..60 {
        let offset = random.usize(..REACH);
        if random.u8(..4) == 0 {
            file.set_len(offset as u64).unwrap();
            model.resize(offset, 0);
        } else {
            let mut data = vec![0; random.usize(1..70_000)];
            random.fill(&mut data);
            file.write_all_at(&data, offset as u64).unwrap();
            model.resize(model.len().max(offset + data.len()), 0);
            model[offset..offset + data.len()].copy_from_slice(&data);
        }
        assert_eq!(file.metadata().unwrap().len(), model.len() as u64, "step {step}");
        assert!(fs::read(&path).unwrap() == model, "step {step}");
    }
}
