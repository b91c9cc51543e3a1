//! The ratios as a picture: a row a step, a dot a subject, on a logarithmic scale.
use std::fmt::Write;

use super::Results;
use crate::subjects::NATIVE;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 92.0;
const ROW: f64 = 30.0;
const GAP: f64 = 12.0;
const BOTTOM: f64 = 46.0;

const TICKS: &[f64] = &[0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0];
const STACK_COLOURS: &[&str] = &["#0b5fce", "#59a6ff", "#0a2f66"];
const PEER_COLOURS: &[&str] = &["#7a7a7a", "#d9822b", "#b5487b", "#3a9a6b", "#8d6cc9", "#a88b00"];

struct Dot<'a> {
    subject: &'a str,
    ratio: f64,
}

struct Row<'a> {
    workload: &'a str,
    step: &'a str,
    dots: Vec<Dot<'a>>,
}

/// The whole of chart.svg.
pub fn render(results: &Results) -> String {
    let rows = rows(results);
    let gaps = rows.windows(2).filter(|pair| pair[0].workload != pair[1].workload).count() as f64;
    let height = TOP + rows.len() as f64 * ROW + gaps * GAP + BOTTOM;
    let scale = Scale::of(&rows);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"13\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"20\" y=\"30\" font-size=\"18\" font-weight=\"600\">Time as a multiple of the lower file system's</text>\n"
    );
    legend(&mut svg, results);
    grid(&mut svg, &scale, height);
    let mut y = TOP;
    let mut previous = "";
    for row in &rows {
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
        draw_row(&mut svg, row, y, &scale, results);
        y += ROW;
    }
    svg.push_str("</svg>\n");
    svg
}

fn rows(results: &Results) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for (workload, result) in results.ordered() {
        for step in &result.steps {
            let dot = |subject| Some(Dot { subject, ratio: step.subjects.get(subject)?.ratio? });
            let names = results.subject_names();
            let dots = names.into_iter().filter(|name| *name != NATIVE).filter_map(dot).collect();
            let name = if step.step == workload { "" } else { step.step.as_str() };
            rows.push(Row { workload, step: name, dots });
        }
    }
    rows
}

struct Scale {
    least: f64,
    most: f64,
}

impl Scale {
    fn of(rows: &[Row<'_>]) -> Self {
        let ratios = || rows.iter().flat_map(|row| row.dots.iter().map(|dot| dot.ratio));
        let least = ratios().fold(0.9, f64::min);
        let most = ratios().fold(2.1, f64::max);
        Self { least: least * 0.93, most: most * 1.12 }
    }

    fn x(&self, ratio: f64) -> f64 {
        let part = (ratio.max(self.least) / self.least).ln() / (self.most / self.least).ln();
        LEFT + part * (WIDTH - LEFT - RIGHT)
    }
}

fn legend(svg: &mut String, results: &Results) {
    let mut x = 20.0;
    for name in results.subject_names().into_iter().filter(|name| *name != NATIVE) {
        add(svg, format!("<circle cx=\"{:.1}\" cy=\"56\" r=\"5.5\" fill=\"{}\"/>", x + 6.0, colour(results, name)));
        add(svg, format!("<text x=\"{:.1}\" y=\"60.5\">{}</text>", x + 17.0, escape(name)));
        x += 38.0 + name.chars().count() as f64 * 7.4;
    }
}

fn grid(svg: &mut String, scale: &Scale, height: f64) {
    for tick in TICKS.iter().filter(|tick| **tick > scale.least && **tick < scale.most) {
        let x = scale.x(*tick);
        let (stroke, width) = if *tick == 1.0 { ("#222", 1.4) } else { ("#ddd", 1.0) };
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

fn draw_row(svg: &mut String, row: &Row<'_>, y: f64, scale: &Scale, results: &Results) {
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
    // The first subjects are drawn last, on top of the others; each has its own height, so that equals stay apart.
    for (number, dot) in row.dots.iter().enumerate().rev() {
        let offset = if count > 1 { (number as f64 / (count - 1) as f64 - 0.5) * (ROW - 14.0) } else { 0.0 };
        let radius = if is_stack(dot.subject) { 5.5 } else { 4.5 };
        add(
            svg,
            format!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\" fill=\"{}\" fill-opacity=\"0.9\"><title>{}: {:.2}×</title></circle>",
                scale.x(dot.ratio),
                middle + offset,
                colour(results, dot.subject),
                escape(dot.subject),
                dot.ratio
            ),
        );
    }
}

fn is_stack(subject: &str) -> bool {
    subject.starts_with("plyfs ")
}

fn colour(results: &Results, subject: &str) -> &'static str {
    let same_kind = |name: &&str| *name != NATIVE && is_stack(name) == is_stack(subject);
    let position = results.subject_names().into_iter().filter(same_kind).position(|name| name == subject).unwrap_or(0);
    let colours = if is_stack(subject) { STACK_COLOURS } else { PEER_COLOURS };
    colours[position % colours.len()]
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn add(svg: &mut String, element: String) {
    writeln!(svg, "{element}").expect("a String takes everything");
}
