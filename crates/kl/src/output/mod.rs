//! The one printer: results to stdout, everything else to stderr.
//!
//! A command hands over a value to print; whether it comes out as text or as JSON is decided here.
//! Whatever came from a server or a file is made harmless for a terminal on the way
//! ([`plain`]). A reader that went away (`kl pull | head`) is not an error: it surfaces as
//! [`ClosedPipe`], which ends the program quietly.

pub(crate) mod progress;
pub(crate) mod table;
pub(crate) mod target;
pub(crate) mod time;
pub(crate) mod values;

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::failure::{Failure, Kind, Result};

/// How output is wanted, from flags and the environment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    json: bool,
    quiet: bool,
    colour: bool,
    live: bool,
}

/// The reader of stdout went away.
#[derive(Debug, thiserror::Error)]
#[error("stdout was closed")]
pub(crate) struct ClosedPipe;

impl Printer {
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        // https://no-color.org: set and not empty means no colour.
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            json,
            quiet,
            colour: terminal && !no_colour,
            live: terminal && !quiet,
        }
    }

    /// Prints a result: the value as JSON when that was asked for, the text otherwise.
    pub(crate) fn result<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        if self.json {
            let mut json = serde_json::to_string_pretty(value)
                .map_err(|error| Failure::new(Kind::Failed, error))?;
            json.push('\n');
            self.bytes(json.as_bytes())
        } else {
            self.bytes(text().as_bytes())
        }
    }

    /// Prints one of many results as it comes: JSON on a line of its own, or the text.
    pub(crate) fn line<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        if self.json {
            let mut json =
                serde_json::to_string(value).map_err(|error| Failure::new(Kind::Failed, error))?;
            json.push('\n');
            self.bytes(json.as_bytes())
        } else {
            self.bytes(text().as_bytes())
        }
    }

    /// Writes bytes to stdout as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<()> {
        let mut stdout = io::stdout().lock();
        stdout
            .write_all(bytes)
            .and_then(|()| stdout.flush())
            .map_err(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => Failure::new(Kind::Failed, ClosedPipe),
                _ => Failure::from(error).context("could not write to stdout"),
            })
    }

    pub(crate) fn wants_json(&self) -> bool {
        self.json
    }

    /// Whether a moving progress line may be shown.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Says something beside the result; silent with `--quiet`.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.stderr(&format!("{}\n", plain(text)));
        }
    }

    pub(crate) fn warning(&self, text: &str) {
        if !self.quiet {
            self.stderr(&format!(
                "{} {}\n",
                self.paint("warning:", "33"),
                plain(text)
            ));
        }
    }

    /// Prints a failure: what, why, why that, and what to try. Never silenced.
    pub(crate) fn failure(&self, failure: &Failure) {
        let mut text = String::new();
        for (depth, cause) in failure.causes().enumerate() {
            let cause = plain(&cause);
            // Writing to a String cannot fail.
            _ = match depth {
                0 => writeln!(text, "{} {cause}", self.paint("error:", "31")),
                _ => writeln!(text, "  because: {cause}"),
            };
        }
        for hint in failure.hints() {
            _ = writeln!(text, "{} {}", self.paint("hint:", "36"), plain(hint));
        }
        self.stderr(&text);
    }

    /// Whether Terraform's own text on stdout may be coloured.
    pub(crate) fn colours_stdout(&self) -> bool {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        io::stdout().is_terminal() && !no_colour && !self.json
    }

    /// A line of a program at work: beside the result where that is JSON.
    pub(crate) fn progress_line(&self, line: &str) -> Result<()> {
        match (self.quiet, self.json) {
            (true, _) => Ok(()),
            (_, true) => {
                self.stderr(&format!("{line}\n"));
                Ok(())
            }
            _ => self.bytes(format!("{line}\n").as_bytes()),
        }
    }

    /// What another program wrote to its stderr, as it is.
    pub(crate) fn raw_stderr(&self, text: &str) {
        self.stderr(text);
    }

    /// Whether there is a terminal to ask on.
    pub(crate) fn can_ask(&self) -> bool {
        io::stdin().is_terminal()
    }

    /// [`confirm`](Self::confirm) without holding up what runs meanwhile. A question that is
    /// abandoned leaves a thread behind that ends with the process.
    pub(crate) async fn ask(&self, question: &str) -> Result<bool> {
        let (answer, asked) = tokio::sync::oneshot::channel();
        let (printer, question) = (*self, question.to_owned());
        std::thread::spawn(move || {
            // Nobody waits for the answer any more if the work was stopped.
            _ = answer.send(printer.confirm(&question));
        });
        asked
            .await
            .unwrap_or_else(|_| Err(Failure::failed("the question was not answered")))
    }

    /// Asks a question on the terminal; `false` for anything but "yes".
    ///
    /// # Errors
    /// A usage failure when there is no terminal to ask on.
    pub(crate) fn confirm(&self, question: &str) -> Result<bool> {
        if !io::stdin().is_terminal() {
            return Err(Failure::usage(format!("no terminal to ask on: {question}"))
                .hint("add `--yes` to do it without being asked"));
        }
        self.stderr(&format!(
            "{} Only `yes` is taken for yes: ",
            plain(question)
        ));
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(answer.trim() == "yes")
    }

    fn paint(&self, word: &str, colour: &str) -> String {
        if self.colour {
            format!("\x1b[1;{colour}m{word}\x1b[0m")
        } else {
            word.to_owned()
        }
    }

    fn stderr(&self, text: &str) {
        // If even stderr is gone there is nobody left to tell.
        _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

/// Makes foreign text fit for a terminal and for one line: control characters, line breaks and
/// the marks that reorder text become visible escapes.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            _ if character.is_control() || is_reordering(character) => {
                // Writing to a String cannot fail.
                _ = write!(out, "\\u{{{:x}}}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out
}

/// Unicode's bidirectional controls, which can make a line read as something else.
fn is_reordering(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        assert_eq!(
            plain("a\x1b[31mb\nc\u{202e}d é"),
            "a\\u{1b}[31mb\\nc\\u{202e}d é"
        );
    }
}
