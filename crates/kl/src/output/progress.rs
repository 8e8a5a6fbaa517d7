//! A progress bar for transfers that take a while.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Printer;

/// Anything faster than this needs no bar; a bar that flashes up and is gone only distracts.
const WORTH_SHOWING: Duration = Duration::from_millis(500);

/// The bytes moved so far. Draws on stderr, and only on a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    /// Not drawn yet, and to be drawn when it takes long.
    pending: bool,
}

impl Progress {
    /// Starts counting. `total` is the size in bytes where it is known.
    pub(crate) fn start(printer: Printer, what: &'static str, total: Option<u64>) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        let template = match total {
            Some(_) => "{msg} [{bar:30}] {bytes} of {total_bytes}, {eta} left",
            None => "{msg} {spinner} {bytes}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what);
        Self {
            bar,
            started: Instant::now(),
            pending: printer.is_live(),
        }
    }

    pub(crate) fn advance(&mut self, bytes: usize) {
        if self.pending && self.started.elapsed() >= WORTH_SHOWING {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.pending = false;
        }
        self.bar.inc(u64::try_from(bytes).unwrap_or(u64::MAX));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
