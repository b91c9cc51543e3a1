//! `plyfs top`: what the mounts do and how long it takes, refreshed periodically.

use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, poll, read};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{execute, queue};

use super::print;
use super::stats::{CollectedStatistics, MountStatistics, collect_all, table};
use crate::arguments::Top;
use crate::exit::{Exit, Failure, Outcome};

/// Runs the command.
pub(crate) fn run(arguments: &Top) -> Outcome {
    let screen = stdout().is_terminal().then(Screen::open).transpose().map_err(|error| {
        Failure::new(Exit::Failure, format!("cannot use the terminal: {error}; write to a file or a pipe instead"))
    })?;
    let mut before = collect_all(arguments.mount_point.as_deref())?.mounts;
    let mut started = Instant::now();
    for _ in 0..arguments.times.unwrap_or(u64::MAX) {
        match &screen {
            Some(screen) if screen.quit_requested_within(arguments.interval) => return Ok(()),
            Some(_) => {}
            None => std::thread::sleep(arguments.interval),
        }
        let CollectedStatistics { mounts: now, failures } = collect_all(arguments.mount_point.as_deref())?;
        let (elapsed, later) = (started.elapsed(), Instant::now());
        let mut text = text(&now, &before, elapsed, arguments.mount_point.is_some());
        failures.iter().for_each(|failure| text.push_str(&format!("{failure}\n")));
        match &screen {
            Some(screen) => screen.show(&text),
            None => print(&format!("{text}\n"))?,
        }
        (before, started) = (now, later);
    }
    Ok(())
}

/// Returns what happened between two states: for one mount by operation, for several by mount.
fn text(now: &[MountStatistics], before: &[MountStatistics], elapsed: Duration, by_operation: bool) -> String {
    let per_second = |count: u64| format!("{:.0}/s", count as f64 / elapsed.as_secs_f64());
    // A mount that was made anew at the same path starts counting anew.
    let same = |one: &MountStatistics, other: &MountStatistics| {
        one.report.pid == other.report.pid && one.report.mount_point == other.report.mount_point
    };
    let since = now.iter().map(|mount| match before.iter().find(|earlier| same(mount, earlier)) {
        Some(earlier) => (mount, mount.activity.since(&earlier.activity)),
        None => (mount, mount.activity.clone()),
    });
    if by_operation {
        return since.map(|(mount, activity)| table::format_activity(mount, &activity, per_second)).collect();
    }
    let all = since.map(|(mount, activity)| (mount.report.mount_point.as_str(), activity.all()));
    format!("{}\n", table::mounts_table(all, per_second))
}

/// The terminal, whose previous state is restored on drop.
struct Screen;

impl Screen {
    fn open() -> std::io::Result<Screen> {
        enable_raw_mode()?;
        // From here on the terminal is restored, whatever fails.
        let screen = Screen;
        execute!(stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Waits, and returns whether the user has asked to quit.
    fn quit_requested_within(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        loop {
            match poll(deadline.saturating_duration_since(Instant::now()))
                .and_then(|is_available| is_available.then(read).transpose())
            {
                Ok(None) => return false,
                Ok(Some(Event::Key(key))) if is_quit_key(key) => return true,
                // A new size takes effect at once.
                Ok(Some(Event::Resize(..))) => return false,
                Ok(Some(_)) => {}
                // The terminal is gone.
                Err(_) => return true,
            }
        }
    }

    /// Shows as much of the text as fits.
    fn show(&self, text: &str) {
        let (columns, rows) = size().unwrap_or((80, 24));
        let mut output = stdout().lock();
        let _ = queue!(output, MoveTo(0, 0));
        for line in text.lines().take(usize::from(rows.saturating_sub(1))) {
            let line: String = line.chars().take(columns.into()).collect();
            let _ = write!(output, "{line}");
            let _ = queue!(output, Clear(ClearType::UntilNewLine));
            let _ = write!(output, "\r\n");
        }
        let _ = queue!(output, Clear(ClearType::FromCursorDown));
        let _ = output.flush();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

fn is_quit_key(key: KeyEvent) -> bool {
    let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) || is_interrupt
}
