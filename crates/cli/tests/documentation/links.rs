//! Links between pages: the files exist, and have the headings.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use libtest_mimic::Failed;

/// Checks the links of all pages of the project.
///
/// # Errors
/// Lists the links that lead nowhere.
pub(crate) fn check(project: &Path) -> Result<(), Failed> {
    let mut paths = Vec::new();
    for (directory, has_pages_below) in [(".", false), ("docs", true), ("editors", true)] {
        add_pages(&project.join(directory), has_pages_below, &mut paths);
    }
    let mut texts = BTreeMap::new();
    for path in paths {
        texts.insert(normalized(&path), prose(&fs::read_to_string(&path)?));
    }
    let broken: Vec<String> = texts.iter().flat_map(|(path, text)| broken_links(path, text, &texts)).collect();
    if broken.is_empty() { Ok(()) } else { Err(broken.join("\n").into()) }
}

fn add_pages(directory: &Path, descends: bool, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of pages is listed") {
        let path = entry.expect("a page is listed").path();
        if path.is_dir() && descends {
            add_pages(&path, descends, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

/// Returns the text of a page without its blocks of code.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let mut is_prose = |line: &&str| {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    };
    text.lines().filter(&mut is_prose).map(|line| format!("{line}\n")).collect()
}

fn broken_links(page: &Path, text: &str, texts: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let without_code: String = text.split('`').step_by(2).collect();
    let targets = without_code.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let is_broken = |link: &&str| {
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        let path = match path {
            "" => page.to_owned(),
            path => normalized(&page.parent().expect("a page is in a directory").join(path)),
        };
        let has_heading = || texts.get(&path).is_some_and(|text| headings(text).any(|it| it == heading));
        !path.exists() || !heading.is_empty() && !has_heading()
    };
    let links = targets.filter(|link| !link.contains("://")).filter(is_broken);
    links.map(|link| format!("{}: {link}", page.display())).collect()
}

/// Returns the names by which headings are linked: in lower case, with hyphens for spaces, without punctuation.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let letters =
            line.trim_start_matches('#').trim().chars().map(|letter| if letter == ' ' { '-' } else { letter });
        let kept = letters.filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter));
        kept.flat_map(char::to_lowercase).collect()
    })
}

/// Resolves `.` and `..` without following symlinks.
fn normalized(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            component => normal.push(component),
        }
    }
    normal
}
