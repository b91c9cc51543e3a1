//! The charts of FAT file systems: free space on a floppy disk, the paper's formulas, and times as ratios.
use super::ratios::{self, chart};
use super::{WIDTH, add, begin, colour, escape, legend};
use crate::fat::formulas;
use crate::fat::results::FatResults;
use crate::fat::utilisation::SERIES;

const HEIGHT: f64 = 760.0;
/// Files on the disk and in a directory, as in the paper's Figure 3.
const FILES: f64 = 6_000.0;
const PER_DIRECTORY: f64 = 20.0;
/// Colour of a second curve of the same file system.
const SECOND_COLOUR: &str = "#d9822b";

/// A plot with linear axes, the vertical one beginning at `least`.
struct Plot {
    title: &'static str,
    left: f64,
    top: f64,
    least: f64,
    most: f64,
    right_value: f64,
}

const PLOT_WIDTH: f64 = 400.0;
const PLOT_HEIGHT: f64 = 250.0;

impl Plot {
    fn x(&self, value: f64) -> f64 {
        self.left + value / self.right_value * PLOT_WIDTH
    }

    fn y(&self, value: f64) -> f64 {
        self.top + PLOT_HEIGHT * (1.0 - (value.clamp(self.least, self.most) - self.least) / (self.most - self.least))
    }

    /// Draws the title, five horizontal lines and what the horizontal axis means.
    fn frame(&self, svg: &mut String, below: &str) {
        add(svg, text(self.left, self.top - 12.0, "start", self.title));
        for step in 0..=4 {
            let value = self.least + (self.most - self.least) * f64::from(step) / 4.0;
            let (y, right) = (self.y(value), self.left + PLOT_WIDTH);
            add(
                svg,
                format!(
                    "<line x1=\"{:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>",
                    self.left
                ),
            );
            add(svg, text(self.left - 7.0, y + 4.0, "end", &format!("{value:.0}")));
        }
        add(svg, text(self.left + PLOT_WIDTH / 2.0, self.top + PLOT_HEIGHT + 34.0, "middle", below));
    }

    fn curve(&self, svg: &mut String, colour: &str, name: &str, cost: impl Fn(f64) -> f64) {
        let point = |step: u32| {
            let value = self.right_value * f64::from(step.max(1)) / 200.0;
            format!("{:.1},{:.1}", self.x(value), self.y(cost(value.max(1.0))))
        };
        let points: Vec<_> = (1..=200).map(point).collect();
        let path = points.join(" ");
        add(
            svg,
            format!(
                "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"><title>{name}</title></polyline>"
            ),
        );
    }

    fn ticks(&self, svg: &mut String) {
        for step in 0..=4 {
            let value = self.right_value * f64::from(step) / 4.0;
            add(svg, text(self.x(value), self.top + PLOT_HEIGHT + 16.0, "middle", &format!("{value:.0}")));
        }
    }
}

/// Returns the contents of fat-utilisation.svg.
pub(crate) fn utilisation(results: &FatResults) -> String {
    let mut svg = begin("Free space on a floppy disk, and metadata by the paper's formulas", HEIGHT);
    let names: Vec<&str> = SERIES.to_vec();
    legend(&mut svg, &names);
    free_space(&mut svg, results, &names);
    let [ffs, fat] = [colour(&names, SERIES[0]), colour(&names, SERIES[1])];
    let figure2 = Plot {
        title: "Figure 2: FFS over DosFs, bytes a file",
        left: 560.0,
        top: 110.0,
        least: 0.0,
        most: 8_000.0,
        right_value: 6_000.0,
    };
    figure2.frame(&mut svg, "files on the disk (of 4 KB; orange: of 100 KB)");
    figure2.ticks(&mut svg);
    let over = |size: f64| {
        move |files: f64| {
            formulas::ffs_metadata(size, PER_DIRECTORY, files) - formulas::fat_metadata(size, PER_DIRECTORY)
        }
    };
    figure2.curve(&mut svg, fat, "4 KB", over(4_096.0));
    figure2.curve(&mut svg, SECOND_COLOUR, "100 KB", over(102_400.0));
    let figure3 = Plot {
        title: "Figure 3: metadata of a file, bytes",
        left: 70.0,
        top: 450.0,
        least: 0.0,
        most: 6_000.0,
        right_value: 256.0,
    };
    figure3.frame(&mut svg, "file size in KB (grey: FFS, blue: DosFs)");
    figure3.ticks(&mut svg);
    figure3.curve(&mut svg, ffs, "FFS", |size| formulas::ffs_metadata(size * 1024.0, PER_DIRECTORY, FILES));
    figure3.curve(&mut svg, fat, "DosFs", |size| formulas::fat_metadata(size * 1024.0, PER_DIRECTORY));
    let figure4 = Plot {
        title: "Figure 4: directory entry, bytes a file",
        left: 560.0,
        top: 450.0,
        least: 0.0,
        most: 200.0,
        right_value: 100.0,
    };
    figure4.frame(&mut svg, "files in a directory (grey: FFS, blue: DosFs)");
    figure4.ticks(&mut svg);
    figure4.curve(&mut svg, ffs, "FFS", |files| formulas::ffs_directory_entry(files.round()));
    figure4.curve(&mut svg, fat, "DosFs", |files| formulas::fat_directory_entry(files.round()));
    svg.push_str("</svg>\n");
    svg
}

/// Draws a group of bars for each allocation size.
fn free_space(svg: &mut String, results: &FatResults, names: &[&str]) {
    let rows = results.utilisation.as_ref().map(|part| part.rows.as_slice()).unwrap_or_default();
    let plot = Plot {
        title: "Free after unpacking, KiB (measured)",
        left: 70.0,
        top: 110.0,
        least: -200.0,
        most: 600.0,
        right_value: rows.len().max(1) as f64,
    };
    plot.frame(svg, "allocation size in bytes");
    let width = PLOT_WIDTH / plot.right_value * 0.8 / names.len() as f64;
    for (number, row) in rows.iter().enumerate() {
        let middle = plot.x(number as f64 + 0.5);
        add(svg, text(middle, plot.top + PLOT_HEIGHT + 16.0, "middle", &row.allocation.to_string()));
        for (position, name) in names.iter().enumerate() {
            let Some(free) = row.free.get(*name) else { continue };
            let free = *free as f64 / 1024.0;
            let x = middle + (position as f64 - names.len() as f64 / 2.0) * width;
            let (top, bottom) = (plot.y(free.max(0.0)), plot.y(free.min(0.0)));
            let (height, colour) = ((bottom - top).max(1.0), colour(names, name));
            add(
                svg,
                format!(
                    "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{colour}\"><title>{name}: {free:.0} KiB</title></rect>",
                    width * 0.9
                ),
            );
        }
    }
}

fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#444\" font-size=\"12\">{}</text>",
        escape(text)
    )
}

/// Returns the contents of fat-transfers.svg.
pub(crate) fn transfers(results: &FatResults) -> String {
    let names: Vec<&str> = results.subjects.iter().map(|subject| subject.name.as_str()).collect();
    let mut rows = Vec::new();
    if let Some(part) = &results.transfers {
        rows.extend(ratios::rows("transfers", &part.result, &names));
    }
    if let Some(part) = &results.limited {
        rows.extend(ratios::rows("limited", &part.result, &names));
    }
    if let Some(result) = &results.operations {
        rows.extend(ratios::rows("operations", result, &names));
    }
    chart("Time as a multiple: transfers, of the raw device's; operations, of ext4's", &rows, &names)
}

const _: () = assert!(WIDTH >= 560.0 + PLOT_WIDTH);
