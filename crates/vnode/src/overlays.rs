//! The kernel's overlays over FUSE file systems, as mount tables tell: they ask with the credentials of whoever mounted them, in
//! the process of whoever uses them.
//!
//! Only who administers a mount namespace mounts there. So what is known of overlays comes from namespaces of the server's user
//! namespace, where nobody can mount one to be taken for its mounter. No layer is looked at, which might not answer: a layer is on
//! the file system that its path is on by the table. A relative path, which may lead anywhere, counts as one on FUSE.

use std::fs::File;
use std::io::{Read, Seek};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags};

use crate::process::of_process;
use crate::{Errno, Result};

/// The server's mount table, and whether it has an overlay over FUSE.
struct OwnTable {
    table: File,
    has_overlay: bool,
}

/// Read for the first time when first asked.
static OWN: Mutex<Option<OwnTable>> = Mutex::new(None);

/// Whether an overlay may be asking by this process: there is one over FUSE in the server's mount namespace, or in that of a
/// process that is in the server's user namespace.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOMEM`: no table can be read now.
pub(crate) fn may_ask_by(pid: u32, is_in_own_user_namespace: bool) -> Result<bool> {
    if in_own_table()? {
        return Ok(true);
    }
    let table = if is_in_own_user_namespace { of_process(pid, "mountinfo")? } else { None };
    Ok(table.is_some_and(|table| is_in(&table)))
}

fn in_own_table() -> Result<bool> {
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(own) = own.as_mut() {
        if own.has_changed() {
            own.read()?;
        }
        return Ok(own.has_overlay);
    }
    let table = match File::open("/proc/self/mountinfo").map_err(Errno::from) {
        Ok(table) => table,
        Err(error @ (Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM)) => return Err(error),
        Err(_) => return Ok(false),
    };
    let mut new = OwnTable { table, has_overlay: false };
    new.read()?;
    Ok(own.insert(new).has_overlay)
}

impl OwnTable {
    /// The kernel tells once that the mount table has changed since it was asked last.
    fn has_changed(&self) -> bool {
        let mut asked = [PollFd::new(&self.table, PollFlags::PRI)];
        let told = rustix::event::poll(&mut asked, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 }));
        told.is_ok_and(|count| count > 0)
    }

    fn read(&mut self) -> Result<()> {
        let mut text = Vec::new();
        self.table.rewind().and_then(|()| self.table.read_to_end(&mut text)).map_err(Errno::from)?;
        self.has_overlay = is_in(&String::from_utf8_lossy(&text));
        Ok(())
    }
}

/// One line of a mount table, see proc_pid_mountinfo(5).
struct Line<'a> {
    mount_point: String,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut fields = file_system.split(' ');
        let mount_point = unescape(mount.split(' ').nth(4)?);
        Some(Self { mount_point, kind: fields.next()?, options: fields.nth(1).unwrap_or_default() })
    }

    /// Whether the path is on what is mounted there, unless something is mounted further down.
    fn is_above(&self, path: &str) -> bool {
        let below = path.strip_prefix(self.mount_point.trim_end_matches('/'));
        below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
    }
}

/// Whether a table has an overlay with a layer on FUSE.
fn is_in(table: &str) -> bool {
    let lines: Vec<Line<'_>> = table.lines().filter_map(Line::parse).collect();
    let is_on_fuse = |path: &str| {
        // Of several at the same place, the last covers the others.
        let found = lines.iter().filter(|line| line.is_above(path)).max_by_key(|line| line.mount_point.len());
        !path.starts_with('/') || found.is_some_and(|line| line.kind == "fuse" || line.kind.starts_with("fuse."))
    };
    let mut overlays = lines.iter().filter(|line| line.kind == "overlay");
    overlays.any(|overlay| layers(overlay.options).iter().any(|path| is_on_fuse(path)))
}

/// The paths of an overlay's layers.
fn layers(options: &str) -> Vec<String> {
    let values = options.split(',').filter_map(|option| option.split_once('='));
    let each = values.flat_map(|(key, value)| match key {
        "lowerdir" => split_list(&unescape(value)),
        "lowerdir+" | "datadir+" | "upperdir" => vec![unescape(value)],
        _ => Vec::new(),
    });
    each.collect()
}

/// The paths of a list with colons between them, where a backslash makes the next character one of the path.
fn split_list(list: &str) -> Vec<String> {
    let (mut paths, mut characters) = (vec![String::new()], list.chars());
    while let Some(character) = characters.next() {
        match (character, paths.last_mut()) {
            (':', _) => paths.push(String::new()),
            ('\\', Some(path)) => path.extend(characters.next()),
            (_, Some(path)) => path.push(character),
            (_, None) => {}
        }
    }
    // Two colons come before layers of data only.
    paths.retain(|path| !path.is_empty());
    paths
}

/// Blanks, tabs, newlines, backslashes, and commas in options, are written in octal. Other bytes than ASCII stay as they are.
fn unescape(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let number = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(u8::is_ascii);
        match number {
            Some(number) => {
                plain.push(char::from(number));
                plain.push_str(&part[3..]);
            }
            None => {
                plain.push('\\');
                plain.push_str(part);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "1 0 8:1 / / rw - ext4 /dev/vda rw\n\
        2 1 0:40 / /mnt/p\\040q rw,nosuid - fuse.plyfs /srv rw,user_id=0\n\
        3 2 0:41 / /mnt/p\\040q/inner rw - tmpfs none rw\n\
        4 1 0:42 / /mnt/covered rw - fuse x rw\n\
        5 4 0:43 / /mnt/covered rw - tmpfs none rw\n";

    fn is_over_fuse(options: &str) -> bool {
        is_in(&format!("{MOUNTS}9 1 0:50 / /merged rw shared:1 - overlay overlay rw,{options},uuid=on\n"))
    }

    #[test]
    fn overlays_over_fuse_are_found_by_their_layers() {
        assert!(!is_in(MOUNTS) && !is_in(""));
        for options in [
            "lowerdir=/mnt/p\\040q",
            "lowerdir=/usr:/mnt/p\\040q/below",
            "lowerdir=/a,upperdir=/mnt/p\\040q/u,workdir=/mnt/p\\040q/w",
            "lowerdir+=/a,lowerdir+=/mnt/p\\040q",
            "lowerdir=/a::/mnt/p\\040q/data",
            "lowerdir=/a,datadir+=/mnt/p\\040q/data",
            "lowerdir=relative:/a",
        ] {
            assert!(is_over_fuse(options), "{options}");
        }
    }

    #[test]
    fn overlays_over_other_file_systems_are_not_taken_for_ones_over_fuse() {
        for options in [
            "lowerdir=/usr:/mnt",
            "lowerdir=/mnt/p\\040q/inner/l",
            "lowerdir=/mnt/p\\040query",
            "lowerdir=/mnt/covered/l",
            "lowerdir=/a\\134:/mnt/p\\040q",
            "lowerdir=/a\\134\\054lowerdir+=/mnt/p\\040q",
            "redirect_dir=on",
        ] {
            assert!(!is_over_fuse(options), "{options}");
        }
        assert!(!is_in(&format!("{MOUNTS}9 1 0:50 / /merged rw - tmpfs lowerdir=/mnt/p\\040q rw\n")));
    }
}
