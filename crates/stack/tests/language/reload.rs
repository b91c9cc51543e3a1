//! Data of a mount that stay when another description takes over.

use std::ops::ControlFlow;

use vnode::{Caller, Cookie, Errno};

use super::{Described, TIERS, described};

/// What the fields and the data are, as the error of making a directory.
fn sum(mount: &Described) -> i32 {
    mount.mkdir("new").expect_err("the rule refuses it").number()
}

#[test]
fn what_the_old_description_still_writes_is_seen_by_the_new_one() {
    let counting = "per_vfs { long listed; };\n%%\n%op:readdir:precall { $vfs.listed++; listed[0] += 10; }\n\
        %op:mkdir:precall { fistRetErr(100); }\n%%\nstatic int listed[1];\n";
    let telling = "per_vfs { long listed; };\n%%\n%op:mkdir:precall { listed[0]++; fistRetErr(100 + $vfs.listed + listed[0]); }\n\
        %%\nstatic int listed[1];\n";
    for tier in TIERS {
        let mount = described("counts", counting, &[("tier", tier)]);
        // Whoever has opened the directory reads it as the old description says.
        let opened = mount.root().open_directory(&Caller::server()).unwrap();
        mount.reload(telling).unwrap();
        assert_eq!(sum(&mount), 101, "{tier}");
        opened.read(&Caller::server(), Cookie::START, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(sum(&mount), 113, "{tier}");
    }
}

#[test]
fn fields_that_both_layouts_have_keep_their_values() {
    let before = "per_vfs { int count; char key[3]; int other; };\n%%\n\
        %op:mkdir:precall { $vfs.count = 5; $vfs.key[1] = 7; $vfs.other = 9; fistRetErr(EPERM); }\n";
    let after = "per_vfs { long first; char key[3]; int count; char other; };\n%%\n\
        %op:mkdir:precall { fistRetErr(100 + $vfs.first + $vfs.count + 10 * $vfs.key[1] + $vfs.other); }\n";
    let mount = described("counts", before, &[]);
    assert_eq!(mount.mkdir("new"), Err(Errno::EPERM));
    mount.reload(after).unwrap();
    // `other` is of another type, and begins with zero.
    assert_eq!(sum(&mount), 175);
}
