//! Names and paths: limits, unusual bytes, dot names, slashes.

use super::common::{group, numbered};
use crate::check::{ensure, refused, same};
use crate::subject::Result;
use crate::{Kind, Outcome, TestContext};

group! { "names":
    longest;
    longest_link [HardLinks];
    too_long;
    full_length [FullNames];
    every_byte [AnyNames];
    not_utf8 [AnyNames];
    odd_but_ordinary [AnyNames];
    dot_names;
    dot_dot_path;
    slash_after_directory;
    slash_after_file;
    doubled_slashes;
    empty;
    through_a_file;
    through_nothing;
    case_matters [AnyNames];
    no_normalisation;
    longest_path [Kernel];
    deep;
    many;
    reused;
}

/// Returns a name of the maximum length that the file system reports.
fn longest_name(context: &TestContext<'_>) -> Result<Vec<u8>> {
    let space = context.me.statfs(b".")?;
    Ok(vec![b'n'; space.name_max as usize])
}

fn longest(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let name = longest_name(context)?;
    me.put(&name, b"contents")?;
    same!(me.get(&name)?, b"contents");
    same!(me.names(b".")?, vec![name.clone()]);
    let mut other = name.clone();
    other[0] = b'm';
    me.rename(&name, &other)?;
    refused!(me.stat(&name), ENOENT);
    me.unlink(&other)?;
    me.mkdir(&name, 0o755)?;
    me.symlink(&name, &other)?;
    same!(me.readlink(&other)?, name);
    Ok(())
}

fn longest_link(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let name = longest_name(context)?;
    me.put(b"f", b"contents")?;
    me.link(b"f", &name)?;
    me.unlink(b"f")?;
    same!(me.get(&name)?, b"contents");
    same!(me.names(b".")?, vec![name.clone()]);
    me.unlink(&name)?;
    Ok(())
}

fn too_long(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let mut name = longest_name(context)?;
    name.push(b'n');
    me.put(b"file", b"")?;
    refused!(me.stat(&name), ENAMETOOLONG);
    refused!(me.create(&name), ENAMETOOLONG);
    refused!(me.open(&name, libc::O_RDONLY, 0), ENAMETOOLONG);
    refused!(me.mkdir(&name, 0o755), ENAMETOOLONG);
    refused!(me.mknod(&name, libc::S_IFREG | 0o644, (0, 0)), ENAMETOOLONG);
    refused!(me.symlink(b"target", &name), ENAMETOOLONG);
    refused!(me.link(b"file", &name), ENAMETOOLONG);
    refused!(me.rename(b"file", &name), ENAMETOOLONG);
    refused!(me.rename(&name, b"file"), ENAMETOOLONG);
    refused!(me.unlink(&name), ENAMETOOLONG);
    refused!(me.rmdir(&name), ENAMETOOLONG);
    refused!(me.chmod(&name, 0o600), ENAMETOOLONG);
    refused!(me.stat(&[&name[..], b"/below"].concat()), ENAMETOOLONG);
    same!(me.names(b".")?, vec![b"file".to_vec()]);
    Ok(())
}

fn full_length(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(&[b'x'; 255], b"255")?;
    same!(me.get(&[b'x'; 255])?, b"255");
    refused!(me.put(&[b'x'; 256], b"256"), ENAMETOOLONG);
    // The limit counts bytes, not characters.
    let name = "é".repeat(127);
    me.put(name.as_bytes(), b"254")?;
    refused!(me.put("é".repeat(128).as_bytes(), b"256"), ENAMETOOLONG);
    Ok(())
}

fn every_byte(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let allowed = |byte: &u8| *byte != b'/' && *byte != 0;
    let mut expected: Vec<Vec<u8>> = (0..=255).filter(allowed).map(|b| vec![b'x', b]).collect();
    for name in &expected {
        me.put(name, &name[1..])?;
    }
    expected.sort();
    same!(me.names(b".")?, expected);
    for name in &expected {
        same!(me.get(name)?, name[1..], "contents of {name:?}");
    }
    Ok(())
}

