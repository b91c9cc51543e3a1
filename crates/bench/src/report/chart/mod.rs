//! The charts and their common parts: page, legend, colours, and the logarithmic scale of ratios.
pub(crate) mod fat;
pub(crate) mod ratios;
pub(crate) mod union;

use std::fmt::Write;

use crate::subjects::NATIVE;

const WIDTH: f64 = 1000.0;
/// Height of a row of the legend; two rows fit above the plots.
const LEGEND_ROW: f64 = 20.0;
const TICKS: &[f64] = &[0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];
/// Upper end of a scale below which the ticks above would be too few.
const FINE_TICKS_MAX: f64 = 1.9;
const FINE_TICKS: &[f64] = &[0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8];
const STACK_COLOURS: &[&str] = &["#0b5fce", "#59a6ff", "#0a2f66", "#00a3a3", "#7bc8e8", "#3f3fbf"];
const PEER_COLOURS: &[&str] = &["#7a7a7a", "#d9822b", "#b5487b", "#3a9a6b", "#8d6cc9", "#a88b00"];

/// A logarithmic scale between two positions on the page.
struct Scale {
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// Returns a scale that covers all these ratios and the ratio 1.
    fn of(ratios: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        Self::covering_at_least(2.1, ratios, from, to)
    }

    /// As [`Scale::of`], but extends at least up to that ratio.
    fn covering_at_least(most: f64, ratios: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (least, most) = ratios.fold((0.9, most), |(least, most), ratio| (ratio.min(least), ratio.max(most)));
        Self { least: least * 0.93, most: most * 1.12, from, to }
    }

    fn position(&self, ratio: f64) -> f64 {
        let part = (ratio.max(self.least) / self.least).ln() / (self.most / self.least).ln();
        self.from + part * (self.to - self.from)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let ticks = if self.most < FINE_TICKS_MAX { FINE_TICKS } else { TICKS };
        ticks.iter().copied().filter(|tick| *tick > self.least && *tick < self.most)
    }
}

/// Returns the beginning of a page of that height, with its title. The legend comes below it.
fn begin(title: &str, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"13\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"20\" y=\"30\" font-size=\"18\" font-weight=\"600\">{}</text>\n",
        escape(title)
    )
}

fn legend(svg: &mut String, names: &[&str]) {
    let (mut x, mut y) = (20.0, 56.0);
    for name in names.iter().filter(|name| **name != NATIVE) {
        let width = 38.0 + name.chars().count() as f64 * 7.4;
        if x + width > WIDTH {
            (x, y) = (20.0, y + LEGEND_ROW);
        }
        add(svg, format!("<circle cx=\"{:.1}\" cy=\"{y}\" r=\"5.5\" fill=\"{}\"/>", x + 6.0, colour(names, name)));
        add(svg, format!("<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 17.0, y + 4.5, escape(name)));
        x += width;
    }
}

fn is_stack(subject: &str) -> bool {
    subject.starts_with("plyfs ")
}

fn colour(names: &[&str], subject: &str) -> &'static str {
    let same_kind = |name: &&&str| **name != NATIVE && is_stack(name) == is_stack(subject);
    let position = names.iter().filter(same_kind).position(|name| *name == subject).unwrap_or(0);
    let colours = if is_stack(subject) { STACK_COLOURS } else { PEER_COLOURS };
    colours[position % colours.len()]
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn add(svg: &mut String, element: String) {
    writeln!(svg, "{element}").expect("a String takes everything");
}
