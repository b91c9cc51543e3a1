//! rename(2) and its flags.

use super::common::{group, numbered, run_concurrently};
use crate::check::{ensure, refused, same};
use crate::{Kind, Outcome, TestContext};

group! { "rename":
    a_file;
    a_directory_with_its_tree;
    over_a_file;
    over_an_open_file;
    an_open_file;
    over_an_empty_directory;
    over_a_full_directory;
    kinds_that_do_not_fit;
    into_its_own_subdirectory;
    over_its_own_ancestor;
    onto_itself;
    onto_another_link_of_itself [HardLinks];
    between_directories;
    dot_dot_follows;
    a_directory_that_is_a_working_directory [Kernel];
    a_special_file [SpecialFiles];
    missing;
    no_replace;
    exchange_files [Exchange];
    exchange_directories [Exchange];
    exchange_different_kinds [Exchange];
    exchange_errors [Exchange];
    flags_that_exclude_each_other [Kernel];
    replacing_is_atomic;
    a_long_chain;
    in_circles;
    replaced_file_keeps_its_data;
    attributes_move_along;
}

fn a_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    me.rename(b"f", b"g")?;
    refused!(me.stat(b"f"), ENOENT);
    same!(me.get(b"g")?, b"data");
    same!(me.names(b".")?, vec![b"g".to_vec()]);
    Ok(())
}

fn a_directory_with_its_tree(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.mkdir(b"d/e", 0o755)?;
    me.put(b"d/e/f", b"deep")?;
    let open = me.edit(b"d/e/f")?;
    me.rename(b"d", b"x")?;
    refused!(me.stat(b"d/e/f"), ENOENT);
    same!(me.get(b"x/e/f")?, b"deep");
    open.put_at(b"DEEP", 0)?;
    same!(me.get(b"x/e/f")?, b"DEEP");
    me.mkdir(b"d", 0o755)?;
    refused!(me.stat(b"d/e"), ENOENT);
    Ok(())
}

fn over_a_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"new")?;
    me.put(b"g", b"old contents")?;
    let inode = me.stat(b"f")?.inode;
    me.rename(b"f", b"g")?;
    same!(me.get(b"g")?, b"new");
    same!(me.stat(b"g")?.inode, inode);
    same!(me.names(b".")?.len(), 1);
    Ok(())
}

fn over_an_open_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"new")?;
    me.put(b"g", b"old")?;
    let old = me.edit(b"g")?;
    me.rename(b"f", b"g")?;
    same!(old.contents()?, b"old");
    same!(old.stat()?.links, 0);
    old.put_at(b"OLD", 0)?;
    same!(me.get(b"g")?, b"new");
    same!(old.contents()?, b"OLD");
    Ok(())
}

fn an_open_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let file = me.create(b"f")?;
    me.mkdir(b"d", 0o755)?;
    me.rename(b"f", b"d/g")?;
    file.put_at(b"data", 0)?;
    file.truncate(3)?;
    file.chmod(0o600)?;
    file.sync(false)?;
    same!(me.get(b"d/g")?, b"dat");
    same!(me.stat(b"d/g")?.mode, 0o600);
    // The old name is available for another file.
    me.put(b"f", b"other")?;
    file.put_at(b"DAT", 0)?;
    same!(me.get(b"f")?, b"other");
    Ok(())
}

fn over_an_empty_directory(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.put(b"d/f", b"")?;
    me.mkdir(b"e", 0o755)?;
    me.rename(b"d", b"e")?;
    same!(me.names(b"e")?, vec![b"f".to_vec()]);
    refused!(me.stat(b"d"), ENOENT);
    Ok(())
}

fn over_a_full_directory(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.mkdir(b"e", 0o755)?;
    me.put(b"e/f", b"kept")?;
    refused!(me.rename(b"d", b"e"), ENOTEMPTY | EEXIST);
    same!(me.get(b"e/f")?, b"kept");
    me.stat(b"d")?;
    Ok(())
}

fn kinds_that_do_not_fit(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.mkdir(b"d", 0o755)?;
    me.symlink(b"d", b"s")?;
    refused!(me.rename(b"f", b"d"), EISDIR);
    refused!(me.rename(b"d", b"f"), ENOTDIR);
    refused!(me.rename(b"d", b"s"), ENOTDIR);
    refused!(me.rename(b"s", b"d"), EISDIR);
    same!(me.names(b".")?.len(), 3);
    Ok(())
}

fn into_its_own_subdirectory(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.mkdir(b"d/e", 0o755)?;
    me.mkdir(b"d/e/g", 0o755)?;
    refused!(me.rename(b"d", b"d/x"), EINVAL);
    refused!(me.rename(b"d", b"d/e/x"), EINVAL);
    refused!(me.rename(b"d", b"d/e/g"), EINVAL);
    me.rename(b"d/e", b"e")?;
    me.rename(b"d", b"e/d")?;
    refused!(me.rename(b"e", b"e/d/x"), EINVAL);
    same!(me.names(b"e")?, vec![b"d".to_vec(), b"g".to_vec()]);
    Ok(())
}

