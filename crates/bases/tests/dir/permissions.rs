//! Permissions: several users, supplementary groups, umask, ACLs, privileged attributes.

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};

use plyfs_bases::dir::{DirectoryFileSystem, Options};
use rustix::thread::CapabilitySet;
use vnode::{
    AccessMode, Caller, Cookie, Creation, Device, Errno, FileKind, FileSystem, Name, OpenFlags, RenameMode,
    SetAttributes, VnodeRef, XattrMode,
};

use crate::fixture::{Fixture, create_file, creation, name, root, run, user};

#[test]
fn the_lower_file_system_decides_by_the_callers_credentials() {
    Fixture::each(|fixture| {
        let (owner, member, stranger) = (user(1_000, &[]), user(1_001, &[7, 1_000]), user(1_002, &[7]));
        let (file, _) = create_file(&fixture.root, &owner, "f", 0o640, b"x");
        let attributes = file.getattr(&root()).unwrap();
        assert_eq!((attributes.uid, attributes.gid), (1_000, 1_000));
        assert!(file.open(&member, OpenFlags::READ).is_ok());
        assert_eq!(file.open(&member, OpenFlags::WRITE).err(), Some(Errno::EACCES));
        assert_eq!(file.open(&stranger, OpenFlags::READ).err(), Some(Errno::EACCES));
        assert!(file.open(&root(), OpenFlags::READ_WRITE).is_ok());
        assert_eq!(file.access(&member, AccessMode::READ), Ok(()));
        assert_eq!(file.access(&member, AccessMode::WRITE), Err(Errno::EACCES));
        assert_eq!(file.access(&stranger, AccessMode::READ), Err(Errno::EACCES));
        assert_eq!(file.access(&stranger, AccessMode::EXISTS), Ok(()));
        assert_eq!(file.access(&root(), AccessMode::EXECUTE), Err(Errno::EACCES));
        assert!(file.open(&stranger, OpenFlags::READ).is_err(), "also after root's turn");
        assert!(file.open(&Caller::server(), OpenFlags::READ).is_ok());
    });
}

#[test]
fn a_group_that_may_do_less_than_others_is_held_to_it() {
    Fixture::each(|fixture| {
        let (file, _) = create_file(&fixture.root, &user(1_000, &[]), "f", 0o604, b"x");
        assert!(file.open(&user(1_001, &[]), OpenFlags::READ).is_ok());
        assert_eq!(file.open(&user(1_001, &[1_000]), OpenFlags::READ).err(), Some(Errno::EACCES));
    });
}

#[test]
fn directories_are_searched_listed_and_changed_with_permission_only() {
    Fixture::each(|fixture| {
        let (owner, stranger) = (user(1_000, &[]), user(1_001, &[]));
        let closed = fixture.root.mkdir(&owner, name("closed"), 0o700).unwrap().vnode;
        create_file(&closed, &owner, "f", 0o666, b"x");
        assert_eq!(closed.lookup(&stranger, name("f")).err(), Some(Errno::EACCES));
        assert_eq!(closed.lookup(&stranger, name("absent")).err(), Some(Errno::EACCES));
        assert_eq!(closed.open_directory(&stranger).err(), Some(Errno::EACCES));
        assert_eq!(closed.create(&stranger, name("g"), &creation(0o600)).err(), Some(Errno::EACCES));
        assert_eq!(closed.unlink(&stranger, name("f")).err(), Some(Errno::EACCES));
        assert_eq!(closed.lookup(&owner, name("absent")).err(), Some(Errno::ENOENT));

        let listed = fixture.root.mkdir(&owner, name("listed"), 0o744).unwrap().vnode;
        assert!(listed.open_directory(&stranger).is_ok(), "reading needs no search permission");
        let sticky = fixture.root.mkdir(&root(), name("sticky"), 0o1777).unwrap().vnode;
        sticky.setattr(&root(), &SetAttributes { mode: Some(0o1777), ..Default::default() }).unwrap();
        create_file(&sticky, &owner, "f", 0o666, b"x");
        assert_eq!(sticky.unlink(&stranger, name("f")).err(), Some(Errno::EPERM));
        assert_eq!(sticky.unlink(&owner, name("f")), Ok(()));
    });
}

