//! Declared promises and needs: what a stack makes of those of its members, and of a layer that declares nothing.

mod common;

use std::borrow::Cow;

use common::{create, layer, list, memory, name, root};
use vnode::layer::{Layer, LayerVnode, stack};
use vnode::{Caller, FileSystemRef, Name, Promises, Result};

/// Shows names in capitals, and declares nothing.
struct Silent;

impl Layer for Silent {
    type State = ();

    fn kind(&self) -> &'static str {
        "silent"
    }

    fn encode_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: Name<'a>) -> Result<Cow<'a, [u8]>> {
        Ok(name.as_bytes().to_ascii_lowercase().into())
    }

    fn decode_name<'a>(&self, _: &LayerVnode<Self>, _: &Caller, name: Name<'a>) -> Result<Option<Cow<'a, [u8]>>> {
        Ok(Some(name.as_bytes().to_ascii_uppercase().into()))
    }
}

/// Changes nothing, and declares it.
struct Transparent;

impl Layer for Transparent {
    type State = ();

    fn kind(&self) -> &'static str {
        "transparent"
    }

    fn promises(&self) -> Promises {
        Promises::TRANSPARENT
    }
}

fn promises(file_system: &FileSystemRef) -> Promises {
    file_system.properties().promises
}

#[test]
fn layer_that_declares_nothing_leaves_nothing_untouched() {
    let (lower, caller) = (memory(), root());
    let upper = stack(Silent, lower.clone());
    let declared = promises(&upper);
    assert!(!declared.data_untouched && !declared.names_untouched && !declared.attributes_untouched);
    assert!(!upper.properties().allows_bypass());
    assert_eq!(declared.access_control, promises(&lower).access_control);
    create(&upper.root(), &caller, "FILE", 0o644);
    assert!(lower.root().lookup(&caller, name("file")).is_ok());
    assert_eq!(list(&upper.root(), &caller), ["FILE"]);
}

#[test]
fn transparent_layer_declares_what_is_declared_below() {
    let lower = memory();
    let upper = stack(Transparent, lower.clone());
    assert_eq!(upper.properties(), lower.properties());
    assert!(upper.properties().allows_bypass());
}

#[test]
fn stack_keeps_common_promises_and_has_all_needs() {
    let names = layer("longnames", &[], memory());
    let both = layer("readonly", &[], layer("faulty", &[], names));
    assert!(!promises(&both).names_untouched && promises(&both).data_untouched);
    let needs = both.properties().needs;
    assert!(needs.read_only && needs.every_data_operation && needs.access_times && !needs.every_lookup);
}
