//! Hard links and symbolic links.

use super::common::{group, numbered};
use crate::check::{refused, same};
use crate::{Kind, Outcome, TestContext};

group! { "links":
    two_names_of_one_file [HardLinks];
    over_an_existing_name [HardLinks];
    of_a_directory;
    of_a_symlink [HardLinks];
    in_another_directory [HardLinks];
    many_names [HardLinks];
    changes_show_under_every_name [HardLinks];
    removing_one_name [HardLinks];
    symlink_is_followed;
    symlink_dangles;
    symlink_keeps_its_target;
    long_symlink;
    symlink_over_an_existing_name;
    symlink_loop;
    symlink_chain;
    symlink_to_a_directory;
    symlink_goes_up;
    unlink_takes_the_symlink;
    rename_takes_the_symlink;
    readlink_of_others;
    symlink_with_a_slash;
    replaced_symlink;
}

fn two_names_of_one_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"one")?;
    me.link(b"f", b"g")?;
    same!(me.stat(b"f")?, me.stat(b"g")?);
    me.put(b"g", b"two")?;
    same!(me.get(b"f")?, b"two");
    Ok(())
}

fn over_an_existing_name(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"f")?;
    me.put(b"g", b"g")?;
    me.mkdir(b"d", 0o755)?;
    me.symlink(b"none", b"s")?;
    for name in [b"g", b"d", b"s", b"f"] {
        refused!(me.link(b"f", name), EEXIST);
    }
    same!(me.stat(b"f")?.links, 1);
    same!(me.get(b"g")?, b"g");
    Ok(())
}

fn of_a_directory(context: &TestContext<'_>) -> Outcome {
    context.me.mkdir(b"d", 0o755)?;
    refused!(context.me.link(b"d", b"e"), EPERM);
    refused!(context.me.lstat(b"e"), ENOENT);
    Ok(())
}

fn of_a_symlink(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.symlink(b"none", b"s")?;
    me.link(b"s", b"t")?;
    same!(me.lstat(b"t")?.inode, me.lstat(b"s")?.inode);
    same!(me.lstat(b"s")?.links, 2);
    same!(me.readlink(b"t")?, b"none");
    Ok(())
}

fn in_another_directory(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.mkdir(b"e", 0o755)?;
    me.put(b"d/f", b"data")?;
    me.link(b"d/f", b"e/g")?;
    me.unlink(b"d/f")?;
    me.rmdir(b"d")?;
    same!(me.get(b"e/g")?, b"data");
    same!(me.stat(b"e/g")?.links, 1);
    Ok(())
}

fn many_names(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    for number in 0..200 {
        me.link(b"f", &numbered("l", number))?;
    }
    same!(me.stat(b"f")?.links, 201);
    me.unlink(b"f")?;
    for number in 0..199 {
        me.unlink(&numbered("l", number))?;
    }
    same!(me.get(b"l199")?, b"data");
    same!(me.stat(b"l199")?.links, 1);
    Ok(())
}

fn changes_show_under_every_name(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    me.mkdir(b"d", 0o755)?;
    me.link(b"f", b"d/g")?;
    me.stat(b"d/g")?;
    me.chmod(b"f", 0o600)?;
    same!(me.stat(b"d/g")?.mode, 0o600);
    me.truncate(b"d/g", 1)?;
    same!(me.stat(b"f")?.size, 1);
    me.edit(b"f")?.put_at(b"longer than before", 0)?;
    same!(me.stat(b"d/g")?.size, 18);
    same!(me.get(b"d/g")?, b"longer than before");
    Ok(())
}

fn removing_one_name(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    me.link(b"f", b"g")?;
    me.unlink(b"f")?;
    refused!(me.stat(b"f"), ENOENT);
    same!(me.stat(b"g")?.links, 1);
    // A new file with the old name is another file.
    me.put(b"f", b"new")?;
    same!(me.get(b"g")?, b"data");
    same!(me.stat(b"f")?.inode == me.stat(b"g")?.inode, false);
    Ok(())
}

fn symlink_is_followed(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    me.symlink(b"f", b"s")?;
    same!(me.get(b"s")?, b"data");
    same!(me.stat(b"s")?, me.stat(b"f")?);
    me.put(b"s", b"through")?;
    same!(me.get(b"f")?, b"through");
    Ok(())
}

fn symlink_dangles(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.symlink(b"later", b"s")?;
    refused!(me.stat(b"s"), ENOENT);
    refused!(me.get(b"s"), ENOENT);
    same!(me.lstat(b"s")?.kind, Kind::Symlink);
    me.put(b"later", b"now")?;
    same!(me.get(b"s")?, b"now");
    me.unlink(b"later")?;
    refused!(me.get(b"s"), ENOENT);
    Ok(())
}

