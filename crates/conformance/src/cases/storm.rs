//! Many concurrent clients, and the invariants that must hold afterwards.

use std::collections::BTreeSet;

use super::common::{group, numbered, run_concurrently};
use crate::check::{ensure, same};
use crate::subject::Result;
use crate::{Ability, Client, Kind, Outcome, TestContext};

group! { "storm":
    own_files_in_one_directory;
    same_names;
    tokens_between_directories;
    directories_come_and_go;
    links_are_counted [HardLinks];
    directories_are_moved;
    listing_in_a_storm;
    exchange_keeps_both [Exchange];
    writers_of_blocks;
    truncation_and_reading;
    create_and_unlink_one_name;
    attributes_in_a_storm;
    users_in_a_storm [Users];
}

const THREADS: usize = 4;

/// Returns whether an operation succeeded; fails unless the error is one that other clients can cause.
fn tolerate(result: Result<()>, errors: &[i32]) -> Outcome<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if errors.contains(&error.number()) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Checks that the directory lists these names, each once, and no others.
fn check_names(me: &dyn Client, expected: &BTreeSet<Vec<u8>>) -> Outcome {
    let in_words = |names: Vec<&Vec<u8>>| {
        names.into_iter().map(|name| String::from_utf8_lossy(name)).collect::<Vec<_>>().join(" ")
    };
    let names = me.names(b".")?;
    let listed: BTreeSet<Vec<u8>> = names.iter().cloned().collect();
    same!(in_words(expected.difference(&listed).collect()), "", "names that are not listed");
    same!(in_words(listed.difference(expected).collect()), "", "names that should not be listed");
    same!(names.len(), listed.len(), "names that are listed");
    Ok(())
}

fn own_files_in_one_directory(context: &TestContext<'_>) -> Outcome {
    let left: Vec<BTreeSet<Vec<u8>>> = {
        let results = std::sync::Mutex::new(Vec::new());
        run_concurrently(THREADS, |thread| {
            let (client, mut random) = (context.another()?, context.random_of(thread as u64));
            let mut mine = BTreeSet::new();
            for round in 0..300 {
                let name = format!("t{thread}-{}", random.u8(..20)).into_bytes();
                if mine.remove(&name) {
                    same!(client.get(&name)?, name, "round {round}");
                    if random.bool() {
                        client.unlink(&name)?;
                    } else {
                        let other = format!("t{thread}-moved-{round}").into_bytes();
                        client.rename(&name, &other)?;
                        client.rename(&other, &name)?;
                        mine.insert(name);
                    }
                } else {
                    client.put(&name, &name)?;
                    mine.insert(name);
                }
            }
            results.lock().expect("no panic with the lock held").push(mine);
            Ok(())
        })?;
        results.into_inner().expect("no panic with the lock held")
    };
    let expected: BTreeSet<Vec<u8>> = left.into_iter().flatten().collect();
    check_names(&*context.me, &expected)?;
    for name in &expected {
        same!(context.me.get(name)?, *name);
    }
    Ok(())
}

fn same_names(context: &TestContext<'_>) -> Outcome {
    run_concurrently(THREADS, |thread| {
        let (client, mut random) = (context.another()?, context.random_of(thread as u64));
        for _ in 0..300 {
            let name = numbered("n", random.usize(..5));
            let other = numbered("n", random.usize(..5));
            match random.u8(..4) {
                0 => drop(tolerate(client.put(&name, &name), &[libc::ENOENT])?),
                1 => drop(tolerate(client.unlink(&name), &[libc::ENOENT])?),
                2 => drop(tolerate(client.rename(&name, &other), &[libc::ENOENT])?),
                _ => drop(tolerate(client.stat(&name).map(drop), &[libc::ENOENT])?),
            }
        }
        Ok(())
    })?;
    // Listing and lookup agree afterwards.
    let names = context.me.names(b".")?;
    for number in 0..5 {
        let name = numbered("n", number);
        same!(context.me.exists(&name)?, names.contains(&name), "existence of {name:?}");
    }
    for name in names {
        same!(context.me.stat(&name)?.links, 1);
        context.me.unlink(&name)?;
    }
    Ok(())
}

