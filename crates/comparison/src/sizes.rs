//! The sizes of the samples, each written in three ways.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::lines::{Language, count};

/// The samples, in the table's order.
pub const SAMPLES: [&str; 15] = [
    "snoopfs",
    "cryptfs",
    "aclfs",
    "unionfs",
    "rot13fs",
    "lb2fs",
    "trashfs",
    "keepfs",
    "quotafs",
    "hidefs",
    "versionfs",
    "zstdfs",
    "uuencodefs",
    "sealfs",
    "usenetfs",
];

/// Lines of one sample, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The description's.
    pub description: Option<usize>,
    /// On the layer template.
    pub template: Option<Size>,
    /// From scratch.
    pub scratch: Option<Size>,
}

/// Lines of one sample in Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// In its own files.
    pub own: usize,
    /// In files that serve several samples, of which it needs these.
    pub shared: usize,
}

/// The three ways in which samples are written.
pub struct Ways {
    descriptions: PathBuf,
    template: Modules,
    scratch: Modules,
}

impl Ways {
    /// Those of the crate in this directory.
    pub fn new(root: &Path) -> Self {
        Ways {
            descriptions: root.join("../../examples/fist"),
            template: Modules::read(&root.join("src/template")),
            scratch: Modules::read(&root.join("src/scratch")),
        }
    }

    /// The sizes of a sample.
    pub fn sizes(&self, sample: &str) -> Sizes {
        let description = fs::read_to_string(self.descriptions.join(sample).with_extension("fist")).ok();
        Sizes {
            description: description.map(|text| count(&text, Language::Fist)),
            template: self.template.size([sample]),
            scratch: self.scratch.size([sample]),
        }
    }

    /// The sizes of all together, shared files counted once; nothing for a way that lacks one.
    pub fn total(&self) -> Sizes {
        let descriptions = SAMPLES.map(|sample| self.sizes(sample).description);
        Sizes {
            description: descriptions.into_iter().sum(),
            template: self.template.size(SAMPLES),
            scratch: self.scratch.size(SAMPLES),
        }
    }
}

/// The modules of a directory, each a file or a directory itself: the texts of its files.
struct Modules(BTreeMap<String, Vec<String>>);

impl Modules {
    /// Reads the modules that are there.
    fn read(directory: &Path) -> Self {
        let named = |path: &PathBuf| Some(path.file_stem()?.to_str()?.to_owned()).filter(|name| name != "mod");
        let paths = entries(directory);
        Modules(paths.iter().filter_map(|path| Some((named(path)?, texts(path)))).collect())
    }

    /// The lines of some samples; `None` if one is not there.
    fn size<const COUNT: usize>(&self, samples: [&str; COUNT]) -> Option<Size> {
        let (mut own, mut needed) = (0, BTreeSet::new());
        for sample in samples {
            own += self.lines(self.0.get_key_value(sample)?.0);
            self.need(sample, &mut needed);
        }
        Some(Size { own, shared: needed.into_iter().map(|name| self.lines(name)).sum() })
    }

    fn lines(&self, name: &str) -> usize {
        self.0[name].iter().map(|text| count(text, Language::Rust)).sum()
    }

    /// Adds the shared modules that a module names, and those that they name.
    fn need<'a>(&'a self, name: &str, needed: &mut BTreeSet<&'a str>) {
        for shared in self.0.keys().filter(|shared| !SAMPLES.contains(&shared.as_str()) && *shared != name) {
            if self.0[name].iter().any(|text| names(text, shared)) && needed.insert(shared) {
                self.need(shared, needed);
            }
        }
    }
}

/// Whether a text has a path through a module of this name.
fn names(text: &str, module: &str) -> bool {
    let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.match_indices(module).map(move |(at, _)| (line, at))).any(|(line, at)| {
        let before = line[..at].bytes().next_back();
        !before.is_some_and(is_of_word) && line[at + module.len()..].starts_with("::")
    })
}

/// The paths in a directory; none if it is not there.
fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// The texts of a file, or of all files in a directory.
fn texts(path: &Path) -> Vec<String> {
    match fs::read_to_string(path) {
        Ok(text) => vec![text],
        Err(_) => entries(path).iter().flat_map(|path| texts(path)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_modules_count_with_those_that_name_them() {
        let module = |name: &str, text: &str| (name.to_owned(), vec![text.to_owned()]);
        let modules = Modules(BTreeMap::from([
            module("trashfs", "use super::filter::Filter;\nfn a() {}\n"),
            module("filter", "//! About `other::x`.\nuse super::base::Base;\n"),
            module("base", "fn b() {}\nfn c() {}\nfn d() {}\n"),
            module("other", "fn e() {}\n"),
        ]));
        assert_eq!(modules.size(["trashfs"]), Some(Size { own: 2, shared: 4 }));
        assert_eq!(modules.size(["keepfs"]), None);
    }

    #[test]
    fn a_module_is_named_as_a_whole_word() {
        assert!(names("use super::{copy::copy, x};", "copy"));
        assert!(!names("let copy = recopy::new(); // copy::x", "co") && !names("recopy::new()", "copy"));
    }
}
