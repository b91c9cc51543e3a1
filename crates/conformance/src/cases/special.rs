//! FIFOs, sockets and device nodes.

use super::common::{group, numbered};
use crate::check::{ensure, refused, same};
use crate::{Kind, Outcome, TestContext};

group! { "special":
    fifo [SpecialFiles];
    fifo_carries_data [SpecialFiles, Kernel];
    fifo_without_a_reader [SpecialFiles, Kernel];
    socket [SpecialFiles];
    devices [SpecialFiles, Users];
    large_device_numbers [SpecialFiles, Users];
    devices_are_roots [SpecialFiles, Users];
    fifos_are_everybodys [SpecialFiles, Users];
    links_and_renames [SpecialFiles, HardLinks];
    attributes [SpecialFiles];
    sizes_do_not_change [SpecialFiles, Kernel];
    in_listings [SpecialFiles];
    regular_by_mknod;
    no_directory_by_mknod;
}

fn fifo(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mknod(b"p", libc::S_IFIFO | 0o666, (0, 0))?;
    let stat = me.stat(b"p")?;
    same!((stat.kind, stat.mode, stat.size, stat.links), (Kind::Fifo, 0o644, 0, 1));
    refused!(me.mknod(b"p", libc::S_IFIFO | 0o666, (0, 0)), EEXIST);
    me.unlink(b"p")?;
    refused!(me.stat(b"p"), ENOENT);
    Ok(())
}

fn fifo_carries_data(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    context.me.mknod(b"p", libc::S_IFIFO | 0o644, (0, 0))?;
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| -> Outcome<Vec<u8>> {
            let mut data = [0; 100];
            let length = other.open(b"p", libc::O_RDONLY, 0)?.read(&mut data)?;
            Ok(data[..length].to_vec())
        });
        context.me.open(b"p", libc::O_WRONLY, 0)?.write(b"through the pipe")?;
        let received = reader.join().expect("the reader does not panic")?;
        same!(received, b"through the pipe");
        Ok(())
    })
}

fn fifo_without_a_reader(context: &TestContext<'_>) -> Outcome {
    context.me.mknod(b"p", libc::S_IFIFO | 0o644, (0, 0))?;
    refused!(context.me.open(b"p", libc::O_WRONLY | libc::O_NONBLOCK, 0), ENXIO);
    let both = context.me.open(b"p", libc::O_RDWR | libc::O_NONBLOCK, 0)?;
    both.write(b"self")?;
    let mut data = [0; 4];
    both.read(&mut data)?;
    same!(&data, b"self");
    Ok(())
}

fn socket(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mknod(b"s", libc::S_IFSOCK | 0o600, (0, 0))?;
    same!((me.stat(b"s")?.kind, me.stat(b"s")?.mode), (Kind::Socket, 0o600));
    refused!(me.open(b"s", libc::O_RDONLY, 0), ENXIO);
    me.chmod(b"s", 0o666)?;
    same!(me.stat(b"s")?.mode, 0o666);
    me.unlink(b"s")?;
    Ok(())
}

fn devices(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mknod(b"c", libc::S_IFCHR | 0o600, (1, 3))?;
    me.mknod(b"b", libc::S_IFBLK | 0o640, (7, 200))?;
    let (character, block) = (me.stat(b"c")?, me.stat(b"b")?);
    same!((character.kind, character.device, character.mode), (Kind::CharacterDevice, (1, 3), 0o600));
    same!((block.kind, block.device, block.mode), (Kind::BlockDevice, (7, 200), 0o640));
    Ok(())
}

fn large_device_numbers(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    for (number, device) in [(0, 255), (255, 256), (256, 65_535), (4095, 1_048_575)].into_iter().enumerate() {
        let name = numbered("c", number);
        me.mknod(&name, libc::S_IFCHR | 0o600, device)?;
        same!(me.stat(&name)?.device, device);
    }
    Ok(())
}

fn devices_are_roots(context: &TestContext<'_>) -> Outcome {
    let user = context.user(1001)?;
    refused!(user.mknod(b"c", libc::S_IFCHR | 0o666, (1, 3)), EPERM);
    refused!(user.mknod(b"b", libc::S_IFBLK | 0o666, (7, 0)), EPERM);
    same!(context.me.names(b".")?.len(), 0);
    Ok(())
}

fn fifos_are_everybodys(context: &TestContext<'_>) -> Outcome {
    let user = context.user(1001)?;
    user.mknod(b"p", libc::S_IFIFO | 0o600, (0, 0))?;
    user.mknod(b"s", libc::S_IFSOCK | 0o600, (0, 0))?;
    same!((user.stat(b"p")?.uid, user.stat(b"s")?.gid), (1001, 1001));
    refused!(context.user(1002)?.access(b"p", libc::R_OK), EACCES);
    Ok(())
}

fn links_and_renames(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mknod(b"p", libc::S_IFIFO | 0o600, (0, 0))?;
    me.link(b"p", b"q")?;
    same!(me.stat(b"q")?.links, 2);
    me.rename(b"p", b"r")?;
    same!((me.stat(b"r")?.kind, me.stat(b"r")?.inode), (Kind::Fifo, me.stat(b"q")?.inode));
    me.unlink(b"q")?;
    same!(me.stat(b"r")?.links, 1);
    Ok(())
}

fn attributes(context: &TestContext<'_>) -> Outcome {
    use crate::{Time, TimeChange};
    let me = &context.me;
    me.mknod(b"p", libc::S_IFIFO | 0o600, (0, 0))?;
    me.chmod(b"p", 0o622)?;
    me.set_times(b"p", TimeChange::To(Time::new(5, 6)), TimeChange::To(Time::new(7, 8)), true)?;
    let stat = me.stat(b"p")?;
    same!((stat.mode, stat.accessed, stat.modified), (0o622, Time::new(5, 6), Time::new(7, 8)));
    me.access(b"p", libc::R_OK | libc::W_OK)?;
    Ok(())
}

fn sizes_do_not_change(context: &TestContext<'_>) -> Outcome {
    context.me.mknod(b"p", libc::S_IFIFO | 0o600, (0, 0))?;
    refused!(context.me.truncate(b"p", 0), EINVAL);
    Ok(())
}

fn in_listings(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mknod(b"p", libc::S_IFIFO | 0o600, (0, 0))?;
    me.mknod(b"s", libc::S_IFSOCK | 0o600, (0, 0))?;
    for entry in me.entries(b".")? {
        let kind = me.lstat(&entry.name)?.kind;
        ensure!([kind, Kind::Unknown].contains(&entry.kind), "{kind:?} is listed as {:?}", entry.kind);
    }
    same!(me.names(b".")?.len(), 2);
    Ok(())
}

fn regular_by_mknod(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mknod(b"f", libc::S_IFREG | 0o666, (0, 0))?;
    same!((me.stat(b"f")?.kind, me.stat(b"f")?.mode), (Kind::Regular, 0o644));
    me.put(b"f", b"data")?;
    same!(me.get(b"f")?, b"data");
    Ok(())
}

fn no_directory_by_mknod(context: &TestContext<'_>) -> Outcome {
    refused!(context.me.mknod(b"d", libc::S_IFDIR | 0o755, (0, 0)), EPERM | EINVAL);
    refused!(context.me.mknod(b"l", libc::S_IFLNK | 0o755, (0, 0)), EPERM | EINVAL);
    same!(context.me.names(b".")?.len(), 0);
    Ok(())
}
