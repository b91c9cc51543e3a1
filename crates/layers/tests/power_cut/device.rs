//! A block device that remembers in which order it was written and flushed: a loop device over a file in memory that is
//! served by FUSE, through a layer that keeps a log.
//!
//! What a disk with a cache may do to writes that were not flushed is then done to a copy: see [`cut`].

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bases::mem::{MemoryFileSystem, Options};
use fastrand::Rng;
use frontends::fuse::{Mount, MountOptions, UnmountMode, Uring};
use tempfile::TempDir;
use vnode::layer::{Layer, LayerFile, stack};
use vnode::{AllocateMode, Caller, Creation, Name, Needs, OpenFileRef, OpenFlags, Promises, Result};

/// Unit that a disk writes whole or not at all, bytes.
const SECTOR_BYTES: usize = 512;
/// The name of the file behind the loop device.
const DISK_FILE_NAME: &str = "disk";

/// What was asked of a device.
enum DeviceRequest {
    Write {
        offset: usize,
        data: Vec<u8>,
    },
    /// All that was written before is on the disk.
    Flush,
}

/// What was asked of all devices of a test, in order: the number of the device, and the request.
#[derive(Clone, Default)]
pub(crate) struct RequestLog(Arc<Mutex<Vec<(usize, DeviceRequest)>>>);

impl RequestLog {
    /// Number of requests so far: a point at which the power can be cut.
    pub(crate) fn length(&self) -> usize {
        self.requests().len()
    }

    /// Forgets all requests.
    pub(crate) fn clear(&self) {
        self.requests().clear();
    }

    /// What is on a device that held `image` before all requests, when the power is cut before the request `point`: all that
    /// was flushed, and of what was written later what the random numbers choose, by sectors.
    pub(crate) fn cut(&self, device: usize, mut image: Vec<u8>, point: usize, random: &mut Rng) -> Vec<u8> {
        let requests = self.requests();
        let own: Vec<&DeviceRequest> =
            requests[..point].iter().filter(|(number, _)| *number == device).map(|(_, request)| request).collect();
        let flushed = own.iter().rposition(|request| matches!(request, DeviceRequest::Flush)).unwrap_or(0);
        let chance = *random.choice(&[0.0, 0.5, 0.9, 1.0]).expect("there are chances");
        for (index, request) in own.into_iter().enumerate() {
            let DeviceRequest::Write { offset, data } = request else { continue };
            // Ext4 does not mount with half a superblock; where sectors are so small it has none of its own to repair that.
            let is_superblock = *offset < 2 * 1024;
            let is_torn = index >= flushed && !is_superblock && random.u8(..4) == 0;
            if index >= flushed && !is_torn && random.f64() >= chance {
                continue;
            }
            for (sector, part) in data.chunks(SECTOR_BYTES).enumerate() {
                if !is_torn || random.f64() < chance {
                    let start = offset + sector * SECTOR_BYTES;
                    image[start..start + part.len()].copy_from_slice(part);
                }
            }
        }
        image
    }

    fn add(&self, device: usize, request: DeviceRequest) {
        self.requests().push((device, request));
    }

    fn requests(&self) -> MutexGuard<'_, Vec<(usize, DeviceRequest)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The layer that keeps the log.
struct RecordingLayer {
    device: usize,
    log: RequestLog,
}

impl Layer for RecordingLayer {
    type State = ();

    fn kind(&self) -> &'static str {
        "recorder"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn needs(&self) -> Needs {
        Needs { every_data_operation: true, ..Needs::NONE }
    }

    fn write_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, data: &[u8]) -> Result<usize> {
        let written = file.forward_write_at(caller, offset, data)?;
        self.log.add(self.device, DeviceRequest::Write { offset: offset as usize, data: data[..written].to_vec() });
        Ok(written)
    }

    /// Blocks that are discarded or zeroed are zeros.
    fn allocate(
        &self,
        file: &LayerFile<Self>,
        caller: &Caller,
        mode: AllocateMode,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        file.forward_allocate(caller, mode, offset, length)?;
        self.log.add(self.device, DeviceRequest::Write { offset: offset as usize, data: vec![0; length as usize] });
        Ok(())
    }

    fn fsync(&self, file: &LayerFile<Self>, caller: &Caller, data_only: bool) -> Result<()> {
        file.forward_fsync(caller, data_only)?;
        self.log.add(self.device, DeviceRequest::Flush);
        Ok(())
    }
}

/// The device. Dropping it takes it away; it is not in use any more by then.
pub(crate) struct Device {
    mount: Mount,
    _directory: TempDir,
    file: OpenFileRef,
    size: usize,
    path: PathBuf,
}

impl Device {
    /// A device that holds this, and whose requests are logged by this number.
    pub(crate) fn new(number: usize, image: &[u8], log: &RequestLog) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { size: 1 << 30, inodes: 10, mode: 0o700, uid: 0, gid: 0 };
        let memory = Arc::new(MemoryFileSystem::new(options));
        let file_system = stack(RecordingLayer { device: number, log: log.clone() }, memory.clone());
        let server = Caller::server();
        let how = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE };
        let root = vnode::FileSystem::root(&*memory);
        let file = root.create(&server, Name::new(DISK_FILE_NAME.as_bytes()).unwrap(), &how).unwrap().file;
        vnode::write_fully(&*file, &server, 0, image).unwrap();
        // What the kernel keeps of it is not to be seen by others.
        let options = MountOptions {
            source: "power-cut".into(),
            passthrough: false,
            stay_awake: Some(Duration::ZERO),
            uring: Uring::Off,
            ..MountOptions::default()
        };
        let mount = Mount::new(file_system, directory.path(), &options).unwrap();
        let path = attach(&directory.path().join(DISK_FILE_NAME));
        Self { mount, _directory: directory, file, size: image.len(), path }
    }

    /// The block special file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All that is on it now.
    pub(crate) fn image(&self) -> Vec<u8> {
        let mut image = vec![0; self.size];
        vnode::read_fully(&*self.file, &Caller::server(), 0, &mut image).unwrap();
        image
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let detached = Command::new("losetup").arg("--detach").arg(&self.path).status();
        let is_clean = detached.is_ok_and(|status| status.success());
        let mode = if is_clean { UnmountMode::Clean } else { UnmountMode::Lazy };
        let _ = self.mount.unmount(mode).or_else(|_| self.mount.unmount(UnmountMode::Lazy));
    }
}

/// Makes a loop device that hands on every request to the file.
fn attach(file: &Path) -> PathBuf {
    let mut find = Command::new("losetup");
    find.args(["--find", "--show", "--direct-io=on"]).arg(file).stderr(Stdio::inherit());
    // The device that is found free may be gone when it is opened, where others use some too.
    let mut found = std::iter::repeat_with(|| find.output().unwrap()).take(10);
    let output = found.find(|output| output.status.success()).expect("losetup attaches the file");
    let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let name = path.file_name().unwrap();
    let is_direct = std::fs::read_to_string(Path::new("/sys/block").join(name).join("loop/dio")).unwrap();
    assert_eq!(is_direct.trim(), "1", "the loop device keeps what is written");
    path
}
