//! The chart of ratios: one row per step and one dot per subject, on a logarithmic scale.
use super::{Scale, WIDTH, add, begin, colour, escape, is_stack, legend};
use crate::measure::{StepResult, WorkloadResult};
use crate::report::results::BenchResults;
use crate::subjects::NATIVE;

const LEFT: f64 = 190.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 92.0;
const ROW: f64 = 30.0;
const GAP: f64 = 12.0;
const BOTTOM: f64 = 46.0;

struct Dot<'a> {
    subject: &'a str,
    ratio: f64,
}

/// One step of a workload.
pub(crate) struct Row<'a> {
    workload: &'a str,
    step: &'a str,
    dots: Vec<Dot<'a>>,
}

/// Returns the contents of chart.svg.
pub(crate) fn render(results: &BenchResults) -> String {
    let names = results.subject_names();
    let rows: Vec<_> = results.ordered().flat_map(|(workload, result)| rows(workload, result, &names)).collect();
    chart("Time as a multiple of the lower file system's", &rows, &names)
}

/// Returns a chart of these rows, with these subjects in the legend.
pub(crate) fn chart(title: &str, rows: &[Row<'_>], names: &[&str]) -> String {
    let gaps = rows.windows(2).filter(|pair| pair[0].workload != pair[1].workload).count() as f64;
    let height = TOP + rows.len() as f64 * ROW + gaps * GAP + BOTTOM;
    let scale = Scale::of(rows.iter().flat_map(|row| row.dots.iter().map(|dot| dot.ratio)), LEFT, WIDTH - RIGHT);
    let mut svg = begin(title, height);
    legend(&mut svg, names);
    grid(&mut svg, &scale, height);
    let mut y = TOP;
    let mut previous = "";
    for row in rows {
        if row.workload != previous {
            if !previous.is_empty() {
                y += GAP;
            }
            add(
                &mut svg,
                format!("<text x=\"20\" y=\"{:.1}\" font-weight=\"600\">{}</text>", y + ROW / 2.0 + 4.5, row.workload),
            );
            previous = row.workload;
        }
        draw_row(&mut svg, row, y, &scale, names);
        y += ROW;
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns the rows of a workload: one for each step, with the ratios of these subjects.
pub(crate) fn rows<'a>(workload: &'a str, result: &'a WorkloadResult, names: &[&'a str]) -> Vec<Row<'a>> {
    let row = |step: &'a StepResult| {
        let dot = |subject: &&'a str| Some(Dot { subject, ratio: step.subjects.get(*subject)?.ratio? });
        let dots = names.iter().filter(|name| **name != NATIVE).filter_map(dot).collect();
        let name = if step.step == workload { "" } else { step.step.as_str() };
        Row { workload, step: name, dots }
    };
    result.steps.iter().map(row).collect()
}

fn grid(svg: &mut String, scale: &Scale, height: f64) {
    for tick in scale.ticks() {
        let x = scale.position(tick);
        let (stroke, width) = if tick == 1.0 { ("#222", 1.4) } else { ("#ddd", 1.0) };
        let bottom = height - BOTTOM + 6.0;
        add(
            svg,
            format!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\" stroke=\"{stroke}\" stroke-width=\"{width}\"/>",
                TOP - 8.0
            ),
        );
        for y in [TOP - 13.0, bottom + 16.0] {
            add(
                svg,
                format!(
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" fill=\"#555\" font-size=\"12\">{tick}×</text>"
                ),
            );
        }
    }
}

fn draw_row(svg: &mut String, row: &Row<'_>, y: f64, scale: &Scale, names: &[&str]) {
    let middle = y + ROW / 2.0;
    add(
        svg,
        format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 14.0,
            middle + 4.5,
            escape(row.step)
        ),
    );
    add(
        svg,
        format!(
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"#f0f0f0\"/>",
            WIDTH - RIGHT
        ),
    );
    let count = row.dots.len();
    // The first subjects are drawn last, on top of the others; each has its own vertical offset, so that equal values stay
    // distinguishable.
    for (number, dot) in row.dots.iter().enumerate().rev() {
        let offset = if count > 1 { (number as f64 / (count - 1) as f64 - 0.5) * (ROW - 14.0) } else { 0.0 };
        let radius = if is_stack(dot.subject) { 5.5 } else { 4.5 };
        add(
            svg,
            format!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\" fill=\"{}\" fill-opacity=\"0.9\"><title>{}: {:.2}×</title></circle>",
                scale.position(dot.ratio),
                middle + offset,
                colour(names, dot.subject),
                escape(dot.subject),
                dot.ratio
            ),
        );
    }
}
