//! Directories: creation, removal, listing during changes, cookies.

use std::collections::{BTreeSet, HashMap};

use vnode::{Cookie, InodeNumber};

use super::common::{group, numbered};
use crate::check::{ensure, refused, same};
use crate::{Entry, Kind, Outcome, TestContext};

group! { "directories":
    make_and_remove;
    remove_what_is_not_empty;
    remove_what_is_no_directory;
    unlink_a_directory;
    make_what_exists;
    dot_and_dot_dot [Kernel];
    listing_an_empty_one;
    listing_in_small_steps;
    cookies_are_unique;
    seek_to_every_cookie;
    cookies_survive_reopening;
    cookies_survive_unlinks_of_others [DirectoryCookies];
    cookies_survive_unlink_of_their_entry [DirectoryCookies];
    rewinding_sees_changes;
    listing_while_entries_come;
    listing_while_entries_go;
    removing_while_listing;
    renaming_while_listing;
    two_listings_at_once;
    listing_after_removal [Kernel];
    large;
    changes_by_others_show;
    kinds;
    nested_removal;
}

fn make_and_remove(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    for _ in 0..20 {
        me.mkdir(b"d", 0o755)?;
        same!(me.stat(b"d")?.kind, Kind::Directory);
        me.rmdir(b"d")?;
        refused!(me.stat(b"d"), ENOENT);
        refused!(me.rmdir(b"d"), ENOENT);
    }
    Ok(())
}

fn remove_what_is_not_empty(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    me.put(b"d/f", b"")?;
    refused!(me.rmdir(b"d"), ENOTEMPTY);
    me.unlink(b"d/f")?;
    me.mkdir(b"d/e", 0o755)?;
    refused!(me.rmdir(b"d"), ENOTEMPTY);
    me.rmdir(b"d/e")?;
    me.symlink(b"nowhere", b"d/s")?;
    refused!(me.rmdir(b"d"), ENOTEMPTY);
    me.unlink(b"d/s")?;
    me.rmdir(b"d")?;
    Ok(())
}

fn remove_what_is_no_directory(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.symlink(b"f", b"s")?;
    refused!(me.rmdir(b"f"), ENOTDIR);
    refused!(me.rmdir(b"s"), ENOTDIR);
    same!(me.names(b".")?.len(), 2);
    Ok(())
}

fn unlink_a_directory(context: &TestContext<'_>) -> Outcome {
    context.me.mkdir(b"d", 0o755)?;
    refused!(context.me.unlink(b"d"), EISDIR | EPERM);
    context.me.stat(b"d")?;
    Ok(())
}

fn make_what_exists(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.mkdir(b"d", 0o755)?;
    me.symlink(b"none", b"s")?;
    for name in [b"f", b"d", b"s"] {
        refused!(me.mkdir(name, 0o755), EEXIST);
        refused!(me.mknod(name, libc::S_IFREG | 0o644, (0, 0)), EEXIST);
    }
    refused!(me.stat(b"none"), ENOENT);
    Ok(())
}

fn dot_and_dot_dot(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    let entries = me.open_directory(b"d")?.rest()?;
    let inode = |name: &[u8]| entries.iter().find(|entry| entry.name == name).map(|entry| entry.inode);
    same!(entries.len(), 2);
    same!(inode(b"."), Some(me.stat(b"d")?.inode));
    same!(inode(b".."), Some(me.stat(b".")?.inode));
    Ok(())
}

fn listing_an_empty_one(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    same!(me.names(b"d")?.len(), 0);
    let listing = me.open_directory(b"d")?;
    listing.rest()?;
    same!(listing.next()?.len(), 0);
    same!(listing.next()?.len(), 0);
    Ok(())
}

/// Fills a directory and returns its names.
fn fill(context: &TestContext<'_>, directory: &[u8], count: usize) -> Outcome<BTreeSet<Vec<u8>>> {
    context.me.mkdir(directory, 0o755)?;
    let names: BTreeSet<Vec<u8>> = (0..count).map(|number| numbered("a-rather-long-name-", number)).collect();
    for name in &names {
        context.me.create(&[directory, b"/", name].concat())?;
    }
    Ok(names)
}

/// Returns the names of entries other than dots, after a check that none occurs twice.
fn once(entries: &[Entry]) -> Outcome<BTreeSet<Vec<u8>>> {
    let mut names = BTreeSet::new();
    for entry in entries.iter().filter(|entry| entry.name != b"." && entry.name != b"..") {
        ensure!(names.insert(entry.name.clone()), "{:?} is listed twice", String::from_utf8_lossy(&entry.name));
    }
    Ok(names)
}

