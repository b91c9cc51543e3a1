//! A layer on a file system, as a file system.

use std::borrow::Cow;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::block_map::file::promise;
use super::block_map::losses::Losses;
use super::path;
use super::template::{Layer, LayerVnode, Mount, declared};
use crate::profile::enter_with;
use crate::{
    Caller, Claim, Control, ControlError, Description, Errno, FileSystem, FileSystemRef, Handle, KeptAccessTimes,
    KeyedLocks, LiveTable, Name, Notifier, Notifiers, Properties, Result, VnodeRef,
};

/// Puts a layer on a file system.
pub fn stack<L: Layer>(layer: L, lower: FileSystemRef) -> FileSystemRef {
    let notifiers = Arc::new(Notifiers::default());
    layer.set_notifier(&(Arc::clone(&notifiers) as Arc<dyn Notifier>));
    Arc::new(LayerFileSystem(Arc::new(Mount {
        layer,
        lower,
        vnodes: LiveTable::default(),
        data_locks: KeyedLocks::default(),
        sync_locks: KeyedLocks::default(),
        losses: Losses::default(),
        name_locks: KeyedLocks::default(),
        reported: Mutex::default(),
        notifiers,
        translator: OnceLock::new(),
    })))
}

/// A layer on a file system.
pub struct LayerFileSystem<L: Layer>(Arc<Mount<L>>);

impl<L: Layer> Mount<L> {
    /// Returns this layer's vnode over `lower`: the live one if it has state and one exists.
    pub(crate) fn wrap(self: &Arc<Self>, lower: VnodeRef) -> Arc<LayerVnode<L>> {
        if !self.shares_vnodes() {
            return LayerVnode::new(Arc::clone(self), lower);
        }
        self.vnodes.find_or_insert(&lower.handle(), || LayerVnode::new(Arc::clone(self), Arc::clone(&lower)))
    }

    /// Returns whether all references to a vnode have to see the same state.
    fn shares_vnodes(&self) -> bool {
        self.layer.keeps_state() || self.layer.block_map().is_some()
    }

    /// Forgets a vnode that is being dropped.
    pub(crate) fn forget(&self, lower: &VnodeRef) {
        if self.shares_vnodes() {
            self.vnodes.forget(&lower.handle());
        }
    }
}

impl<L: Layer> LayerFileSystem<L> {
    /// Has the data of all objects in encoded files become stable with the next sync of the file system below.
    fn promise_all(&self) {
        if self.0.layer.block_map().is_some() {
            self.0.vnodes.all().iter().for_each(|node| promise(node));
        }
    }
}

impl<L: Layer> FileSystem for LayerFileSystem<L> {
    fn root(&self) -> VnodeRef {
        self.0.wrap(self.0.lower.root())
    }

    fn resolve(&self, caller: &Caller, handle: &Handle) -> Result<VnodeRef> {
        let Mount { layer, lower, .. } = &*self.0;
        let lower_caller = match layer.map_caller(caller) {
            // The layer checks the operations by itself, but not what is hidden below.
            mapped if mapped.is_server_alone() && !caller.is_server_alone() => Cow::Owned(Caller::server_for(caller)),
            mapped => mapped,
        };
        let node = self.0.wrap(lower.resolve(&lower_caller, handle)?);
        let _working = enter_with(|| layer.kind());
        let admitted = match path::check_not_own(&node) {
            // The server needs what it has recorded, whatever is shown, and where the file system below has forgotten the names.
            Ok(()) | Err(Errno::EOPNOTSUPP) if caller.is_server_alone() => Ok(()),
            checked => checked.and_then(|()| layer.admit_handle(&node, caller)),
        };
        match admitted {
            Ok(()) => Ok(node),
            Err(Errno::ENOENT | Errno::EOPNOTSUPP) => Err(Errno::ESTALE),
            Err(error) => Err(error),
        }
    }

    fn sync(&self) -> Result<()> {
        self.promise_all();
        self.0.lower.sync()
    }

    fn end_of_use(&self) -> Result<()> {
        self.promise_all();
        self.0.lower.end_of_use()
    }

    fn fsid(&self) -> Option<u64> {
        self.0.lower.fsid()
    }

    fn claim(&self) -> Result<Claim> {
        self.0.lower.claim()
    }

    fn properties(&self) -> Properties {
        declared(&self.0.layer).stacked_on(self.0.lower.properties())
    }

    fn describe(&self) -> Vec<Description> {
        let mut members = self.0.lower.describe();
        members.extend(self.0.layer.describe());
        members
    }

    fn control(&self, command: &Control) -> std::result::Result<String, ControlError> {
        if self.0.layer.answers_to(&command.target) {
            self.0.layer.control(command)
        } else {
            self.0.lower.control(command)
        }
    }

    fn set_mount_point(&self, directory: BorrowedFd<'_>) {
        self.0.lower.set_mount_point(directory);
    }

    fn keep_access_times(&self, kept: KeptAccessTimes) {
        self.0.lower.keep_access_times(kept);
    }

    fn add_notifier(&self, notifier: &Arc<dyn Notifier>) {
        let Mount { layer, lower, notifiers, translator, .. } = &*self.0;
        notifiers.add(notifier);
        let Properties { promises, .. } = declared(layer);
        lower.add_notifier(translator.get_or_init(|| {
            if promises.names_untouched && promises.data_untouched {
                Arc::clone(notifiers) as Arc<dyn Notifier>
            } else {
                Arc::new(Translator { mount: Arc::downgrade(&self.0), upper: Arc::clone(notifiers) })
            }
        }));
    }
}

/// Passes notifications of the lower file system up in this layer's names and offsets.
struct Translator<L: Layer> {
    mount: Weak<Mount<L>>,
    upper: Arc<Notifiers>,
}

impl<L: Layer> Notifier for Translator<L> {
    fn write_back(&self) -> bool {
        self.upper.write_back()
    }

    fn attributes_changed(&self, handle: &Handle) {
        self.upper.attributes_changed(handle);
    }

    fn data_changed(&self, handle: &Handle, _offset: u64, _length: u64) {
        self.upper.data_changed(handle, 0, u64::MAX);
    }

    fn entry_changed(&self, directory: &Handle, name: Name<'_>) {
        let Some(mount) = self.mount.upgrade() else { return };
        let server = Caller::shared_server();
        let changed = mount.lower.resolve(server, directory).and_then(|lower| {
            let upper = mount.layer.upper_directory(server, &lower)?.unwrap_or(lower);
            let node = mount.wrap(upper);
            let name = node.try_decode(server, name)?.map(|name| name.as_name().to_owned());
            Ok(name.map(|name| (node.lower.handle(), name)))
        });
        match changed {
            Ok(Some((directory, name))) => self.upper.entry_changed(&directory, name.as_name()),
            Ok(None) => {}
            Err(_) => self.upper.everything_changed(),
        }
    }

    fn everything_changed(&self) {
        self.upper.everything_changed();
    }
}