fn tokens_between_directories(context: &TestContext<'_>) -> Outcome {
    const TOKENS: usize = 20;
    let me = &context.me;
    for number in 0..4 {
        me.mkdir(&numbered("d", number), 0o755)?;
    }
    for number in 0..TOKENS {
        me.put(&numbered("d0/token", number), &numbered("", number))?;
    }
    run_concurrently(THREADS, |thread| {
        let (client, mut random) = (context.another()?, context.random_of(thread as u64));
        for _ in 0..300 {
            let name = numbered("/token", random.usize(..TOKENS));
            let from = [numbered("d", random.usize(..4)), name.clone()].concat();
            let to = [numbered("d", random.usize(..4)), name].concat();
            tolerate(client.rename(&from, &to), &[libc::ENOENT])?;
        }
        Ok(())
    })?;
    let mut found = Vec::new();
    for number in 0..4 {
        let directory = numbered("d", number);
        for name in me.names(&directory)? {
            let contents = me.get(&[&directory[..], b"/", &name].concat())?;
            same!([b"token", &contents[..]].concat(), name);
            found.push(name);
        }
    }
    found.sort();
    let mut expected: Vec<Vec<u8>> = (0..TOKENS).map(|number| numbered("token", number)).collect();
    expected.sort();
    same!(found, expected);
    Ok(())
}

fn directories_come_and_go(context: &TestContext<'_>) -> Outcome {
    run_concurrently(THREADS, |thread| {
        let (client, mut random) = (context.another()?, context.random_of(thread as u64));
        for _ in 0..300 {
            let directory = numbered("d", random.usize(..3));
            let file = [&directory[..], b"/", &numbered("f", thread)].concat();
            match random.u8(..4) {
                0 => drop(tolerate(client.mkdir(&directory, 0o755), &[libc::EEXIST])?),
                1 => drop(tolerate(client.rmdir(&directory), &[libc::ENOENT, libc::ENOTEMPTY])?),
                2 => drop(tolerate(client.put(&file, b""), &[libc::ENOENT])?),
                _ => drop(tolerate(client.unlink(&file), &[libc::ENOENT])?),
            }
        }
        Ok(())
    })?;
    for name in context.me.names(b".")? {
        let count = context.me.names(&name)?.len();
        same!(context.me.rmdir(&name).is_ok(), count == 0, "removal of a directory of {count} entries");
    }
    Ok(())
}

fn links_are_counted(context: &TestContext<'_>) -> Outcome {
    context.me.put(b"f", b"data")?;
    run_concurrently(THREADS, |thread| {
        let (client, mut random) = (context.another()?, context.random_of(thread as u64));
        for _ in 0..200 {
            let name = numbered("l", random.usize(..10));
            if random.bool() {
                tolerate(link_of_f(context, &*client, &name), &[libc::EEXIST])?;
            } else {
                tolerate(client.unlink(&name), &[libc::ENOENT])?;
            }
        }
        Ok(())
    })?;
    let names = context.me.names(b".")?;
    for name in &names {
        same!(context.me.stat(name)?.links, names.len() as u64, "link count of {name:?}");
    }
    Ok(())
}

/// Gives `f`, which always has a name, another link. A kernel may need another lookup before it knows that a link exists.
fn link_of_f(context: &TestContext<'_>, client: &dyn Client, name: &[u8]) -> Result<()> {
    const MAX_ATTEMPTS: usize = 20;
    for _ in 0..MAX_ATTEMPTS {
        match client.link(b"f", name) {
            Err(error) if error.number() == libc::ENOENT && !context.can(Ability::PromptLinkCounts) => {
                client.stat(b"f")?
            }
            result => return result,
        };
    }
    client.link(b"f", name)
}

