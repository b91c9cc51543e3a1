//! Commands that inspect: ls, tree, stat, df, cd, pwd, readlink, sync, help, exit.

use vnode::{Attributes, FileKind};

use super::format;
use super::session::{CommandError, Session, WithPath, split_options};
use plyfs::ResolvedPath;

/// The output style of `ls`.
struct ListingStyle {
    all: bool,
    long: bool,
    directories_themselves: bool,
    inodes: bool,
    numbers: bool,
    recursive: bool,
}

/// `ls`
pub(crate) fn ls(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let (letters, mut operands) = split_options(words, "aldinR")?;
    let has = |letter| letters.contains(&letter);
    let style = ListingStyle {
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
    session.for_each_operand("ls", &operands, |session, path| {
        // As in ls(1), a symlink operand is followed, unless it is to be described itself.
        let follow = !style.long && !style.directories_themselves || path.ends_with(b"/");
        let object = session.find(path, false)?;
        let object = if follow { session.find(path, true).unwrap_or(object) } else { object };
        if object.vnode().kind() == FileKind::Directory && !style.directories_themselves {
            return list_directory(session, &style, &object, path, titled);
        }
        let attributes = session.tree.attributes(&object).with_path(path)?;
        let line = format_entry(session, &style, &object, path, &attributes);
        session.print_names(&line)
    })
}

fn list_directory(
    session: &mut Session<'_>,
    style: &ListingStyle,
    directory: &ResolvedPath,
    path: &[u8],
    titled: bool,
) -> Result<(), CommandError> {
    if titled {
        session.print_names(&[path, b":\n"].concat())?;
    }
    if style.all {
        let parent = session.tree.find(directory, b"..", true).with_path(path)?;
        for (name, object) in [(&b"."[..], directory), (b"..", &parent)] {
            let attributes = session.tree.attributes(object).with_path(path)?;
            let line = format_entry(session, style, object, name, &attributes);
            session.print_names(&line)?;
        }
    }
    let mut below = Vec::new();
    for entry in session.tree.list(directory).with_path(path)? {
        let name = entry.name.as_bytes();
        if name.starts_with(b".") && !style.all {
            continue;
        }
        let here = join(path, name);
        let may_be_below = style.recursive && entry.kind.is_none_or(|kind| kind == FileKind::Directory);
        if !(style.long || style.inodes || may_be_below) {
            session.print_names(&[name, b"\n"].concat())?;
            continue;
        }
        // An entry that has been removed since, or may not be accessed, is reported; the others are listed.
        let object = session
            .tree
            .child(directory, entry.name.as_name())
            .and_then(|object| Ok((session.tree.attributes(&object)?, object)));
        match object.with_path(&here) {
            Ok((attributes, object)) => {
                let line = format_entry(session, style, &object, name, &attributes);
                session.print_names(&line)?;
                if style.recursive && attributes.is_directory() {
                    below.push((object, here));
                }
            }
            Err(error) => session.report("ls", &error),
        }
    }
    for (object, path) in below {
        session.print(b"\n")?;
        match list_directory(session, style, &object, &path, true) {
            Err(error @ CommandError::Output(_)) => return Err(error),
            Err(error) => session.report("ls", &error),
            Ok(()) => {}
        }
    }
    Ok(())
}

fn format_entry(
    session: &mut Session<'_>,
    style: &ListingStyle,
    object: &ResolvedPath,
    name: &[u8],
    attributes: &Attributes,
) -> Vec<u8> {
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
        let (mode, links, time) = (attributes.mode_text(), attributes.nlink, format::time(attributes.mtime));
        line.extend(format!("{mode} {links:>3} {user:<8} {group:<8} {size:>10} {time} ").into_bytes());
    }
    line.extend(name);
    if style.long
        && attributes.kind == FileKind::Symlink
        && let Ok(target) = object.vnode().readlink(session.caller())
    {
        line.extend(b" -> ");
        line.extend(target);
    }
    line.push(b'\n');
    line
}

/// `tree`
pub(crate) fn tree(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let (letters, operands) = split_options(words, "a")?;
    let path = match operands.as_slice() {
        [] => &b"."[..],
        [path] => path,
        _ => return Err(CommandError::Usage),
    };
    let object = session.find(path, true)?;
    session.print_names(&[path, b"\n"].concat())?;
    let mut counts = (0, 0);
    print_subtree(session, &object, path, letters.contains(&'a'), "", &mut counts)?;
    let (directories, others) = counts;
    session.print_names(format!("\n{directories} directories, {others} files\n").as_bytes())
}

