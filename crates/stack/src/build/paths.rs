//! Makes the paths of an expression absolute.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use layers::OptionSpecification;

use super::patterns::is_pattern;
use crate::kinds::{self, BaseKind};
use crate::registry::Registry;
use crate::syntax::{Argument, Base, BranchTree, Layer, LayerName, Spanned, Stack};

impl Registry {
    /// Makes every path in the expression absolute, relative to `directory`: a server leaves the directory in which it was
    /// started. The name of a FiST program on the search path becomes its path, since a server may have another environment.
    pub fn make_absolute(&self, stack: &mut Stack, directory: &Path) {
        for branch in &mut stack.source {
            match &mut branch.value.tree {
                BranchTree::Stack(inner) => self.make_absolute(inner, directory),
                BranchTree::Base(base) => self.make_base_absolute(base, directory),
            }
        }
        self.make_layers_absolute(&mut stack.layers, directory);
    }

    /// Makes the location of a base absolute if it is a path, and values of options that are files.
    fn make_base_absolute(&self, base: &mut Base, directory: &Path) {
        let kind = base.kind.as_ref().map(|kind| kind.value.as_str());
        let has_path = self.base(kind.unwrap_or(kinds::DIRECTORY)).is_some_and(|kind| kind.location_is_path);
        if has_path && !base.location.value.is_empty() {
            // Without a slash at the end: branches are named by their paths.
            let without_slash = |path: PathBuf| path.components().collect::<PathBuf>();
            let path = without_slash(directory.join(&base.location.value));
            let is_relative_pattern =
                kind.is_none() && Path::new(&base.location.value).is_relative() && is_pattern(&path);
            base.location.value = match directory.to_str().filter(|_| is_relative_pattern) {
                // Only what was written is a pattern.
                Some(literal) => without_slash(Path::new(&globset::escape(literal)).join(&base.location.value)),
                None => path,
            }
            .into_os_string();
        }
        // A plain path may turn out to be a directory, or of each kind that recognises contents.
        let is_plain = |other: &BaseKind| other.name == kinds::DIRECTORY || other.probe.is_some();
        let may_be = |other: &BaseKind| kind.map_or(is_plain(other), |name| other.name == name);
        for other in self.bases().iter().filter(|other| may_be(other)) {
            make_options_absolute(&mut base.arguments, other.options, directory);
        }
    }

    /// Makes every path in the layers absolute: those of FiST programs, and values of options that are files. The name of a program on
    /// the search path becomes its path.
    pub fn make_layers_absolute(&self, layers: &mut [Spanned<Layer>], directory: &Path) {
        for layer in layers {
            if let Some(path) = self.program_path(&layer.value).map(|path| directory.join(path)) {
                layer.value.name.value = LayerName::Description(path);
            } else if let LayerName::Name(name) = &layer.value.name.value
                && let Some(kind) = self.layer(name)
            {
                make_options_absolute(&mut layer.value.arguments, kind.options, directory);
            }
        }
    }
}

/// Makes values absolute that are paths.
fn make_options_absolute(arguments: &mut [Argument], options: &[OptionSpecification], directory: &Path) {
    for argument in arguments {
        let option = options.iter().find(|option| option.key == argument.key.value);
        if option.is_some_and(|option| is_path(option.value, &argument.value.value)) {
            argument.value.value = directory.join(&argument.value.value).into_os_string();
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
