//! A progress line for a long command on the terminal of standard error: objects counted, or a bar where their number is known. It is
//! shown only while the command works, and only on a terminal.

use std::io::{IsTerminal, Write, stderr};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossterm::queue;
use crossterm::terminal::{Clear, ClearType, size};
use stack::command::ProgressBar;
use vnode::progress::Progress;

/// Commands that finish within this time show nothing.
const DISPLAY_DELAY: Duration = Duration::from_millis(400);
/// Interval at which the line is redrawn for work of this process.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);
/// Number of characters of a full bar.
const BAR_LENGTH: u64 = 20;

/// The progress line of one command, erased on drop.
pub(crate) struct ProgressLine {
    command: String,
    started: Instant,
    /// `None` if standard error is not a terminal, otherwise whether the line is displayed.
    is_shown: Option<Mutex<bool>>,
}

impl ProgressLine {
    /// Returns the line of a command that begins now.
    pub(crate) fn new(command: &str) -> Self {
        let is_shown = stderr().is_terminal().then(Mutex::default);
        Self { command: command.to_owned(), started: Instant::now(), is_shown }
    }

    /// Draws the line with the number of objects processed so far.
    pub(crate) fn show(&self, objects: u64) {
        let elapsed = self.started.elapsed();
        self.draw(&text(&self.command, objects, elapsed));
    }

    /// Draws the line with this text.
    fn draw(&self, text: &str) {
        let elapsed = self.started.elapsed();
        let Some(mut is_shown) = self.lock().filter(|_| elapsed >= DISPLAY_DELAY) else { return };
        // A terminal that nobody looks at may have no columns.
        let columns = size().ok().map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0).unwrap_or(80);
        // The last column stays free: a terminal may wrap after it.
        let line: String = text.chars().take(columns.saturating_sub(1)).collect();
        let mut output = stderr().lock();
        let _ = write!(output, "\r{line}");
        let _ = queue!(output, Clear(ClearType::UntilNewLine));
        let _ = output.flush();
        *is_shown = true;
    }

    /// Erases the line, so that something can be printed in its place.
    pub(crate) fn hide(&self) {
        if let Some(mut is_shown) = self.lock().filter(|is_shown| **is_shown) {
            let mut output = stderr().lock();
            let _ = write!(output, "\r");
            let _ = queue!(output, Clear(ClearType::UntilNewLine));
            let _ = output.flush();
            *is_shown = false;
        }
    }

    fn lock(&self) -> Option<MutexGuard<'_, bool>> {
        self.is_shown.as_ref().map(|is_shown| is_shown.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.hide();
    }
}

/// The progress bar of one command. Each phase of its work fills the bar once.
pub(crate) struct Bar {
    line: ProgressLine,
    state: Mutex<BarState>,
}

/// The phase that a bar shows, and when it began and was drawn last.
#[derive(Default)]
struct BarState {
    phase: String,
    started: Option<Instant>,
    drawn: Option<Instant>,
}

impl Bar {
    /// Returns the bar of a command that begins now.
    pub(crate) fn new(command: &str) -> Self {
        Self { line: ProgressLine::new(command), state: Mutex::default() }
    }
}

impl ProgressBar for Bar {
    fn show(&self, phase: &str, done: u64, total: u64) {
        if self.line.is_shown.is_none() {
            return;
        }
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.phase != phase {
            *state = BarState { phase: phase.to_owned(), started: Some(now), drawn: None };
        }
        if state.drawn.is_none_or(|drawn| now - drawn >= REDRAW_INTERVAL) {
            let elapsed = state.started.map_or(Duration::ZERO, |started| now - started);
            self.line.draw(&bar_text(&self.line.command, phase, done, total, elapsed));
            state.drawn = Some(now);
        }
    }

    fn hide(&self) {
        self.line.hide();
        self.state.lock().unwrap_or_else(PoisonError::into_inner).drawn = None;
    }
}

/// Runs long work in this process, and shows its progress meanwhile.
pub(crate) fn with_progress<T>(command: &str, work: impl FnOnce(&ProgressLine) -> T) -> T {
    let (line, progress) = (ProgressLine::new(command), Progress::default());
    if line.is_shown.is_none() {
        return work(&line);
    }
    let (done, is_done) = channel::<()>();
    thread::scope(|scope| {
        let (shown, counted) = (&line, &progress);
        let draw = move || {
            while is_done.recv_timeout(REDRAW_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                shown.show(counted.objects());
            }
        };
        // Without the thread, no progress is shown.
        let _ = thread::Builder::new().name("progress".into()).spawn_scoped(scope, vnode::as_server(draw));
        let result = progress.of(|| work(&line));
        drop(done);
        result
    })
}

/// Returns the number of objects processed, the elapsed time and the rate.
fn text(command: &str, objects: u64, elapsed: Duration) -> String {
    let per_second = objects as f64 / elapsed.as_secs_f64();
    format!("{command}: {objects} objects, {} s, {per_second:.0}/s", elapsed.as_secs())
}

/// Returns a bar with the phase, the share that is done, and the time that the rest takes at the same speed.
fn bar_text(command: &str, phase: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let share = if total == 0 { 1.0 } else { done.min(total) as f64 / total as f64 };
    let filled = (share * BAR_LENGTH as f64) as usize;
    let bar = format!("{}{}", "#".repeat(filled), ".".repeat(BAR_LENGTH as usize - filled));
    let rest = match share {
        // Too little is known.
        ..0.02 => String::new(),
        _ => format!(", {:.0} s left", elapsed.as_secs_f64() * (1.0 - share) / share),
    };
    format!("{command}: {phase} [{bar}] {:.0} %{rest}", (share * 100.0).floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_shows_the_count_and_the_rate() {
        let after = Duration::from_millis(2_500);
        assert_eq!(text("snapshot merge", 5_000, after), "snapshot merge: 5000 objects, 2 s, 2000/s");
        assert_eq!(text("union check", 0, after), "union check: 0 objects, 2 s, 0/s");
    }

    #[test]
    fn bar_shows_the_share_and_the_remaining_time() {
        let after = Duration::from_secs(3);
        let text = |done, total| bar_text("tool", "reading", done, total, after);
        assert_eq!(text(1, 100), "tool: reading [....................] 1 %");
        assert_eq!(text(75, 100), "tool: reading [###############.....] 75 %, 1 s left");
        assert_eq!(text(999, 1000), "tool: reading [###################.] 99 %, 0 s left");
        assert_eq!(text(200, 100), "tool: reading [####################] 100 %, 0 s left");
        assert_eq!(text(0, 0), "tool: reading [####################] 100 %, 0 s left");
    }
}