fn listing_in_small_steps(context: &TestContext<'_>) -> Outcome {
    let names = fill(context, b"d", 200)?;
    let listing = context.me.open_directory(b"d")?;
    let mut steps = 0;
    let mut entries = Vec::new();
    loop {
        let some = listing.next()?;
        if some.is_empty() {
            break;
        }
        steps += 1;
        entries.extend(some);
    }
    ensure!(steps > 3, "{steps} steps are too few to show anything");
    same!(once(&entries)?, names);
    Ok(())
}

fn cookies_are_unique(context: &TestContext<'_>) -> Outcome {
    fill(context, b"d", 300)?;
    let entries = context.me.open_directory(b"d")?.rest()?;
    let cookies: BTreeSet<Cookie> = entries.iter().map(|entry| entry.cookie).collect();
    same!(cookies.len(), entries.len());
    ensure!(!cookies.contains(&Cookie::START), "it is the start");
    ensure!(cookies.iter().all(|cookie| *cookie <= Cookie::LAST), "a cookie is negative as a file offset");
    Ok(())
}

fn seek_to_every_cookie(context: &TestContext<'_>) -> Outcome {
    fill(context, b"d", 100)?;
    let listing = context.me.open_directory(b"d")?;
    let entries = listing.rest()?;
    for (index, entry) in entries.iter().enumerate().rev() {
        listing.seek(entry.cookie)?;
        let rest = listing.rest()?;
        same!(rest.len(), entries.len() - index - 1, "entries after number {index}");
        same!(rest.first().map(|e| &e.name), entries.get(index + 1).map(|e| &e.name), "the entry after number {index}");
    }
    listing.seek(Cookie::START)?;
    same!(listing.rest()?.len(), entries.len());
    Ok(())
}

fn cookies_survive_reopening(context: &TestContext<'_>) -> Outcome {
    fill(context, b"d", 100)?;
    let entries = context.me.open_directory(b"d")?.rest()?;
    for index in (0..entries.len()).step_by(7) {
        let listing = context.another()?.open_directory(b"d")?;
        listing.seek(entries[index].cookie)?;
        let names: Vec<Vec<u8>> = listing.rest()?.into_iter().map(|entry| entry.name).collect();
        let expected: Vec<Vec<u8>> = entries[index + 1..].iter().map(|entry| entry.name.clone()).collect();
        same!(names, expected, "entries after number {index}");
    }
    Ok(())
}

fn is_dot(entry: &Entry) -> bool {
    entry.name == b"." || entry.name == b".."
}

fn cookies_survive_unlinks_of_others(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    fill(context, b"d", 120)?;
    let listing = me.open_directory(b"d")?;
    let entries = listing.rest()?;
    let gone = |index: usize| !is_dot(&entries[index]) && !index.is_multiple_of(3);
    for index in (0..entries.len()).filter(|index| gone(*index)) {
        me.unlink(&[b"d/", &entries[index].name[..]].concat())?;
    }
    for index in (0..entries.len()).filter(|index| !gone(*index)) {
        listing.seek(entries[index].cookie)?;
        let found = once(&listing.rest()?)?;
        // Names removed since the listing began may or may not appear, but no name from before the cookie.
        let later: BTreeSet<Vec<u8>> = entries[index + 1..].iter().map(|entry| entry.name.clone()).collect();
        ensure!(found.is_subset(&later), "names from before number {index} come again");
        for stays in (index + 1..entries.len()).filter(|later| !gone(*later) && !is_dot(&entries[*later])) {
            ensure!(found.contains(&entries[stays].name), "number {stays} is not found after number {index}");
        }
    }
    Ok(())
}

fn cookies_survive_unlink_of_their_entry(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    fill(context, b"d", 60)?;
    let entries = me.open_directory(b"d")?.rest()?;
    for index in (10..50).step_by(10) {
        if is_dot(&entries[index]) {
            continue;
        }
        me.unlink(&[b"d/", &entries[index].name[..]].concat())?;
        let listing = me.open_directory(b"d")?;
        listing.seek(entries[index].cookie)?;
        let rest = listing.rest()?;
        same!(
            once(&rest)?.len(),
            entries[index + 1..].iter().filter(|entry| !is_dot(entry)).count(),
            "after number {index}"
        );
    }
    Ok(())
}

fn rewinding_sees_changes(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let mut names = fill(context, b"d", 5)?;
    let listing = me.open_directory(b"d")?;
    same!(once(&listing.rest()?)?, names);
    me.put(b"d/new", b"")?;
    names.insert(b"new".to_vec());
    let first = names.pop_first().unwrap_or_default();
    me.unlink(&[b"d/", &first[..]].concat())?;
    listing.seek(Cookie::START)?;
    same!(once(&listing.rest()?)?, names);
    Ok(())
}

