//! Memory of the state that layers keep: it goes with the vnodes. By itself in its process, which it measures.

mod common;

use common::{create, memory, name, root};
use vnode::Promises;
use vnode::layer::{Layer, stack};

/// Bytes of state for each vnode.
const STATE_SIZE: usize = 16 << 10;

/// Keeps much for each vnode.
struct Large;

struct State {
    _bytes: [u8; STATE_SIZE],
}

impl Default for State {
    fn default() -> Self {
        Self { _bytes: [1; STATE_SIZE] }
    }
}

impl Layer for Large {
    type State = State;

    fn kind(&self) -> &'static str {
        "large"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }
}

/// The resident memory of this process in bytes; `None` where /proc is not there.
fn resident() -> Option<u64> {
    procfs::Process::Own.status().ok()??.resident_bytes()
}

#[test]
fn state_of_vnodes_that_nobody_holds_takes_no_memory() {
    const OBJECTS: usize = 8_000;
    let Some(before) = resident() else { return println!("skipped: no /proc") };
    let directory = stack(Large, memory()).root();
    for _ in 0..OBJECTS {
        create(&directory, &root(), "file", 0o644);
        directory.unlink(&root(), name("file")).unwrap();
    }
    let grown = resident().unwrap().saturating_sub(before);
    assert!(grown < (OBJECTS * STATE_SIZE / 4) as u64, "{} MiB remain", grown >> 20);
}