fn directories_are_moved(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    for name in [&b"a"[..], b"b", b"c"] {
        me.mkdir(name, 0o755)?;
    }
    me.put(b"a/mark", b"")?;
    // Moves into each other must never create a detached cycle.
    run_concurrently(3, |thread| {
        let (client, mut random) = (context.another()?, context.random_of(thread as u64));
        let places: [&[u8]; 15] = [
            b"a", b"b", b"c", b"a/b", b"a/c", b"b/a", b"b/c", b"c/a", b"c/b", b"a/b/c", b"a/c/b", b"b/a/c", b"b/c/a",
            b"c/a/b", b"c/b/a",
        ];
        for _ in 0..300 {
            let (from, to) = (places[random.usize(..15)], places[random.usize(..15)]);
            if from.last() == to.last() {
                tolerate(client.rename(from, to), &[libc::ENOENT, libc::EINVAL, libc::ENOTEMPTY, libc::EEXIST])?;
            }
        }
        Ok(())
    })?;
    let mut found = Vec::new();
    collect(&*context.me, b".", &mut found)?;
    found.sort();
    same!(found, vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec(), b"mark".to_vec()]);
    Ok(())
}

/// Collects all names below a directory.
fn collect(client: &dyn Client, path: &[u8], names: &mut Vec<Vec<u8>>) -> Outcome {
    for entry in client.entries(path)? {
        let below = [path, b"/", &entry.name].concat();
        names.push(entry.name);
        if client.lstat(&below)?.kind == Kind::Directory {
            collect(client, &below, names)?;
        }
    }
    Ok(())
}

fn listing_in_a_storm(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    let stay: BTreeSet<Vec<u8>> = (0..60).map(|number| numbered("stays-here-", number)).collect();
    for name in &stay {
        me.put(&[b"d/", &name[..]].concat(), b"")?;
    }
    run_concurrently(3, |thread| {
        let (client, mut random) = (context.another()?, context.random_of(thread as u64));
        for _ in 0..if thread == 0 { 40 } else { 400 } {
            if thread > 0 {
                let name = [b"d/", &numbered(&format!("t{thread}-"), random.usize(..20))[..]].concat();
                if random.bool() {
                    client.put(&name, b"")?;
                } else {
                    tolerate(client.unlink(&name), &[libc::ENOENT])?;
                }
                continue;
            }
            let names = client.names(b"d")?;
            let kept: Vec<&Vec<u8>> = names.iter().filter(|name| name.starts_with(b"stays")).collect();
            same!(kept, stay.iter().collect::<Vec<_>>(), "names that were there all the time");
        }
        Ok(())
    })
}

fn exchange_keeps_both(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let names: [&[u8]; 3] = [b"a", b"b", b"c"];
    for name in names {
        me.put(name, name)?;
    }
    run_concurrently(3, |thread| {
        let (client, mut random) = (context.another()?, context.random_of(thread as u64));
        for _ in 0..200 {
            let (one, two) = (names[random.usize(..3)], names[random.usize(..3)]);
            client.rename_with(one, two, libc::RENAME_EXCHANGE)?;
        }
        Ok(())
    })?;
    let mut contents = Vec::new();
    for name in names {
        contents.push(me.get(name)?);
    }
    contents.sort();
    same!(contents, vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]);
    Ok(())
}

fn writers_of_blocks(context: &TestContext<'_>) -> Outcome {
    const BLOCK: usize = 1000;
    context.me.put(b"f", b"")?;
    run_concurrently(THREADS, |thread| {
        let file = context.another()?.edit(b"f")?;
        let mut blocks: Vec<usize> = (thread..200).step_by(THREADS).collect();
        context.random_of(thread as u64).shuffle(&mut blocks);
        for block in blocks {
            file.put_at(&[block as u8; BLOCK], (block * BLOCK) as u64)?;
        }
        Ok(())
    })?;
    let contents = context.me.get(b"f")?;
    same!(contents.len(), 200 * BLOCK);
    for (block, data) in contents.chunks(BLOCK).enumerate() {
        ensure!(data.iter().all(|byte| *byte == block as u8), "block {block} is damaged");
    }
    Ok(())
}

