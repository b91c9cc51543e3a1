//! The kind of base `iso`: how an image is recognised, found and opened.

mod options;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use bases::device::{Access, DeviceRef, FileDevice, PartitionError, find_volume};
use bases::iso::{self, IsoFileSystem};
use layers::options::{Options, number};
use layers::union::is_only_described;
use vnode::FileSystemRef;

use crate::kinds::{BaseError, BaseKind, PARTITION};

/// The kind.
pub(crate) const KIND: BaseKind =
    BaseKind::new("iso", "PATH", "an image of a CD, DVD or Blu-ray disc, read-only", open)
        .with_options(options::OPTIONS)
        .with_probe("an ISO 9660 image", iso::is_iso);

fn open(location: &OsStr, given: &Options<'_>) -> Result<FileSystemRef, BaseError> {
    Ok(Arc::new(open_image(Path::new(location), given)?))
}

/// Opens the image in a file or on a block device, or in a partition of either.
fn open_image(path: &Path, given: &Options<'_>) -> Result<IsoFileSystem, BaseError> {
    let options = options::parse(given)?;
    let partition = given.read(PARTITION, number)?;
    let access = if is_only_described() { Access::Examine } else { Access::Read };
    let device: DeviceRef = Arc::new(FileDevice::open(path, access)?);
    let name = path.display().to_string();
    let volume = match find_volume(&device, partition, &mut iso::is_iso) {
        Ok(volume) => volume,
        // What it is instead, the error of opening it says.
        Err(PartitionError::NoneFits(None)) => device,
        Err(error) => return Err(BaseError::Contents(format!("cannot use `{name}`: {error}"))),
    };
    IsoFileSystem::open(volume, &name, options).map_err(|error| BaseError::Contents(error.to_string()))
}
