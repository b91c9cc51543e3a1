//! Block devices: their sizes, exclusive use, write protection and discards, on loop devices.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use plyfs_bases::device::{Access, Device, DeviceUser, FileDevice, OpenError};
use vnode::Errno;

const SIZE: u64 = 4 << 20;

/// An image and the loop device on it.
struct LoopDevice {
    directory: tempfile::TempDir,
    path: PathBuf,
}

impl LoopDevice {
    /// Returns a device on a new image; without root, reports that the test is skipped.
    fn new(options: &[&str]) -> Option<LoopDevice> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: loop devices need root");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        File::create(directory.path().join("image")).unwrap().set_len(SIZE).unwrap();
        let mut losetup = Command::new("losetup");
        losetup.args(options).args(["--find", "--show"]).arg(directory.path().join("image"));
        let output = losetup.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        Some(LoopDevice { directory, path })
    }

    fn open(&self, access: Access) -> Result<FileDevice, OpenError> {
        FileDevice::open(&self.path, access)
    }

    fn in_use(&self, user: DeviceUser) -> OpenError {
        OpenError::InUse { path: self.path.clone(), user }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let detached = Command::new("losetup").arg("--detach").arg(&self.path).status();
        assert!(detached.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

#[test]
fn devices_have_their_size_and_sectors() {
    for (option, sector_size) in [("--sector-size=512", 512), ("--sector-size=4096", 4096)] {
        let Some(device) = LoopDevice::new(&[option]) else { return };
        let opened = device.open(Access::Write).unwrap();
        assert_eq!((opened.size(), opened.logical_sector_size()), (SIZE, Some(sector_size)));
        assert!(opened.sector_size() >= sector_size);
        // Ranges need not be aligned.
        opened.write_at(1000, &[7; 10_000]).unwrap();
        opened.flush().unwrap();
        let image = fs::read(device.directory.path().join("image")).unwrap();
        assert_eq!((image[999], image[1000], image[10_999], image[11_000]), (0, 7, 7, 0));
        assert_eq!(opened.write_at(SIZE - 1, &[0; 2]), Err(Errno::EIO));
    }
}

#[test]
fn writers_exclude_all_others_and_the_kernel() {
    let Some(device) = LoopDevice::new(&[]) else { return };
    let writer = device.open(Access::Write).unwrap();
    assert_eq!(device.open(Access::Read).err(), Some(device.in_use(DeviceUser::Process)));
    assert_eq!(device.open(Access::Write).err(), Some(device.in_use(DeviceUser::Kernel)));
    assert!(open_exclusively(&device.path).is_err(), "as mount(2) does");
    assert!(device.open(Access::Examine).is_ok());
    drop(writer);
    let exclusive = open_exclusively(&device.path).unwrap();
    assert_eq!(device.open(Access::WriteIfPossible).err(), Some(device.in_use(DeviceUser::Kernel)));
    drop(exclusive);
    let _readers = [device.open(Access::Read).unwrap(), device.open(Access::Read).unwrap()];
    assert_eq!(device.open(Access::Write).err(), Some(device.in_use(DeviceUser::Process)));
}

fn open_exclusively(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(path)
}

#[test]
fn write_protected_devices_are_only_read() {
    let Some(device) = LoopDevice::new(&["--read-only"]) else { return };
    assert_eq!(device.open(Access::Write).err(), Some(OpenError::ReadOnly(device.path.clone())));
    let opened = device.open(Access::WriteIfPossible).unwrap();
    assert!(opened.is_read_only());
    assert_eq!(opened.write_at(0, &[1]), Err(Errno::EROFS));
    let also = device.open(Access::Read);
    assert!(also.is_ok(), "{also:?}");
}

#[test]
fn whole_sectors_are_discarded() {
    let Some(device) = LoopDevice::new(&["--sector-size=512"]) else { return };
    File::options()
        .write(true)
        .open(device.directory.path().join("image"))
        .unwrap()
        .write_all_at(&[1; 8192], 0)
        .unwrap();
    let opened = device.open(Access::Write).unwrap();
    opened.discard(1000, 2000).unwrap();
    opened.discard(5000, 20).unwrap();
    opened.discard(6000, 0).unwrap();
    let mut contents = [0; 8192];
    opened.read_at(0, &mut contents).unwrap();
    let expected: Vec<u8> = (0..8192).map(|offset| u8::from(!(1024..2560).contains(&offset))).collect();
    assert_eq!(contents.as_slice(), expected);
}