fn listing_while_entries_come(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let old = fill(context, b"d", 100)?;
    let listing = me.open_directory(b"d")?;
    let mut entries = listing.next()?;
    for number in 0..100 {
        me.put(&numbered("d/new", number), b"")?;
    }
    entries.extend(listing.rest()?);
    let found = once(&entries)?;
    ensure!(found.is_superset(&old), "entries that were there all the time are missing: {:?}", old.difference(&found));
    Ok(())
}

fn listing_while_entries_go(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let names: Vec<Vec<u8>> = fill(context, b"d", 150)?.into_iter().collect();
    let listing = me.open_directory(b"d")?;
    let mut entries = listing.next()?;
    for name in names.iter().step_by(2) {
        me.unlink(&[b"d/", &name[..]].concat())?;
    }
    entries.extend(listing.rest()?);
    let found = once(&entries)?;
    for name in names.iter().skip(1).step_by(2) {
        ensure!(found.contains(name), "{:?} was there all the time", String::from_utf8_lossy(name));
    }
    Ok(())
}

fn removing_while_listing(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    fill(context, b"d", 300)?;
    // As rm -r does: part of the listing, removal of its names, the next part.
    let listing = me.open_directory(b"d")?;
    let mut removed = 0;
    loop {
        let some = listing.next()?;
        if some.is_empty() {
            break;
        }
        for entry in some.iter().filter(|entry| !is_dot(entry)) {
            me.unlink(&[b"d/", &entry.name[..]].concat())?;
            removed += 1;
        }
    }
    same!(removed, 300);
    me.rmdir(b"d")?;
    Ok(())
}

fn renaming_while_listing(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let stay = fill(context, b"d", 100)?;
    for number in 0..20 {
        me.put(&numbered("d/mover", number), b"")?;
    }
    let listing = me.open_directory(b"d")?;
    let mut entries = listing.next()?;
    for number in 0..20 {
        me.rename(&numbered("d/mover", number), &numbered("d/moved", number))?;
    }
    entries.extend(listing.rest()?);
    let found = once(&entries)?;
    ensure!(found.is_superset(&stay), "entries that stayed are missing");
    Ok(())
}

fn two_listings_at_once(context: &TestContext<'_>) -> Outcome {
    let names = fill(context, b"d", 100)?;
    let (one, two) = (context.me.open_directory(b"d")?, context.me.open_directory(b"d")?);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    loop {
        let (a, b) = (one.next()?, two.next()?);
        if a.is_empty() && b.is_empty() {
            break;
        }
        first.extend(a);
        second.extend(b);
    }
    same!(once(&first)?, names);
    same!(once(&second)?, names);
    Ok(())
}

fn listing_after_removal(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.mkdir(b"d", 0o755)?;
    let listing = me.open_directory(b"d")?;
    me.rmdir(b"d")?;
    match listing.rest() {
        Ok(entries) => same!(once(&entries)?.len(), 0),
        Err(error) => same!(error.number(), libc::ENOENT),
    }
    Ok(())
}

fn large(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let names = fill(context, b"d", 3000)?;
    let entries = me.entries(b"d")?;
    same!(once(&entries)?, names);
    let inodes: HashMap<&[u8], InodeNumber> = entries.iter().map(|entry| (&entry.name[..], entry.inode)).collect();
    for name in names.iter().step_by(97) {
        same!(Some(&me.stat(&[b"d/", &name[..]].concat())?.inode), inodes.get(&name[..]));
    }
    Ok(())
}

fn changes_by_others_show(context: &TestContext<'_>) -> Outcome {
    let (me, other) = (&context.me, context.another()?);
    me.mkdir(b"d", 0o755)?;
    for number in 0..50 {
        let name = numbered("d/n", number);
        other.put(&name, b"")?;
        same!(me.names(b"d")?.len(), 1);
        me.unlink(&name)?;
        same!(other.names(b"d")?.len(), 0);
        refused!(other.stat(&name), ENOENT);
    }
    Ok(())
}

fn kinds(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    me.put(b"f", b"")?;
    me.mkdir(b"d", 0o755)?;
    me.symlink(b"f", b"s")?;
    for entry in me.entries(b".")? {
        let expected = match &entry.name[..] {
            b"f" => Kind::Regular,
            b"d" => Kind::Directory,
            _ => Kind::Symlink,
        };
        ensure!([expected, Kind::Unknown].contains(&entry.kind), "{:?} is listed as {:?}", entry.name, entry.kind);
    }
    Ok(())
}

fn nested_removal(context: &TestContext<'_>) -> Outcome {
    let me = &context.me;
    let mut path = b"t".to_vec();
    for level in 0..20 {
        me.mkdir(&path, 0o755)?;
        for number in 0..5 {
            me.put(&[&path[..], b"/", &numbered("f", number)].concat(), b"x")?;
        }
        path.extend(numbered("/d", level));
    }
    me.remove_all(b"t")?;
    same!(me.names(b".")?.len(), 0);
    Ok(())
}
