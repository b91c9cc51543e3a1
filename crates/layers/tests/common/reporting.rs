//! A file system that reports changes when a test has it do so, and a receiver that notes what it is told.

use std::sync::{Arc, Mutex};

use vnode::{
    Caller, Description, FileSystem, FileSystemRef, Handle, Name, Notifier, Notifiers, Properties, Result, VnodeRef,
};

use super::memory;

/// A file system in memory that tells its receivers of changes.
pub(crate) struct Reporting {
    file_system: FileSystemRef,
    pub notifiers: Notifiers,
}

impl Reporting {
    /// An empty one.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { file_system: memory(), notifiers: Notifiers::default() })
    }
}

impl FileSystem for Reporting {
    fn root(&self) -> VnodeRef {
        self.file_system.root()
    }

    fn resolve(&self, caller: &Caller, handle: &Handle) -> Result<VnodeRef> {
        self.file_system.resolve(caller, handle)
    }

    fn properties(&self) -> Properties {
        self.file_system.properties()
    }

    fn describe(&self) -> Vec<Description> {
        self.file_system.describe()
    }

    fn add_notifier(&self, notifier: &Arc<dyn Notifier>) {
        self.notifiers.add(notifier);
    }
}

/// What a notifier was told, as text.
#[derive(Default)]
pub(crate) struct Notes(Mutex<Vec<String>>);

impl Notes {
    /// A new receiver of a file system's notifications.
    pub(crate) fn of(file_system: &FileSystemRef) -> Arc<Self> {
        let notes = Arc::new(Self::default());
        file_system.add_notifier(&(Arc::clone(&notes) as Arc<dyn Notifier>));
        notes
    }

    fn add(&self, note: String) {
        self.0.lock().unwrap().push(note);
    }

    /// What it was told since the last call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Notifier for Notes {
    fn attributes_changed(&self, _: &Handle) {
        self.add("attributes".to_owned());
    }

    fn data_changed(&self, _: &Handle, offset: u64, length: u64) {
        self.add(format!("data {offset} {length}"));
    }

    fn entry_changed(&self, _: &Handle, name: Name<'_>) {
        self.add(format!("entry {}", name.display()));
    }

    fn everything_changed(&self) {
        self.add("everything".to_owned());
    }
}
