//! What a power failure leaves without a name: after it was saved, nobody gets access who had none before.

use std::sync::Arc;

use plyfs_bases::device::MemoryDevice;
use plyfs_bases::fat::tools::fsck::FsckMode;
use plyfs_bases::fat::{MetadataMode, Options};
use vnode::{Attributes, Caller, Errno, FileSystem, OpenFlags, SetAttributes, VnodeRef};

use crate::image::{self, KINDS, find, get, in_entries, name, names, put, superuser, with_sidecars, without_sidecars};

/// Mode, owner and group.
fn shown(root: &VnodeRef, path: &str) -> (u32, u32, u32) {
    let Attributes { mode, uid, gid, .. } = find(root, path).unwrap().attributes;
    (mode, uid, gid)
}

/// Returns what a power failure leaves of a volume after a private file and a private directory were removed, and before their clusters
/// became free.
fn with_removed(options: Options) -> Option<Arc<MemoryDevice>> {
    let device = Arc::new(image::format(KINDS[1])?);
    let file_system = image::mount(&device, options);
    let root = file_system.root();
    let private = root.mkdir(&superuser(), name("private"), 0o700).unwrap().vnode;
    let secret = put(&private, "secret", &[7; 5000]).unwrap();
    let _ = secret.setattr(&superuser(), &SetAttributes { mode: Some(0o600), ..Default::default() });
    let below = private.mkdir(&superuser(), name("below"), 0o700).unwrap().vnode;
    file_system.sync().unwrap();
    private.unlink(&superuser(), name("secret")).unwrap();
    private.rmdir(&superuser(), name("below")).unwrap();
    file_system.sync().unwrap();
    // They are in use without a name, so that their clusters are too.
    let left = device.contents();
    drop((secret, below));
    Some(Arc::new(MemoryDevice::from_bytes(&left)))
}

#[test]
fn only_the_superuser_may_use_what_was_saved() {
    for options in [with_sidecars(), in_entries(MetadataMode::Inline), in_entries(MetadataMode::Paper)] {
        let Some(device) = with_removed(options.clone()) else { return };
        let repaired = Arc::new(image::own_report(&device, FsckMode::Repair).0);
        for device in [device, repaired] {
            let file_system = image::mount(&device, options.clone());
            let root = file_system.root();
            assert_eq!(names(&root), ["FSCK0000.DIR", "FSCK0000.REC", "private"], "{options}");
            assert_eq!(shown(&root, "FSCK0000.REC"), (0o600, 0, 0), "{options}");
            assert_eq!(shown(&root, "FSCK0000.DIR"), (0o700, 0, 0), "{options}");
            let other = Caller::with_groups(65_534, 65_534, &[], 0o22);
            let file = find(&root, "FSCK0000.REC").unwrap().vnode;
            assert_eq!(file.open(&other, OpenFlags::READ).err(), Some(Errno::EACCES));
            assert_eq!(get(&root, "FSCK0000.REC").unwrap()[..5000], [7; 5000]);
            file.setattr(&superuser(), &SetAttributes { mode: Some(0o640), ..Default::default() }).unwrap();
            drop((root, file));
            drop(file_system);
            let file_system = image::mount(&device, options.clone());
            assert_eq!(shown(&file_system.root(), "FSCK0000.REC").0, 0o640, "{options}: what was set stays");
        }
    }
}

#[test]
fn without_metadata_the_options_say_who_may_use_what_was_saved() {
    let Some(device) = with_removed(without_sidecars()) else { return };
    let file_system = image::mount(&device, without_sidecars());
    assert_eq!(shown(&file_system.root(), "FSCK0000.REC"), (0o755, 0, 0));
}