fn over_its_own_ancestor(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.mkdir(b"d/e", 0o755)?;
    me.put(b"d/e/f", b"")?;
    refused!(me.rename(b"d/e", b"d"), ENOTEMPTY | EEXIST);
    refused!(me.rename(b"d/e/f", b"d"), ENOTEMPTY | EISDIR | EEXIST);
    me.stat(b"d/e/f")?;
    Ok(())
}

fn onto_itself(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    me.mkdir(b"d", 0o755)?;
    me.put(b"d/x", b"")?;
    me.rename(b"f", b"f")?;
    me.rename(b"d", b"d")?;
    me.rename(b"f", b"d/../f")?;
    same!(me.get(b"f")?, b"data");
    same!(me.names(b"d")?.len(), 1);
    Ok(())
}

fn onto_another_link_of_itself(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    me.link(b"f", b"g")?;
    // Both names remain: the odd rule of the man page.
    me.rename(b"f", b"g")?;
    same!(me.names(b".")?, vec![b"f".to_vec(), b"g".to_vec()]);
    same!(me.stat(b"f")?.links, 2);
    Ok(())
}

fn between_directories(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.mkdir(b"e", 0o755)?;
    for round in 0..30 {
        let name = numbered("f", round);
        me.put(&[b"d/", &name[..]].concat(), &name)?;
        me.rename(&[b"d/", &name[..]].concat(), b"e/f")?;
        same!(me.get(b"e/f")?, name);
        same!(me.names(b"d")?.len(), 0);
        same!(me.names(b"e")?.len(), 1);
    }
    Ok(())
}

fn dot_dot_follows(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"a", 0o755)?;
    me.mkdir(b"b", 0o755)?;
    me.mkdir(b"a/d", 0o755)?;
    me.put(b"a/here", b"a")?;
    me.put(b"b/here", b"b")?;
    same!(me.get(b"a/d/../here")?, b"a");
    me.rename(b"a/d", b"b/d")?;
    same!(me.get(b"b/d/../here")?, b"b");
    same!(me.stat(b"b/d/..")?.inode, me.stat(b"b")?.inode);
    Ok(())
}

fn a_directory_that_is_a_working_directory(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let other = context.another()?;
    me.mkdir(b"d", 0o755)?;
    me.mkdir(b"e", 0o755)?;
    other.chdir(b"d")?;
    me.rename(b"d", b"e/d")?;
    other.put(b"f", b"made after the move")?;
    same!(me.get(b"e/d/f")?, b"made after the move");
    same!(other.stat(b"..")?.inode, me.stat(b"e")?.inode);
    Ok(())
}

fn a_special_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mknod(b"p", libc::S_IFIFO | 0o644, (0, 0))?;
    me.put(b"f", b"")?;
    me.rename(b"p", b"f")?;
    same!(me.stat(b"f")?.kind, Kind::Fifo);
    same!(me.names(b".")?.len(), 1);
    Ok(())
}

fn missing(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"kept")?;
    refused!(me.rename(b"none", b"f"), ENOENT);
    refused!(me.rename(b"f", b"none/f"), ENOENT);
    refused!(me.rename(b"f", b"f/g"), ENOTDIR);
    refused!(me.rename(b"f/g", b"h"), ENOTDIR);
    same!(me.get(b"f")?, b"kept");
    Ok(())
}

fn no_replace(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let flag = libc::RENAME_NOREPLACE;
    me.put(b"f", b"f")?;
    me.put(b"g", b"g")?;
    me.mkdir(b"d", 0o755)?;
    me.symlink(b"none", b"s")?;
    for name in [b"g", b"d", b"s", b"f"] {
        refused!(me.rename_with(b"f", name, flag), EEXIST);
    }
    refused!(me.rename_with(b"d", b"g", flag), EEXIST);
    refused!(me.rename_with(b"none", b"new", flag), ENOENT);
    me.rename_with(b"f", b"new", flag)?;
    me.rename_with(b"d", b"e", flag)?;
    same!(me.get(b"new")?, b"f");
    same!(me.get(b"g")?, b"g");
    Ok(())
}

fn exchange_files(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.put(b"f", b"f")?;
    me.put(b"d/g", b"g")?;
    let (f, g) = (me.stat(b"f")?.inode, me.stat(b"d/g")?.inode);
    let open = me.edit(b"f")?;
    me.rename_with(b"f", b"d/g", libc::RENAME_EXCHANGE)?;
    same!((me.get(b"f")?, me.get(b"d/g")?), (b"g".to_vec(), b"f".to_vec()));
    same!((me.stat(b"f")?.inode, me.stat(b"d/g")?.inode), (g, f));
    open.put_at(b"F", 0)?;
    same!(me.get(b"d/g")?, b"F");
    Ok(())
}

