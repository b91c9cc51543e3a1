//! `plyfs union`: the branches of a mounted or unmounted union.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use stack::{CheckError, CheckOptions, Finding, OpenBranch, Refusal};

use super::{print, progress, query_union};
use crate::arguments::{Subject, Union, View};
use crate::control::{Request, client};
use crate::exit::{Exit, Failure, Outcome};
use crate::expression::Expression;

/// Runs the command.
pub(crate) fn run(command: &Union) -> Outcome {
    match command {
        Union::List { mount_point } => print_result(mount_point, "branches", &[]),
        Union::Add { mount_point, branch, at } => {
            let (branch, at) = (branch_text(branch)?, at.map(|at| at.to_string()));
            let at = at.as_ref().map(|at| ("at", at.as_str()));
            let arguments: Vec<_> = [("branch", branch.as_str())].into_iter().chain(at).collect();
            print_result(mount_point, "add", &arguments)
        }
        Union::Remove { mount_point, branch } => {
            print_result(mount_point, "remove", &[("branch", &existing_branch(branch)?)])
        }
        Union::Mode { mount_point, branch, mode } => {
            print_result(mount_point, "mode", &[("branch", &existing_branch(branch)?), ("mode", mode)])
        }
        Union::Move { mount_point, branch, at } => {
            print_result(mount_point, "move", &[("branch", &existing_branch(branch)?), ("at", &at.to_string())])
        }
        Union::View(view) => change_views(view),
        Union::Check { branches, repair, idle, losses } => {
            check(branches, CheckOptions { repair: *repair, idle: *idle, losses: *losses })
        }
    }
}

/// Adds, lists or removes views.
fn change_views(view: &View) -> Outcome {
    match view {
        View::List { mount_point } => print_result(mount_point, "views", &[]),
        View::Add { mount_point, branch, subject } => {
            let (key, value) = view_rule(subject)?;
            print_result(mount_point, "view-add", &[("branch", &branch_text(branch)?), (key, &value)])
        }
        View::Remove { mount_point, branch } => {
            print_result(mount_point, "view-remove", &[("branch", &existing_branch(branch)?)])
        }
    }
}

/// Returns the callers that a view is for, in the form in which the union takes them.
fn view_rule(subject: &Subject) -> Outcome<(&'static str, String)> {
    let number = |key, number: Option<u32>| number.map(|number| (key, number.to_string()));
    let Subject { uid, pid, session, executable } = subject;
    let by_number = number("uid", *uid).or_else(|| number("pid", *pid)).or_else(|| number("session", *session));
    match (by_number, executable) {
        (Some(rule), _) => Ok(rule),
        (None, Some(path)) => {
            let found = path.canonicalize().map_err(|error| {
                Failure::new(Exit::Usage, format!("there is no program {}: {error}", path.display()))
            })?;
            let text = found.into_os_string().into_string();
            let text = text
                .map_err(|path| Failure::new(Exit::Usage, format!("the path {} is no UTF-8 text", path.display())))?;
            Ok(("executable", text))
        }
        (None, None) => Err(Failure::new(Exit::Usage, "one of --uid, --pid, --session and --executable is needed")),
    }
}

/// Checks the branches of an unmounted union.
fn check(branches: &[OsString], options: CheckOptions) -> Outcome {
    let expression = Expression::read(&branches.join(OsStr::new(", ")))?;
    let branches = expression.build_branches()?;
    check_not_mounted(&branches)?;
    let (mut findings, mut unrepaired, mut printed) = (0, 0, Ok(()));
    let checked = progress::with_progress("union check", |progress| {
        let report = &mut |finding: Finding| {
            findings += 1;
            unrepaired += usize::from(finding.repair != Some(Ok(())));
            if printed.is_ok() {
                progress.hide();
                printed = print(&format_finding(&finding));
            }
        };
        stack::check_union(branches, &options, report)
    });
    checked.map_err(|error| match error {
        CheckError::InUse(_) => Failure::new(Exit::Busy, error),
        CheckError::Refused(_, Refusal::StateOfOthers) => {
            let remedy = "check it as the user who owns that directory, or look into it and give it to yours";
            Failure::new(Exit::Permission, format!("{error}; {remedy}"))
        }
        CheckError::Refused(_, Refusal::LaterVersion) => {
            Failure::new(Exit::Stack, format!("{error}; check it with that version"))
        }
        CheckError::Refused(_, Refusal::UnknownRegister) => {
            let remedy = "bring it back from a backup, or remove it: objects get new inode numbers then";
            Failure::new(Exit::Stack, format!("{error}; {remedy}"))
        }
        CheckError::Refused(_, Refusal::InUse | Refusal::OtherSnapshots) => Failure::new(Exit::Busy, error),
        CheckError::Refused(_, Refusal::WithoutMarks) => {
            let remedy = "copy it again with them (cp -a or rsync -aX, as root)";
            Failure::new(Exit::Stack, format!("{error}; {remedy}"))
        }
        CheckError::Branch(..) => Failure::new(Exit::Stack, format!("{error}; repair what it lies on")),
    })?;
    printed?;
    match (unrepaired, options.repair) {
        (0, _) => Ok(()),
        (unrepaired, true) => {
            let message =
                format!("{unrepaired} of {findings} findings could not be repaired; the lines above tell why");
            Err(Failure::new(Exit::Failure, message))
        }
        (unrepaired, false) => {
            let what = if unrepaired == 1 { "1 finding".to_owned() } else { format!("{unrepaired} findings") };
            Err(Failure::new(Exit::Failure, format!("{what}; to repair, add --repair")))
        }
    }
}