#[test]
fn the_umask_counts_unless_a_default_acl_rules() {
    Fixture::each(|fixture| {
        let caller = Caller::with_groups(1_000, 1_000, &[], 0o077);
        let made = fixture.root.create(&caller, name("f"), &creation(0o666)).unwrap();
        assert_eq!(made.entry.attributes.mode, 0o600);
        let open = Caller::with_groups(1_000, 1_000, &[], 0);
        let made = fixture.root.create(&open, name("g"), &creation(0o666)).unwrap();
        assert_eq!(made.entry.attributes.mode, 0o666);
        let directory = fixture.root.mkdir(&caller, name("d"), 0o777).unwrap();
        assert_eq!(directory.attributes.mode, 0o700);
        // user::rwx, group::r-x, other::r--
        let mut acl = vec![2, 0, 0, 0];
        for (tag, permissions) in [(1u16, 7u16), (4, 5), (0x20, 4)] {
            acl.extend(tag.to_le_bytes());
            acl.extend(permissions.to_le_bytes());
            acl.extend(u32::MAX.to_le_bytes());
        }
        let directory = directory.vnode;
        directory.setxattr(&caller, b"system.posix_acl_default", &acl, XattrMode::Set).unwrap();
        assert_eq!(directory.getxattr(&caller, b"system.posix_acl_default"), Ok(acl));
        let made = directory.create(&caller, name("f"), &creation(0o666)).unwrap();
        assert_eq!(made.entry.attributes.mode, 0o644, "the ACL, not the umask");
    });
}

/// Whoever makes a file of their own on a thread that has made one for a caller does so with their own umask.
#[test]
fn umask_of_a_caller_is_restored() {
    Fixture::each(|fixture| {
        let directory = tempfile::tempdir().unwrap();
        let mode_of_own = |name: &str| {
            plyfs_bases::dir::restore_thread_credentials();
            let file = std::fs::File::create(directory.path().join(name)).unwrap();
            std::os::unix::fs::MetadataExt::mode(&file.metadata().unwrap()) & 0o777
        };
        let before = mode_of_own("before");
        for umask in [0, 0o077, 0o777] {
            let caller = Caller::with_groups(1_000, 1_000, &[], umask);
            let text = format!("{umask:o}");
            fixture.root.create(&caller, name(&format!("f{text}")), &creation(0o666)).unwrap();
            assert_eq!(mode_of_own(&format!("file {text}")), before, "after a file of umask {text}");
            fixture.root.mkdir(&caller, name(&format!("d{text}")), 0o777).unwrap();
            assert_eq!(mode_of_own(&format!("directory {text}")), before, "after a directory of umask {text}");
            assert!(fixture.root.mkdir(&caller, name(&format!("d{text}")), 0o777).is_err());
            assert_eq!(mode_of_own(&format!("failure {text}")), before, "after a failure of umask {text}");
        }
    });
}

#[test]
fn new_objects_get_the_callers_group_or_the_directorys() {
    Fixture::each(|fixture| {
        let caller = Caller::with_groups(1_000, 50, &[60], 0o022);
        let made = fixture.root.create(&caller, name("f"), &creation(0o666)).unwrap();
        assert_eq!((made.entry.attributes.uid, made.entry.attributes.gid), (1_000, 50));
        let shared = fixture.root.mkdir(&root(), name("shared"), 0o777).unwrap().vnode;
        let group = SetAttributes { gid: Some(60), mode: Some(0o2777), ..Default::default() };
        shared.setattr(&root(), &group).unwrap();
        let made = shared.create(&caller, name("f"), &creation(0o666)).unwrap();
        assert_eq!(made.entry.attributes.gid, 60);
        let below = shared.mkdir(&caller, name("d"), 0o755).unwrap();
        assert_eq!((below.attributes.gid, below.attributes.mode), (60, 0o2755));
        let administrator = Caller::with_groups(0, 77, &[], 0o022);
        let made = fixture.root.create(&administrator, name("g"), &creation(0o600)).unwrap();
        assert_eq!((made.entry.attributes.uid, made.entry.attributes.gid), (0, 77));
    });
}

#[test]
fn owners_change_what_owners_may() {
    Fixture::each(|fixture| {
        let owner = user(1_000, &[60]);
        let (file, _) = create_file(&fixture.root, &owner, "f", 0o644, b"x");
        let group = |gid| SetAttributes { gid: Some(gid), ..Default::default() };
        assert_eq!(file.setattr(&owner, &group(60)).unwrap().gid, 60);
        assert_eq!(file.setattr(&owner, &group(61)).err(), Some(Errno::EPERM));
        let away = SetAttributes { uid: Some(1), ..Default::default() };
        assert_eq!(file.setattr(&owner, &away).err(), Some(Errno::EPERM));
        let mode = SetAttributes { mode: Some(0o777), ..Default::default() };
        assert_eq!(file.setattr(&user(1_001, &[]), &mode).err(), Some(Errno::EPERM));
        assert_eq!(file.setattr(&owner, &mode).unwrap().mode, 0o777);
        file.setattr(&root(), &group(99)).unwrap();
        let set_group = SetAttributes { mode: Some(0o2777), ..Default::default() };
        assert_eq!(file.setattr(&owner, &set_group).unwrap().mode, 0o777, "not for a group of others");
    });
}

