//! A vnode tree as a subject, with no mount: paths are resolved here, as the kernel does it.
//!
//! What the kernel checks before a file system sees a call is checked here too, so that both kinds of subject give
//! the file system the same calls.

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
    /// The tests will run in the root. Everything is taken to be possible but what takes a kernel, and several users
    /// where the base acts as the user it runs as.
    pub fn new(file_system: FileSystemRef) -> Self {
        let mut abilities = Abilities::complete().without(Ability::Kernel).without(Ability::Map);
        if !file_system.properties().checks_credentials {
            abilities = abilities.without(Ability::Users);
        }
        Self { title: "tree".to_owned(), file_system, abilities }
    }

    /// The same with another title.
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// The same with these abilities, whatever was taken to be possible.
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
