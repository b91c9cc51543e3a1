//! The named tests of read-only file systems over an image of the tree that they expect.

use std::sync::Arc;

use ::conformance::{Abilities, Ability, Mounted, Tree};

use crate::image::{Workshop, open};
use crate::tools::xorriso;

#[test]
fn an_image_conforms() {
    let workshop = Workshop::new();
    let source = Mounted::new(&workshop.source()).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let abilities = Abilities::complete().without(Ability::ExtendedAttributes).without(Ability::Users);
    ::conformance::prepare(&source.limited_to(abilities)).unwrap();
    xorriso(&["-R"], &workshop.path("image"), &workshop.source());
    let abilities = abilities.without(Ability::Write).without(Ability::Kernel).without(Ability::Map);
    // Locks are left to front ends.
    let abilities = abilities.without(Ability::RangeLocks).without(Ability::FileLocks).with(Ability::ReadOnly);
    let abilities = if is_root { abilities.with(Ability::Users) } else { abilities };
    let subject = Tree::new(Arc::new(open(&workshop.path("image"), ""))).titled("iso").limited_to(abilities);
    let report = ::conformance::run(&subject, |_| true);
    println!("{report}");
    assert!(report.failures.is_empty(), "{report}");
    assert!(report.passed >= 17, "{report}");
}
