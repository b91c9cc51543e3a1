//! Commands on attributes: chmod, chown, umask, xattr.

use vnode::{Attributes, Errno, FileKind, SetAttributes, XattrMode};

use super::format;
use super::listing::join;
use super::session::{CommandError, Session, WithPath, split_options};
use plyfs::ResolvedPath;

/// `chmod`
pub(crate) fn chmod(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    // A mode may begin with a minus sign, so only -R and -- are options.
    let (recursive, operands) = match words {
        [first, rest @ ..] if first == b"-R" => (true, rest),
        words => (false, words),
    };
    let operands = operands.strip_prefix(&[b"--".to_vec()]).unwrap_or(operands);
    let Some((mode, paths)) = operands.split_first().filter(|(_, paths)| !paths.is_empty()) else {
        return Err(CommandError::Usage);
    };
    let mode = String::from_utf8_lossy(mode).into_owned();
    let umask = session.caller().umask;
    change_all(session, "chmod", paths, recursive, true, |attributes| {
        let invalid = || CommandError::Message(format!("'{mode}' is no mode; write one like 755 or u+x,go-w"));
        let mode = format::changed_mode(&mode, attributes, umask).ok_or_else(invalid)?;
        Ok(SetAttributes { mode: Some(mode), ..SetAttributes::default() })
    })
}

/// `chown`
pub(crate) fn chown(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let (letters, operands) = split_options(words, "hR")?;
    let Some((owner, paths)) = operands.split_first().filter(|(_, paths)| !paths.is_empty()) else {
        return Err(CommandError::Usage);
    };
    let owner = String::from_utf8_lossy(owner).into_owned();
    let (user, group) = owner.split_once(':').unwrap_or((&owner, ""));
    let number = |text: &str, what: &str, find: fn(&str) -> Option<u32>| match text {
        "" => Ok(None),
        text => find(text)
            .map(Some)
            .ok_or_else(|| CommandError::Message(format!("there is no {what} '{text}'; name one, or give a number"))),
    };
    let (uid, gid) = (number(user, "user", format::user_id)?, number(group, "group", format::group_id)?);
    if uid.is_none() && gid.is_none() {
        return Err(CommandError::Usage);
    }
    let follow = !letters.contains(&'h');
    change_all(session, "chown", paths, letters.contains(&'R'), follow, |_| {
        Ok(SetAttributes { uid, gid, ..SetAttributes::default() })
    })
}

/// Changes the attributes of every path and, with `recursive`, of everything below it, except for symlinks there.
fn change_all(
    session: &mut Session<'_>,
    command: &str,
    paths: &[Vec<u8>],
    recursive: bool,
    follow: bool,
    changes: impl Fn(&Attributes) -> Result<SetAttributes, CommandError>,
) -> Result<(), CommandError> {
    session.for_each_operand(command, paths, |session, path| {
        let object = session.find(path, follow)?;
        change_one(session, command, &object, path, recursive, &changes)
    })
}

fn change_one(
    session: &mut Session<'_>,
    command: &str,
    object: &ResolvedPath,
    path: &[u8],
    recursive: bool,
    changes: &dyn Fn(&Attributes) -> Result<SetAttributes, CommandError>,
) -> Result<(), CommandError> {
    let attributes = session.tree.attributes(object).with_path(path)?;
    object.vnode().setattr(session.caller(), &changes(&attributes)?).with_path(path)?;
    if !recursive || !attributes.is_directory() {
        return Ok(());
    }
    for entry in session.tree.list(object).with_path(path)? {
        let here = join(path, entry.name.as_bytes());
        let done = match session.tree.child(object, entry.name.as_name()).with_path(&here) {
            Ok(child) if child.vnode().kind() == FileKind::Symlink => continue,
            Ok(child) => change_one(session, command, &child, &here, true, changes),
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            session.report(command, &error);
        }
    }
    Ok(())
}

/// `umask`
pub(crate) fn umask(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    match words {
        [] => {
            let text = format!("{:04o}\n", session.caller().umask);
            session.print(text.as_bytes())
        }
        [mask] => {
            let mask = std::str::from_utf8(mask).ok().and_then(|mask| u32::from_str_radix(mask, 8).ok());
            let invalid = || CommandError::Message("a mask is an octal number up to 777; write 022".into());
            session.tree.caller.umask = mask.filter(|mask| *mask <= 0o777).ok_or_else(invalid)?;
            Ok(())
        }
        _ => Err(CommandError::Usage),
    }
}

/// `xattr`
pub(crate) fn xattr(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    match words.as_slice() {
        [b"list", path] => list(session, path),
        [b"get", name, path] => {
            let value = session.find(path, true)?.vnode().getxattr(session.caller(), name).with_path(path)?;
            session.print(&[value.as_slice(), b"\n"].concat())
        }
        [b"set", name, value, path] => {
            check_name(name)?;
            let vnode = session.find(path, true)?;
            vnode.vnode().setxattr(session.caller(), name, value, XattrMode::Set).with_path(path)
        }
        [b"rm", name, path] => session.find(path, true)?.vnode().removexattr(session.caller(), name).with_path(path),
        _ => Err(CommandError::Usage),
    }
}

fn list(session: &mut Session<'_>, path: &[u8]) -> Result<(), CommandError> {
    let object = session.find(path, true)?;
    let names = object.vnode().listxattr(session.caller()).with_path(path)?;
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let value = match object.vnode().getxattr(session.caller(), name) {
            Ok(value) => format_value(&value),
            // Removed in the meantime.
            Err(Errno::ENODATA) => continue,
            Err(errno) => format!("({errno})"),
        };
        session.print_names(&[name, b"=", value.as_bytes(), b"\n"].concat())?;
    }
    Ok(())
}

/// Returns the value in quotes if it is text, otherwise in hexadecimal.
fn format_value(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if !text.chars().any(char::is_control) => format!("{text:?}"),
        _ => value.iter().fold(String::from("0x"), |text, byte| format!("{text}{byte:02x}")),
    }
}

fn check_name(name: &[u8]) -> Result<(), CommandError> {
    match name.contains(&b'.') && name.len() <= 255 {
        true => Ok(()),
        false => Err(CommandError::Message(
            "an attribute's name begins with its name space and has at most 255 bytes; write user.NAME".into(),
        )),
    }
}
