//! Prints the table of the samples' sizes, in Markdown: in FiST, on the layer template and from scratch.

use std::path::Path;

use comparison::sizes::{SAMPLES, Sizes, Ways};

const HEAD: &str = "\
# Line counts of the samples

Each sample of `examples/fist` in FiST, as a layer in Rust on the layer template, and from scratch on the crate `fuser`
alone, all under the same tests (`crates/comparison`); FiST, section 7.1, has the same table for C.

| Sample | FiST | Template | shared | Scratch | shared | Template : FiST | Scratch : FiST |
|---|---:|---:|---:|---:|---:|---:|---:|";

const NOTE: &str = "\
Lines that are neither blank nor contain only a comment, without tests. Shared lines are in files that several samples use: each
sample is counted with those that it needs, and the last row counts each file once. Ratios include shared lines.";

fn main() {
    let ways = Ways::new(Path::new(env!("CARGO_MANIFEST_DIR")));
    println!("{HEAD}");
    for sample in SAMPLES {
        println!("| {sample} {}", cells(&ways.sizes(sample)));
    }
    println!("| all {}", cells(&ways.total()));
    println!("\n{NOTE}");
}

/// The cells of a row behind its name: a dash for what is not there.
fn cells(sizes: &Sizes) -> String {
    let number = |lines: Option<usize>| lines.map_or("–".to_owned(), |lines| lines.to_string());
    let ratio = |whole: Option<usize>| match (whole, sizes.description) {
        (Some(whole), Some(description @ 1..)) => format!("{:.1}", whole as f64 / description as f64),
        _ => "–".to_owned(),
    };
    let mut cells = vec![number(sizes.description)];
    for way in [sizes.template, sizes.scratch] {
        cells.extend([number(way.map(|way| way.own)), number(way.map(|way| way.shared))]);
    }
    cells.extend([sizes.template, sizes.scratch].map(|way| ratio(way.map(|way| way.own + way.shared))));
    format!("| {} |", cells.join(" | "))
}
