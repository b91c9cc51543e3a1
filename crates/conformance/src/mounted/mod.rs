//! A directory of the running system as a subject.
//!
//! Each client is a thread with its own credentials, file table, working directory and umask, so that the kernel treats it as a
//! process in all these respects, and tests run concurrently.

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
    /// Abilities that no file system of this kind has.
    lacking: &'static [Ability],
}

/// Returns the abilities that no file system of this kind has, by its type number in statfs(2).
fn lacking(kind: i64) -> &'static [Ability] {
    match kind {
        // tmpfs does not zero ranges, and restarts a listing at a cookie whose entry and all later ones are gone.
        libc::TMPFS_MAGIC => &[Ability::ZeroRange, Ability::DirectoryCookies],
        libc::FUSE_SUPER_MAGIC => &[Ability::PromptLinkCounts],
        _ => &[],
    }
}

impl Mounted {
    /// Returns a subject whose tests run below this directory. Assumes all abilities, except that only root can act as other
    /// users.
    pub fn new(path: &Path) -> std::io::Result<Self> {
        let mut abilities = Abilities::complete();
        if !rustix::process::geteuid().is_root() {
            abilities = abilities.without(Ability::Users);
        }
        let root: OwnedFd = StdFile::open(path)?.into();
        let lacking = lacking(rustix::fs::fstatfs(&root)?.f_type);
        Ok(Self { title: path.display().to_string(), root, abilities, lacking })
    }

    /// Returns the subject with another title.
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Returns the subject with these abilities instead of the assumed ones, less those that file systems of its kind lack.
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