fn truncation_and_reading(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", &[7; 50_000])?;
    run_concurrently(3, |thread| {
        let (client, mut random) = (context.another()?, context.random_of(thread as u64));
        let file = client.edit(b"f")?;
        for _ in 0..200 {
            if thread == 0 {
                file.truncate(random.u64(..50_000))?;
                file.put_at(&[7; 50_000], 0)?;
            } else {
                let offset = random.u64(..50_000);
                let data = file.get_at(offset, 1000)?;
                ensure!(data.iter().all(|byte| *byte == 7 || *byte == 0), "foreign data at {offset}");
            }
        }
        Ok(())
    })?;
    ensure!(me.get(b"f")? == [7; 50_000], "the data differs at the end");
    Ok(())
}

fn create_and_unlink_one_name(context: &TestContext<'_>) -> Outcome {
    run_concurrently(THREADS, |thread| {
        let client = context.another()?;
        for round in 0..150 {
            if thread % 2 == 0 {
                let file = client.open(b"f", libc::O_CREAT | libc::O_RDWR, 0o644)?;
                // Whatever happens to the name, the open file works.
                file.put_at(&numbered("", round), 0)?;
                file.stat()?;
            } else {
                tolerate(client.unlink(b"f"), &[libc::ENOENT])?;
            }
        }
        Ok(())
    })?;
    let names = context.me.names(b".")?;
    same!(context.me.exists(b"f")?, names.len() == 1);
    Ok(())
}

fn attributes_in_a_storm(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    let has_xattrs = context.can(Ability::ExtendedAttributes);
    run_concurrently(THREADS, |thread| {
        let (client, mut random) = (context.another()?, context.random_of(thread as u64));
        for _ in 0..150 {
            match thread {
                0 => client.chmod(b"f", 0o600 | random.u32(..0o100))?,
                1 if has_xattrs => client.setxattr(b"f", b"user.a", &[b'x'; 10], 0)?,
                2 => client.truncate(b"f", random.u64(..1000))?,
                _ => {
                    let stat = client.stat(b"f")?;
                    same!((stat.kind, stat.mode & 0o600, stat.links), (Kind::Regular, 0o600, 1));
                }
            }
        }
        Ok(())
    })
}

fn users_in_a_storm(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.chmod(b".", 0o1777)?;
    run_concurrently(THREADS, |thread| {
        let id = 3000 + thread as u32;
        let client = context.user(id)?;
        for round in 0..60 {
            let mine = format!("{id}-{round}").into_bytes();
            client.put(&mine, &mine)?;
            let stat = client.stat(&mine)?;
            same!((stat.uid, stat.gid), (id, id), "owner of a new file");
            client.chmod(&mine, 0o600)?;
            for other in (3000..3000 + THREADS as u32).filter(|other| *other != id) {
                let theirs = format!("{other}-{}", round / 2).into_bytes();
                // Between creation and chmod it may be read, but never removed.
                tolerate(client.get(&theirs).map(drop), &[libc::ENOENT, libc::EACCES])?;
                let removed = tolerate(client.unlink(&theirs), &[libc::ENOENT, libc::EACCES, libc::EPERM])?;
                ensure!(!removed, "user {id} removed a file of user {other}");
            }
        }
        Ok(())
    })?;
    let all = (3000..3000 + THREADS).flat_map(|id| (0..60).map(move |round| format!("{id}-{round}").into_bytes()));
    check_names(&**me, &all.collect())?;
    Ok(())
}
