//! The kind of base `fat`: a FAT file system on a file or block device, or in a partition of one, and its commands.

#[cfg(feature = "commands")]
mod commands;
mod options;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use bases::device::{Access, DeviceRef, FileDevice, find_volume};
use bases::fat::{FatFileSystem, is_file_system};
use layers::is_only_described;
use layers::options::Options;
use vnode::FileSystemRef;

use crate::kinds::{BaseError, BaseKind, PARTITION};

/// Registration of this kind.
pub(crate) const KIND: BaseKind = {
    let kind = BaseKind::new("fat", "PATH", "a FAT file system in an image or on a block device", open)
        .with_options(options::OPTIONS)
        .with_probe("a FAT file system", |device| is_file_system(device.as_ref()));
    #[cfg(feature = "commands")]
    let kind = kind.with_commands(commands::COMMANDS);
    kind
};

fn open(location: &OsStr, given: &Options<'_>) -> Result<FileSystemRef, BaseError> {
    let partition = given.read(PARTITION, layers::options::number)?;
    let is_read_only = given.flag("ro")?;
    let path = Path::new(location);
    let access = match is_only_described() {
        true => Access::Examine,
        false if is_read_only => Access::Read,
        false => Access::WriteIfPossible,
    };
    let device: DeviceRef = Arc::new(FileDevice::open(path, access)?);
    let volume = find_volume(&device, partition, &mut |part| is_file_system(part.as_ref()))
        .map_err(|error| BaseError::Contents(format!("cannot mount `{}`: {error}", path.display())))?;
    let parsed = options::parse(given)?;
    let file_system = FatFileSystem::open(volume, &path.display().to_string(), parsed).map_err(|error| {
        let remedy = "check it with plyfs fat fsck";
        BaseError::Contents(format!("cannot mount `{}`: {error}; {remedy}", path.display()))
    })?;
    Ok(Arc::new(file_system))
}
