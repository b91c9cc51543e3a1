//! A directory of the running system as a subject.
//!
//! Each client is a thread with credentials, file table, working directory and umask of its own,
//! so that in all that the kernel asks of a process it is one, and tests run at the same time.

mod client;
mod convert;
mod directory;
mod file;
mod handle;
mod mapping;
mod worker;

use std::fs::File as StdFile;
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::{Abilities, Ability, Client, Identity, Subject};

/// A directory of the running system, on a mounted file system under test.
#[derive(Debug)]
pub struct Mounted {
    title: String,
    root: OwnedFd,
    abilities: Abilities,
    /// What no file system of this kind can do.
    lacking: &'static [Ability],
}

/// What no file system of this kind can do, known by its number in statfs(2).
fn lacking(kind: i64) -> &'static [Ability] {
    match kind {
        // Linux's file system in memory zeroes no ranges, and lists a directory anew from a position whose entry
        // and all after it are gone.
        libc::TMPFS_MAGIC => &[Ability::ZeroRange, Ability::DirectoryCookies],
        libc::FUSE_SUPER_MAGIC => &[Ability::PromptLinkCounts],
        _ => &[],
    }
}

impl Mounted {
    /// The tests will run below this directory. Everything is taken to be possible, except
    /// that only root can act as other users.
    pub fn new(path: &Path) -> std::io::Result<Self> {
        let mut abilities = Abilities::complete();
        if !rustix::process::geteuid().is_root() {
            abilities = abilities.without(Ability::Users);
        }
        let root: OwnedFd = StdFile::open(path)?.into();
        let lacking = lacking(rustix::fs::fstatfs(&root)?.f_type);
        Ok(Self { title: path.display().to_string(), root, abilities, lacking })
    }

    /// The same with another title.
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// The same with these abilities, whatever was taken to be possible, but for what file systems of its kind cannot do.
    pub fn limited_to(mut self, abilities: Abilities) -> Self {
        self.abilities = abilities;
        self
    }
}

impl Subject for Mounted {
    fn title(&self) -> &str {
        &self.title
    }

    fn abilities(&self) -> Abilities {
        self.lacking.iter().fold(self.abilities, |abilities, ability| abilities.without(*ability))
    }

    fn client(&self, identity: &Identity) -> Box<dyn Client> {
        let identity = self.abilities.has(Ability::Users).then_some(identity);
        let worker = worker::Worker::start(&self.root, identity)
            .expect("the system lets a thread have its own credentials and files");
        Box::new(client::MountedClient::new(worker))
    }
}
