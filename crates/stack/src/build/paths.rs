//! Makes the paths of an expression absolute.

use std::ffi::OsStr;
use std::path::Path;

use crate::kinds;
use crate::registry::Registry;
use crate::syntax::{BranchTree, Layer, LayerName, Spanned, Stack};

impl Registry {
    /// Makes every path in the expression absolute, relative to `directory`: a server leaves the directory in which it was
    /// started.
    pub fn make_absolute(&self, stack: &mut Stack, directory: &Path) {
        for branch in &mut stack.source {
            match &mut branch.value.tree {
                BranchTree::Stack(inner) => self.make_absolute(inner, directory),
                BranchTree::Base(base) => {
                    let kind = base.kind.as_ref().map_or(kinds::DIRECTORY, |kind| &kind.value);
                    if self.base(kind).is_some_and(|kind| kind.location_is_path) && !base.location.value.is_empty() {
                        base.location.value = directory.join(&base.location.value).into_os_string();
                    }
                }
            }
        }
        self.make_layers_absolute(&mut stack.layers, directory);
    }

    /// Makes every path in the layers absolute: those of FiST programs, and values of options that are files.
    pub fn make_layers_absolute(&self, layers: &mut [Spanned<Layer>], directory: &Path) {
        for layer in layers {
            let kind = match &mut layer.value.name.value {
                LayerName::Description(path) => {
                    *path = directory.join(&path);
                    continue;
                }
                LayerName::Name(name) => self.layer(name),
            };
            for argument in &mut layer.value.arguments {
                let option = kind.and_then(|kind| kind.options.iter().find(|option| option.key == argument.key.value));
                if option.is_some_and(|option| is_path(option.value, &argument.value.value)) {
                    argument.value.value = directory.join(&argument.value.value).into_os_string();
                }
            }
        }
    }
}

/// Returns whether the value of an option with this form, such as `FILE|stderr`, is a path rather than one of the
/// words.
fn is_path(form: &str, value: &OsStr) -> bool {
    let mut alternatives = form.split('|');
    !value.is_empty()
        && alternatives.clone().any(|word| matches!(word, "FILE" | "PATH" | "DIRECTORY"))
        && !alternatives.any(|word| OsStr::new(word) == value)
}
