//! Memory that `mem` no longer needs goes back to the system. By itself in its process, which it measures.
#![cfg(all(feature = "mem", target_env = "gnu"))]

use plyfs_bases::mem::{MemoryFileSystem, Options};
use vnode::{Caller, Creation, FileSystem, Name, OpenFlags};

const MIB: u64 = 1 << 20;

/// The resident memory of this process in bytes; `None` where /proc is not there.
fn resident() -> Option<u64> {
    procfs::Process::Own.status().ok()??.resident_bytes()
}

#[test]
fn removed_objects_release_their_memory() {
    let Some(before) = resident() else { return println!("skipped: no /proc") };
    let memory = MemoryFileSystem::new(Options { size: 400 * MIB, mode: 0o777, ..Options::default() });
    let (root, caller) = (memory.root(), Caller::with_groups(0, 0, &[], 0));
    let how = Creation { mode: 0o600, flags: OpenFlags::WRITE };
    let data = vec![1; MIB as usize];
    for round in 0..3 {
        // Each by another thread, so that the allocator takes the memory from other places.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = root.create(&caller, Name::new(b"large").unwrap(), &how).unwrap().file;
                (0..150).for_each(|part| assert_eq!(file.write_at(&caller, part * MIB, &data), Ok(MIB as usize)));
                root.create(&caller, Name::new(format!("small{round}").as_bytes()).unwrap(), &how).unwrap();
            });
        });
        assert!(resident().unwrap() > before + 140 * MIB);
        root.unlink(&caller, Name::new(b"large").unwrap()).unwrap();
        let after = resident().unwrap();
        assert!(after < before + 40 * MIB, "{} MiB remain", (after - before) / MIB);
    }
}
