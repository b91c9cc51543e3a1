//! Opens images in files, on block devices, and in partitions.

use std::path::Path;
use std::sync::Arc;

use bases::device::{Access, DeviceRef, FileDevice, PartitionError, find_volume};
use bases::iso::{self, IsoFileSystem};
use layers::is_only_described;
use layers::options::{Options, number};

use super::options;
use crate::kinds::{BaseError, PARTITION};

/// Opens the image in a file or on a block device, or in a partition of either.
pub(crate) fn open(path: &Path, given: &Options<'_>) -> Result<IsoFileSystem, BaseError> {
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
