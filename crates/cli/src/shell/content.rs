//! Commands for file contents: cat, echo, write, append, truncate, touch.

use vnode::{Creation, Errno, OpenFileRef, OpenFlags, SetAttributes, SetTime, read_fully, write_fully};

use super::format;
use super::session::{CommandError, Session, WithPath, split_options};

/// Maximum number of bytes that one call reads or writes.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// `cat`
pub(crate) fn cat(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    if words.is_empty() {
        return Err(CommandError::Usage);
    }
    session.for_each_operand("cat", words, |session, path| {
        let file = session.find(path, true)?.vnode().open(session.caller(), OpenFlags::READ).with_path(path)?;
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut offset = 0;
        loop {
            let length = read_fully(&*file, session.caller(), offset, &mut buffer).with_path(path)?;
            if length == 0 {
                return Ok(());
            }
            session.print(&buffer[..length])?;
            offset += length as u64;
        }
    })
}

/// `echo`
pub(crate) fn echo(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let (line_end, words): (&[u8], _) = match words {
        [first, rest @ ..] if first == b"-n" => (b"", rest),
        words => (b"\n", words),
    };
    let text = |words: &[Vec<u8>]| [words.join(&b' ').as_slice(), line_end].concat();
    match words {
        [words @ .., arrow, path] if arrow == b">" => store(session, path, &text(words), OpenFlags::TRUNCATE),
        [words @ .., arrow, path] if arrow == b">>" => store(session, path, &text(words), OpenFlags::APPEND),
        words => session.print(&text(words)),
    }
}

/// `write`
pub(crate) fn write(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    match words {
        [path] => store(session, path, b"", OpenFlags::TRUNCATE),
        [path, text] => store(session, path, text, OpenFlags::TRUNCATE),
        _ => Err(CommandError::Usage),
    }
}

/// `append`
pub(crate) fn append(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    match words {
        [path, text] => store(session, path, text, OpenFlags::APPEND),
        _ => Err(CommandError::Usage),
    }
}

/// `truncate`
pub(crate) fn truncate(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let [flag, size, paths @ ..] = words else { return Err(CommandError::Usage) };
    if flag != b"-s" || paths.is_empty() {
        return Err(CommandError::Usage);
    }
    let size = std::str::from_utf8(size).ok().and_then(format::size);
    let size = size.ok_or_else(|| {
        CommandError::Message("a size is a number of bytes, or one with K, M, G or T; write 10M".into())
    })?;
    session.for_each_operand("truncate", paths, |session, path| {
        let changes = SetAttributes { size: Some(size), ..SetAttributes::default() };
        match session.find(path, true) {
            Ok(object) => object.vnode().setattr(session.caller(), &changes).with_path(path).map(drop),
            Err(CommandError::Path(_, Errno::ENOENT)) => {
                let file = open_for_writing(session, path, OpenFlags::WRITE)?;
                file.truncate(session.caller(), size).with_path(path)?;
                close(session, &file, path)
            }
            Err(error) => Err(error),
        }
    })
}

/// `touch`
pub(crate) fn touch(session: &mut Session<'_>, words: &[Vec<u8>]) -> Result<(), CommandError> {
    let (letters, operands) = split_options(words, "c")?;
    if operands.is_empty() {
        return Err(CommandError::Usage);
    }
    session.for_each_operand("touch", &operands, |session, path| match session.find(path, true) {
        Ok(object) => {
            let now = Some(SetTime::Now);
            let changes = SetAttributes { atime: now, mtime: now, ..SetAttributes::default() };
            object.vnode().setattr(session.caller(), &changes).with_path(path).map(drop)
        }
        Err(CommandError::Path(_, Errno::ENOENT)) if letters.contains(&'c') => Ok(()),
        Err(CommandError::Path(_, Errno::ENOENT)) => {
            let file = open_for_writing(session, path, OpenFlags::WRITE)?;
            close(session, &file, path)
        }
        Err(error) => Err(error),
    })
}

fn store(session: &mut Session<'_>, path: &[u8], text: &[u8], how: OpenFlags) -> Result<(), CommandError> {
    let file = open_for_writing(session, path, OpenFlags::WRITE.with(how))?;
    write_all(session.caller(), &file, 0, text).with_path(path)?;
    close(session, &file, path)
}

/// Opens the file that the path resolves to, and creates it if it does not exist.
fn open_for_writing(session: &Session<'_>, path: &[u8], flags: OpenFlags) -> Result<OpenFileRef, CommandError> {
    let caller = session.caller();
    match session.find(path, true) {
        Ok(object) => return object.vnode().open(caller, flags).with_path(path),
        Err(CommandError::Path(_, Errno::ENOENT)) => {}
        Err(error) => return Err(error),
    }
    let (directory, name) = session.find_parent(path)?;
    let how = Creation { mode: 0o666, flags };
    Ok(directory.vnode().create(caller, name.as_name(), &how).with_path(path)?.file)
}

/// Writes all data: from `offset` on, or at the end if the file was opened for appending.
pub(crate) fn write_all(caller: &vnode::Caller, file: &OpenFileRef, offset: u64, data: &[u8]) -> vnode::Result<()> {
    write_fully(&**file, caller, offset, data)
}

/// Reports the errors of earlier writes, as close(2) does.
fn close(session: &Session<'_>, file: &OpenFileRef, path: &[u8]) -> Result<(), CommandError> {
    file.flush(session.caller(), &vnode::LockOwner::Number(0)).with_path(path)
}