fn not_utf8(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    for name in [&b"\xff\xfe"[..], b"\x80", b"a\xc3", b"\xed\xa0\x80"] {
        me.mkdir(name, 0o755)?;
        me.put(&[name, b"/", name].concat(), b"")?;
        same!(me.names(name)?, vec![name.to_vec()]);
        me.unlink(&[name, b"/", name].concat())?;
        me.rmdir(name)?;
    }
    Ok(())
}

fn odd_but_ordinary(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let mut names: Vec<Vec<u8>> = ["...", "..a", ".a", " ", "a ", "\n", "-rf", "*", "~", "a\\b"]
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    for name in &names {
        me.put(name, name)?;
    }
    names.sort();
    same!(me.names(b".")?, names);
    for name in &names {
        same!(me.get(name)?, *name);
        me.unlink(name)?;
    }
    Ok(())
}

fn dot_names(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.mkdir(b"d/e", 0o755)?;
    me.put(b"f", b"")?;
    refused!(me.mkdir(b"d/.", 0o755), EEXIST);
    refused!(me.mkdir(b"d/e/..", 0o755), EEXIST);
    refused!(me.rmdir(b"d/e/."), EINVAL);
    refused!(me.rmdir(b"d/e/.."), ENOTEMPTY | EEXIST);
    refused!(me.unlink(b"d/."), EISDIR | EPERM | EINVAL);
    refused!(me.unlink(b"d/e/.."), EISDIR | EPERM | ENOTEMPTY | EINVAL);
    refused!(me.rename(b"d/e/.", b"new"), EBUSY | EINVAL);
    refused!(me.rename(b"f", b"d/e/.."), EBUSY | EINVAL | EEXIST | ENOTEMPTY);
    refused!(me.link(b"f", b"d/."), EEXIST);
    refused!(me.symlink(b"f", b"d/.."), EEXIST);
    same!(me.stat(b"d/e/.")?.inode, me.stat(b"d/e")?.inode);
    same!(me.stat(b"d/e/..")?.inode, me.stat(b"d")?.inode);
    Ok(())
}

fn dot_dot_path(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.mkdir(b"d/e", 0o755)?;
    me.put(b"d/e/../../f", b"found")?;
    same!(me.get(b"./d/../d/e/../../f")?, b"found");
    // The `..` goes up from the directory that the symbolic link leads to.
    me.symlink(b"d/e", b"s")?;
    me.put(b"s/../g", b"below d")?;
    same!(me.get(b"d/g")?, b"below d");
    Ok(())
}

fn slash_after_directory(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d/", 0o755)?;
    same!(me.stat(b"d/")?.kind, Kind::Directory);
    me.symlink(b"d", b"s")?;
    same!(me.lstat(b"s/")?.kind, Kind::Directory);
    me.rename(b"d/", b"e/")?;
    refused!(me.stat(b"s/"), ENOENT);
    me.rmdir(b"e///")?;
    refused!(me.stat(b"e"), ENOENT);
    Ok(())
}

fn slash_after_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    refused!(me.stat(b"f/"), ENOTDIR);
    refused!(me.open(b"f/", libc::O_RDONLY, 0), ENOTDIR);
    refused!(me.unlink(b"f/"), ENOTDIR);
    refused!(me.rename(b"f/", b"g"), ENOTDIR);
    refused!(me.rename(b"f", b"g/"), ENOTDIR);
    refused!(me.truncate(b"f/", 0), ENOTDIR);
    refused!(me.create(b"new/"), EISDIR);
    refused!(me.link(b"f", b"new/"), ENOENT | ENOTDIR);
    refused!(me.symlink(b"f", b"new/"), ENOENT | ENOTDIR);
    same!(me.names(b".")?, vec![b"f".to_vec()]);
    Ok(())
}

fn doubled_slashes(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.put(b"d//f", b"one")?;
    same!(me.get(b".///d////f")?, b"one");
    Ok(())
}

fn empty(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    refused!(me.stat(b""), ENOENT);
    refused!(me.create(b""), ENOENT);
    refused!(me.mkdir(b"", 0o755), ENOENT);
    refused!(me.symlink(b"target", b""), ENOENT);
    refused!(me.rename(b"f", b""), ENOENT);
    refused!(me.unlink(b""), ENOENT);
    refused!(me.symlink(b"", b"link"), ENOENT);
    Ok(())
}

