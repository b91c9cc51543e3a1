//! Commands on attributes: chmod, chown, umask, xattr.

use vnode::{Attributes, Errno, FileKind, SetAttributes, XattrMode};

use super::format;
use super::listing::join;
use super::place::Place;
use super::session::{At, Problem, Session, options};

/// `chmod`
pub(crate) fn chmod(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), Problem> {
    // A mode may begin with a minus sign, so only -R and -- are options.
    let (recursive, operands) = match words {
        [first, rest @ ..] if first == b"-R" => (true, rest),
        words => (false, words),
    };
    let operands = operands.strip_prefix(&[b"--".to_vec()]).unwrap_or(operands);
    let Some((mode, paths)) = operands.split_first().filter(|(_, paths)| !paths.is_empty()) else {
        return Err(Problem::Usage);
    };
    let mode = String::from_utf8_lossy(mode).into_owned();
    let umask = session.caller().umask;
    change(session, "chmod", paths, recursive, true, |attributes| {
        let wrong = || Problem::Words(format!("'{mode}' is no mode; write one like 755 or u+x,go-w"));
        let mode = format::changed_mode(&mode, attributes, umask).ok_or_else(wrong)?;
        Ok(SetAttributes { mode: Some(mode), ..SetAttributes::default() })
    })
}

/// `chown`
pub(crate) fn chown(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), Problem> {
    let (letters, operands) = options(words, "hR")?;
    let Some((owner, paths)) = operands.split_first().filter(|(_, paths)| !paths.is_empty()) else {
        return Err(Problem::Usage);
    };
    let owner = String::from_utf8_lossy(owner).into_owned();
    let (user, group) = owner.split_once(':').unwrap_or((&owner, ""));
    let number = |text: &str, what: &str, find: fn(&str) -> Option<u32>| match text {
        "" => Ok(None),
        text => find(text)
            .map(Some)
            .ok_or_else(|| Problem::Words(format!("there is no {what} '{text}'; name one, or give a number"))),
    };
    let (uid, gid) = (number(user, "user", format::user_id)?, number(group, "group", format::group_id)?);
    if uid.is_none() && gid.is_none() {
        return Err(Problem::Usage);
    }
    let follow = !letters.contains(&'h');
    change(session, "chown", paths, letters.contains(&'R'), follow, |_| {
        Ok(SetAttributes { uid, gid, ..SetAttributes::default() })
    })
}

/// Changes the attributes of every path and, with `recursive`, of everything below it, except for symlinks there.
fn change(
    session: &mut Session<'_>,
    command: &str,
    paths: &[Vec<u8>],
    recursive: bool,
    follow: bool,
    changes: impl Fn(&Attributes) -> Result<SetAttributes, Problem>,
) -> Result<(), Problem> {
    session.each(command, paths, |session, path| {
        let place = session.find(path, follow)?;
        change_one(session, command, &place, path, recursive, &changes)
    })
}

fn change_one(
    session: &mut Session<'_>,
    command: &str,
    place: &Place,
    path: &[u8],
    recursive: bool,
    changes: &dyn Fn(&Attributes) -> Result<SetAttributes, Problem>,
) -> Result<(), Problem> {
    let attributes = session.tree.attributes(place).at(path)?;
    place.vnode().setattr(session.caller(), &changes(&attributes)?).at(path)?;
    if !recursive || !attributes.is_directory() {
        return Ok(());
    }
    for entry in session.tree.list(place).at(path)? {
        let here = join(path, entry.name.as_bytes());
        let done = match session.tree.child(place, entry.name.as_name()).at(&here) {
            Ok(child) if child.vnode().kind() == FileKind::Symlink => continue,
            Ok(child) => change_one(session, command, &child, &here, true, changes),
            Err(problem) => Err(problem),
        };
        if let Err(problem) = done {
            session.report(command, &problem);
        }
    }
    Ok(())
}

/// `umask`
pub(crate) fn umask(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), Problem> {
    match words {
        [] => {
            let text = format!("{:04o}\n", session.caller().umask);
            session.print(text.as_bytes())
        }
        [mask] => {
            let mask = std::str::from_utf8(mask).ok().and_then(|mask| u32::from_str_radix(mask, 8).ok());
            let wrong = || Problem::Words("a mask is an octal number up to 777; write 022".into());
            session.tree.caller.umask = mask.filter(|mask| *mask <= 0o777).ok_or_else(wrong)?;
            Ok(())
        }
        _ => Err(Problem::Usage),
    }
}

/// `xattr`
pub(crate) fn xattr(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), Problem> {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    match words.as_slice() {
        [b"list", path] => list(session, path),
        [b"get", name, path] => {
            let value = session.find(path, true)?.vnode().getxattr(session.caller(), name).at(path)?;
            session.print(&[value.as_slice(), b"\n"].concat())
        }
        [b"set", name, value, path] => {
            check_name(name)?;
            let vnode = session.find(path, true)?;
            vnode.vnode().setxattr(session.caller(), name, value, XattrMode::Set).at(path)
        }
        [b"rm", name, path] => session.find(path, true)?.vnode().removexattr(session.caller(), name).at(path),
        _ => Err(Problem::Usage),
    }
}

fn list(session: &mut Session<'_>, path: &[u8]) -> Result<(), Problem> {
    let place = session.find(path, true)?;
    let names = place.vnode().listxattr(session.caller()).at(path)?;
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let value = match place.vnode().getxattr(session.caller(), name) {
            Ok(value) => shown(&value),
            // Removed in the meantime.
            Err(Errno::ENODATA) => continue,
            Err(errno) => format!("({errno})"),
        };
        session.print(&[name, b"=", value.as_bytes(), b"\n"].concat())?;
    }
    Ok(())
}

/// Returns the value in quotes if it is text, otherwise in hexadecimal.
fn shown(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if !text.chars().any(char::is_control) => format!("{text:?}"),
        _ => value.iter().fold(String::from("0x"), |text, byte| format!("{text}{byte:02x}")),
    }
}

fn check_name(name: &[u8]) -> Result<(), Problem> {
    match name.contains(&b'.') && name.len() <= 255 {
        true => Ok(()),
        false => Err(Problem::Words(
            "an attribute's name begins with its name space and has at most 255 bytes; write user.NAME".into(),
        )),
    }
}