#[test]
fn refused_chown_keeps_set_id_bits() {
    Fixture::each(|fixture| {
        let (owner, stranger) = (user(1_000, &[]), user(1_001, &[]));
        let (file, _) = create_file(&fixture.root, &owner, "f", 0o755, b"x");
        let mode = |mode| SetAttributes { mode: Some(mode), ..Default::default() };
        assert_eq!(file.setattr(&owner, &mode(0o4755)).unwrap().mode, 0o4755);
        let chown = SetAttributes { kill_privileges: true, ..Default::default() };
        let (user, group) = (SetAttributes { uid: Some(1_001), ..chown }, SetAttributes { gid: Some(1_001), ..chown });
        for (caller, change) in [(&stranger, &user), (&stranger, &group), (&owner, &user), (&owner, &group)] {
            assert_eq!(file.setattr(caller, change).err(), Some(Errno::EPERM));
            assert_eq!(file.getattr(&root()).unwrap().mode, 0o4755, "{change:?}");
        }
        assert_eq!(file.setattr(&root(), &user).unwrap().mode, 0o755);
    });
}

#[test]
fn privileged_attributes_are_the_superusers() {
    Fixture::each(|fixture| {
        let owner = user(1_000, &[]);
        let (file, _) = create_file(&fixture.root, &owner, "f", 0o644, b"x");
        file.setxattr(&root(), b"trusted.a", b"1", XattrMode::Set).unwrap();
        for (attribute, error) in [(&b"trusted.a"[..], Errno::EPERM), (b"security.capability", Errno::EPERM)] {
            assert_eq!(file.setxattr(&owner, attribute, b"1", XattrMode::Set), Err(error));
            assert_eq!(file.removexattr(&owner, attribute), Err(error));
        }
        assert_eq!(file.getxattr(&owner, b"trusted.a"), Err(Errno::ENODATA));
        assert_eq!(file.listxattr(&owner), Ok(Vec::new()));
        assert_eq!(file.listxattr(&root()), Ok(b"trusted.a\0".to_vec()));
        if fixture.label.starts_with("ext4") {
            file.setxattr(&owner, b"user.big", &[7; 3_000], XattrMode::Create).unwrap();
            assert_eq!(file.getxattr(&owner, b"user.big"), Ok(vec![7; 3_000]));
            assert_eq!(file.setxattr(&owner, b"user.big", b"", XattrMode::Create), Err(Errno::EEXIST));
            assert_eq!(file.setxattr(&owner, b"user.none", b"", XattrMode::Replace), Err(Errno::ENODATA));
            assert_eq!(file.setxattr(&user(1_001, &[]), b"user.x", b"", XattrMode::Set), Err(Errno::EACCES));
        }
    });
}

#[test]
fn threads_act_for_different_users_at_once() {
    Fixture::each(|fixture| {
        std::thread::scope(|scope| {
            for uid in [0, 1_000, 1_001, 1_002] {
                scope.spawn(move || {
                    for round in 0..200 {
                        let uid = if round % 3 == 0 { uid + 10 } else { uid };
                        let caller = Caller::with_groups(uid, uid + 1, &[uid + 2], 0o027);
                        let file = format!("{uid}-{round}");
                        create_file(&fixture.root, &caller, &file, 0o666, b"x");
                        let made = std::fs::metadata(fixture.path.join(&file)).unwrap();
                        assert_eq!((made.uid(), made.gid(), made.mode() & 0o777), (uid, uid + 1, 0o640));
                    }
                });
            }
        });
    });
}

#[test]
fn server_acts_for_itself_after_acting_for_others() {
    Fixture::each(|fixture| {
        let private = fixture.root.mkdir(&root(), name("private"), 0o700).unwrap().vnode;
        let mounted = fixture.mount_below("private/m", "tmpfs");
        let (path, numbers) = (mounted.parent().unwrap().to_owned(), || {
            let open = private.open_directory(&root()).unwrap();
            // It is the last on this thread.
            assert_eq!(private.lookup(&user(1_000, &[]), name("m")).err(), Some(Errno::EACCES));
            let mut numbers = Vec::new();
            let mut sink = |entry: vnode::DirectoryEntry<'_>| {
                numbers.push((entry.name.as_bytes().to_vec(), entry.ino));
                std::ops::ControlFlow::Continue(())
            };
            open.read(&root(), Cookie::START, &mut sink).unwrap();
            numbers
        });
        let ino = private.lookup(&root(), name("m")).unwrap().attributes.ino;
        assert_eq!(numbers(), [(b"m".to_vec(), ino)]);
        assert!(DirectoryFileSystem::open(&path.join("m"), Options::default()).is_ok());
    });
}

