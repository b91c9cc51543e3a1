//! The charts of unions: lines over the number of branches, and grouped bars for the layouts of a tree.
use super::{Scale, WIDTH, add, begin, colour, escape, is_stack, legend};
use crate::measure::StepResult;
use crate::report::results::BenchResults;
use crate::report::union::{branches, figures, series};

const TOP: f64 = 94.0;
const TITLE: f64 = 30.0;
const BELOW: f64 = 46.0;
const AXIS: f64 = 62.0;
const GAP: f64 = 24.0;
const LINES_HEIGHT: f64 = 320.0;
const BARS_HEIGHT: f64 = 190.0;

/// One of several plots: a step of a workload, and its position on the page.
struct Panel<'a> {
    title: String,
    step: &'a StepResult,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    scale: Scale,
}

/// Returns the contents of union.svg: build and postmark.
pub(crate) fn lines(results: &BenchResults) -> String {
    let wanted = [("build", "total"), ("postmark", "postmark")];
    let steps = wanted.iter().filter_map(|(workload, step)| Some((*workload, find(results, workload, step)?)));
    // Each has its own scale: one is nearly all computation, the other nearly all file-system work.
    let panels = arrange(results, steps.collect(), LINES_HEIGHT, 1.25);
    page(results, &panels, "Build and postmark: time as a multiple of the lower file system's", draw_lines)
}

/// Returns the contents of union-tree.svg: each step of the tree, DIST on the left and DUP on the right.
pub(crate) fn bars(results: &BenchResults) -> String {
    let of = |workload: &str| results.workloads.get(workload).map(|result| result.steps.as_slice()).unwrap_or_default();
    let mut steps = Vec::new();
    for step in of("tree, DIST") {
        steps.push(("DIST", step));
        steps.extend(find(results, "tree, DUP", &step.step).map(|step| ("DUP", step)));
    }
    let panels = arrange(results, steps, BARS_HEIGHT, 2.1);
    page(results, &panels, "Tree: time as a multiple of the lower file system's with one copy", draw_bars)
}

fn find<'a>(results: &'a BenchResults, workload: &str, step: &str) -> Option<&'a StepResult> {
    results.workloads.get(workload)?.steps.iter().find(|found| found.step == step)
}

/// Arranges the plots in rows of two.
fn arrange<'a>(results: &BenchResults, steps: Vec<(&str, &'a StepResult)>, height: f64, most: f64) -> Vec<Panel<'a>> {
    let width = WIDTH / 2.0;
    let mut panels = Vec::new();
    for (number, (name, step)) in steps.into_iter().enumerate() {
        let left = (number % 2) as f64 * width + AXIS;
        let right = left + width - AXIS - GAP;
        let top = TOP + TITLE + (number / 2) as f64 * (TITLE + height + BELOW);
        let bottom = top + height;
        let scale = Scale::covering_at_least(most, ratios(results, step), bottom, top);
        let title = if step.step == name { name.to_owned() } else { format!("{name}: {}", step.step) };
        panels.push(Panel { title, step, left, right, top, bottom, scale });
    }
    panels
}

fn ratios(results: &BenchResults, step: &StepResult) -> impl Iterator<Item = f64> {
    let counts = branches(results);
    let pairs =
        series(results).into_iter().flat_map(move |name| counts.clone().into_iter().map(move |count| (name, count)));
    pairs.filter_map(|(name, count)| figures(results, step, name, count)?.ratio)
}

fn page(
    results: &BenchResults,
    panels: &[Panel<'_>],
    title: &str,
    draw: impl Fn(&mut String, &Panel<'_>, &BenchResults),
) -> String {
    let height = panels.last().map_or(TOP, |panel| panel.bottom + BELOW);
    let mut svg = begin(title, height);
    legend(&mut svg, &series(results));
    for panel in panels {
        frame(&mut svg, panel);
        draw(&mut svg, panel, results);
        for (centre, count) in group_centres(results, panel) {
            let text = format!(
                "<text x=\"{centre:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{count}</text>",
                panel.bottom + 17.0
            );
            add(&mut svg, text);
        }
        let middle = f64::midpoint(panel.left, panel.right);
        add(
            &mut svg,
            format!(
                "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\" font-size=\"12\">branches</text>",
                panel.bottom + 33.0
            ),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Draws the title, and a line at each tick.
fn frame(svg: &mut String, panel: &Panel<'_>) {
    add(
        svg,
        format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" font-weight=\"600\">{}</text>",
            panel.left,
            panel.top - 10.0,
            escape(&panel.title)
        ),
    );
    for tick in panel.scale.ticks() {
        let y = panel.scale.position(tick);
        let (stroke, width) = if tick == 1.0 { ("#222", 1.4) } else { ("#ddd", 1.0) };
        add(
            svg,
            format!(
                "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{stroke}\" stroke-width=\"{width}\"/>",
                panel.left, panel.right
            ),
        );
        add(
            svg,
            format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\" font-size=\"12\">{tick}×</text>",
                panel.left - 7.0,
                y + 4.0
            ),
        );
    }
}

/// Returns the horizontal centre of each group; the groups are equally spaced.
fn group_centres(results: &BenchResults, panel: &Panel<'_>) -> Vec<(f64, usize)> {
    let counts = branches(results);
    let room = (panel.right - panel.left) / counts.len().max(1) as f64;
    counts.into_iter().enumerate().map(|(number, count)| (panel.left + (number as f64 + 0.5) * room, count)).collect()
}

fn draw_lines(svg: &mut String, panel: &Panel<'_>, results: &BenchResults) {
    let names = series(results);
    // The first series are drawn last, on top of the others.
    for name in names.iter().rev() {
        let colour = colour(&names, name);
        let ratio = |count| figures(results, panel.step, name, count)?.ratio;
        let group_centres = group_centres(results, panel);
        let points: Vec<_> = group_centres.iter().filter_map(|(x, count)| Some((*x, ratio(*count)?, *count))).collect();
        let path: Vec<_> =
            points.iter().map(|(x, ratio, _)| format!("{x:.1},{:.1}", panel.scale.position(*ratio))).collect();
        let width = if is_stack(name) { 2.6 } else { 1.6 };
        add(
            svg,
            format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
                path.join(" ")
            ),
        );
        for (x, ratio, count) in points {
            add(
                svg,
                format!(
                    "<circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"><title>{}, {count}: {ratio:.2}×</title></circle>",
                    panel.scale.position(ratio),
                    escape(name)
                ),
            );
        }
    }
}

fn draw_bars(svg: &mut String, panel: &Panel<'_>, results: &BenchResults) {
    let names = series(results);
    let group_centres = group_centres(results, panel);
    let room = (panel.right - panel.left) / group_centres.len().max(1) as f64;
    let width = room * 0.84 / names.len().max(1) as f64;
    for (middle, count) in group_centres {
        for (number, name) in names.iter().enumerate() {
            let Some(ratio) = figures(results, panel.step, name, count).and_then(|figures| figures.ratio) else {
                continue;
            };
            let x = middle + (number as f64 - names.len() as f64 / 2.0) * width;
            let y = panel.scale.position(ratio);
            add(
                svg,
                format!(
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"><title>{}, {count}: {ratio:.2}×</title></rect>",
                    width * 0.92,
                    panel.bottom - y,
                    colour(&names, name),
                    escape(name)
                ),
            );
        }
    }
}
