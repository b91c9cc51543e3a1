//! Images: made by mkfs.fat, mounted in memory, checked by fsck.fat.

use std::process::Command;
use std::sync::Arc;

use plyfs_bases::device::{DeviceRef, MemoryDevice};
use plyfs_bases::fat::tools::fsck::{FsckMode, FsckOptions, FsckReport, fsck};
use plyfs_bases::fat::{FatFileSystem, MetadataMode, Options};
use vnode::{Caller, Creation, Entry, Name, OpenFlags, Result, VnodeRef};

/// The parameters of a new file system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub width: u32,
    pub size: u64,
    pub sectors_per_cluster: u32,
}

/// One of each width of table entries.
pub(crate) const KINDS: [Kind; 3] = [
    Kind { width: 12, size: 16 << 20, sectors_per_cluster: 16 },
    Kind { width: 16, size: 48 << 20, sectors_per_cluster: 4 },
    Kind { width: 32, size: 64 << 20, sectors_per_cluster: 1 },
];

/// Returns a device with a new file system; `None`, with the reason printed, if there is no mkfs.fat.
pub(crate) fn format(kind: Kind) -> Option<MemoryDevice> {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(kind.size).unwrap();
    let mut command = Command::new("mkfs.fat");
    command.arg(format!("-F{}", kind.width)).arg(format!("-s{}", kind.sectors_per_cluster)).arg("-i12345678");
    match command.arg(file.path()).output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => {
            println!("skipped: mkfs.fat: {error}");
            return None;
        }
    }
    Some(MemoryDevice::from_bytes(&std::fs::read(file.path()).unwrap()))
}

/// Fails unless fsck.fat and our own check find nothing to complain about.
pub(crate) fn check(device: &MemoryDevice) {
    let (is_clean, report) = examine(device);
    assert!(is_clean, "{report}");
    let report = own_report(device, FsckMode::Check).1;
    assert_eq!(report.found(), 0, "{report}");
}

/// Returns a copy of a device that our own check was run on, and the report.
pub(crate) fn own_report(device: &MemoryDevice, mode: FsckMode) -> (MemoryDevice, FsckReport) {
    let checked = Arc::new(MemoryDevice::clone(device));
    let shared: DeviceRef = checked.clone();
    let options = FsckOptions { mode, ..FsckOptions::default() };
    let report = fsck(shared, &options, &mut |question| question.suggested, &mut |_| {}).unwrap();
    (MemoryDevice::clone(&checked), report)
}

/// Returns whether fsck.fat finds nothing to complain about, and what it says.
pub(crate) fn examine(device: &MemoryDevice) -> (bool, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), device.contents()).unwrap();
    let output = Command::new("fsck.fat").arg("-n").arg(file.path()).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns a device after fsck.fat has repaired it.
pub(crate) fn repair(device: &MemoryDevice) -> MemoryDevice {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), device.contents()).unwrap();
    Command::new("fsck.fat").arg("-a").arg(file.path()).output().unwrap();
    MemoryDevice::from_bytes(&std::fs::read(file.path()).unwrap())
}

/// Returns a device on which others have renamed files or directories: a short name such as `PLYFX   ATR` has become that of a file of
/// the base's own.
pub(crate) fn renamed_by_others(device: &MemoryDevice, name: &[u8; 11]) -> Arc<MemoryDevice> {
    let mut image = device.contents();
    let found: Vec<usize> =
        image.windows(11).enumerate().filter(|(_, found)| found == name).map(|(at, _)| at).collect();
    assert!(!found.is_empty());
    found.into_iter().for_each(|at| image[at + 4] = b'S');
    Arc::new(MemoryDevice::from_bytes(&image))
}

/// Mounts a device.
pub(crate) fn mount(device: &Arc<MemoryDevice>, options: Options) -> FatFileSystem {
    let device: DeviceRef = device.clone();
    FatFileSystem::open(device, "test", options).unwrap()
}

/// Options with Unix metadata, and the superuser as the owner of the rest.
pub(crate) fn with_sidecars() -> Options {
    Options { metadata: MetadataMode::Sidecar, ..without_sidecars() }
}

/// Options with Unix metadata in entries.
pub(crate) fn in_entries(metadata: MetadataMode) -> Options {
    Options { metadata, ..without_sidecars() }
}

/// Options with the superuser as the owner of everything.
pub(crate) fn without_sidecars() -> Options {
    let ids = Options { uid: 0, gid: 0, file_mode: 0o755, directory_mode: 0o755, ..Options::default() };
    Options { metadata: MetadataMode::None, ..ids }
}

pub(crate) fn superuser() -> Caller {
    Caller::with_groups(0, 0, &[], 0)
}

pub(crate) fn name(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

/// Creates a file with these contents, or replaces them.
pub(crate) fn put(directory: &VnodeRef, text: &str, contents: &[u8]) -> Result<VnodeRef> {
    let how = Creation { mode: 0o644, flags: OpenFlags::WRITE.with(OpenFlags::TRUNCATE) };
    let created = directory.create(&superuser(), name(text), &how)?;
    vnode::write_fully(&*created.file, &superuser(), 0, contents)?;
    Ok(created.entry.vnode)
}

pub(crate) fn find(directory: &VnodeRef, path: &str) -> Result<Entry> {
    let mut components = path.split('/');
    let mut entry = directory.lookup(&superuser(), name(components.next().unwrap()))?;
    for component in components {
        entry = entry.vnode.lookup(&superuser(), name(component))?;
    }
    Ok(entry)
}

/// Returns the contents of a file.
pub(crate) fn get(directory: &VnodeRef, path: &str) -> Result<Vec<u8>> {
    let entry = find(directory, path)?;
    let mut contents = vec![0; entry.attributes.size as usize];
    let file = entry.vnode.open(&superuser(), OpenFlags::READ)?;
    let read = vnode::read_fully(&*file, &superuser(), 0, &mut contents)?;
    contents.truncate(read);
    Ok(contents)
}

/// Returns the names in a directory, in order.
pub(crate) fn names(directory: &VnodeRef) -> Vec<String> {
    let mut names = Vec::new();
    let open = directory.open_directory(&superuser()).unwrap();
    open.read(&superuser(), vnode::Cookie::START, &mut |entry| {
        names.push(entry.name.display().to_string());
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    names.sort_unstable();
    names
}
