//! The page about the tools: its examples run, and it has every option.

use std::process::Command;

use crate::images::fat;
use crate::support::Scratch;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fat-tools.md"));

#[test]
fn examples_succeed_in_their_order() {
    let scratch = Scratch::new();
    let blocks = PAGE.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let lines: Vec<&str> = blocks.flat_map(str::lines).collect();
    assert!(lines.len() > 4 && lines.iter().all(|line| line.starts_with("plyfs fat ")), "{lines:?}");
    for line in lines {
        let line = line.replacen("plyfs", env!("CARGO_BIN_EXE_plyfs"), 1);
        let ran = Command::new("sh").args(["-ec", &line]).current_dir(scratch.path("")).output().unwrap();
        assert!(ran.status.success() && ran.stderr.is_empty(), "{line}: {ran:?}");
    }
}

#[test]
fn every_option_is_on_the_page() {
    for tool in ["mkfs", "fsck", "badsect", "dump", "tune", "label"] {
        let help = fat(&[tool, "--help"]).succeeded();
        let options = help.lines().filter(|line| line.trim_start().starts_with('-'));
        let long = options.filter_map(|line| line.split_whitespace().find(|word| word.starts_with("--")));
        for option in long.map(|word| word.trim_end_matches(',')).filter(|option| *option != "--help") {
            let option = option.split(['=', '[']).next().unwrap();
            assert!(PAGE.contains(option), "docs/fat-tools.md does not have {option} of {tool}");
        }
    }
}
