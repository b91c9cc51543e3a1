//! `plyfs status`: the mounts, their servers and their request counts.

use std::path::Path;

use procfs::Process;
use serde::Serialize;

use super::probe::{PROBE_TIMEOUT, ProbeResult, probe};
use super::{not_running, print, print_json, printable, table_with_headings};
use crate::arguments::Status;
use crate::control::MountReport;
use crate::control::client;
use crate::exit::Outcome;
use crate::mount_table;

/// One mount, as `--json` prints it.
#[derive(Serialize)]
struct MountStatus {
    state: MountState,
    #[serde(flatten)]
    report: MountReport,
}

/// The state of a mount.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum MountState {
    /// Its server answers.
    Serving,
    /// Its server answers, but it is no longer in the mount table: a process still uses it.
    Detached,
    /// It is served by a program without a control socket that the caller could find.
    Silent,
    /// Its server does not accept requests.
    Hung,
    /// Its server is stopped (SIGSTOP).
    Stopped,
    /// Its server has exited.
    Dead,
    /// It belongs to another user, whose servers do not answer the caller.
    OtherUser,
}

impl MountStatus {
    fn is_answering(&self) -> bool {
        matches!(self.state, MountState::Serving | MountState::Detached)
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Status) -> Outcome {
    let wanted = arguments.mount_point.as_deref().map(mount_table::canonical);
    let lines = mount_statuses(wanted.as_deref());
    if let (Some(mount_point), true) = (&wanted, lines.is_empty()) {
        return Err(not_running(mount_point));
    }
    match arguments.json {
        true => print_json(&lines),
        false if lines.is_empty() => print("no mounts\n"),
        false if arguments.mount_point.is_some() => print(&lines.iter().map(details).collect::<Vec<_>>().join("\n")),
        false => print(&format!("{}\n", table(&lines))),
    }
}

/// Returns the mounts whose servers answer, and those in the kernel's mount table whose servers do not: all of them, or those
/// on a mount point.
fn mount_statuses(wanted: Option<&Path>) -> Vec<MountStatus> {
    let mut table = mount_table::read();
    table.retain(|entry| entry.is_plyfs() && wanted.is_none_or(|wanted| entry.mount_point == wanted));
    let answering = client::mounts_on(wanted).into_iter().map(|mount| {
        let is_listed = |entry: &mount_table::MountEntry| entry.is_reported_as(&mount.report.mount_point);
        let is_elsewhere = has_other_mount_namespace(mount.report.pid);
        let state =
            if is_elsewhere || table.iter().any(is_listed) { MountState::Serving } else { MountState::Detached };
        MountStatus { state, report: mount.report }
    });
    let mut lines: Vec<MountStatus> = answering.collect();
    for entry in table {
        let mount_point = entry.mount_point.to_string_lossy().into_owned();
        if lines.iter().any(|line| line.report.mount_point == mount_point) {
            continue;
        }
        let stopped = client::stopped_server(&entry);
        let state = match stopped {
            _ if super::is_of_another_user(&entry) => MountState::OtherUser,
            Some(_) => MountState::Stopped,
            None => state_without_socket(&entry.mount_point),
        };
        let report = MountReport {
            mount_point,
            pid: stopped.unwrap_or_default(),
            stack: entry.source,
            uid: entry.user.unwrap_or_default(),
            ..MountReport::default()
        };
        lines.push(MountStatus { state, report });
    }
    lines.sort_by(|a, b| a.report.mount_point.cmp(&b.report.mount_point));
    lines
}

/// Returns the state of a mount whose server has no control socket that the caller could find.
fn state_without_socket(mount_point: &Path) -> MountState {
    match probe(mount_point, PROBE_TIMEOUT) {
        ProbeResult::Serving => MountState::Silent,
        ProbeResult::Hung => MountState::Hung,
        ProbeResult::Dead => MountState::Dead,
        ProbeResult::NoAccess => MountState::OtherUser,
    }
}

/// Returns whether the process has a mount namespace of its own, so that its mount need not be in ours.
fn has_other_mount_namespace(pid: u32) -> bool {
    let of = |process: Process| process.namespace("mnt").ok().flatten();
    of(Process::Own) != of(Process::Numbered(pid))
}

fn table(lines: &[MountStatus]) -> String {
    let headings = ["MOUNT POINT", "STACK", "STATE", "PID", "UPTIME", "REQUESTS", "OPTIONS"];
    let mut table = table_with_headings(headings, 3..6);
    for line in lines {
        let report = &line.report;
        let serving = |text: String| if line.is_answering() { text } else { "-".to_owned() };
        let pid = if report.pid == 0 { "-".to_owned() } else { report.pid.to_string() };
        table.add_row([
            printable(&report.mount_point),
            printable(&report.stack),
            state_text(line).to_owned(),
            pid,
            serving(duration(report.uptime_seconds)),
            serving(report.requests.to_string()),
            serving(if report.options.is_empty() { "-".to_owned() } else { report.options.join(",") }),
        ]);
    }
    table.trim_fmt()
}

/// Returns all details of one mount.
fn details(line: &MountStatus) -> String {
    let report = &line.report;
    let mut text = format!("mount point  {}\n", printable(&report.mount_point));
    text.push_str(&format!("stack        {}\n", printable(&report.stack)));
    text.push_str(&format!("state        {}\n", state_text(line)));
    if line.state == MountState::Stopped {
        text.push_str(&format!("server       {}\n", report.pid));
    }
    if !line.is_answering() {
        return text;
    }
    for (index, branch) in report.branches.iter().enumerate() {
        let title = if index == 0 { "branches" } else { "" };
        text.push_str(&format!("{title:<13}{}\n", printable(branch)));
    }
    text.push_str(&format!("server       {} of user {}, version {}\n", report.pid, report.uid, report.version));
    text.push_str(&format!("uptime       {}\n", duration(report.uptime_seconds)));
    text.push_str(&format!("options      {}\n", report.options.join(",")));
    text.push_str(&format!("requests by  {}\n", report.transport));
    text.push_str(&format!("log level    {}\n", report.log_level));
    text.push_str(&format!("memory       {} KiB\n", report.memory_bytes / 1_024));
    text.push_str(&format!("objects      {} held by the kernel\n", report.objects));
    text.push_str(&format!("requests     {}\n", report.requests));
    let mut operations: Vec<(&String, &u64)> = report.requests_by_operation.iter().collect();
    operations.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (operation, count) in operations {
        text.push_str(&format!("  {count:>12} {operation}\n"));
    }
    text
}

fn state_text(line: &MountStatus) -> &'static str {
    match line.state {
        MountState::Serving => "serving",
        MountState::Detached => "detached, in use",
        MountState::Silent => "serving, no control socket",
        MountState::Hung => "does not answer",
        MountState::Stopped => "stopped: kill -CONT PID",
        MountState::Dead => "dead: plyfs umount",
        MountState::OtherUser => "another user's",
    }
}

/// Returns a duration in the format `3d 04:05:06`.
fn duration(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3_600, rest / 60 % 60, rest % 60);
    if days == 0 { clock } else { format!("{days}d {clock}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uptimes() {
        assert_eq!(duration(59), "00:00:59");
        assert_eq!(duration(3 * 86_400 + 4 * 3_600 + 65), "3d 04:01:05");
    }

    #[test]
    fn the_table_shows_every_mount() {
        let report =
            MountReport { mount_point: "/mnt\x1b[2J".into(), stack: "mem:".into(), pid: 7, ..MountReport::default() };
        let dead = MountReport { mount_point: "/b".into(), ..MountReport::default() };
        let text = table(&[
            MountStatus { state: MountState::Serving, report },
            MountStatus { state: MountState::Dead, report: dead },
        ]);
        assert!(text.contains("/mnt?[2J") && text.contains("mem:") && text.contains("dead"), "{text}");
    }
}