/// Fails if a mounted union has one of the branches to be checked, even if it has not written there yet.
fn check_not_mounted(branches: &[OpenBranch]) -> Outcome {
    let is_writable = |(index, branch): &(usize, &OpenBranch)| match branch.mode {
        Some(mode) => mode.to_string() != "ro",
        None => *index == 0,
    };
    let labels: Vec<&str> =
        branches.iter().enumerate().filter(is_writable).map(|(_, branch)| branch.label.as_str()).collect();
    for mount in client::mounts() {
        let query = |name: &str| {
            let (target, name) = ("union".to_owned(), name.to_owned());
            // A mount without a union, or whose server does not answer, knows no branches.
            let request = Request::Control { target, name, arguments: Vec::new(), follows: false };
            mount.text(&request).unwrap_or_default()
        };
        let (branches, views) = (query("branches"), query("views"));
        let shared = branches.lines().filter_map(|line| line.rsplit_once('=')).map(|(label, _)| label);
        let private = views.lines().filter_map(|line| line.split_once(" = ")).map(|(_, label)| label);
        if let Some(label) = shared.chain(private).find(|label| labels.contains(label)) {
            let mount_point = &mount.report.mount_point;
            let remedy = format!("unmount it first: plyfs umount {mount_point}");
            return Err(Failure::new(
                Exit::Busy,
                format!("the mount on {mount_point} is using the branch {label}; {remedy}"),
            ));
        }
    }
    Ok(())
}

/// Returns the line for one finding. Names come from others, and must not be able to control the terminal.
fn format_finding(finding: &Finding) -> String {
    let mut location = String::new();
    for character in format!("{}: {}", finding.branch, String::from_utf8_lossy(&finding.path)).chars() {
        match character {
            _ if character.is_control() => location.extend(character.escape_default()),
            _ => location.push(character),
        }
    }
    let (problem, remedy) = (&finding.problem, finding.problem.remedy());
    let outcome = match finding.repair {
        _ if !problem.can_be_repaired() => format!("no repair, but {remedy}"),
        None => format!("--repair would {remedy}"),
        Some(Ok(())) => "repaired".to_owned(),
        Some(Err(errno)) => format!("cannot {remedy}: {errno}"),
    };
    format!("{location} {problem}; {outcome}\n")
}

/// Sends the union a command and prints the branches, which the command returns.
fn print_result(mount_point: &Path, command: &str, arguments: &[(&str, &str)]) -> Outcome {
    print(&query_union(mount_point, command, arguments)?)
}

/// Returns a branch in its canonical form: the server has another working directory.
fn branch_text(argument: &OsStr) -> Outcome<String> {
    let expression = Expression::read(argument)?;
    if !expression.is_single_branch() {
        let message = format!("'{}' is not one branch; put a stack in parentheses", argument.display());
        return Err(Failure::new(Exit::Expression, message));
    }
    Ok(expression.canonical_form())
}

/// Returns a branch that the union has: as it was written, or its number.
fn existing_branch(argument: &OsStr) -> Outcome<String> {
    match argument.to_str().filter(|text| text.parse::<usize>().is_ok()) {
        Some(number) => Ok(number.to_owned()),
        None => branch_text(argument),
    }
}