fn exchange_directories(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    for name in [&b"a"[..], b"b", b"a/one", b"b/two"] {
        me.mkdir(name, 0o755)?;
    }
    me.put(b"a/one/f", b"first")?;
    me.put(b"b/two/f", b"second")?;
    me.rename_with(b"a/one", b"b/two", libc::RENAME_EXCHANGE)?;
    same!(me.get(b"a/one/f")?, b"second");
    same!(me.get(b"b/two/f")?, b"first");
    same!(me.stat(b"a/one/..")?.inode, me.stat(b"a")?.inode);
    same!(me.stat(b"b/two/..")?.inode, me.stat(b"b")?.inode);
    Ok(())
}

fn exchange_different_kinds(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.put(b"d/x", b"below")?;
    me.put(b"f", b"file")?;
    me.symlink(b"t", b"s")?;
    me.rename_with(b"f", b"d", libc::RENAME_EXCHANGE)?;
    same!(me.get(b"d")?, b"file");
    same!(me.get(b"f/x")?, b"below");
    me.rename_with(b"s", b"f", libc::RENAME_EXCHANGE)?;
    same!(me.readlink(b"f")?, b"t");
    same!(me.get(b"s/x")?, b"below");
    if context.can(crate::Ability::DirectoryLinks) {
        me.mkdir(b"up", 0o755)?;
        me.put(b"up/f", b"")?;
        me.rename_with(b"s", b"up/f", libc::RENAME_EXCHANGE)?;
        same!(me.stat(b"up")?.links, 3);
    }
    Ok(())
}

fn exchange_errors(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"f")?;
    me.mkdir(b"d", 0o755)?;
    me.put(b"d/g", b"g")?;
    refused!(me.rename_with(b"f", b"none", libc::RENAME_EXCHANGE), ENOENT);
    refused!(me.rename_with(b"none", b"f", libc::RENAME_EXCHANGE), ENOENT);
    refused!(me.rename_with(b"d", b"d/g", libc::RENAME_EXCHANGE), EINVAL);
    refused!(me.rename_with(b"d/g", b"d", libc::RENAME_EXCHANGE), EINVAL);
    same!(me.get(b"f")?, b"f");
    same!(me.get(b"d/g")?, b"g");
    Ok(())
}

fn flags_that_exclude_each_other(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"f")?;
    me.put(b"g", b"g")?;
    let both = libc::RENAME_EXCHANGE | libc::RENAME_NOREPLACE;
    refused!(me.rename_with(b"f", b"g", both), EINVAL);
    refused!(me.rename_with(b"f", b"g", 1 << 20), EINVAL);
    same!(me.get(b"g")?, b"g");
    Ok(())
}

fn replacing_is_atomic(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"current", b"0000")?;
    run_concurrently(3, |thread| {
        let client = context.another()?;
        for round in 0..100 {
            if thread == 0 {
                client.put(b"next", format!("{round:04}").as_bytes())?;
                client.rename(b"next", b"current")?;
            } else {
                // The name always exists and refers to a complete file.
                let contents = client.get(b"current")?;
                ensure!(contents.len() == 4, "read {contents:?} in round {round}");
                client.stat(b"current")?;
            }
        }
        Ok(())
    })
}

fn a_long_chain(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"n0", b"data")?;
    let inode = me.stat(b"n0")?.inode;
    for number in 0..300 {
        me.rename(&numbered("n", number), &numbered("n", number + 1))?;
    }
    same!(me.names(b".")?, vec![b"n300".to_vec()]);
    same!(me.stat(b"n300")?.inode, inode);
    same!(me.get(b"n300")?, b"data");
    Ok(())
}

fn in_circles(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    for name in [b"a", b"b", b"c"] {
        me.put(name, name)?;
    }
    for _ in 0..9 {
        me.rename(b"a", b"t")?;
        me.rename(b"b", b"a")?;
        me.rename(b"c", b"b")?;
        me.rename(b"t", b"c")?;
    }
    for name in [b"a", b"b", b"c"] {
        same!(me.get(name)?, name);
    }
    Ok(())
}

fn replaced_file_keeps_its_data(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let mut open = Vec::new();
    for round in 0..20_u8 {
        me.put(b"new", &[round; 5000])?;
        open.push(me.edit(b"new")?);
        me.rename(b"new", b"current")?;
    }
    for (round, file) in open.iter().enumerate() {
        ensure!(file.contents()? == [round as u8; 5000], "file {round} lost its data");
        same!(file.stat()?.links, u64::from(round == 19));
    }
    Ok(())
}

fn attributes_move_along(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"data")?;
    me.chmod(b"f", 0o604)?;
    me.put(b"g", b"")?;
    let before = me.stat(b"f")?;
    me.rename(b"f", b"g")?;
    let after = me.stat(b"g")?;
    same!((after.mode, after.size, after.inode, after.born), (0o604, 4, before.inode, before.born));
    Ok(())
}
