//! A vnode tree as a subject, without a mount: paths are resolved here, as the kernel does it.
//!
//! The checks that the kernel makes before it calls a file system are made here too, so that both kinds of subject issue the
//! same calls to the file system.

mod calls;
mod client;
mod convert;
mod directory;
mod file;
mod walk;

use vnode::FileSystemRef;

use crate::{Abilities, Ability, Client, Identity, Subject};

/// The tree of a file system.
pub struct Tree {
    title: String,
    file_system: FileSystemRef,
    abilities: Abilities,
}

impl Tree {
    /// Returns a subject whose tests run in the root. Assumes all abilities except those that require a kernel, and several
    /// users where the base acts as the user it runs as.
    pub fn new(file_system: FileSystemRef) -> Self {
        let mut abilities = Abilities::complete().without(Ability::Kernel).without(Ability::Map);
        if !file_system.properties().promises.checks_credentials {
            abilities = abilities.without(Ability::Users);
        }
        Self { title: "tree".to_owned(), file_system, abilities }
    }

    /// Returns the subject with another title.
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Returns the subject with these abilities instead of the assumed ones.
    pub fn limited_to(mut self, abilities: Abilities) -> Self {
        self.abilities = abilities;
        self
    }
}

impl Subject for Tree {
    fn title(&self) -> &str {
        &self.title
    }

    fn abilities(&self) -> Abilities {
        self.abilities
    }

    fn client(&self, identity: &Identity) -> Box<dyn Client> {
        let identity = if self.abilities.has(Ability::Users) {
            identity.clone()
        } else {
            let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
            Identity { gid: gid.as_raw(), ..Identity::user(uid.as_raw()) }
        };
        Box::new(client::TreeClient::new(self.file_system.clone(), identity))
    }
}
