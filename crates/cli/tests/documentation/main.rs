//! The sessions in README.md and docs/*.md, each run in namespaces of its own: every command prints what the page shows. Links of all
//! pages lead to files and headings that exist.
//!
//! Each page is a test. `sh` blocks have commands that must succeed, `console` blocks also their output, in which `…` matches
//! anything. Comments in the pages, which readers do not see, say what a session needs, and which blocks are not run
//! ([`page`]). At the end, the number of commands that were run, compared and left out is printed.

mod comparison;
mod links;
mod page;
mod session;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use libtest_mimic::{Arguments, Failed, Trial};

use comparison::lines_match;
use page::{Action, Page, Step};
use session::StepResult;

/// Number of commands that were run and compared, and a line for each block that was left out.
#[derive(Default)]
struct Summary {
    run: usize,
    compared: usize,
    left_out: usize,
    reasons: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let can_mount = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can_mount {
        println!("the sessions of the documentation need root and /dev/fuse: they are skipped");
    }
    let summary = Arc::new(Mutex::new(Summary::default()));
    let mut trials = vec![
        Trial::test("a page that differs from the program fails", differing_pages_fail).with_ignored_flag(!can_mount),
        Trial::test("blocks of commands are marked as such", unmarked_blocks_fail),
        Trial::test("links lead to files and headings that exist", || links::check(&project())),
    ];
    for (name, path) in pages() {
        let summary = Arc::clone(&summary);
        let title = format!("sessions of {name}");
        let run = move || {
            let page = Page::parse(&name, &fs::read_to_string(&path)?)?;
            summary.lock().expect("no test panics with it").add(&page);
            check(&page)
        };
        trials.push(Trial::test(title, run).with_ignored_flag(!can_mount));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        summary.lock().expect("no test panics with it").print();
    }
    conclusion.exit_code()
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn path_in_project(path: &Path) -> String {
    path.strip_prefix(project()).expect("pages are in the project").display().to_string()
}

/// Returns the pages, by their names in the project, with their paths.
fn pages() -> Vec<(String, PathBuf)> {
    let documents = fs::read_dir(project().join("docs")).expect("the project has a directory of pages");
    let mut paths: Vec<PathBuf> = documents.map(|entry| entry.expect("a page is listed").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.push(project().join("README.md"));
    paths.sort();
    paths.into_iter().map(|path| (path_in_project(&path), path)).collect()
}

/// Runs the sessions of a page; fails with each difference.
fn check(page: &Page) -> Result<(), Failed> {
    let mut differences = Vec::new();
    for steps in page.sessions.iter().filter(|steps| !steps.is_empty()) {
        let results = session::run(steps).map_err(|error| format!("{}:{}: {error}", page.name, steps[0].line))?;
        differences
            .extend(steps.iter().zip(&results).filter_map(|(step, result)| difference(&page.name, step, result)));
    }
    if differences.is_empty() { Ok(()) } else { Err(differences.join("\n").into()) }
}

/// Describes how the result of a step differs from the page.
fn difference(page: &str, Step { line, action }: &Step, result: &StepResult) -> Option<String> {
    let printed: Vec<&str> = result.output.lines().collect();
    let (command, shown) = match action {
        Action::Prepare(commands) => (commands.as_str(), None),
        Action::WriteFile { path, .. } => (path.as_str(), None),
        Action::Run(command) => (command.as_str(), None),
        Action::Compare { command, output } => {
            (command.as_str(), Some(output.iter().map(String::as_str).collect::<Vec<_>>()))
        }
    };
    let fails = match &shown {
        Some(shown) if !shown.is_empty() => result.code.is_none() || !lines_match(shown, &printed),
        Some(_) => result.code != Some(0) || !printed.is_empty(),
        None => result.code != Some(0),
    };
    let indented = |lines: &[&str]| lines.iter().map(|line| format!("    {line}\n")).collect::<String>();
    fails.then(|| {
        let shown = shown.map_or_else(String::new, |shown| format!("  shown:\n{}", indented(&shown)));
        let code = result.code.map_or_else(|| "the session ended".to_owned(), |code| format!("exit code {code}"));
        format!("{page}:{line}: {command}\n{shown}  printed ({code}):\n{}", indented(&printed))
    })
}

impl Summary {
    fn add(&mut self, page: &Page) {
        for step in page.sessions.iter().flatten() {
            self.run += usize::from(matches!(step.action, Action::Run(_) | Action::Compare { .. }));
            self.compared += usize::from(matches!(step.action, Action::Compare { .. }));
        }
        for block in &page.left_out {
            self.left_out += block.commands;
            let plural = if block.commands == 1 { "" } else { "s" };
            self.reasons
                .push(format!("{}:{}: {} command{plural}: {}", page.name, block.line, block.commands, block.reason));
        }
    }

    fn print(&mut self) {
        self.reasons.sort();
        let Self { run, compared, left_out, reasons } = self;
        println!("commands in the documentation: {run} run, {compared} of them compared, {left_out} left out");
        reasons.iter().for_each(|reason| println!("  {reason}"));
    }
}

/// Runs a page of this text; returns the message of its failure.
fn failure_of(text: &str) -> Result<String, Failed> {
    let page = Page::parse("page", text)?;
    match check(&page) {
        Ok(()) => Err(format!("no difference was found in:\n{text}").into()),
        Err(failure) => Ok(failure.message().unwrap_or_default().to_owned()),
    }
}

fn differing_pages_fail() -> Result<(), Failed> {
    let equal = "<!-- before: mkdir data -->\n```console\n$ ls\ndata\n$ seq 9; pwd\n1\n…\n9\n/…/me\n$ cat <<END\n> text\n> END\ntext\n```\n\
        <!-- file: words -->\n```\none\n```\n```sh\n# As the block above.\ntest \"$(cat \\\n  words)\" = one\n```\n\
        <!-- new session -->\n```console\n$ ls\n```\n<!-- not run: reason -->\n```sh\nfalse\n```\n";
    check(&Page::parse("page", equal)?)?;
    for (differs, line) in [
        ("```console\n$ echo one\ntwo\n```\n", "page:2: echo one"),
        ("```console\n$ echo one; echo two\none\n```\n", "page:2: echo one; echo two"),
        ("```console\n$ echo one\n```\n", "page:2: echo one"),
        ("```console\n$ true\n$ false\n```\n", "page:3: false"),
        ("```console\n$ plyfs explain 'mem: | redaonly'\nmem…\n```\n", "page:2: plyfs explain"),
        ("```sh\ntrue\nls missing\n```\n", "page:3: ls missing"),
        ("```sh\ntrue\nexit 0\n```\n", "page:3: exit 0"),
        ("<!-- before: false -->\n```sh\ntrue\n```\n", "page:2: "),
    ] {
        let failure = failure_of(differs)?;
        if !failure.starts_with(line) {
            return Err(format!("not at {line}: {failure}").into());
        }
    }
    Ok(())
}

fn unmarked_blocks_fail() -> Result<(), Failed> {
    for text in ["```\n$ ls\n```\n", "```\nplyfs status\n```\n", "```console\nls\n```\n", "```sh\nls\n"] {
        if Page::parse("page", text).is_ok() {
            return Err(format!("this is no error: {text}").into());
        }
    }
    Ok(())
}
