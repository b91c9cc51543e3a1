//! Both transports, of which the test chooses: it sets the kernel's switch of io_uring, so nothing else may mount meanwhile.

mod support;

use frontends::fuse::{MountOptions, Uring};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use support::{Mounted, memory, mount_with};

const URING_SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// What the switch said before. Dropping this puts it back.
struct Switch(String);

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = fs::write(URING_SWITCH, self.0.trim());
    }
}

#[test]
fn requests_come_through_io_uring_where_it_is_on() {
    let Ok(before) = fs::read_to_string(URING_SWITCH) else {
        eprintln!("skipped: the kernel has no io_uring for FUSE");
        return;
    };
    let _switch = Switch(before);
    let with = |uring| mount_with(memory(), MountOptions { uring, ..MountOptions::default() });
    let Some(on) = with(Uring::On) else { return };
    assert_eq!(on.mount.decisions().uring, Ok(()));
    let off = with(Uring::Off).unwrap();
    assert!(off.mount.decisions().transport().starts_with("/dev/fuse"), "{}", off.mount.decisions().transport());
    for mounted in [on, off] {
        exchange_messages_of_all_sizes(&mounted);
    }
}

/// Names, data and attributes from none to the most that a message holds, and one byte around where they are handled
/// otherwise.
fn exchange_messages_of_all_sizes(mounted: &Mounted) {
    let path = mounted.path("file");
    let file = File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
    for length in [1, 1023, 1024, 1025, 4096, 65_536, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20] {
        let data: Vec<u8> = (0..length).map(|number: usize| (number % 251) as u8).collect();
        file.write_all_at(&data, 7).unwrap();
        // Past what the kernel keeps.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mut read = vec![0; length];
        file.read_exact_at(&mut read, 7).unwrap();
        assert!(read == data, "{length} bytes");
    }
    for length in [0, 1, 1008, 1009, 1023, 1024, 1025, 4000, 65_536] {
        let value = vec![b'v'; length];
        rustix::fs::setxattr(&path, "user.large", &value, rustix::fs::XattrFlags::empty()).unwrap();
        let mut room = vec![0; 65_536];
        assert_eq!(rustix::fs::getxattr(&path, "user.large", &mut room), Ok(length));
        assert!(room[..length] == value, "{length} bytes");
    }
    for length in [1, 254, 255] {
        let (one, other) = (mounted.path(&"a".repeat(length)), mounted.path(&"b".repeat(length)));
        fs::write(&one, b"").unwrap();
        fs::rename(&one, &other).unwrap();
        fs::remove_file(&other).unwrap();
    }
    for length in [1, 1023, 1024, 1025, 4095] {
        let (link, target) = (mounted.path("link"), "t".repeat(length));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert_eq!(fs::read_link(&link).unwrap().as_os_str().len(), length);
        fs::remove_file(&link).unwrap();
    }
}
