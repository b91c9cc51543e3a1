//! Errors from below: each reaches the caller, and none is mistaken for another.

mod support;

use bases::dir::{DirectoryFileSystem, Options};
use plyfs_frontends::fuse::MountOptions;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::IntoRawFd;
use std::sync::Arc;
use support::{memory, mount_with};
use vnode::layer::{Layer, LayerFile, LayerVnode, Operation, stack};
use vnode::{Caller, Errno, FileSystem, Name, Needs, OpenFlags, Promises, Result};

/// Fails as it is asked to.
struct Failing;

/// Reads from here on fail.
const BAD: u64 = 300_000;

impl Layer for Failing {
    type State = ();

    fn kind(&self) -> &'static str {
        "failing"
    }

    fn promises(&self) -> Promises {
        Promises { data_untouched: false, ..Promises::TRANSPARENT }
    }

    fn needs(&self) -> Needs {
        Needs { every_lookup: true, ..Needs::NONE }
    }

    fn admit(&self, _: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> Result<()> {
        let Operation::Lookup(name) = operation else { return Ok(()) };
        let number = std::str::from_utf8(name.as_bytes()).ok().and_then(|name| name.strip_prefix("error "));
        number.map_or(Ok(()), |number| Err(Errno::new(number.parse().unwrap())))
    }

    fn read_at(&self, file: &LayerFile<Self>, caller: &Caller, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if offset + buffer.len() as u64 > BAD {
            return Err(Errno::EIO);
        }
        file.forward_read_at(caller, offset, buffer)
    }
}

/// The kernel takes no reply with a number of its own, and the caller would wait for ever.
#[test]
fn every_layer_errno_reaches_the_caller_as_an_error() {
    let Some(mounted) = mount_with(stack(Failing, memory()), MountOptions::default()) else { return };
    for number in (0..4200).chain([-1, i32::MAX, i32::MIN]) {
        let error = fs::metadata(mounted.path(&format!("error {number}"))).unwrap_err();
        let expected = match number {
            // The kernel would never send the operation again.
            libc::ENOSYS => libc::EOPNOTSUPP,
            // It would drop the name, and detach what is mounted there.
            libc::EMFILE | libc::ENFILE => libc::ENOMEM,
            1..512 => number,
            _ => libc::EIO,
        };
        assert_eq!(error.raw_os_error(), Some(expected), "{number}");
    }
    fs::write(mounted.path("file"), b"").unwrap();
}

/// A file system below that fails after some bytes gives these first, as read(2) may. To hand them on would be to say that the
/// file ends there.
#[test]
fn error_after_the_first_byte_is_not_end_of_file() {
    let Some(mounted) = mount_with(stack(Failing, memory()), MountOptions::default()) else { return };
    let data: Vec<u8> = (0..1 << 20).map(|number: u32| (number % 251) as u8).collect();
    fs::write(mounted.path("file"), &data).unwrap();
    let base = DirectoryFileSystem::open(mounted.mount.mount_point(), Options::default()).unwrap();
    let caller = Caller::server();
    let file = base.root().lookup(&caller, Name::new(b"file").unwrap()).unwrap().vnode;
    let open = file.open(&caller, OpenFlags::READ).unwrap();
    let mut whole = vec![0; data.len()];
    assert_eq!(open.read_at(&caller, 0, &mut whole), Err(Errno::EIO));
    let good = (BAD / 4096 * 4096) as usize;
    assert_eq!(open.read_at(&caller, 0, &mut whole[..good]), Ok(good));
    assert!(whole[..good] == data[..good]);
    assert_eq!(open.read_at(&caller, BAD, &mut whole), Err(Errno::EIO));
    // Behind the end there is nothing to fail.
    assert_eq!(open.read_at(&caller, data.len() as u64, &mut whole), Ok(0));
}

/// Closes a file: the error that close(2) answers, 0 for none.
fn close(file: File) -> i32 {
    // SAFETY: the number is that of an owned descriptor, given up here.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => 0,
        _ => std::io::Error::last_os_error().raw_os_error().unwrap(),
    }
}

/// The kernel says that all was written, and learns later that there is no room for it.
#[test]
fn writeback_error_is_reported_once_per_open_file() {
    let full = bases::mem::Options { size: 1 << 20, mode: 0o755, ..Default::default() };
    let full = Arc::new(bases::mem::MemoryFileSystem::new(full));
    let options = MountOptions { write_back: true, ..MountOptions::default() };
    let Some(mounted) = mount_with(full, options) else { return };
    let open = || File::options().create(true).truncate(false).write(true).open(mounted.path("file")).unwrap();
    let synchronized = |file: &File| file.sync_all().err().and_then(|error| error.raw_os_error());
    let (mut writer, other, third) = (open(), open(), open());
    writer.write_all(&vec![1; 4 << 20]).unwrap();
    assert_eq!(synchronized(&writer), Some(libc::ENOSPC));
    assert_eq!(synchronized(&writer), None, "told once");
    assert_eq!(synchronized(&other), Some(libc::ENOSPC));
    assert_eq!((close(writer), close(other)), (0, 0));
    assert_eq!(synchronized(&third), Some(libc::ENOSPC));
    assert_eq!(synchronized(&open()), None, "opened after that");
    drop(third);
    let mut writer = open();
    writer.write_all(&vec![2; 4 << 20]).unwrap();
    assert_eq!(close(writer), libc::ENOSPC);
}
