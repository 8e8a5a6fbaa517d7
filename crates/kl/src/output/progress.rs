//! Showing that something takes a while: a bar for transfers, a spinner for waiting.
//!
//! Nothing is shown for what is over within half a second, and nothing moves where stderr is no
//! terminal; there a transfer that takes longer gets one plain line.

use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;

use super::Printer;

/// Anything faster needs no bar; a bar that flashes up and is gone only distracts.
const WORTH_SHOWING: Duration = Duration::from_millis(500);
/// Often enough to look alive, seldom enough for a slow terminal.
const TICK: Duration = Duration::from_millis(100);

/// Something under way. Clones show the same thing; it is cleared when it is finished or when the
/// last clone goes.
#[derive(Debug, Clone)]
pub(crate) struct Progress(Arc<Shown>);

#[derive(Debug)]
struct Shown {
    bar: ProgressBar,
    reveal: Option<JoinHandle<()>>,
}

impl Progress {
    /// A transfer. `total` is its size in bytes where it is known.
    pub(crate) fn transfer(printer: Printer, what: &'static str, total: Option<u64>) -> Self {
        let template = match total {
            Some(_) => "{msg} [{bar:30}] {bytes} of {total_bytes}, {eta} left",
            None => "{msg} {spinner} {bytes}",
        };
        let line = match total {
            Some(bytes) => format!("{what} {bytes} bytes"),
            None => what.to_owned(),
        };
        let bar = hidden(total, template).with_message(what);
        Self::reveal_later(printer, bar, Some(line))
    }

    /// A job of the server, which is asked for how far it is.
    pub(crate) fn job(printer: Printer, what: &str) -> Self {
        let bar = hidden(None, "{spinner} {msg}").with_message(what.to_owned());
        Self::reveal_later(printer, bar, Some(what.to_owned()))
    }

    /// So much of a job is done.
    pub(crate) fn set(&self, what: &'static str, done: u64, total: u64) {
        let bar = &self.0.bar;
        bar.set_message(what);
        if total > 0 {
            set_template(bar, "{msg} [{bar:30}] {bytes} of {total_bytes}, {eta} left");
            bar.set_length(total);
            bar.set_position(done);
        }
    }

    /// Waiting for an answer.
    pub(crate) fn waiting(printer: Printer, whom: &str) -> Self {
        let bar = hidden(None, "{spinner} waiting for {msg}").with_message(whom.to_owned());
        Self::reveal_later(printer, bar, None)
    }

    fn reveal_later(printer: Printer, bar: ProgressBar, line: Option<String>) -> Self {
        let reveal = if printer.is_live() {
            let bar = bar.clone();
            Some(tokio::spawn(async move {
                tokio::time::sleep(WORTH_SHOWING).await;
                bar.set_draw_target(ProgressDrawTarget::stderr());
                bar.enable_steady_tick(TICK);
            }))
        } else {
            line.map(|line| {
                tokio::spawn(async move {
                    tokio::time::sleep(WORTH_SHOWING).await;
                    printer.note(&line);
                })
            })
        };
        Self(Arc::new(Shown { bar, reveal }))
    }

    /// So many bytes more have gone through.
    pub(crate) fn advance(&self, bytes: usize) {
        self.0.bar.inc(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// Shows something else that is being waited for.
    pub(crate) fn say(&self, what: &str) {
        self.0.bar.set_message(super::plain(what));
    }

    /// Begins again from nothing: the transfer is repeated.
    pub(crate) fn restart(&self) {
        self.0.bar.reset();
    }

    /// Everything is through, and the other side is at work on it.
    pub(crate) fn sent(&self) {
        set_template(
            &self.0.bar,
            "{spinner} {total_bytes} sent, waiting for the answer",
        );
    }

    /// Takes it off the screen, whoever else still holds on to it.
    pub(crate) fn finish(&self) {
        self.0.end();
    }
}

impl Shown {
    fn end(&self) {
        if let Some(reveal) = &self.reveal {
            reveal.abort();
        }
        self.bar.finish_and_clear();
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.end();
    }
}

fn hidden(total: Option<u64>, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
    set_template(&bar, template);
    bar
}

fn set_template(bar: &ProgressBar, template: &str) {
    // A template is a constant of this file; should one be wrong, the style before it does.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
}
