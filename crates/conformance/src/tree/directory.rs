//! An open directory of a tree, being listed.

use std::ops::ControlFlow;
use std::sync::Mutex;

use vnode::{Caller, Cookie, FileKind, OpenDirectoryRef, Result};

use super::convert::kind_of;
use crate::{Directory, Entry, Kind};

/// Maximum number of bytes of names that one call returns: small, so that a moderately large directory requires several calls.
const BATCH_SIZE: usize = 1024;

pub(crate) struct TreeDirectory {
    pub(crate) caller: Caller,
    pub(crate) open: OpenDirectoryRef,
    pub(crate) cookie: Mutex<Cookie>,
}

impl Directory for TreeDirectory {
    fn next(&self) -> Result<Vec<Entry>> {
        let mut cookie = self.cookie.lock().expect("no panic with the lock held");
        let mut entries = Vec::new();
        let mut size = 0;
        self.open.read(&self.caller, *cookie, &mut |entry| {
            size += entry.name.as_bytes().len() + 24;
            if size > BATCH_SIZE && !entries.is_empty() {
                return ControlFlow::Break(());
            }
            entries.push(Entry {
                name: entry.name.as_bytes().to_vec(),
                inode: entry.ino,
                kind: entry.kind.map_or(Kind::Unknown, |kind: FileKind| kind_of(kind)),
                cookie: entry.cookie,
            });
            ControlFlow::Continue(())
        })?;
        if let Some(last) = entries.last() {
            *cookie = last.cookie;
        }
        Ok(entries)
    }

    fn seek(&self, cookie: Cookie) -> Result<()> {
        *self.cookie.lock().expect("no panic with the lock held") = cookie;
        Ok(())
    }
}
