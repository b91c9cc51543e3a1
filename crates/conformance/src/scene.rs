//! The surroundings of one running test: its own directory, its clients, its seed.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::subject::Result;
use crate::{Ability, Client, Identity, Outcome, Subject};

/// Where one test runs.
pub struct Scene<'a> {
    subject: &'a dyn Subject,
    directory: Vec<u8>,
    seed: u64,
    /// The client that most tests act through: root, or whoever runs the tests. Its working
    /// directory is the test's own, which everybody may write to.
    pub me: Box<dyn Client>,
}

impl<'a> Scene<'a> {
    /// Makes a new directory for a test, or for a read-only subject uses its root.
    pub(crate) fn new(subject: &'a dyn Subject, name: &str, seed: u64) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let me = subject.client(&Identity::ROOT);
        let mut directory = b".".to_vec();
        if !subject.abilities().has(Ability::ReadOnly) {
            directory = format!("{name}.{}.{number}", std::process::id()).into_bytes();
            if !subject.make_directory(&directory)? {
                me.mkdir(&directory, 0o777)?;
            }
            me.chmod(&directory, 0o777)?;
        }
        me.chdir(&directory)?;
        Ok(Self { subject, directory, seed, me })
    }

    /// Another process of the same user as [`Scene::me`].
    pub fn another(&self) -> Result<Box<dyn Client>> {
        self.client(&Identity::ROOT)
    }

    /// A process of a user with a group of the same number and no other.
    pub fn user(&self, id: u32) -> Result<Box<dyn Client>> {
        self.client(&Identity::user(id))
    }

    /// A process of any identity, in the test's directory.
    pub fn client(&self, identity: &Identity) -> Result<Box<dyn Client>> {
        let client = self.subject.client(identity);
        client.chdir(&self.directory)?;
        Ok(client)
    }

    /// The subject.
    pub fn subject(&self) -> &dyn Subject {
        self.subject
    }

    /// Whether the subject has an ability that part of a test needs.
    pub fn can(&self, ability: Ability) -> bool {
        self.subject.abilities().has(ability)
    }

    /// Random numbers that the seed of the run determines.
    pub fn random(&self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed)
    }

    /// Random numbers of one of several threads.
    pub fn random_of(&self, thread: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed ^ (thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Removes the test's directory.
    pub(crate) fn clear(self) -> Outcome {
        if self.can(Ability::ReadOnly) {
            return Ok(());
        }
        // A new process: the test may have changed the working directory and umask of `me`.
        self.subject.client(&Identity::ROOT).remove_all(&self.directory)
    }
}
