//! What the man pages say besides what clap and the layers know: the contents of `pages.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// What is said of a page.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Page {
    /// Pages to which it refers besides those that follow from what it is about, such as `plyfs(1)`.
    pub(crate) related: Vec<String>,
    /// Purposes, and the lines that serve each.
    pub(crate) examples: Vec<(String, String)>,
}

static PAGES: LazyLock<BTreeMap<String, Page>> =
    LazyLock::new(|| toml::from_str(include_str!("pages.toml")).expect("the file is well-formed, as tests see"));
static NOTHING: Page = Page { related: Vec::new(), examples: Vec::new() };

/// Returns what is said of a page, such as `plyfs(1)`.
pub(crate) fn of(page: &str) -> &'static Page {
    PAGES.get(page).unwrap_or(&NOTHING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;
    use plyfs_cli::{Registry, command_line};

    #[test]
    fn commands_in_examples_are_valid() {
        let command = command_line::command(&Registry::default());
        let lines = PAGES.values().flat_map(|page| &page.examples).flat_map(|(_, lines)| lines.lines());
        let mut number = 0;
        for line in lines.filter(|line| line.starts_with("plyfs ")) {
            // A redirection is the shell's.
            let line = line.split(" >").next().unwrap_or(line);
            let parsed = command.clone().try_get_matches_from(shlex::split(line).unwrap());
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            number += 1;
        }
        assert!(number > 50, "{number}");
    }

    #[test]
    fn every_command_layer_and_base_has_an_example() {
        fn check(command: &Command, name: &str) {
            for below in command.get_subcommands() {
                check(below, &format!("{name}-{}", below.get_name()));
            }
            // Those of the FAT tools that a page of the documentation shows are not repeated, nor is the language server, which
            // editors start.
            let is_left_out = ["badsect", "dump", "tune", "label", "lsp"].contains(&command.get_name());
            assert!(command.has_subcommands() || is_left_out || has_example(&format!("{name}(1)")), "{name}");
        }
        fn has_example(page: &str) -> bool {
            !of(page).examples.is_empty()
        }
        let registry = Registry::default();
        check(&command_line::command(&registry), "plyfs");
        assert!(registry.layers().iter().all(|kind| has_example(&format!("plyfs-layer-{}(7)", kind.name))));
        assert!(registry.bases().iter().all(|kind| has_example(&format!("plyfs-base-{}(7)", kind.name))));
    }

    #[test]
    fn everything_said_of_a_page_is_written() {
        let directory = tempfile::tempdir().unwrap();
        super::super::write_into(directory.path()).unwrap();
        let is_written = |name: &str| directory.path().join(name.replace('(', ".").trim_end_matches(')')).exists();
        let lost: Vec<_> = PAGES.keys().filter(|name| !is_written(name)).collect();
        assert!(lost.is_empty(), "{lost:?}");
    }
}