fn through_a_file(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    refused!(me.stat(b"f/x"), ENOTDIR);
    refused!(me.create(b"f/x"), ENOTDIR);
    refused!(me.mkdir(b"f/x", 0o755), ENOTDIR);
    refused!(me.unlink(b"f/x"), ENOTDIR);
    refused!(me.rmdir(b"f/x"), ENOTDIR);
    refused!(me.rename(b"f/x", b"g"), ENOTDIR);
    refused!(me.rename(b"f", b"f/x"), ENOTDIR);
    refused!(me.stat(b"f/.."), ENOTDIR);
    refused!(me.open_directory(b"f"), ENOTDIR);
    Ok(())
}

fn through_nothing(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    refused!(me.stat(b"no"), ENOENT);
    refused!(me.stat(b"no/x"), ENOENT);
    refused!(me.create(b"no/x"), ENOENT);
    refused!(me.mkdir(b"no/x", 0o755), ENOENT);
    refused!(me.rename(b"f", b"no/x"), ENOENT);
    refused!(me.rename(b"no", b"g"), ENOENT);
    refused!(me.link(b"no", b"g"), ENOENT);
    refused!(me.unlink(b"no"), ENOENT);
    refused!(me.rmdir(b"no"), ENOENT);
    refused!(me.truncate(b"no", 0), ENOENT);
    refused!(me.readlink(b"no"), ENOENT);
    Ok(())
}

fn case_matters(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"name", b"small")?;
    me.put(b"NAME", b"large")?;
    same!(me.get(b"name")?, b"small");
    same!(me.get(b"NAME")?, b"large");
    refused!(me.stat(b"Name"), ENOENT);
    me.rename(b"name", b"Name")?;
    same!(me.names(b".")?, vec![b"NAME".to_vec(), b"Name".to_vec()]);
    Ok(())
}

fn no_normalisation(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let (composed, decomposed) = ("\u{e9}".as_bytes(), "e\u{301}".as_bytes());
    me.put(composed, b"composed")?;
    refused!(me.stat(decomposed), ENOENT);
    me.put(decomposed, b"decomposed")?;
    same!(me.get(composed)?, b"composed");
    same!(me.names(b".")?.len(), 2);
    Ok(())
}

fn longest_path(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let mut path = b"./".repeat(2046);
    path.extend(b"fi");
    // 4094 bytes and the terminating zero are within PATH_MAX, 4096 bytes and the zero are not.
    me.put(&path, b"reached")?;
    same!(me.get(b"fi")?, b"reached");
    path.splice(0..0, *b"./");
    refused!(me.stat(&path), ENAMETOOLONG);
    Ok(())
}

fn deep(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let mut path = b"d".to_vec();
    for _ in 0..100 {
        me.mkdir(&path, 0o755)?;
        path.extend(b"/d");
    }
    me.put(&path, b"deep")?;
    same!(me.get(&path)?, b"deep");
    refused!(me.rmdir(b"d"), ENOTEMPTY);
    Ok(())
}

fn many(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let mut expected: Vec<Vec<u8>> = (0..1000).map(|n| numbered("entry", n)).collect();
    for name in &expected {
        me.create(name)?;
    }
    expected.sort();
    same!(me.names(b".")?, expected);
    for name in expected.iter().step_by(2) {
        me.unlink(name)?;
    }
    let left: Vec<Vec<u8>> = expected.into_iter().skip(1).step_by(2).collect();
    same!(me.names(b".")?, left);
    Ok(())
}

fn reused(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    for round in 0..20_u8 {
        refused!(me.lstat(b"x"), ENOENT);
        match round % 3 {
            0 => me.put(b"x", &[round])?,
            1 => me.mkdir(b"x", 0o755)?,
            _ => me.symlink(b"x", b"x")?,
        }
        let kind = me.lstat(b"x")?.kind;
        let expected = [Kind::Regular, Kind::Directory, Kind::Symlink][usize::from(round % 3)];
        same!(kind, expected);
        ensure!(me.names(b".")?.len() == 1, "one name in round {round}");
        if kind == Kind::Directory {
            me.rmdir(b"x")?;
        } else {
            me.unlink(b"x")?;
        }
    }
    Ok(())
}
