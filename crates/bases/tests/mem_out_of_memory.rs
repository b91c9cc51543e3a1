//! What `mem` does when the process gets no more memory. By itself in its process, which it limits.
#![cfg(all(feature = "mem", target_os = "linux"))]

use std::ops::ControlFlow;

use plyfs_bases::mem::{MemoryFileSystem, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vnode::{
    AllocateMode, Caller, Cookie, Creation, DirectoryEntry, Errno, FileSystem, Name, OpenFileRef, OpenFlags, Result,
    VnodeRef, XattrMode,
};

const MIB: u64 = 1 << 20;

/// The address space of this process in bytes.
fn address_space() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

fn caller() -> Caller {
    Caller::with_groups(0, 0, &[], 0)
}

fn name_of(text: &str) -> Name<'_> {
    Name::new(text.as_bytes()).unwrap()
}

fn create(root: &VnodeRef, name: &str) -> Result<OpenFileRef> {
    let how = Creation { mode: 0o600, flags: OpenFlags::READ_WRITE };
    Ok(root.create(&caller(), name_of(name), &how)?.file)
}

/// Does this with a growing number until it fails; how it failed.
fn until_it_fails(mut action: impl FnMut(u64) -> Result<()>) -> Errno {
    (0..10_000_000).find_map(|number| action(number).err()).expect("memory is limited")
}

/// Takes memory, another piece for each number.
type MemoryConsumer<'a> = &'a dyn Fn(u64) -> Result<()>;

/// A few names of a directory: the test itself needs little memory.
fn some_names(directory: &VnodeRef) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let mut take = |entry: DirectoryEntry<'_>| {
        names.push(entry.name.as_bytes().to_vec());
        if names.len() < 100 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    directory.open_directory(&caller()).unwrap().read(&caller(), Cookie::START, &mut take).unwrap();
    names
}

#[test]
fn out_of_memory_is_an_error_and_keeps_existing_data() {
    let memory = MemoryFileSystem::new(Options { size: 1 << 50, inodes: 1 << 40, mode: 0o777, uid: 0, gid: 0 });
    let (root, caller) = (memory.root(), caller());
    let kept = create(&root, "kept").unwrap();
    kept.write_at(&caller, 0, b"kept").unwrap();
    let before = getrlimit(Resource::As);
    setrlimit(Resource::As, Rlimit { current: Some(address_space() + 64 * MIB), ..before }).unwrap();

    let large = create(&root, "large").unwrap();
    let data = vec![7; 128 << 10];
    let mut written = 0;
    let failure = until_it_fails(|_| {
        written += large.write_at(&caller, written, &data)? as u64;
        Ok(())
    });
    assert_eq!(failure, Errno::ENOSPC);
    assert!(written > 16 * MIB, "{written}");
    assert_eq!(large.getattr(&caller).unwrap().size, written);
    assert_eq!(large.write_at(&caller, 5, b"old pages"), Ok(9));
    let reserved =
        create(&root, "reserved").and_then(|file| file.allocate(&caller, AllocateMode::ALLOCATE, 0, 1 << 45));
    assert_eq!(reserved, Err(Errno::ENOSPC));
    root.unlink(&caller, name_of("large")).unwrap();
    drop(large);

    // Every way to take memory that no size limits.
    let name = |number| format!("{number:0>200}");
    let node = root.lookup(&caller, name_of("kept")).unwrap().vnode;
    let directory = |text: &str| root.mkdir(&caller, name_of(text), 0o700).unwrap().vnode;
    let (files, links, attributes, symlinks) = (directory("f"), directory("l"), directory("a"), directory("s"));
    let consumers: [(&VnodeRef, MemoryConsumer<'_>); 4] = [
        (&files, &|number| create(&files, &name(number)).map(drop)),
        (&links, &|number| match links.link(&caller, &node, name_of(&name(number))) {
            // A file has a limited number of names.
            Err(Errno::EMLINK) => create(&links, &name(number)).map(drop),
            linked => linked.map(drop),
        }),
        (&attributes, &|number| {
            let node = attributes.mkdir(&caller, name_of(&name(number)), 0o700)?.vnode;
            node.setxattr(&caller, b"user.large", &[1; 60_000], XattrMode::Set)
        }),
        (&symlinks, &|number| symlinks.symlink(&caller, name_of(&name(number)), &[b'x'; 4000]).map(drop)),
    ];
    for (directory, consume) in consumers {
        assert_eq!(until_it_fails(consume), Errno::ENOSPC);
        let mut removed = 0;
        loop {
            let names = some_names(directory);
            if names.is_empty() {
                break;
            }
            removed += names.len();
            for name in names {
                let name = Name::new(&name).unwrap();
                directory.unlink(&caller, name).or_else(|_| directory.rmdir(&caller, name)).unwrap();
            }
        }
        assert!(removed > 100, "{removed}");
    }

    let mut read = [0; 10];
    assert_eq!((kept.read_at(&caller, 0, &mut read), &read[..4]), (Ok(4), &b"kept"[..]));
    assert_eq!(create(&root, "after").unwrap().write_at(&caller, 0, &data), Ok(data.len()));
    setrlimit(Resource::As, before).unwrap();
}
