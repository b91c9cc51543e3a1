//! A vnode tree as a subject, with no mount: paths are resolved here, as the kernel does it.
//!
//! What the kernel checks before a file system sees a call is checked here too, so that both kinds of subject give
//! the file system the same calls.

mod client;
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
    /// The tests will run in the root. Everything is taken to be possible but what takes a kernel.
    pub fn new(file_system: FileSystemRef) -> Self {
        let abilities = Abilities::complete().without(Ability::Kernel).without(Ability::Map);
        Self { title: "tree".to_owned(), file_system, abilities }
    }

    /// The same with another title.
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// The same less some abilities.
    pub fn without(mut self, lacking: &[Ability]) -> Self {
        for ability in lacking {
            self.abilities = self.abilities.without(*ability);
        }
        self
    }

    /// The same with an ability more.
    pub fn with(mut self, ability: Ability) -> Self {
        self.abilities = self.abilities.with(ability);
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
            Identity { uid: uid.as_raw(), gid: gid.as_raw(), groups: Vec::new() }
        };
        Box::new(client::TreeClient::new(self.file_system.clone(), identity))
    }
}
