//! Layers admit whom they declare to admit, and one that does not is found.

mod common;

use common::{layer, memory};
use conformance::check_access_control;
use vnode::layer::{Layer, LayerVnode, Operation, stack};
use vnode::{AccessControl, Attributes, Caller, Entry, Errno, FileSystemRef, Name, OpenFlags, Promises, Result};

fn declared(file_system: &FileSystemRef) -> AccessControl {
    file_system.properties().promises.access_control
}

#[test]
fn layers_admit_whom_they_declare_to_admit() {
    use AccessControl::{AsShown, NotShown, OpenAsShown};
    let log = tempfile::NamedTempFile::new().unwrap();
    let to = ("to", log.path().to_str().unwrap());
    for (kind, options, access_control) in [
        ("audit", vec![to, ("operations", "mkdir"), ("result", "ok")], AsShown),
        ("audit", vec![to], OpenAsShown),
        ("audit", vec![to, ("refuse-setuid", "yes")], OpenAsShown),
        ("map", vec![("hide", "*.hidden")], AsShown),
        ("map", vec![("user-map", "70000/70001")], AsShown),
        ("map", vec![("perms", "go-w")], AsShown),
        ("map", vec![("deny", "unlink:rename:symlink")], AsShown),
        ("map", vec![("deny", "lookup")], NotShown),
        ("map", vec![("deny", "access")], OpenAsShown),
        ("map", vec![("squash", "root"), ("squash-user", "1002")], OpenAsShown),
        ("map", vec![("mirror", "1002")], NotShown),
        ("map", vec![("mirror-only", "1002")], NotShown),
        ("map", vec![("ctime-from-mtime", "yes"), ("hide-hard-links", "yes")], AsShown),
        ("throttle", vec![("read", "1g")], AsShown),
        ("longnames", vec![], AsShown),
        ("rot13", vec![], AsShown),
    ] {
        let file_system = layer(kind, &options, memory());
        assert_eq!(declared(&file_system), access_control, "{kind} {options:?}");
        check_access_control(&*file_system).unwrap_or_else(|failure| panic!("{kind} {options:?}: {failure}"));
    }
}

/// A layer that does not do as it declares, in one way or another.
#[derive(Clone, Copy, Debug)]
enum Lie {
    GrantsSearch,
    GrantsReading,
    ShowsOtherModes,
    RefusesOneUserToSearch,
    RefusesOneUserToOpen,
    RefusesAllToSearch,
}

struct Liar(Lie, AccessControl);

impl Layer for Liar {
    type State = ();

    fn kind(&self) -> &'static str {
        "liar"
    }

    fn promises(&self) -> Promises {
        Promises { access_control: self.1, ..Promises::TRANSPARENT }
    }

    fn admit(&self, _: &LayerVnode<Self>, caller: &Caller, operation: &Operation<'_>) -> Result<()> {
        let is_refused = match (self.0, operation) {
            (Lie::RefusesOneUserToSearch, Operation::Lookup(_)) => caller.uid == 1002,
            (Lie::RefusesOneUserToOpen, Operation::Open(_)) => caller.uid == 1002,
            (Lie::RefusesAllToSearch, Operation::Lookup(_)) => !caller.server,
            _ => false,
        };
        if is_refused { Err(Errno::EACCES) } else { Ok(()) }
    }

    fn map_attributes(&self, _: &Caller, attributes: &mut Attributes) {
        if matches!(self.0, Lie::ShowsOtherModes) {
            attributes.mode |= 0o111;
        }
    }

    fn lookup(&self, node: &LayerVnode<Self>, caller: &Caller, name: Name<'_>) -> Result<Entry> {
        match self.0 {
            Lie::GrantsSearch => node.forward_lookup(&Caller::server(), name),
            _ => node.forward_lookup(caller, name),
        }
    }

    fn open(&self, node: &LayerVnode<Self>, caller: &Caller, flags: OpenFlags) -> Result<vnode::OpenFileRef> {
        match self.0 {
            Lie::GrantsReading if !flags.writes() => node.forward_open(&Caller::server(), flags),
            _ => node.forward_open(caller, flags),
        }
    }
}

#[test]
fn a_layer_that_does_not_do_as_it_declares_is_found() {
    use AccessControl::{AsShown, NotShown, OpenAsShown};
    let said = |lie, access_control| {
        let file_system: FileSystemRef = stack(Liar(lie, access_control), memory());
        check_access_control(&*file_system).map_err(|failure| failure.to_string())
    };
    for (lie, expected, truth) in [
        (Lie::GrantsSearch, "LookUp(\"there\") is admitted", OpenAsShown),
        (Lie::GrantsReading, "Open", OpenAsShown),
        (Lie::ShowsOtherModes, "is refused", NotShown),
        (Lie::RefusesOneUserToSearch, "LookUp(\"there\") is refused", NotShown),
        (Lie::RefusesOneUserToOpen, "Open", OpenAsShown),
        (Lie::RefusesAllToSearch, "LookUp(\"there\") is refused", NotShown),
    ] {
        let failure = said(lie, AsShown).expect_err(&format!("{lie:?} as shown"));
        assert!(failure.contains(expected), "{lie:?}: {failure}");
        assert_eq!(said(lie, truth), Ok(()), "{lie:?}");
        if truth == NotShown {
            let failure = said(lie, OpenAsShown).expect_err(&format!("{lie:?}, open as shown"));
            assert!(failure.contains("is refused where everybody may search"), "{lie:?}: {failure}");
        }
    }
}