#[test]
fn executing_needs_no_permission_to_read() {
    Fixture::each(|fixture| {
        let (file, _) = create_file(&fixture.root, &root(), "program", 0o711, b"x");
        let for_execution = OpenFlags::from_bits(0x20);
        assert!(file.open(&user(1_000, &[]), for_execution).is_ok());
        assert_eq!(file.open(&user(1_000, &[]), OpenFlags::READ).err(), Some(Errno::EACCES));
        let (data, _) = create_file(&fixture.root, &root(), "data", 0o600, b"x");
        assert_eq!(data.open(&user(1_000, &[]), for_execution).err(), Some(Errno::EACCES));
    });
}

/// A process that sleeps, started by a command; ended with it.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn start(command: &[&str]) -> Self {
        let arguments = command[1..].iter().chain(&["sleep", "60"]);
        let sleeper = Self(std::process::Command::new(command[0]).args(arguments).spawn().unwrap());
        let comm = format!("/proc/{}/comm", sleeper.0.id());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while std::fs::read_to_string(&comm).unwrap() != "sleep\n" {
            assert!(std::time::Instant::now() < deadline, "{command:?} does not start");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        sleeper
    }

    fn root(&self) -> Caller {
        Caller::process(self.0.id(), 0, 0, 0o022)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn root_without_capabilities_is_an_ordinary_user() {
    Fixture::each(|fixture| {
        let owner = user(1_000, &[]);
        let (file, _) = create_file(&fixture.root, &owner, "f", 0o640, b"x");
        let directory = fixture.root.mkdir(&owner, name("d"), 0o750).unwrap().vnode;
        create_file(&directory, &owner, "g", 0o644, b"x");
        let (own, _) = create_file(&fixture.root, &root(), "own", 0o600, b"x");
        let give_away = SetAttributes { uid: Some(5), ..Default::default() };
        let unbound = Sleeper::start(&["setpriv", "--bounding-set=-dac_override,-dac_read_search"]);
        let elsewhere = Sleeper::start(&["unshare", "--user", "--map-root-user"]);
        for (caller, may_give_away) in [(unbound.root(), true), (elsewhere.root(), false)] {
            assert_eq!(file.open(&caller, OpenFlags::READ).err(), Some(Errno::EACCES));
            assert_eq!(file.access(&caller, AccessMode::READ), Err(Errno::EACCES));
            assert_eq!(directory.lookup(&caller, name("g")).err(), Some(Errno::EACCES));
            assert_eq!(directory.unlink(&caller, name("g")), Err(Errno::EACCES));
            assert_eq!(directory.create(&caller, name("h"), &creation(0o600)).err(), Some(Errno::EACCES));
            assert!(own.open(&caller, OpenFlags::READ_WRITE).is_ok());
            let made = fixture.root.create(&caller, name("made"), &creation(0o600)).unwrap();
            assert_eq!((made.entry.attributes.uid, made.entry.attributes.gid), (0, 0));
            let given = made.entry.vnode.setattr(&caller, &give_away).map(|after| after.uid);
            assert_eq!(given, if may_give_away { Ok(5) } else { Err(Errno::EPERM) });
            fixture.root.unlink(&root(), name("made")).unwrap();
            let trusted = file.setxattr(&caller, b"trusted.a", b"1", XattrMode::Set);
            assert_eq!(trusted, if may_give_away { Ok(()) } else { Err(Errno::EPERM) });
            assert!(
                file.open(&root(), OpenFlags::READ).is_ok(),
                "the next caller on the thread is as powerful as ever"
            );
            assert_eq!(file.open(&caller, OpenFlags::READ).err(), Some(Errno::EACCES), "and the next as powerless");
        }
    });
}

#[test]
fn users_set_capabilities_in_their_own_namespaces() {
    Fixture::each(|fixture| {
        let (owner, other) = (user(1_000, &[]), user(1_001, &[]));
        let (file, _) = create_file(&fixture.root, &owner, "f", 0o755, b"x");
        // VFS_CAP_REVISION_3 of Linux, effective: cap_net_raw, in namespaces of the user.
        let of = |revision: u32, user: &[u32]| -> Vec<u8> {
            let words = [revision << 24 | 1, 1 << 13, 0, 0, 0];
            words.iter().chain(user).flat_map(|word| word.to_le_bytes()).collect()
        };
        let set = |caller, value: &[u8]| file.setxattr(caller, b"security.capability", value, XattrMode::Set);
        assert_eq!(set(&other, &of(3, &[1_001])), Err(Errno::EPERM), "the file is another's");
        assert_eq!(set(&owner, &of(3, &[1_001])), Err(Errno::EPERM), "the namespace is another's");
        assert_eq!(set(&owner, &of(3, &[0])), Err(Errno::EPERM), "the namespace is the machine's");
        assert_eq!(set(&owner, &of(2, &[])), Err(Errno::EPERM), "it counts everywhere");
        assert_eq!(set(&owner, &of(3, &[1_000])), Ok(()));
        assert_eq!(file.getxattr(&owner, b"security.capability"), Ok(of(3, &[1_000])));
        assert_eq!(file.removexattr(&other, b"security.capability"), Err(Errno::EPERM));
        assert_eq!(file.removexattr(&owner, b"security.capability"), Ok(()));
        set(&root(), &of(2, &[])).unwrap();
        assert_eq!(file.removexattr(&owner, b"security.capability"), Err(Errno::EPERM));
        let directory = fixture.root.mkdir(&owner, name("d"), 0o755).unwrap().vnode;
        directory.setxattr(&owner, b"security.capability", &of(3, &[1_000]), XattrMode::Set).unwrap();
    });
}

#[test]
fn whom_the_kernel_has_admitted_may_do_with_its_own_what_the_owner_could_allow() {
    Fixture::each(|fixture| {
        let (owner, other) = (user(1_000, &[]), user(1_001, &[]));
        let (file, _) = create_file(&fixture.root, &owner, "f", 0, b"x");
        let closed = fixture.root.mkdir(&owner, name("closed"), 0o700).unwrap().vnode;
        create_file(&closed, &owner, "g", 0o600, b"x");
        closed.setattr(&owner, &SetAttributes { mode: Some(0), ..Default::default() }).unwrap();
        let is_refused = |caller: &Caller| {
            assert_eq!(file.open(caller, OpenFlags::READ).err(), Some(Errno::EACCES));
            assert_eq!(closed.lookup(caller, name("g")).err(), Some(Errno::EACCES));
            assert_eq!(closed.open_directory(caller).err(), Some(Errno::EACCES));
        };
        is_refused(&owner);
        is_refused(&other.admitted_by_kernel());
        let admitted = owner.clone().admitted_by_kernel();
        assert!(file.open(&admitted, OpenFlags::READ_WRITE).is_ok());
        assert!(closed.lookup(&admitted, name("g")).is_ok());
        assert!(closed.open_directory(&admitted).is_ok());
        is_refused(&owner);
    });
}

#[test]
fn whom_the_kernel_has_admitted_may_change_its_own_as_the_owner_could_allow() {
    Fixture::each(|fixture| {
        let (owner, other) = (user(1_000, &[]), user(1_001, &[]));
        let (file, _) = create_file(&fixture.root, &owner, "f", 0, b"x");
        let (others, _) = create_file(&fixture.root, &other, "others", 0, b"x");
        let closed = fixture.root.mkdir(&owner, name("closed"), 0o700).unwrap().vnode;
        create_file(&closed, &other_in(&closed, &owner), "theirs", 0o600, b"x");
        let open = fixture.root.mkdir(&other, name("open"), 0o777).unwrap().vnode;
        open.setattr(&other, &SetAttributes { mode: Some(0o777), ..Default::default() }).unwrap();
        let strange = fixture.root.mkdir(&other, name("strange"), 0o755).unwrap().vnode;
        closed.setattr(&owner, &SetAttributes { mode: Some(0), ..Default::default() }).unwrap();
        let cut = SetAttributes { size: Some(0), ..Default::default() };
        let create = |caller: &Caller, at: &str| closed.create(caller, name(at), &creation(0o600)).map(drop);
        let all = |caller: &Caller| {
            [
                file.setattr(caller, &cut).map(drop),
                file.open(caller, OpenFlags::WRITE.with(OpenFlags::TRUNCATE)).map(drop),
                file.setxattr(caller, b"user.a", b"1", XattrMode::Set),
                file.getxattr(caller, b"user.a").map(drop),
                file.removexattr(caller, b"user.a"),
                file.access(caller, AccessMode::WRITE),
                create(caller, "new"),
                closed.mkdir(caller, name("d"), 0o700).map(drop),
                closed.mknod(caller, name("n"), FileKind::Fifo, 0o600, Device::default()).map(drop),
                closed.symlink(caller, name("s"), b"x").map(drop),
                closed.link(caller, &file, name("l")).map(drop),
                closed.tmpfile(caller, &creation(0o600)).map(drop),
                closed.rename(caller, name("n"), &closed, name("m"), RenameMode::Replace),
                closed.rename(caller, name("m"), &open, name("m"), RenameMode::Replace),
                open.rename(caller, name("m"), &closed, name("m"), RenameMode::Replace),
                closed.unlink(caller, name("m")),
                closed.rmdir(caller, name("d")),
            ]
        };
        let no = Err(Errno::EACCES);
        assert!(all(&owner).iter().all(|done| *done == no), "{:?}", all(&owner));
        assert!(all(&other.clone().admitted_by_kernel()).iter().all(|done| *done == no), "what another owns");
        let admitted = owner.clone().admitted_by_kernel();
        assert_eq!(all(&admitted), [Ok(()); 17]);
        assert_eq!(others.setattr(&admitted, &cut).map(drop), no);
        assert_eq!(strange.create(&admitted, name("x"), &creation(0o600)).map(drop), no);
        assert_eq!(closed.rename(&admitted, name("l"), &strange, name("l"), RenameMode::Replace), no);
        let both = Creation { flags: OpenFlags::READ_WRITE, mode: 0o600 };
        assert_eq!(closed.create(&admitted, name("theirs"), &both).map(drop), no, "a file that is there already");
        assert_eq!(create(&owner, "newer"), no, "the next is as powerless as before");
    });
}

/// Another user, for whom the owner of a directory makes room in it.
fn other_in(directory: &VnodeRef, owner: &Caller) -> Caller {
    directory.setattr(owner, &SetAttributes { mode: Some(0o777), ..Default::default() }).unwrap();
    user(1_001, &[])
}

#[test]
fn users_take_no_reserved_space() {
    Fixture::each(|fixture| {
        if !fixture.label.starts_with("ext4") {
            return;
        }
        let owner = user(1_000, &[]);
        let state = || fixture.root.statfs(&root()).unwrap();
        let has_reserve = || state().blocks_free > 1_000;
        // In one go up to a mebibyte before the end.
        let (_, large) = create_file(&fixture.root, &owner, "large", 0o666, b"x");
        let most = (state().blocks_available - 256) * 4_096;
        large.allocate(&owner, vnode::AllocateMode::from_bits(0), 0, most).unwrap();
        let (vnode, file) = create_file(&fixture.root, &owner, "f", 0o666, b"x");
        let mut offset = 0;
        let mut fill = |caller: &Caller, pieces: usize| {
            (0..pieces).find_map(|_| {
                offset += 4_096;
                file.write_at(caller, offset, &[7; 4_096]).err()
            })
        };
        assert_eq!(fill(&owner, 2_000), Some(Errno::ENOSPC));
        assert!(has_reserve());
        assert_eq!(fill(&user(1_001, &[]), 8), Some(Errno::ENOSPC), "also after the superuser's turn");
        assert_eq!(fill(&Caller::server(), 8), Some(Errno::ENOSPC), "what the server writes is the user's");
        let at_expense = Caller::server().at_expense_of(&owner);
        assert_eq!(fill(&at_expense, 8), Some(Errno::ENOSPC), "or of whoever it is at the expense of");
        let servers = vnode.open(&Caller::server(), OpenFlags::READ_WRITE).unwrap();
        assert_eq!(servers.write_at(&at_expense, 1 << 31, &[7; 65_536]), Err(Errno::ENOSPC));
        let paid = vnode.open(&at_expense, OpenFlags::READ_WRITE).unwrap();
        assert_eq!(paid.write_at(&Caller::server(), 1 << 31, &[7; 65_536]), Err(Errno::ENOSPC));
        let set_id = SetAttributes { mode: Some(0o4755), ..Default::default() };
        vnode.setattr(&owner, &set_id).unwrap();
        paid.write_at(&at_expense, 0, b"y").unwrap();
        assert_eq!(vnode.getattr(&root()).unwrap().mode, 0o4755, "the server may still write what it may");
        let more = large.allocate(&owner, vnode::AllocateMode::from_bits(0), most, 1 << 20);
        assert_eq!(more, Err(Errno::ENOSPC));
        // As the kernel writes by itself, with what the thread has that hands it the file.
        let opened = vnode.open(&owner, OpenFlags::READ_WRITE).unwrap();
        vnode.open(&root(), OpenFlags::READ_WRITE).unwrap();
        let backing = opened.backing().unwrap();
        let past = (1..9).find_map(|piece| rustix::io::pwrite(backing, &[7; 4_096], (1 << 30) + piece * 4_096).err());
        assert_eq!(past, Some(rustix::io::Errno::NOSPC));
        assert!(has_reserve());
        assert_eq!(fill(&root(), 64), None, "the superuser uses it");
    });
}

/// Has a user take all of an ext4 but what is reserved for the superuser.
fn fill(fixture: &Fixture, owner: &Caller) {
    let available = fixture.root.statfs(&root()).unwrap().blocks_available - 256;
    let (_, large) = create_file(&fixture.root, owner, "large", 0o666, b"x");
    large.allocate(owner, vnode::AllocateMode::from_bits(0), 0, available * 4_096).unwrap();
    let full = (0..1_000).find_map(|piece| large.write_at(owner, (1 << 31) + piece * 4_096, &[7; 4_096]).err());
    assert_eq!(full, Some(Errno::ENOSPC));
}

/// Makes names of a kind in a directory, or whatever else takes room bit by bit, until that fails.
fn error_of_many(create_file: impl Fn(Name<'_>) -> Result<(), Errno>) -> Option<Errno> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    (0..200).find_map(|_| create_file(name(&format!("{:0>200}", NEXT.fetch_add(1, Ordering::Relaxed)))).err())
}

#[test]
fn names_and_objects_use_no_reserved_space() {
    Fixture::each(|fixture| {
        if !fixture.label.starts_with("ext4") {
            return;
        }
        let owner = user(1_000, &[]);
        let directories: Vec<_> = ["create", "mknod", "symlink", "link", "rename", "away"]
            .map(|directory| fixture.root.mkdir(&owner, name(directory), 0o777).unwrap().vnode)
            .into();
        let [create, mknod, symlink, link, rename, away] = &directories[..] else { unreachable!() };
        let (file, _) = create_file(&fixture.root, &owner, "f", 0o600, b"x");
        away.link(&root(), &file, name("f")).unwrap();
        fill(fixture, &owner);
        let paid = Caller::server().at_expense_of(&owner);
        let left = fixture.root.statfs(&root()).unwrap().blocks_free;
        for caller in [&owner, &paid] {
            let full = Some(Errno::ENOSPC);
            assert_eq!(fixture.root.mkdir(caller, name("d"), 0o700).err(), full);
            let made = |name: Name<'_>| create.create(caller, name, &creation(0o600)).map(drop);
            assert_eq!(error_of_many(made), full);
            let made = |name: Name<'_>| mknod.mknod(caller, name, FileKind::Fifo, 0o600, Device::default()).map(drop);
            assert_eq!(error_of_many(made), full);
            assert_eq!(error_of_many(|name| symlink.symlink(caller, name, b"short").map(drop)), full);
            assert_eq!(fixture.root.symlink(caller, name("long"), &[b'x'; 200]).err(), full, "a block of its own");
            assert_eq!(error_of_many(|name| link.link(caller, &file, name).map(drop)), full);
            let moved = |to: Name<'_>| {
                away.rename(caller, name("f"), rename, to, RenameMode::Replace)?;
                away.link(&root(), &file, name("f")).map(drop)
            };
            assert_eq!(error_of_many(moved), full);
            let large = file.setxattr(caller, b"user.large", &[7; 3_000], XattrMode::Set);
            assert_eq!(large.err(), full);
        }
        assert!(fixture.root.statfs(&root()).unwrap().blocks_free >= left, "nothing of it was taken");
        let by_root = Caller::server().at_expense_of(&root());
        for (caller, directory) in [(root(), "of root"), (by_root, "for root"), (Caller::server(), "own")] {
            fixture.root.mkdir(&caller, name(directory), 0o700).unwrap();
        }
        let away = fixture.root.lookup(&root(), name("own")).unwrap().vnode;
        assert_eq!(error_of_many(|name| away.link(&root(), &file, name).map(drop)), None, "directories grow for root");
    });
}

#[test]
fn charged_objects_are_created_with_the_rights_of_the_server() {
    Fixture::each(|fixture| {
        let closed = fixture.root.mkdir(&root(), name("closed"), 0o700).unwrap().vnode;
        let paid = Caller::server().at_expense_of(&user(1_000, &[]));
        let directory = closed.mkdir(&paid, name("d"), 0o750).unwrap();
        assert_eq!(
            (directory.attributes.uid, directory.attributes.gid, directory.attributes.mode),
            (1_000, 1_000, 0o750)
        );
        let device = closed.mknod(&paid, name("n"), FileKind::CharacterDevice, 0o600, Device::default()).unwrap();
        assert_eq!(device.attributes.uid, 1_000);
        closed.create(&paid, name("f"), &creation(0o600)).unwrap();
        closed.rename(&paid, name("f"), &directory.vnode, name("g"), RenameMode::Replace).unwrap();
        closed.link(&paid, &directory.vnode.lookup(&root(), name("g")).unwrap().vnode, name("f")).unwrap();
        assert_eq!(closed.mkdir(&user(1_000, &[]), name("e"), 0o700).err(), Some(Errno::EACCES), "itself it may not");
    });
}

/// CAP_SYS_RESOURCE, by which the superuser passes the limits of quotas: seen here by what is reserved for another user.
#[test]
fn the_superuser_passes_limits_also_where_the_server_acts_for_it() {
    Fixture::each(|fixture| {
        if !fixture.label.starts_with("ext4") {
            return;
        }
        // Some machines' superuser is without it.
        let is_weak = !rustix::thread::capabilities(None).unwrap().permitted.contains(CapabilitySet::SYS_RESOURCE);
        let mounted = fixture.path.parent().unwrap().to_str().unwrap();
        run("mount", &["-o", "remount,resuid=12345", mounted]);
        let owner = user(1_000, &[]);
        let (file, _) = create_file(&fixture.root, &owner, "f", 0o666, b"x");
        fill(fixture, &owner);
        let write = |opener: &Caller, caller: &Caller| {
            file.open(opener, OpenFlags::READ_WRITE).unwrap().write_at(caller, 1 << 30, &[7; 65_536]).map(drop)
        };
        let (server, for_root) = (Caller::server(), Caller::server().at_expense_of(&root()));
        let weak = Sleeper::start(&["setpriv", "--bounding-set=-sys_resource"]);
        let for_weak = server.clone().at_expense_of(&weak.root());
        for (caller, is_full) in
            [(&server, true), (&for_weak, true), (&weak.root(), true), (&for_root, is_weak), (&root(), is_weak)]
        {
            let expected = if is_full { Err(Errno::ENOSPC) } else { Ok(()) };
            assert_eq!(write(&server, caller), expected, "{caller:?}");
            assert_eq!(fixture.root.mkdir(caller, name("d"), 0o700).map(drop), expected, "{caller:?}");
            if !is_full {
                fixture.root.rmdir(caller, name("d")).unwrap();
                file.setattr(caller, &SetAttributes { size: Some(1), ..Default::default() }).unwrap();
            }
        }
    });
}

#[test]
fn users_have_no_capabilities_of_the_servers() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    // What others map may be read by those only who may trace them, whatever the mode says: by CAP_SYS_PTRACE.
    let file_system = DirectoryFileSystem::open(std::path::Path::new("/proc"), Options::default()).unwrap();
    let parent = std::os::unix::process::parent_id().to_string();
    let process = file_system.root().lookup(&root(), name(&parent)).unwrap().vnode;
    let maps = process.lookup(&root(), name("maps")).unwrap().vnode;
    assert!(maps.open(&root(), OpenFlags::READ).is_ok());
    assert_eq!(maps.open(&user(1_000, &[]), OpenFlags::READ).err(), Some(Errno::EACCES));
    assert!(maps.open(&root(), OpenFlags::READ).is_ok());
    plyfs_bases::dir::restore_thread_credentials();
}

