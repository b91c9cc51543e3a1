//! The images and block devices that the tools work on, and the choice of a partition.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bases::device::{Access, DeviceRef, FileDevice, PartitionError, find_volume};
use bases::fat::is_file_system;
use clap::{Args, ValueHint};
use layers::command::{Exit, Failure, Outcome};

use super::failure;
use crate::syntax::{self, Base, Branch, BranchTree, SyntaxError};

/// Key of the option that selects a partition in a stack.
const PARTITION: &str = "partition";
/// The kind of base, as it is written in a stack.
const KIND: &str = "fat";

/// An image or block device, and a partition of it.
#[derive(Args, Debug)]
pub(crate) struct ImageArguments {
    /// Image file or block device, also as in a stack: "fat:disk.img(partition=2)"
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    image: OsString,
    /// Number of the partition; by default the whole device, or the only partition with a FAT file system
    #[arg(long, value_name = "NUMBER")]
    partition: Option<u32>,
}

/// What a device has to contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    /// A FAT file system.
    FileSystem,
    /// A FAT file system, which may be damaged so much that it is not recognised.
    DamagedFileSystem,
    /// Anything.
    Anything,
}

/// The location of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// Path of the image or block device.
    pub(crate) path: PathBuf,
    /// Number of the partition.
    pub(crate) partition: Option<u32>,
}

/// An open image or device, or a partition of one. It is locked until it is dropped.
pub(crate) struct Image {
    /// The device, or the partition of it.
    pub(crate) device: DeviceRef,
    /// The name in messages.
    pub(crate) name: String,
    /// Offset in bytes of a partition.
    pub(crate) start: u64,
}

impl ImageArguments {
    /// Returns the location that the arguments name.
    pub(crate) fn location(&self) -> Outcome<Location> {
        let mut location = location_of(&self.image)?;
        match (self.partition, location.partition) {
            (Some(one), Some(other)) if one != other => {
                let message = format!("two different partitions, {one} and {other}; name only one");
                return Err(Failure::new(Exit::Usage, message));
            }
            (one, other) => location.partition = one.or(other),
        }
        Ok(location)
    }

    /// Opens the image or device.
    pub(crate) fn open(&self, access: Access, contents: Contents) -> Outcome<Image> {
        let location = self.location()?;
        let device = FileDevice::open(&location.path, access).map_err(|error| failure::of_opening(&error))?;
        location.choose(Arc::new(device), contents)
    }
}

impl Location {
    /// Returns the part of a device at this location that the tools work on.
    pub(crate) fn choose(&self, device: DeviceRef, contents: Contents) -> Outcome<Image> {
        let fits = &mut |part: &DeviceRef| is_file_system(part.as_ref());
        let chosen = match (self.partition, contents) {
            (None, Contents::Anything) => Ok(device.clone()),
            (_, Contents::FileSystem) => find_volume(&device, self.partition, fits),
            (None, Contents::DamagedFileSystem) => match find_volume(&device, None, fits) {
                // The partition table may be what looks like one in a damaged boot sector.
                Err(PartitionError::NoneFits(_) | PartitionError::Table(_)) => Ok(device.clone()),
                result => result,
            },
            (number, _) => find_volume(&device, number, &mut |_| Ok(true)),
        };
        let device = chosen.map_err(|error| failure::of_choice(&self.name(), &error))?;
        let start = device.backing().map_or(0, |(_, start)| start);
        Ok(Image { device, name: self.name(), start })
    }

    /// Returns the name in messages.
    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// Returns the location that an argument names: a path, or a base in the syntax of stacks if there is no file of that name.
fn location_of(image: &OsString) -> Outcome<Location> {
    let path = PathBuf::from(image);
    let text = syntax::from_argument(image);
    let is_base = text.starts_with("fat:") || text.trim_end().ends_with(')') && text.contains('(');
    if !is_base || path.symlink_metadata().is_ok() {
        return Ok(Location { path, partition: None });
    }
    let stack = syntax::parse(&text).map_err(|error| syntax_failure(&error, &text))?;
    let [branch] = stack.source.as_slice() else { return Err(not_a_base(&path)) };
    match &branch.value {
        Branch { tree: BranchTree::Base(base), mode: None, .. } if stack.layers.is_empty() => location_of_base(base),
        _ => Err(not_a_base(&path)),
    }
}

fn location_of_base(base: &Base) -> Outcome<Location> {
    let mut location = Location { path: PathBuf::from(&base.location.value), partition: None };
    if let Some(kind) = base.kind.as_ref().filter(|kind| kind.value != KIND) {
        let message =
            format!("the base is '{}', not '{KIND}'; name an image or device with a FAT file system", kind.value);
        return Err(Failure::new(Exit::Unknown, message));
    }
    for argument in &base.arguments {
        let (key, value) = (argument.key.value.as_str(), &argument.value.value);
        if key != PARTITION {
            let message =
                format!("the option '{key}' is one of mounts; leave it out, the tools take only '{PARTITION}' here");
            return Err(Failure::new(Exit::Unknown, message));
        }
        let number = value.to_str().and_then(|text| text.parse().ok());
        location.partition = Some(number.ok_or_else(|| {
            let message = format!("'{PARTITION}' takes the number of a partition, not '{}'", value.display());
            Failure::new(Exit::Unknown, message)
        })?);
    }
    Ok(location)
}

fn syntax_failure(error: &SyntaxError, text: &str) -> Failure {
    Failure::new(Exit::Expression, &error.problem).with_excerpt(error.span.excerpt(text))
}

fn not_a_base(path: &Path) -> Failure {
    let message = format!("'{}' is not one base; name an image or a device", path.display());
    Failure::new(Exit::Expression, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(text: &str) -> Outcome<(String, Option<u32>)> {
        location_of(&text.into()).map(|location| (location.name(), location.partition))
    }

    #[test]
    fn images_are_paths_or_bases() {
        assert_eq!(location("a b,c.img"), Ok(("a b,c.img".into(), None)));
        assert_eq!(location("fat:a.img"), Ok(("a.img".into(), None)));
        assert_eq!(location("fat:a.img(partition=2)"), Ok(("a.img".into(), Some(2))));
        assert_eq!(location("/dev/x(partition=1)"), Ok(("/dev/x".into(), Some(1))));
    }

    #[test]
    fn other_expressions_are_refused() {
        let exit = |text: &str| location(text).unwrap_err().exit;
        assert_eq!(exit("iso:a.img(partition=2)"), Exit::Unknown);
        assert_eq!(exit("fat:a.img(uid=2)"), Exit::Unknown);
        assert_eq!(exit("fat:a.img(partition=x)"), Exit::Unknown);
        assert_eq!(exit("fat:a.img | readonly"), Exit::Expression);
        assert_eq!(exit("fat:a.img, b.img"), Exit::Expression);
        assert_eq!(exit("fat:a.img(partition"), Exit::Expression);
    }
}
