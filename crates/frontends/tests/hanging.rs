//! Requests that hang delay only the notifications for what they hold: everything else expires in time.

mod support;

use plyfs_frontends::fuse::MountOptions;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};
use support::{memory, mount_with, until};
use vnode::layer::{Layer, LayerVnode, Operation, stack};
use vnode::{Caller, Creation, Name, Needs, Notifier, OpenFlags, Promises, Result};

/// A layer in which look-ups of a name, and reads of files with a mode, block until it is released.
#[derive(Clone, Default)]
struct Hanging {
    notifier: Arc<OnceLock<Arc<dyn Notifier>>>,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    is_unblocked: bool,
    hanging: usize,
}

const NAME: &[u8] = b"hangs";
const MODE: u32 = 0o604;

impl Hanging {
    fn count(&self) -> usize {
        self.state.0.lock().unwrap().hanging
    }

    fn unblock(&self) {
        self.state.0.lock().unwrap().is_unblocked = true;
        self.state.1.notify_all();
    }
}

impl Layer for Hanging {
    type State = ();

    fn kind(&self) -> &'static str {
        "hanging"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }

    fn needs(&self) -> Needs {
        Needs { every_data_operation: true, ..Needs::NONE }
    }

    fn set_notifier(&self, notifier: &Arc<dyn Notifier>) {
        let _ = self.notifier.set(Arc::clone(notifier));
    }

    fn admit(&self, node: &LayerVnode<Self>, _: &Caller, operation: &Operation<'_>) -> Result<()> {
        let hangs = match operation {
            Operation::Lookup(name) => name.as_bytes() == NAME,
            Operation::Read { .. } => node.forward_getattr(&Caller::server())?.mode & 0o777 == MODE,
            _ => false,
        };
        if hangs {
            let mut state = self.state.0.lock().unwrap();
            state.hanging += 1;
            drop(self.state.1.wait_while(state, |state| !state.is_unblocked).unwrap());
        }
        Ok(())
    }
}

#[test]
fn hung_request_does_not_block_other_expiries() {
    const HANGING: usize = 12;
    let (below, hanging) = (memory(), Hanging::default());
    // Names and attributes are kept without bound: nobody else is to change the files.
    let Some(mounted) = mount_with(stack(hanging.clone(), below.clone()), MountOptions::default()) else { return };
    let (theirs, ours): (Vec<_>, Vec<_>) =
        (0..HANGING).map(|number| (format!("theirs{number}"), format!("ours{number}"))).unzip();
    for directory in theirs.iter().chain(&ours) {
        fs::create_dir(mounted.path(directory)).unwrap();
        for name in ["gone", "data"] {
            fs::write(mounted.path(directory).join(name), b"old").unwrap();
        }
        fs::read(mounted.path(directory).join("data")).unwrap();
    }
    let mut hung = Vec::new();
    for directory in &theirs {
        let file = mounted.path(directory).join("data");
        fs::set_permissions(&file, fs::Permissions::from_mode(MODE)).unwrap();
        let opened = fs::File::open(&file).unwrap();
        rustix::fs::fadvise(&opened, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        hung.push(std::thread::spawn(move || drop(std::io::read_to_string(opened))));
        let looked = mounted.path(directory).join("hangs");
        hung.push(std::thread::spawn(move || drop(fs::metadata(looked))));
    }
    until(|| hanging.count() == 2 * HANGING, "all that is to hang does");

    let server = Caller::server();
    let at = |directory: &String| below.root().lookup(&server, Name::new(directory.as_bytes()).unwrap()).unwrap().vnode;
    for directory in theirs.iter().chain(&ours) {
        at(directory).unlink(&server, Name::new(b"gone").unwrap()).unwrap();
        let data = at(directory).lookup(&server, Name::new(b"data").unwrap()).unwrap().vnode;
        data.open(&server, OpenFlags::READ_WRITE).unwrap().write_at(&server, 0, b"new").unwrap();
    }
    for directory in &ours {
        assert!(fs::metadata(mounted.path(directory).join("gone")).is_ok(), "the kernel keeps no names");
    }
    let started = Instant::now();
    hanging.notifier.get().unwrap().everything_changed();
    for directory in &ours {
        until(|| fs::metadata(mounted.path(directory).join("gone")).is_err(), "a name expires");
        until(|| fs::read(mounted.path(directory).join("data")).unwrap() == b"new", "data expire");
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert!(!mounted.mount.wait_until_notified(Duration::ZERO), "what hangs has not been told");
    // Later changes are notified too.
    let how = Creation { mode: 0o644, flags: OpenFlags::READ_WRITE };
    at(&ours[0]).create(&server, Name::new(b"gone").unwrap(), &how).unwrap();
    hanging.notifier.get().unwrap().everything_changed();
    until(|| fs::metadata(mounted.path(&ours[0]).join("gone")).is_ok(), "a name comes");

    hanging.unblock();
    hung.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(mounted.mount.wait_until_notified(Duration::from_secs(10)));
    for directory in &theirs {
        assert!(fs::metadata(mounted.path(directory).join("gone")).is_err());
        assert_eq!(fs::read(mounted.path(directory).join("data")).unwrap(), b"new");
    }
}
