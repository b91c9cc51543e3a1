//! Commands that inspect: ls, tree, stat, df, cd, pwd, readlink, sync, help, exit.

use vnode::{Attributes, FileKind};

use super::format;
use super::place::Place;
use super::session::{At, Problem, Session, options};

/// The output style of `ls`.
struct Style {
    all: bool,
    long: bool,
    directories_themselves: bool,
    inodes: bool,
    numbers: bool,
    recursive: bool,
}

/// `ls`
pub(crate) fn ls(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), Problem> {
    let (letters, mut operands) = options(words, "aldinR")?;
    let has = |letter| letters.contains(&letter);
    let style = Style {
        all: has('a'),
        long: has('l') || has('n'),
        directories_themselves: has('d'),
        inodes: has('i'),
        numbers: has('n'),
        recursive: has('R'),
    };
    if operands.is_empty() {
        operands.push(b".".to_vec());
    }
    let titled = operands.len() > 1 || style.recursive;
    session.each("ls", &operands, |session, path| {
        // As in ls(1), a symlink operand is followed, unless it is to be described itself.
        let follow = !style.long && !style.directories_themselves || path.ends_with(b"/");
        let place = session.find(path, false)?;
        let place = if follow { session.find(path, true).unwrap_or(place) } else { place };
        if place.vnode().kind() == FileKind::Directory && !style.directories_themselves {
            return list_directory(session, &style, &place, path, titled);
        }
        let attributes = session.tree.attributes(&place).at(path)?;
        let line = line(session, &style, &place, path, &attributes);
        session.print(&line)
    })
}

fn list_directory(
    session: &mut Session<'_>,
    style: &Style,
    directory: &Place,
    path: &[u8],
    titled: bool,
) -> Result<(), Problem> {
    if titled {
        session.print(&[path, b":\n"].concat())?;
    }
    if style.all {
        let parent = session.tree.find(directory, b"..", true).at(path)?;
        for (name, place) in [(&b"."[..], directory), (b"..", &parent)] {
            let attributes = session.tree.attributes(place).at(path)?;
            let line = line(session, style, place, name, &attributes);
            session.print(&line)?;
        }
    }
    let mut below = Vec::new();
    for entry in session.tree.list(directory).at(path)? {
        let name = entry.name.as_bytes();
        if name.starts_with(b".") && !style.all {
            continue;
        }
        let here = join(path, name);
        let may_be_below = style.recursive && entry.kind.is_none_or(|kind| kind == FileKind::Directory);
        if !(style.long || style.inodes || may_be_below) {
            session.print(&[name, b"\n"].concat())?;
            continue;
        }
        // An entry that has been removed since, or may not be accessed, is reported; the others are listed.
        let place = session
            .tree
            .child(directory, entry.name.as_name())
            .and_then(|place| Ok((session.tree.attributes(&place)?, place)));
        match place.at(&here) {
            Ok((attributes, place)) => {
                let line = line(session, style, &place, name, &attributes);
                session.print(&line)?;
                if style.recursive && attributes.is_directory() {
                    below.push((place, here));
                }
            }
            Err(problem) => session.report("ls", &problem),
        }
    }
    for (place, path) in below {
        session.print(b"\n")?;
        match list_directory(session, style, &place, &path, true) {
            Err(problem @ Problem::Output(_)) => return Err(problem),
            Err(problem) => session.report("ls", &problem),
            Ok(()) => {}
        }
    }
    Ok(())
}

