//! Unlinked objects: files unlinked while open, and temporary files.

use super::common::{group, numbered};
use crate::check::{ensure, refused, same};
use crate::{Kind, Outcome, TestContext, TimeChange};

group! { "unlinked":
    file_stays_usable;
    link_count_is_zero;
    attributes_can_change;
    name_is_free;
    replaced_by_rename;
    many_at_once;
    through_several_openers;
    data_beyond_memory_of_the_name;
    extended_attributes_stay [ExtendedAttributes, HardLinks, Kernel];
    working_directory [Kernel];
    open_directory [Kernel];
    parent_is_gone_too;
    temporary_file [TemporaryFiles];
    temporary_file_gets_a_name [TemporaryFiles];
    temporary_file_gets_two_names [TemporaryFiles, HardLinks];
    temporary_file_that_never_gets_a_name [TemporaryFiles];
    temporary_file_over_a_name [TemporaryFiles];
    temporary_file_mode [TemporaryFiles];
    temporary_file_of_a_user [TemporaryFiles, Users];
    temporary_file_errors [TemporaryFiles];
    another_name_for_an_open_file [TemporaryFiles, HardLinks];
}

fn file_stays_usable(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    file.put_at(b"before", 0)?;
    me.unlink(b"f")?;
    refused!(me.stat(b"f"), ENOENT);
    same!(file.contents()?, b"before");
    file.put_at(b" and after", 6)?;
    same!(file.contents()?, b"before and after");
    file.truncate(3)?;
    same!(file.contents()?, b"bef");
    file.sync(false)?;
    file.close()?;
    Ok(())
}

fn link_count_is_zero(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    same!(file.stat()?.links, 1);
    let inode = file.stat()?.inode;
    me.unlink(b"f")?;
    let stat = file.stat()?;
    same!((stat.links, stat.inode, stat.kind), (0, inode, Kind::Regular));
    Ok(())
}

fn attributes_can_change(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    me.unlink(b"f")?;
    file.chmod(0o600)?;
    file.set_times(TimeChange::Keep, TimeChange::To(crate::Time::new(5, 6)))?;
    let stat = file.stat()?;
    same!((stat.mode, stat.modified), (0o600, crate::Time::new(5, 6)));
    Ok(())
}

fn name_is_free(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let old = me.create(b"f")?;
    old.put_at(b"old", 0)?;
    me.unlink(b"f")?;
    let new = me.create(b"f")?;
    new.put_at(b"new", 0)?;
    same!((old.contents()?, new.contents()?), (b"old".to_vec(), b"new".to_vec()));
    ensure!(old.stat()?.inode != new.stat()?.inode, "two living files have the same inode number");
    me.unlink(b"f")?;
    me.mkdir(b"f", 0o755)?;
    same!(me.stat(b"f")?.kind, Kind::Directory);
    same!(old.contents()?, b"old");
    Ok(())
}

fn replaced_by_rename(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let old = me.create(b"f")?;
    old.put_at(b"old", 0)?;
    me.put(b"g", b"new")?;
    me.rename(b"g", b"f")?;
    old.put_at(b"!", 3)?;
    same!((old.contents()?, me.get(b"f")?), (b"old!".to_vec(), b"new".to_vec()));
    Ok(())
}

fn many_at_once(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let mut files = Vec::new();
    for number in 0..100 {
        let file = me.create(b"same")?;
        file.put_at(&numbered("", number), 0)?;
        me.unlink(b"same")?;
        files.push(file);
    }
    same!(me.names(b".")?.len(), 0);
    for (number, file) in files.iter().enumerate() {
        same!(file.contents()?, numbered("", number));
    }
    Ok(())
}

fn through_several_openers(context: &TestContext<'_>) -> Outcome {
    let (me, other) = (&context.me, context.another()?);
    me.put(b"f", b"data")?;
    let (one, two) = (me.edit(b"f")?, other.edit(b"f")?);
    me.unlink(b"f")?;
    one.put_at(b"DATA", 0)?;
    same!(two.contents()?, b"DATA");
    one.close()?;
    two.put_at(b"still", 0)?;
    same!(two.contents()?, b"still");
    Ok(())
}

fn data_beyond_memory_of_the_name(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    me.unlink(b"f")?;
    let data: Vec<u8> = (0..500_000_u32).map(|n| (n % 253) as u8).collect();
    file.put_at(&data, 0)?;
    ensure!(file.contents()? == data, "the data came back changed");
    same!(file.stat()?.size, 500_000);
    Ok(())
}

fn extended_attributes_stay(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    me.setxattr(b"f", b"user.a", b"1", 0)?;
    me.link(b"f", b"g")?;
    me.unlink(b"f")?;
    same!(me.attribute(b"g", b"user.a")?, b"1");
    me.unlink(b"g")?;
    same!(file.stat()?.links, 0);
    Ok(())
}

