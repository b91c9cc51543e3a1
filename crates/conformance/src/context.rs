//! The environment of one running test: its directory, its clients, its seed.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::subject::Result;
use crate::{Ability, Client, Identity, Outcome, Subject};

/// The environment of a test.
pub struct TestContext<'a> {
    subject: &'a dyn Subject,
    directory: Vec<u8>,
    seed: u64,
    /// The client through which most tests act: root, or the user who runs the tests. Its working directory is the test's own,
    /// which everybody may write to.
    pub me: Box<dyn Client>,
}

impl<'a> TestContext<'a> {
    /// Creates a new directory for a test, or uses the root of a read-only subject.
    pub(crate) fn new(subject: &'a dyn Subject, name: &str, seed: u64) -> Result<Self> {
        static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
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

    /// Returns another process of the same user as [`TestContext::me`].
    pub fn another(&self) -> Result<Box<dyn Client>> {
        self.client(&Identity::ROOT)
    }

    /// Returns a process of a user whose only group has the same number.
    pub fn user(&self, id: u32) -> Result<Box<dyn Client>> {
        self.client(&Identity::user(id))
    }

    /// Returns a process of any identity, in the test's directory.
    pub fn client(&self, identity: &Identity) -> Result<Box<dyn Client>> {
        let client = self.subject.client(identity);
        client.chdir(&self.directory)?;
        Ok(client)
    }

    /// Returns the subject.
    pub fn subject(&self) -> &dyn Subject {
        self.subject
    }

    /// Returns whether the subject has an ability that part of a test needs.
    pub fn can(&self, ability: Ability) -> bool {
        self.subject.abilities().has(ability)
    }

    /// Returns a random-number generator determined by the seed of the run.
    pub fn random(&self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed)
    }

    /// Returns bytes that no layer stores in fewer.
    pub fn noise(&self, length: usize, part: u64) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.random_of(part).fill(&mut bytes);
        bytes
    }

    /// Returns the random-number generator of one of several threads.
    pub fn random_of(&self, thread: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed ^ (thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Removes the test's directory.
    pub(crate) fn clear(self) -> Outcome {
        if self.can(Ability::ReadOnly) {
            return Ok(());
        }
        // A new process, since the test may have changed the working directory and umask of `me`.
        self.subject.client(&Identity::ROOT).remove_all(&self.directory)
    }
}