fn line(session: &mut Session<'_>, style: &Style, place: &Place, name: &[u8], attributes: &Attributes) -> Vec<u8> {
    let mut line = Vec::new();
    if style.inodes {
        line.extend(format!("{:>8} ", attributes.ino).into_bytes());
    }
    if style.long {
        let (user, group) = match style.numbers {
            true => (attributes.uid.to_string(), attributes.gid.to_string()),
            false => (session.names.user(attributes.uid), session.names.group(attributes.gid)),
        };
        let size = match attributes.kind {
            FileKind::CharacterDevice | FileKind::BlockDevice => {
                format!("{}, {}", attributes.rdev.major, attributes.rdev.minor)
            }
            _ => attributes.size.to_string(),
        };
        let (mode, links, time) = (format::mode(attributes), attributes.nlink, format::time(attributes.mtime));
        line.extend(format!("{mode} {links:>3} {user:<8} {group:<8} {size:>10} {time} ").into_bytes());
    }
    line.extend(name);
    if style.long
        && attributes.kind == FileKind::Symlink
        && let Ok(target) = place.vnode().readlink(session.caller())
    {
        line.extend(b" -> ");
        line.extend(target);
    }
    line.push(b'\n');
    line
}

/// `tree`
pub(crate) fn tree(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), Problem> {
    let (letters, operands) = options(words, "a")?;
    let path = match operands.as_slice() {
        [] => &b"."[..],
        [path] => path,
        _ => return Err(Problem::Usage),
    };
    let place = session.find(path, true)?;
    session.print(&[path, b"\n"].concat())?;
    let mut counts = (0, 0);
    branches(session, &place, path, letters.contains(&'a'), "", &mut counts)?;
    let (directories, others) = counts;
    session.print(format!("\n{directories} directories, {others} files\n").as_bytes())
}

