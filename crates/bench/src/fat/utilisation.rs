//! How much of a floppy disk is left after a set of files was unpacked onto it: the paper's Table 2.
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::dataset::DataSet;
use super::loop_image::{Format, LoopImage};
use super::subject::{Access, EXT4, FatSubject, plyfs_subject};
use crate::tree::open_directory;

/// Size of the floppy disk in bytes: 2880 sectors.
pub(crate) const FLOPPY_BYTES: u64 = 1_474_560;
/// Number of inodes: mkfs.ext4 would make fewer than there are files.
const EXT4_INODES: u64 = 256;
const ALLOCATIONS: [u64; 4] = [512, 1024, 2048, 4096];
/// ext4 has no smaller blocks.
const EXT4_BLOCK_MIN: u64 = 1024;

/// The series, in the order of the columns.
pub(crate) const SERIES: [&str; 3] = [EXT4, "plyfs fat", "plyfs fat meta=sidecar"];

/// The row of an allocation size.
#[derive(Serialize, Deserialize)]
pub(crate) struct UtilisationRow {
    /// Size of blocks or clusters in bytes.
    pub allocation: u64,
    /// Bytes allocated and not used, as computed from the sizes.
    pub waste: u64,
    /// Free bytes by series; negative: the bytes of the files that did not fit.
    pub free: BTreeMap<String, i64>,
}

/// The measured table.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Utilisation {
    /// The rows by allocation size.
    pub rows: Vec<UtilisationRow>,
    /// What failed, with the reason.
    pub failures: BTreeMap<String, String>,
}

/// Unpacks the set onto floppy disks of all kinds.
pub(crate) fn run(image: &LoopImage, plyfs: &Path) -> Utilisation {
    let set = DataSet::paper();
    let mut result = Utilisation::default();
    for allocation in ALLOCATIONS {
        let mut free = BTreeMap::new();
        for subject in subjects(plyfs, allocation) {
            match subject
                .unavailable_reason()
                .map_or(Ok(()), |reason| bail!(reason))
                .and_then(|()| measure(image, &subject, &set))
            {
                Ok(bytes) => drop(free.insert(subject.name.clone(), bytes)),
                Err(error) => {
                    eprintln!("bench: utilisation, {} with {allocation} FAILED: {error:#}", subject.name);
                    result.failures.insert(format!("{} ({allocation})", subject.name), format!("{error:#}"));
                }
            }
        }
        result.rows.push(UtilisationRow { allocation, waste: set.waste(allocation), free });
    }
    result
}

fn subjects(plyfs: &Path, allocation: u64) -> Vec<FatSubject> {
    let ext4 = FatSubject {
        name: EXT4.to_owned(),
        family: EXT4,
        access: Access::Kernel(EXT4),
        format: Format::Ext4 { block: Some(allocation), inodes: Some(EXT4_INODES) },
    };
    let mut subjects: Vec<_> = (allocation >= EXT4_BLOCK_MIN).then_some(ext4).into_iter().collect();
    let options = [("plyfs fat", "meta=none"), ("plyfs fat meta=sidecar", "meta=sidecar")];
    subjects.extend(options.map(|(name, options)| {
        let subject = plyfs_subject(plyfs, options, Some(allocation));
        FatSubject { name: name.to_owned(), ..subject }
    }));
    subjects
}

/// Returns the free bytes after everything was unpacked and read again, or the negative number of those that did not fit.
fn measure(image: &LoopImage, subject: &FatSubject, set: &DataSet) -> Result<i64> {
    image.check_unused()?;
    image.format(subject.format)?;
    let mount = subject.mount(image)?;
    let unpacked = unpack(mount.directory(), set)?;
    mount.unmount()?;
    let mount = subject.mount(image)?;
    for (file, is_there) in set.files.iter().zip(&unpacked) {
        if *is_there && std::fs::read(mount.directory().join(&file.path))? != file.contents() {
            bail!("{} does not have what was written", file.path);
        }
    }
    let status = rustix::fs::statvfs(mount.directory())?;
    mount.unmount()?;
    let missing: u64 =
        set.files.iter().zip(&unpacked).filter(|(_, is_there)| !**is_there).map(|(file, _)| file.size).sum();
    Ok(if missing > 0 { -(missing as i64) } else { (status.f_bfree * status.f_frsize) as i64 })
}

/// Creates everything; returns which files fit. One that does not is removed again, so that a smaller one may fit.
fn unpack(root: &Path, set: &DataSet) -> Result<Vec<bool>> {
    for directory in &set.directories {
        std::fs::create_dir(root.join(directory)).with_context(|| format!("cannot make {directory}"))?;
    }
    let mut unpacked = Vec::new();
    for file in &set.files {
        let path = root.join(&file.path);
        let is_there = match write_file(&path, &file.contents()) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                let _ = std::fs::remove_file(&path);
                false
            }
            Err(error) => return Err(error).with_context(|| format!("cannot write {}", file.path)),
        };
        unpacked.push(is_there);
    }
    rustix::fs::syncfs(open_directory(root)?)?;
    Ok(unpacked)
}

/// Writes a file to the device, with the attributes that tar(1) would give it where the file system has them.
fn write_file(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(contents)?;
    let _ = file.set_permissions(std::fs::Permissions::from_mode(0o640));
    file.sync_all()
}
