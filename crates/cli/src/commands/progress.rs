//! A progress line for a long command on the terminal of standard error. It is shown only while the command works, and only on
//! a terminal.

use std::io::{IsTerminal, Write, stderr};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossterm::queue;
use crossterm::terminal::{Clear, ClearType, size};
use vnode::progress::Progress;

/// Commands that finish within this time show nothing.
const DISPLAY_DELAY: Duration = Duration::from_millis(400);
/// Interval at which the line is redrawn for work of this process.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

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
        let Some(mut is_shown) = self.lock().filter(|_| elapsed >= DISPLAY_DELAY) else { return };
        // A terminal that nobody looks at may have no columns.
        let columns = size().ok().map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0).unwrap_or(80);
        // The last column stays free: a terminal may wrap after it.
        let line: String = text(&self.command, objects, elapsed).chars().take(columns.saturating_sub(1)).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_shows_the_count_and_the_rate() {
        let after = Duration::from_millis(2_500);
        assert_eq!(text("snapshot merge", 5_000, after), "snapshot merge: 5000 objects, 2 s, 2000/s");
        assert_eq!(text("union check", 0, after), "union check: 0 objects, 2 s, 0/s");
    }
}