fn print_subtree(
    session: &mut Session<'_>,
    directory: &ResolvedPath,
    path: &[u8],
    all: bool,
    indent: &str,
    counts: &mut (u64, u64),
) -> Result<(), CommandError> {
    let mut entries = session.tree.list(directory).with_path(path)?;
    entries.retain(|entry| all || !entry.name.as_bytes().starts_with(b"."));
    let last = entries.len().saturating_sub(1);
    for (index, entry) in entries.iter().enumerate() {
        let (joint, deeper) = if index == last { ("└── ", "    ") } else { ("├── ", "│   ") };
        let here = join(path, entry.name.as_bytes());
        let child = match session.tree.child(directory, entry.name.as_name()).with_path(&here) {
            Ok(child) => child,
            Err(error) => {
                session.report("tree", &error);
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
        session.print_names(&line)?;
        if child.vnode().kind() != FileKind::Directory {
            counts.1 += 1;
            continue;
        }
        counts.0 += 1;
        match print_subtree(session, &child, &here, all, &format!("{indent}{deeper}"), counts) {
            Err(error @ CommandError::Output(_)) => return Err(error),
            Err(error) => session.report("tree", &error),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// `stat`
pub(crate) fn stat(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let (letters, operands) = split_options(words, "L")?;
    if operands.is_empty() {
        return Err(CommandError::Usage);
    }
    session.for_each_operand("stat", &operands, |session, path| {
        let object = session.find(path, letters.contains(&'L'))?;
        let attributes = session.tree.attributes(&object).with_path(path)?;
        let text = format_attributes(session, &attributes);
        session.print_names(&[b"  File: ", path, b"\n", text.as_bytes()].concat())
    })
}

fn format_attributes(session: &mut Session<'_>, attributes: &Attributes) -> String {
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
        attributes.mode_text(),
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
pub(crate) fn df(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    if !words.is_empty() {
        return Err(CommandError::Usage);
    }
    let path = session.directory.path();
    let state = session.directory.vnode().statfs(session.caller()).with_path(&path)?;
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
pub(crate) fn cd(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let path = match words {
        [] => &b"/"[..],
        [path] => path,
        _ => return Err(CommandError::Usage),
    };
    let object = session.find(path, true)?;
    if object.vnode().kind() != FileKind::Directory {
        return Err(CommandError::Path(path.to_vec(), vnode::Errno::ENOTDIR));
    }
    object.vnode().access(session.caller(), vnode::AccessMode::EXECUTE).with_path(path)?;
    session.directory = object;
    Ok(())
}

/// `pwd`
pub(crate) fn pwd(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    if !words.is_empty() {
        return Err(CommandError::Usage);
    }
    let path = session.directory.path();
    session.print_names(&[path.as_slice(), b"\n"].concat())
}

/// `readlink`
pub(crate) fn readlink(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    if words.is_empty() {
        return Err(CommandError::Usage);
    }
    session.for_each_operand("readlink", words, |session, path| {
        let target = session.find(path, false)?.vnode().readlink(session.caller()).with_path(path)?;
        session.print_names(&[target.as_slice(), b"\n"].concat())
    })
}

/// `sync`
pub(crate) fn sync(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    if !words.is_empty() {
        return Err(CommandError::Usage);
    }
    session.tree.file_system().sync().with_path(b"/")
}

/// `help`
pub(crate) fn help(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let wanted = words.first().map(|word| String::from_utf8_lossy(word).into_owned());
    let mut text = String::new();
    for command in
        session.commands.iter().filter(|command| wanted.as_deref().is_none_or(|wanted| wanted == command.name))
    {
        text.push_str(&format!("{:<42} {}\n", command.usage, command.about));
    }
    if text.is_empty() {
        return Err(CommandError::Message(format!("no command '{}'; help lists them", wanted.unwrap_or_default())));
    }
    if wanted.is_none() {
        text.push_str("\nCommands are separated by ';' or line breaks; quoting is as in sh(1). Times are in UTC.\n");
    }
    session.print(text.as_bytes())
}

/// `exit`
pub(crate) fn exit(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    if !words.is_empty() {
        return Err(CommandError::Usage);
    }
    session.ended = true;
    Ok(())
}

/// Returns the path of an entry of a directory.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
    [directory, slash, name].concat()
}
