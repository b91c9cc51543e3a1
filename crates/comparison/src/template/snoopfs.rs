//! Snoopfs tells of users who try to reach files of others.

use vnode::layer::{Layer, LayerVnode};
use vnode::{AccessControl, Caller, Entry, Errno, Name, Needs, Promises, Result};

/// Tells of look-ups that failed.
pub struct Snoopfs {
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl Snoopfs {
    /// The layer that tells in this way, a line at a time.
    pub fn new(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Snoopfs { tell: Box::new(tell) }
    }
}

impl Layer for Snoopfs {
    type State = ();

    fn kind(&self) -> &'static str {
        "snoopfs"
    }

    fn promises(&self) -> Promises {
        Promises { access_control: AccessControl::OpenAsShown, ..Promises::TRANSPARENT }
    }

    fn needs(&self) -> Needs {
        Needs { every_lookup: true, failed_lookups: true, ..Needs::NONE }
    }

    fn lookup(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        let found = node.forward_lookup(caller, name);
        if matches!(found, Err(Errno::EACCES | Errno::EPERM | Errno::ENOENT)) && caller.uid != 0 {
            let there = node.lower().lookup(&Caller::server(), name);
            if there.is_ok_and(|there| there.attributes.uid == caller.uid) {
                return found;
            }
            let Caller { uid, pid, .. } = caller;
            (self.tell)(&format!("snoopfs detected access by uid {uid},pid {pid}, to file {}", name.display()));
        }
        found
    }
}
