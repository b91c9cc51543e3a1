//! The caller that a program is by itself. The only test of its program: it sets the umask, which all threads share.

use rustix::fs::Mode;
use rustix::process::{getegid, geteuid, umask};

#[test]
fn own_caller_has_the_umask_of_the_process_which_stays() {
    let set = Mode::from_raw_mode(0o037);
    umask(set);
    let caller = plyfs::own_caller();
    assert_eq!((caller.umask, caller.uid, caller.gid), (0o037, geteuid().as_raw(), getegid().as_raw()));
    assert_eq!(umask(set), set, "it was not set to be read");
}