fn branches(
    session: &mut Session<'_>,
    directory: &Place,
    path: &[u8],
    all: bool,
    indent: &str,
    counts: &mut (u64, u64),
) -> Result<(), Problem> {
    let mut entries = session.tree.list(directory).at(path)?;
    entries.retain(|entry| all || !entry.name.as_bytes().starts_with(b"."));
    let last = entries.len().saturating_sub(1);
    for (index, entry) in entries.iter().enumerate() {
        let (joint, deeper) = if index == last { ("└── ", "    ") } else { ("├── ", "│   ") };
        let here = join(path, entry.name.as_bytes());
        let child = match session.tree.child(directory, entry.name.as_name()).at(&here) {
            Ok(child) => child,
            Err(problem) => {
                session.report("tree", &problem);
                continue;
            }
        };
        let mut line = [indent.as_bytes(), joint.as_bytes(), entry.name.as_bytes()].concat();
        if child.vnode().kind() == FileKind::Symlink
            && let Ok(target) = child.vnode().readlink(session.caller())
        {
            line.extend([b" -> ", target.as_slice()].concat());
        }
        line.push(b'\n');
        session.print(&line)?;
        if child.vnode().kind() != FileKind::Directory {
            counts.1 += 1;
            continue;
        }
        counts.0 += 1;
        match branches(session, &child, &here, all, &format!("{indent}{deeper}"), counts) {
            Err(problem @ Problem::Output(_)) => return Err(problem),
            Err(problem) => session.report("tree", &problem),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// `stat`
pub(crate) fn stat(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), Problem> {
    let (letters, operands) = options(words, "L")?;
    if operands.is_empty() {
        return Err(Problem::Usage);
    }
    session.each("stat", &operands, |session, path| {
        let place = session.find(path, letters.contains(&'L'))?;
        let attributes = session.tree.attributes(&place).at(path)?;
        let text = description(session, &attributes);
        session.print(&[b"  File: ", path, b"\n", text.as_bytes()].concat())
    })
}

fn description(session: &mut Session<'_>, attributes: &Attributes) -> String {
    let mut text = format!(
        "  Size: {:<15} Blocks: {:<10} IO Block: {:<6} {}\n",
        attributes.size,
        attributes.blocks,
        attributes.block_size,
        format::kind(attributes.kind)
    );
    text.push_str(&format!(" Inode: {:<15}  Links: {}", attributes.ino, attributes.nlink));
    if matches!(attributes.kind, FileKind::CharacterDevice | FileKind::BlockDevice) {
        text.push_str(&format!("  Device type: {},{}", attributes.rdev.major, attributes.rdev.minor));
    }
    text.push_str(&format!(
        "\nAccess: ({:04o}/{})  Uid: ({}/{})  Gid: ({}/{})\n",
        attributes.mode,
        format::mode(attributes),
        attributes.uid,
        session.names.user(attributes.uid),
        attributes.gid,
        session.names.group(attributes.gid)
    ));
    let times = [("Access", attributes.atime), ("Modify", attributes.mtime), ("Change", attributes.ctime)];
    for (label, time) in times {
        text.push_str(&format!("{label}: {}\n", format::precise_time(time)));
    }
    let birth = attributes.btime.map_or_else(|| "-".to_owned(), format::precise_time);
    text.push_str(&format!(" Birth: {birth}\n"));
    text
}

/// `df`
pub(crate) fn df(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), Problem> {
    if !words.is_empty() {
        return Err(Problem::Usage);
    }
    let path = session.directory.path();
    let state = session.directory.vnode().statfs(session.caller()).at(&path)?;
    let kibibytes = |blocks: u64| blocks.saturating_mul(u64::from(state.fragment_size)) / 1_024;
    let used = state.blocks.saturating_sub(state.blocks_free);
    let percent = (used * 100).div_ceil((used + state.blocks_available).max(1));
    let text = format!(
        "{:>14} {:>14} {:>14} {:>4} {:>12} {:>12}\n{:>14} {:>14} {:>14} {percent:>3}% {:>12} {:>12}\n",
        "1K-blocks",
        "Used",
        "Available",
        "Use%",
        "Inodes",
        "IFree",
        kibibytes(state.blocks),
        kibibytes(used),
        kibibytes(state.blocks_available),
        state.files,
        state.files_free
    );
    session.print(text.as_bytes())
}

/// `cd`
pub(crate) fn cd(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), Problem> {
    let path = match words {
        [] => &b"/"[..],
        [path] => path,
        _ => return Err(Problem::Usage),
    };
    let place = session.find(path, true)?;
    if place.vnode().kind() != FileKind::Directory {
        return Err(Problem::Path(path.to_vec(), vnode::Errno::ENOTDIR));
    }
    place.vnode().access(session.caller(), vnode::AccessMode::EXECUTE).at(path)?;
    session.directory = place;
    Ok(())
}

/// `pwd`
pub(crate) fn pwd(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), Problem> {
    if !words.is_empty() {
        return Err(Problem::Usage);
    }
    let path = session.directory.path();
    session.print(&[path.as_slice(), b"\n"].concat())
}

/// `readlink`
pub(crate) fn readlink(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), Problem> {
    if words.is_empty() {
        return Err(Problem::Usage);
    }
    session.each("readlink", words, |session, path| {
        let target = session.find(path, false)?.vnode().readlink(session.caller()).at(path)?;
        session.print(&[target.as_slice(), b"\n"].concat())
    })
}

/// `sync`
pub(crate) fn sync(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), Problem> {
    if !words.is_empty() {
        return Err(Problem::Usage);
    }
    session.tree.file_system().sync().at(b"/")
}

/// `help`
pub(crate) fn help(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), Problem> {
    let wanted = words.first().map(|word| String::from_utf8_lossy(word).into_owned());
    let mut text = String::new();
    for command in
        session.commands.iter().filter(|command| wanted.as_deref().is_none_or(|wanted| wanted == command.name))
    {
        text.push_str(&format!("{:<42} {}\n", command.usage, command.about));
    }
    if text.is_empty() {
        return Err(Problem::Words(format!("no command '{}'; help lists them", wanted.unwrap_or_default())));
    }
    if wanted.is_none() {
        text.push_str("\nCommands are separated by ';' or line breaks; quoting is as in sh(1). Times are in UTC.\n");
    }
    session.print(text.as_bytes())
}

/// `exit`
pub(crate) fn exit(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), Problem> {
    if !words.is_empty() {
        return Err(Problem::Usage);
    }
    session.ended = true;
    Ok(())
}

/// Returns the path of an entry of a directory.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
    [directory, slash, name].concat()
}
