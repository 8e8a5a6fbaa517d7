//! Services that run beside a command and end with it.
//!
//! A [`Process`] owns one child by its handle. Dropping it stops the child: its own polite signal first, SIGKILL after
//! a bound. Children also ask the kernel for that signal when xtask itself dies without running any drop.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::install::find_on_path;

/// How long a service may take to obey before it is killed. All of them are told to drop what they hold, so a second
/// is already slow; the bound only matters for one that hangs.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// The signal that makes a service end at once without waiting for its clients.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StopWith {
    Terminate,
    /// For a service that takes its time over a polite end and may be lost at any instruction anyway.
    Kill,
    /// Postgres: "immediate shutdown", which writes no checkpoint and waits for nobody.
    Quit,
}

impl StopWith {
    fn signal(self) -> Signal {
        match self {
            Self::Terminate => Signal::TERM,
            Self::Kill => Signal::KILL,
            Self::Quit => Signal::QUIT,
        }
    }

    fn setpriv_name(self) -> &'static str {
        match self {
            Self::Terminate => "TERM",
            Self::Kill => "KILL",
            Self::Quit => "QUIT",
        }
    }
}

/// A program that dies with xtask and, when `user` is given, runs without our privileges.
///
/// `setpriv` (util-linux, on every Debian) sets both and then becomes the program, so the process id is the program's.
/// Without it the parent-death signal is left out; as root it is required.
pub(crate) fn supervised(program: &Path, user: Option<&str>, on_parent_death: StopWith) -> Command {
    if user.is_none() && find_on_path("setpriv").is_none() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    if let Some(user) = user {
        command.args([
            format!("--reuid={user}"),
            format!("--regid={user}"),
            "--clear-groups".to_owned(),
        ]);
    }
    command
        .args(["--pdeathsig", on_parent_death.setpriv_name(), "--"])
        .arg(program);
    command
}

/// A running service. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    stop_with: StopWith,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with both outputs in `dir/NAME.log`, out of reach of the terminal's Ctrl-C: the stack goes
    /// down after the command that uses it, not together with it.
    pub(crate) fn spawn(
        name: &str,
        mut command: Command,
        stop_with: StopWith,
        dir: &Path,
    ) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            stop_with,
            log,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `ready` holds. Fails when the process ends first or `within` passes, showing the end of its log.
    pub(crate) async fn wait_until<F, Ready>(
        &mut self,
        within: Duration,
        mut ready: F,
    ) -> Result<()>
    where
        F: FnMut() -> Ready,
        Ready: Future<Output = bool>,
    {
        let deadline = Instant::now() + within;
        loop {
            if ready().await {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!(
                    "{} ended at once ({status}):\n{}",
                    self.name,
                    self.log_tail()
                );
            }
            if Instant::now() > deadline {
                bail!(
                    "{} was not ready within {} s:\n{}",
                    self.name,
                    within.as_secs(),
                    self.log_tail()
                );
            }
            // Polling: none of the services tells anybody when it is ready.
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops it where it is, until it is resumed.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks it to end in its own time, and waits; kills it after a bound.
    pub(crate) async fn end_politely(&mut self, within: Duration) {
        self.end_by(Signal::TERM, within).await;
    }

    /// Ends it by its own signal, and waits without holding anybody up.
    pub(crate) async fn end_now(&mut self) {
        self.end_by(self.stop_with.signal(), STOP_WITHIN).await;
    }

    async fn end_by(&mut self, signal: Signal, within: Duration) {
        if !self.has_ended() {
            self.signal(signal);
        }
        let deadline = Instant::now() + within;
        while !self.has_ended() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.kill();
    }

    fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(15)..];
        tail.iter().map(|line| format!("    {line}\n")).collect()
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // The child has not been waited for, so the id cannot belong to somebody else; it may be gone already.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Process {
    /// Stops it and waits until it is gone.
    pub(crate) fn stop(&mut self) {
        if self.has_ended() {
            return;
        }
        self.signal(self.stop_with.signal());
        if !ends_within(&mut self.child, STOP_WITHIN) {
            self.kill();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether `child` ends in time. Blocks: it runs in drops, where nothing can be awaited.
fn ends_within(child: &mut Child, bound: Duration) -> bool {
    let deadline = Instant::now() + bound;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Ok(Some(_)) | Err(_) => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(dir: &Path, script: &str) -> Process {
        let mut command = supervised(Path::new("/bin/sh"), None, StopWith::Terminate);
        command.args(["-c", script]);
        Process::spawn("sleeper", command, StopWith::Terminate, dir).unwrap()
    }

    fn alive(pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let process = sleeper(dir.path(), "exec sleep 60");
        let pid = process.pid();
        assert!(alive(pid));
        drop(process);
        assert!(!alive(pid));
    }

    #[tokio::test]
    async fn a_process_that_ends_early_is_reported_with_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let mut process = sleeper(dir.path(), "echo no disk; exit 3");
        let error = process
            .wait_until(Duration::from_secs(10), || async { false })
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("sleeper ended at once"), "{error}");
        assert!(error.contains("no disk"), "{error}");
    }
}
