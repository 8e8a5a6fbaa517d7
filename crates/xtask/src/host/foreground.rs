//! Commands that run in the foreground: cargo, psql, terraform, the user's own.
//!
//! Unlike [`crate::host::process::Process`] these are waited for. A dropped [`Foreground`] (a signal came, or an error
//! elsewhere) ends its child before anything the child depends on is taken away.

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

/// How long a command may take to end after it was told to.
const END_WITHIN: Duration = Duration::from_secs(10);

/// The exit code to hand on: the child's own, or 128 + n when signal n ended it.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// Runs `command` on our own terminal and waits for it.
pub(crate) async fn run(command: Command) -> Result<ExitStatus> {
    Foreground::spawn(command)?.wait().await
}

/// Like [`run`], and a failure is an error that names the command.
pub(crate) async fn run_checked(command: Command) -> Result<()> {
    let shown = display(command.as_std());
    let status = run(command).await?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Runs `command` quietly and gives back what it wrote to stdout; on failure the error carries what it wrote to stderr.
pub(crate) async fn output(mut command: Command) -> Result<Vec<u8>> {
    let shown = display(command.as_std());
    let output = command
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("cannot run `{shown}`"))?;
    if !output.status.success() {
        bail!(
            "`{shown}` failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(output.stdout)
}

/// The command line as a person would type it, without its environment (which holds secrets).
pub(crate) fn display(command: &std::process::Command) -> String {
    display_args(std::iter::once(command.get_program()).chain(command.get_args()))
}

/// Words joined as a person would type them.
pub(crate) fn display_args<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> String {
    let words: Vec<String> = words
        .into_iter()
        .map(|word| word.as_ref().to_string_lossy().into_owned())
        .collect();
    words.join(" ")
}

/// A child on our terminal. Dropping it before it ended tells it to end, then kills it.
pub(crate) struct Foreground {
    child: Child,
    /// Whether the child leads a process group of its own, so that a signal reaches its children too.
    leads_group: bool,
}

impl Foreground {
    pub(crate) fn spawn(command: Command) -> Result<Self> {
        // On a terminal the child must stay in the foreground group, or it cannot read from it; Ctrl-C then reaches
        // it without our help. Elsewhere its own group lets us pass a signal on to everything it started.
        if std::io::stdin().is_terminal() {
            Self::start(command, false)
        } else {
            Self::spawn_in_group(command)
        }
    }

    /// For a child that reads nothing and whose own children must end with it.
    pub(crate) fn spawn_in_group(mut command: Command) -> Result<Self> {
        command.process_group(0);
        Self::start(command, true)
    }

    fn start(mut command: Command, leads_group: bool) -> Result<Self> {
        let child = command
            .spawn()
            .with_context(|| format!("cannot run `{}`", display(command.as_std())))?;
        Ok(Self { child, leads_group })
    }

    pub(crate) async fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.child.wait().await?)
    }

    /// Waits, and gives back what the child wrote to stdout, which must be piped.
    pub(crate) async fn wait_with_stdout(&mut self) -> Result<(ExitStatus, String)> {
        let mut text = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_string(&mut text).await?;
        }
        Ok((self.wait().await?, text))
    }

    /// Ends the child at once, as a crash would, with everything it started if it leads a group.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.signal(Signal::KILL);
        self.wait().await.map(drop)
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = if self.leads_group {
                kill_process_group(pid, signal)
            } else {
                kill_process(pid, signal)
            };
        }
    }

    fn ends_within(&mut self, bound: Duration) -> bool {
        let deadline = Instant::now() + bound;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // The terminal has already told it; a second signal would cut short what terraform does on the first.
        if !self.leads_group && self.ends_within(END_WITHIN) {
            return;
        }
        self.signal(Signal::TERM);
        if !self.ends_within(END_WITHIN) {
            self.signal(Signal::KILL);
            self.ends_within(END_WITHIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn code_of(script: &str) -> u8 {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        exit_code(run(command).await.unwrap())
    }

    #[tokio::test]
    async fn exit_codes_and_signals_are_handed_on() {
        assert_eq!(code_of("exit 0").await, 0);
        assert_eq!(code_of("exit 7").await, 7);
        assert_eq!(code_of("kill -TERM $$").await, 143);
        assert_eq!(code_of("kill -KILL $$").await, 137);
    }
}
