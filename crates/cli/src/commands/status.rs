//! `plyfs status`: the mounts, their servers and their request counts.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;
use serde::Serialize;

use super::{headed_table, not_running, print, printable};
use crate::arguments::Status;
use crate::control::Report;
use crate::control::client;
use crate::exit::Outcome;
use crate::mount_table;

/// One mount, as `--json` prints it.
#[derive(Serialize)]
struct Line {
    state: State,
    #[serde(flatten)]
    report: Report,
}

/// The state of a mount.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    /// Its server answers.
    Serving,
    /// Its server answers, but it is no longer in the mount table: a process still uses it.
    Detached,
    /// It is served by a program without a control socket that the caller could find.
    Silent,
    /// Its server does not accept requests.
    Hung,
    /// Its server has exited.
    Dead,
    /// It belongs to another user, whose servers do not answer the caller.
    OtherUser,
}

impl Line {
    fn is_answering(&self) -> bool {
        matches!(self.state, State::Serving | State::Detached)
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Status) -> Outcome {
    let wanted = arguments.mount_point.as_deref().map(mount_table::canonical);
    let lines = lines_of(wanted.as_deref());
    if let (Some(mount_point), true) = (&wanted, lines.is_empty()) {
        return Err(not_running(mount_point));
    }
    match arguments.json {
        true => print(&format!("{}\n", serde_json::to_string_pretty(&lines).unwrap_or_default())),
        false if lines.is_empty() => print("no mounts\n"),
        false if arguments.mount_point.is_some() => print(&lines.iter().map(details).collect::<Vec<_>>().join("\n")),
        false => print(&format!("{}\n", table(&lines))),
    }
}

/// Returns the mounts whose servers answer, and those in the kernel's mount table whose servers do not: all of them, or those
/// on a mount point.
fn lines_of(wanted: Option<&Path>) -> Vec<Line> {
    let mut table = mount_table::read();
    table.retain(|entry| entry.is_plyfs() && wanted.is_none_or(|wanted| entry.mount_point == wanted));
    let answering = client::mounts_on(wanted).into_iter().map(|mount| {
        let is_listed = |entry: &mount_table::Entry| entry.mount_point.to_string_lossy() == mount.report.mount_point;
        let is_elsewhere = is_in_another_name_space(mount.report.pid);
        let state = if is_elsewhere || table.iter().any(is_listed) { State::Serving } else { State::Detached };
        Line { state, report: mount.report }
    });
    let mut lines: Vec<Line> = answering.collect();
    for entry in table {
        let mount_point = entry.mount_point.to_string_lossy().into_owned();
        if lines.iter().any(|line| line.report.mount_point == mount_point) {
            continue;
        }
        let state = if super::is_of_another_user(&entry) { State::OtherUser } else { probed(&entry.mount_point) };
        let report =
            Report { mount_point, stack: entry.source, uid: entry.user.unwrap_or_default(), ..Report::default() };
        lines.push(Line { state, report });
    }
    lines.sort_by(|a, b| a.report.mount_point.cmp(&b.report.mount_point));
    lines
}

/// Returns the state of a mount whose server does not answer. Probes it in a separate process, which may hang forever, and
/// cannot be killed then.
fn probed(mount_point: &Path) -> State {
    const PATIENCE: Duration = Duration::from_secs(2);
    // The kernel itself reports that access is denied.
    let known = rustix::fs::statx(CWD, mount_point, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS);
    if known.err() == Some(Errno::ACCESS) {
        return State::OtherUser;
    }
    let mut probe = Command::new("stat");
    probe.args(["--file-system", "--format=%T", "--"]).arg(mount_point);
    probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Without the probe, the only certain state is that the server is silent.
    let Ok(mut probe) = probe.spawn() else { return State::Silent };
    let end = Instant::now() + PATIENCE;
    loop {
        match probe.try_wait() {
            Ok(Some(status)) if status.success() => return State::Silent,
            Ok(Some(_)) => return State::Dead,
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = probe.kill();
                return State::Hung;
            }
        }
    }
}

/// Returns whether the process has a mount namespace of its own, so that its mount need not be in ours.
fn is_in_another_name_space(pid: u32) -> bool {
    let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    of("self") != of(&pid.to_string())
}

fn table(lines: &[Line]) -> String {
    let headings = ["MOUNT POINT", "STACK", "STATE", "PID", "UPTIME", "REQUESTS", "OPTIONS"];
    let mut table = headed_table(headings, 3..6);
    for line in lines {
        let report = &line.report;
        let serving = |text: String| if line.is_answering() { text } else { "-".to_owned() };
        table.add_row([
            printable(&report.mount_point),
            printable(&report.stack),
            state(line).to_owned(),
            serving(report.pid.to_string()),
            serving(duration(report.uptime_seconds)),
            serving(report.requests.to_string()),
            serving(if report.options.is_empty() { "-".to_owned() } else { report.options.join(",") }),
        ]);
    }
    table.trim_fmt()
}

/// Returns all details of one mount.
fn details(line: &Line) -> String {
    let report = &line.report;
    let mut text = format!("mount point  {}\n", printable(&report.mount_point));
    text.push_str(&format!("stack        {}\n", printable(&report.stack)));
    text.push_str(&format!("state        {}\n", state(line)));
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

fn state(line: &Line) -> &'static str {
    match line.state {
        State::Serving => "serving",
        State::Detached => "detached, in use",
        State::Silent => "serving, no control socket",
        State::Hung => "does not answer",
        State::Dead => "dead: plyfs umount",
        State::OtherUser => "another user's",
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
        let report = Report { mount_point: "/mnt\x1b[2J".into(), stack: "mem:".into(), pid: 7, ..Report::default() };
        let dead = Report { mount_point: "/b".into(), ..Report::default() };
        let text = table(&[Line { state: State::Serving, report }, Line { state: State::Dead, report: dead }]);
        assert!(text.contains("/mnt?[2J") && text.contains("mem:") && text.contains("dead"), "{text}");
    }
}