#[test]
fn new_thread_has_the_credentials_of_the_server() {
    Fixture::each(|fixture| {
        let status = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let rights = |status: &str| {
            let keys = ["Uid:", "Gid:", "Groups:", "CapEff:", "Umask:"];
            let lines = status.lines().filter(|line| keys.iter().any(|key| line.starts_with(key)));
            lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>()
        };
        // As the process was started, before this thread acted for anybody.
        let servers = rights(&std::fs::read_to_string("/proc/self/status").unwrap());
        let callers = [user(1_000, &[60]), Caller::with_groups(1_000, 50, &[], 0o077), root()];
        for (index, caller) in callers.iter().enumerate() {
            let _ = fixture.root.mkdir(caller, name(&format!("d{index}")), 0o777);
            let started = std::thread::spawn(vnode::as_server(status)).join().unwrap();
            assert_eq!(rights(&started), servers, "{caller:?}");
            // It may act for somebody, too, and gives the umask back.
            let root_directory = fixture.root.clone();
            let (other, text) = (caller.clone(), format!("e{index}"));
            let act = vnode::as_server(move || {
                let _ = root_directory.mkdir(&other, name(&text), 0o777);
                plyfs_bases::dir::restore_thread_credentials();
                status()
            });
            let ended = rights(&std::thread::spawn(act).join().unwrap());
            let without_groups = |lines: &[String]| -> Vec<String> {
                lines.iter().filter(|line| !line.starts_with("Groups:")).cloned().collect()
            };
            assert_eq!(without_groups(&ended), without_groups(&servers), "{caller:?}");
        }
    });
}
