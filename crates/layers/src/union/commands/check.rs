//! `plyfs union check`: the branches of a union that is not mounted.

use std::ffi::{OsStr, OsString};

use clap::Args;
use rustix::process::geteuid;
use vnode::Caller;

use super::confirmation::confirm;
use crate::command::{CommandHost, Exit, Failure, MountAnswers, Outcome, Print};
use crate::printable::escaped;
use crate::union::check::{CheckError, CheckOptions, Finding, check};
use crate::union::settings::NAME;
use crate::{Branch, BranchMode, Refusal};

/// Arguments of the check.
#[derive(Args, Debug)]
pub(crate) struct CheckArguments {
    /// Stack as it is mounted, or its branches: "/rw=rw, /cd=ro | union", or /rw=rw /cd=ro
    #[arg(value_name = "STACK|BRANCH", required = true)]
    branches: Vec<OsString>,
    /// Repair the findings; on a terminal, asks for confirmation first
    #[arg(long)]
    repair: bool,
    /// Do not ask for confirmation
    #[arg(short, long, requires = "repair")]
    yes: bool,
    /// Also report harmless leftovers: whiteouts that hide nothing, and copies whose originals are gone
    #[arg(long)]
    idle: bool,
    /// Also report copies that lack metadata which the branch cannot store, such as owners and extended attributes on FAT
    #[arg(long)]
    losses: bool,
}

/// Checks the branches, and prints a line for each finding.
pub(crate) fn run(arguments: &CheckArguments, host: &dyn CommandHost) -> Outcome {
    let CheckArguments { branches, repair, yes, idle, losses } = arguments;
    let options = CheckOptions { repair: *repair, idle: *idle, losses: *losses };
    if *repair {
        confirm(host, "repair what is found in these branches?", *yes)?;
    }
    let mut branches = Some(host.open_branches(&branches.join(OsStr::new(", ")))?);
    check_not_mounted(branches.as_deref().unwrap_or_default(), host)?;
    let mut result = CheckResult { checked: Ok(()), findings: 0, unrepaired: 0, printed: Ok(()) };
    host.with_progress("union check", &mut |print| {
        let Some(branches) = branches.take() else { return };
        let report = &mut |finding: Finding| result.add(&finding, print);
        let checked = check(branches, &options, report);
        result.checked = checked;
    });
    result.checked.map_err(failure)?;
    result.printed?;
    summarize(result.findings, result.unrepaired, *repair)
}

/// What a check has found so far.
struct CheckResult {
    checked: Result<(), CheckError>,
    findings: usize,
    unrepaired: usize,
    printed: Outcome,
}

impl CheckResult {
    /// Counts a finding and prints it, unless printing has failed before.
    fn add(&mut self, finding: &Finding, print: &Print<'_>) {
        self.findings += 1;
        self.unrepaired += usize::from(finding.repair != Some(Ok(())));
        if self.printed.is_ok() {
            self.printed = print(&format_finding(finding));
        }
    }
}

/// Returns the failure for a check that could not be done.
fn failure(error: CheckError) -> Failure {
    match error {
        CheckError::InUse(_) => Failure::new(Exit::Busy, error),
        CheckError::Refused(_, Refusal::StateOfOthers) => {
            let remedy = "check it as the user who owns that directory, or look into it and \
                          give it and what is directly in it to yours";
            Failure::new(Exit::Permission, format!("{error}; {remedy}"))
        }
        CheckError::Refused(_, Refusal::LaterVersion) => {
            Failure::new(Exit::Stack, format!("{error}; check it with that version"))
        }
        CheckError::Refused(_, Refusal::UnknownRegister) => {
            let remedy = "restore it from a backup, or remove it, which gives objects new inode numbers";
            Failure::new(Exit::Stack, format!("{error}; {remedy}"))
        }
        CheckError::Refused(_, Refusal::InUse | Refusal::OtherSnapshots) => Failure::new(Exit::Busy, error),
        CheckError::Refused(_, Refusal::WithoutMarks) => {
            let remedy = "copy it again with them (cp -a or rsync -aX, as root)";
            Failure::new(Exit::Stack, format!("{error}; {remedy}"))
        }
        CheckError::Branch(..) => Failure::new(Exit::Stack, format!("{error}; check the storage of the branch")),
    }
}

/// Fails if there are findings that are not repaired.
fn summarize(findings: usize, unrepaired: usize, repair: bool) -> Outcome {
    let message = match (unrepaired, repair) {
        (0, _) => return Ok(()),
        (_, true) => format!("{unrepaired} of {findings} findings could not be repaired; see the lines above"),
        (1, false) => "1 finding; to repair it, add --repair".to_owned(),
        (_, false) => format!("{unrepaired} findings; to repair them, add --repair"),
    };
    Err(Failure::new(Exit::Failure, message))
}

/// Fails if a mounted union has one of the branches to be checked, even if it has not written there yet.
fn check_not_mounted(branches: &[Branch], host: &dyn CommandHost) -> Outcome {
    let is_writable = |(index, branch): &(usize, &Branch)| match branch.mode {
        Some(mode) => mode != BranchMode::ReadOnly,
        None => *index == 0,
    };
    let checked: Vec<&Branch> = branches.iter().enumerate().filter(is_writable).map(|(_, branch)| branch).collect();
    for MountAnswers { mount_point, uid, answers } in host.control_all(NAME, &["branches", "views"]) {
        // Other users could say anything; whoever really uses a branch of others has a claim on it.
        let is_believed = |branch: &&&Branch| uid == geteuid().as_raw() || uid == 0 || owner(branch) == Some(uid);
        let labels: Vec<&str> = checked.iter().filter(is_believed).map(|branch| branch.label.as_str()).collect();
        let lines = |answer: usize| answers.get(answer).map_or("", String::as_str).lines();
        let shared = lines(0).filter_map(|line| line.rsplit_once('=')).map(|(label, _)| label);
        let private = lines(1).filter_map(|line| line.split_once(" = ")).map(|(_, label)| label);
        if let Some(label) = shared.chain(private).find(|label| labels.contains(label)) {
            let remedy = format!("unmount it first: plyfs umount {mount_point}");
            let message = format!("the mount on {mount_point} is using the branch {label}; {remedy}");
            return Err(Failure::new(Exit::Busy, message));
        }
    }
    Ok(())
}

/// Returns the uid of the owner of a branch, if its root can be read.
fn owner(branch: &Branch) -> Option<u32> {
    branch.file_system.root().getattr(&Caller::server()).ok().map(|attributes| attributes.uid)
}

/// Returns the line for one finding. Names come from others, and must not be able to control the terminal.
fn format_finding(finding: &Finding) -> String {
    let location = escaped(&format!("{}: {}", finding.branch, String::from_utf8_lossy(&finding.path)));
    let (problem, remedy) = (&finding.problem, finding.problem.remedy());
    let outcome = match finding.repair {
        _ if !problem.can_be_repaired() => format!("no repair, but {remedy}"),
        None => format!("--repair would {remedy}"),
        Some(Ok(())) => "repaired".to_owned(),
        Some(Err(errno)) => format!("cannot {remedy}: {errno}"),
    };
    format!("{location} {problem}; {outcome}\n")
}