fn symlink_keeps_its_target(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let targets: [&[u8]; 8] = [b"a", b"/", b"//a//b/", b".", b"../..", b"\xff\xfe", b"with space\n", b"a/./b/../c"];
    for (number, target) in targets.iter().enumerate() {
        let name = numbered("s", number);
        me.symlink(target, &name)?;
        same!(me.readlink(&name)?, *target);
        same!(me.lstat(&name)?.size, target.len() as u64);
    }
    Ok(())
}

fn long_symlink(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    for length in [59, 60, 255, 256, 1000, 4000, 4095] {
        let target: Vec<u8> = b"component/".iter().copied().cycle().take(length).collect();
        let name = numbered("s", length);
        me.symlink(&target, &name)?;
        same!(me.readlink(&name)?, target);
    }
    refused!(me.symlink(&[b'x'; 4096], b"t"), ENAMETOOLONG);
    Ok(())
}

fn symlink_over_an_existing_name(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.mkdir(b"d", 0o755)?;
    me.symlink(b"x", b"s")?;
    for name in [b"f", b"d", b"s"] {
        refused!(me.symlink(b"y", name), EEXIST);
    }
    same!(me.readlink(b"s")?, b"x");
    Ok(())
}

fn symlink_loop(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.symlink(b"b", b"a")?;
    me.symlink(b"a", b"b")?;
    me.symlink(b"self", b"self")?;
    me.symlink(b"self/x", b"deep")?;
    for name in [&b"a"[..], b"self", b"deep", b"a/x"] {
        refused!(me.stat(name), ELOOP);
        refused!(me.open(name, libc::O_RDONLY, 0), ELOOP);
        refused!(me.open(name, libc::O_CREAT | libc::O_RDWR, 0o600), ELOOP);
    }
    me.lstat(b"self")?;
    me.unlink(b"self")?;
    Ok(())
}

fn symlink_chain(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"l0", b"end")?;
    for number in 1..=41 {
        me.symlink(&numbered("l", number - 1), &numbered("l", number))?;
    }
    same!(me.get(b"l40")?, b"end");
    refused!(me.get(b"l41"), ELOOP);
    Ok(())
}

fn symlink_to_a_directory(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.symlink(b"d", b"s")?;
    me.put(b"s/f", b"data")?;
    same!(me.get(b"d/f")?, b"data");
    same!(me.names(b"s")?, vec![b"f".to_vec()]);
    refused!(me.rmdir(b"s"), ENOTDIR);
    refused!(me.rmdir(b"s/"), ENOTDIR);
    refused!(me.mkdir(b"s", 0o755), EEXIST);
    Ok(())
}

fn symlink_goes_up(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.mkdir(b"d/e", 0o755)?;
    me.put(b"f", b"top")?;
    me.symlink(b"../../f", b"d/e/s")?;
    same!(me.get(b"d/e/s")?, b"top");
    // A link moved together with its directory resolves to another target.
    me.rename(b"d/e", b"e")?;
    refused!(me.get(b"e/s"), ENOENT);
    Ok(())
}

fn unlink_takes_the_symlink(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.mkdir(b"d", 0o755)?;
    me.symlink(b"f", b"s")?;
    me.symlink(b"d", b"t")?;
    me.unlink(b"s")?;
    me.unlink(b"t")?;
    same!(me.names(b".")?, vec![b"d".to_vec(), b"f".to_vec()]);
    Ok(())
}

fn rename_takes_the_symlink(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"f")?;
    me.put(b"g", b"g")?;
    me.symlink(b"f", b"s")?;
    me.rename(b"s", b"t")?;
    same!(me.readlink(b"t")?, b"f");
    me.rename(b"g", b"t")?;
    same!(me.lstat(b"t")?.kind, Kind::Regular);
    same!(me.get(b"f")?, b"f");
    Ok(())
}

fn readlink_of_others(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.mkdir(b"d", 0o755)?;
    refused!(me.readlink(b"f"), EINVAL);
    refused!(me.readlink(b"d"), EINVAL);
    refused!(me.readlink(b"."), EINVAL);
    Ok(())
}

fn symlink_with_a_slash(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    me.symlink(b"f/", b"s")?;
    refused!(me.stat(b"s"), ENOTDIR);
    refused!(me.get(b"s"), ENOTDIR);
    me.mkdir(b"d", 0o755)?;
    me.symlink(b"d/", b"t")?;
    same!(me.stat(b"t")?.kind, Kind::Directory);
    Ok(())
}

fn replaced_symlink(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    for round in 0..20 {
        let target = numbered("target", round);
        me.symlink(&target, b"new")?;
        me.rename(b"new", b"current")?;
        same!(me.readlink(b"current")?, target);
        same!(context.another()?.lstat(b"current")?.size, target.len() as u64);
    }
    Ok(())
}