fn working_directory(context: &TestContext<'_>) -> Outcome {
    let other = context.another()?;
    context.me.mkdir(b"d", 0o755)?;
    other.chdir(b"d")?;
    other.put(b"f", b"")?;
    refused!(context.me.rmdir(b"d"), ENOTEMPTY);
    other.unlink(b"f")?;
    context.me.rmdir(b"d")?;
    other.stat(b".")?;
    other.chmod(b".", 0o700)?;
    refused!(other.put(b"f", b""), ENOENT);
    other.chdir(b"..")?;
    same!(other.stat(b".")?.inode, context.me.stat(b".")?.inode);
    Ok(())
}

fn open_directory(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    let directory = me.open(b"d", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
    me.rmdir(b"d")?;
    same!(directory.stat()?.links, 0);
    directory.chmod(0o700)?;
    same!(directory.stat()?.mode, 0o700);
    Ok(())
}

fn parent_is_gone_too(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    let file = me.create(b"d/f")?;
    file.put_at(b"data", 0)?;
    me.unlink(b"d/f")?;
    me.rmdir(b"d")?;
    file.put_at(b"DATA", 0)?;
    same!(file.contents()?, b"DATA");
    Ok(())
}

const TEMPORARY: i32 = libc::O_TMPFILE | libc::O_RDWR;

fn temporary_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.open(b".", TEMPORARY, 0o600)?;
    same!(file.stat()?.links, 0);
    same!(me.names(b".")?.len(), 0);
    file.put_at(b"scratch", 0)?;
    same!(file.contents()?, b"scratch");
    file.close()?;
    same!(me.names(b".")?.len(), 0);
    Ok(())
}

fn temporary_file_gets_a_name(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    let file = me.open(b".", TEMPORARY, 0o640)?;
    file.put_at(b"whole at once", 0)?;
    file.link(b"d/f")?;
    same!(file.stat()?.links, 1);
    same!(me.get(b"d/f")?, b"whole at once");
    same!(me.stat(b"d/f")?.inode, file.stat()?.inode);
    file.put_at(b"W", 0)?;
    same!(me.get(b"d/f")?, b"Whole at once");
    Ok(())
}

fn temporary_file_gets_two_names(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.open(b".", TEMPORARY, 0o640)?;
    file.put_at(b"whole at once", 0)?;
    file.link(b"f")?;
    file.put_at(b"W", 0)?;
    file.link(b"g")?;
    same!(me.stat(b"g")?.links, 2);
    same!(me.get(b"g")?, b"Whole at once");
    Ok(())
}

fn temporary_file_that_never_gets_a_name(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.open(b".", TEMPORARY | libc::O_EXCL, 0o600)?;
    file.put_at(b"data", 0)?;
    refused!(file.link(b"f"), ENOENT);
    same!(file.contents()?, b"data");
    Ok(())
}

fn temporary_file_over_a_name(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"kept")?;
    let file = me.open(b".", TEMPORARY, 0o600)?;
    refused!(file.link(b"f"), EEXIST);
    same!(me.get(b"f")?, b"kept");
    file.link(b"g")?;
    Ok(())
}

fn temporary_file_mode(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.open(b".", TEMPORARY, 0o666)?;
    same!(file.stat()?.mode, 0o644);
    me.umask(0o77);
    same!(me.open(b".", TEMPORARY, 0o666)?.stat()?.mode, 0o600);
    Ok(())
}

fn temporary_file_of_a_user(context: &TestContext<'_>) -> Outcome {
    let user = context.user(1001)?;
    let file = user.open(b".", TEMPORARY, 0o600)?;
    same!((file.stat()?.uid, file.stat()?.gid), (1001, 1001));
    file.link(b"f")?;
    same!(user.stat(b"f")?.uid, 1001);
    context.me.mkdir(b"closed", 0o755)?;
    refused!(user.open(b"closed", TEMPORARY, 0o600), EACCES);
    Ok(())
}

fn temporary_file_errors(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    refused!(me.open(b"f", TEMPORARY, 0o600), ENOTDIR);
    refused!(me.open(b"none", TEMPORARY, 0o600), ENOENT);
    refused!(me.open(b".", libc::O_TMPFILE | libc::O_RDONLY, 0o600), EINVAL);
    Ok(())
}

fn another_name_for_an_open_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    file.link(b"g")?;
    same!(file.stat()?.links, 2);
    me.unlink(b"f")?;
    me.unlink(b"g")?;
    // An object that lost its last name cannot get another one.
    refused!(file.link(b"h"), ENOENT);
    Ok(())
}
