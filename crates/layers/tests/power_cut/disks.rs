//! Ext4 file systems on devices that remember, and what is left of them after a cut.

use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use fastrand::Rng;
use rustix::mount::{UnmountFlags, unmount};

use super::device::{Device, RequestLog};

/// Size of a file system. The smallest journal of ext4 with blocks of 4 KiB is 4 MiB.
const DISK_MEBIBYTES: usize = 12;
/// Only fsync(2) and its kin have anything written, and a rename over a file does not write the file's data.
const LIVE_MOUNT_OPTIONS: &str = "commit=3000,noatime,noauto_da_alloc";

/// The disks of a test, each mounted at a path.
pub(crate) struct Disks {
    log: RequestLog,
    disks: Vec<Disk>,
}

struct Disk {
    mounted_at: PathBuf,
    device: Option<Device>,
    /// What it held when the log began.
    image: Vec<u8>,
}

/// File systems after a cut, mounted where the disks were. Dropping it unmounts.
pub(crate) struct MountedAfterCut {
    mounted: Vec<PathBuf>,
}

impl Disks {
    /// New empty file systems, mounted at these paths.
    pub(crate) fn new(paths: &[PathBuf]) -> Self {
        let log = RequestLog::default();
        let disk = |(number, path): (usize, &PathBuf)| {
            let device = Device::new(number, &empty_image(number), &log);
            fs::create_dir_all(path).unwrap();
            mount(device.path(), path, LIVE_MOUNT_OPTIONS).unwrap_or_else(|error| panic!("{error}"));
            fs::remove_dir(path.join("lost+found")).unwrap();
            Disk { mounted_at: path.clone(), device: Some(device), image: Vec::new() }
        };
        let disks = paths.iter().enumerate().map(disk).collect();
        Self { log, disks }
    }

    /// All that has been done so far is on the disks. The log begins.
    pub(crate) fn begin(&mut self) {
        self.sync_all();
        for disk in &mut self.disks {
            disk.image = disk.device.as_ref().unwrap().image();
        }
        self.log.clear();
    }

    /// Number of disks.
    pub(crate) fn count(&self) -> usize {
        self.disks.len()
    }

    /// Has a disk write what it has.
    pub(crate) fn sync(&self, index: usize) {
        sync(&self.disks[index].mounted_at);
    }

    /// Has all disks write what they have.
    pub(crate) fn sync_all(&self) {
        (0..self.disks.len()).for_each(|index| self.sync(index));
    }

    /// Number of requests to the disks since the log began.
    pub(crate) fn requests(&self) -> usize {
        self.log.length()
    }

    /// Ends the use of the disks: they are not mounted any more.
    pub(crate) fn end(&mut self) {
        for disk in &mut self.disks {
            if let Some(device) = disk.device.take() {
                release(&disk.mounted_at);
                drop(device);
            }
        }
    }

    /// Mounts what is on the disks when the power is cut before a request. The use of the disks has ended.
    ///
    /// # Errors
    /// If ext4 does not mount one of them.
    pub(crate) fn cut(&self, point: usize, random: &mut Rng) -> Result<MountedAfterCut, String> {
        let mut after = MountedAfterCut { mounted: Vec::new() };
        for (number, disk) in self.disks.iter().enumerate() {
            let image = self.log.cut(number, disk.image.clone(), point, random);
            let file = ImageFile::new(&image);
            mount(&file.0, &disk.mounted_at, "loop,noatime,errors=remount-ro")?;
            after.mounted.push(disk.mounted_at.clone());
        }
        Ok(after)
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        self.end();
    }
}

impl MountedAfterCut {
    /// What is on each disk itself, in words.
    pub(crate) fn describe(&self) -> String {
        let describe = |path: &PathBuf| {
            let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev());
            let is_mounted = device(path).ok() != device(path.parent().unwrap()).ok();
            let listed = fs::read_dir(path).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
            let names: std::io::Result<Vec<_>> = listed;
            format!("{}: mounted: {is_mounted}, {names:?}", path.display())
        };
        self.mounted.iter().map(describe).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for MountedAfterCut {
    fn drop(&mut self) {
        self.mounted.iter().for_each(|path| release(path));
    }
}

/// A file in memory. The loop device keeps it when its name is gone.
struct ImageFile(PathBuf);

impl ImageFile {
    fn new(image: &[u8]) -> Self {
        let path = PathBuf::from(format!("/dev/shm/plyfs-power-{}-{}", std::process::id(), fastrand::u64(..)));
        let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(&path).unwrap();
        std::io::Write::write_all(&mut file, image).unwrap();
        Self(path)
    }
}

impl Drop for ImageFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// An empty ext4, the same each time for a number.
fn empty_image(number: usize) -> Vec<u8> {
    static EMPTY_IMAGES: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
    let mut made = EMPTY_IMAGES.lock().unwrap();
    while made.len() <= number {
        let file = ImageFile::new(&vec![0; DISK_MEBIBYTES << 20]);
        let uuid = format!("00000000-0000-4000-8000-{:012}", made.len());
        let arguments = ["-q", "-m", "0", "-b", "4096", "-I", "256", "-J", "size=4", "-E", "nodiscard", "-U"];
        run(Command::new("mkfs.ext4").args(arguments).arg(uuid).arg(&file.0)).unwrap_or_else(|error| panic!("{error}"));
        made.push(fs::read(&file.0).unwrap());
    }
    made[number].clone()
}

fn mount(device: &Path, at: &Path, options: &str) -> Result<(), String> {
    run(Command::new("mount").args(["-t", "ext4", "-o", options]).arg(device).arg(at))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Unmounts, at once if nobody uses it.
fn release(path: &Path) {
    let is_free = (0..50).any(|_| {
        let is_free = unmount(path, UnmountFlags::empty()).is_ok();
        if !is_free {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        is_free
    });
    if !is_free {
        let _ = unmount(path, UnmountFlags::DETACH);
    }
}

/// As sync(1) of a file system.
pub(crate) fn sync(path: &Path) {
    rustix::fs::syncfs(fs::File::open(path).unwrap()).unwrap();
}
