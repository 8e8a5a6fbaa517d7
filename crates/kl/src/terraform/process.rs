//! Running Terraform: apart from kl's own life, with its output in a file that kl follows.
//!
//! On a pipe Terraform would die of SIGPIPE together with kl and lose what it had not uploaded; in
//! kl's process group a ^C of the terminal would reach it twice and cost it its last upload. So it
//! writes to files and has a process group of its own, and kl passes one signal for each that it
//! gets.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::data_dir::DataDir;
use super::variables::Variables;
use crate::failure::{Failure, Result};

/// Often enough for a person who watches, seldom enough to cost nothing.
const LOOK: Duration = Duration::from_millis(50);

/// On a slice Terraform's heap is small, and its garbage collector takes a sixth of a plan's time. Go's own default is 100;
/// whoever has set one keeps it.
const GOGC: &str = "200";

/// How often Terraform was asked to stop, and by whom; it only grows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) count: u32,
    pub(crate) why: String,
}

/// A Terraform that is set up for one run.
pub(crate) struct Terraform<'a> {
    pub(crate) program: &'a str,
    pub(crate) directory: &'a Path,
    pub(crate) data: &'a DataDir,
    pub(crate) variables: &'a Variables,
    pub(crate) stop: watch::Receiver<Stop>,
}

/// A finished Terraform.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    /// Whether it was asked to stop on the way.
    pub(crate) stopped: bool,
}

impl Ended {
    pub(crate) fn succeeded(&self) -> bool {
        self.code == Some(0)
    }

    /// How it ended, in words.
    pub(crate) fn how(&self) -> String {
        match self.code {
            Some(code) => format!("ended with exit code {code}"),
            None => "was killed".to_owned(),
        }
    }
}

impl Terraform<'_> {
    /// Runs one command; `line` gets each line of its standard output as it comes.
    ///
    /// # Errors
    /// If it cannot be started or followed. That it fails is no error here.
    pub(crate) async fn run(
        &self,
        arguments: &[String],
        mut line: impl FnMut(&str),
    ) -> Result<Ended> {
        let name = arguments.first().map_or("terraform", String::as_str);
        let out = self.data.file(&format!("{name}.stdout"));
        let err = self.data.file(&format!("{name}.stderr"));
        let mut child = self.spawn(arguments, &out, &err)?;
        let mut followed = Followed::open(&out)?;
        let mut stop = self.stop.clone();
        let mut passed = stop.borrow_and_update().count;
        let before = passed;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status?,
                changed = stop.changed() => {
                    if changed.is_err() {
                        // Nobody is left who could ask; go on following.
                        break child.wait().await?;
                    }
                    let asked = stop.borrow_and_update().count;
                    for _ in passed..asked {
                        interrupt(&child);
                    }
                    passed = asked.max(passed);
                }
                () = tokio::time::sleep(LOOK) => followed.lines(&mut line)?,
            }
        };
        followed.lines(&mut line)?;
        followed.rest(&mut line);
        Ok(Ended {
            code: status.code(),
            stdout: std::fs::read(&out)?,
            stderr: String::from_utf8_lossy(&std::fs::read(&err)?).into_owned(),
            stopped: passed > before,
        })
    }

    fn spawn(&self, arguments: &[String], out: &Path, err: &Path) -> Result<Child> {
        let mut command = Command::new(self.program);
        command
            .args(arguments)
            .current_dir(self.directory)
            .envs(self.variables.environment())
            .env("TF_DATA_DIR", self.data.path())
            .env("TF_IN_AUTOMATION", "1")
            .env("TF_INPUT", "0")
            .env_remove("TF_WORKSPACE")
            .stdin(Stdio::null())
            .stdout(File::create(out)?)
            .stderr(File::create(err)?)
            .process_group(0);
        if std::env::var_os("GOGC").is_none() {
            command.env("GOGC", GOGC);
        }
        for (name, _) in std::env::vars_os() {
            if name
                .to_str()
                .is_some_and(|name| name.starts_with("TF_CLI_ARGS"))
            {
                command.env_remove(&name);
            }
        }
        command.spawn().map_err(|error| {
            Failure::from(error).context(format!("could not start {}", self.program))
        })
    }
}

/// One interrupt to Terraform alone: it ends its own children.
fn interrupt(child: &Child) {
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(pid) = pid {
        // It may have ended this moment.
        _ = rustix::process::kill_process(pid, Signal::INT);
    }
}

/// A growing file, read line by line.
struct Followed {
    file: File,
    pending: Vec<u8>,
}

impl Followed {
    fn open(path: &PathBuf) -> Result<Self> {
        Ok(Self {
            file: File::open(path)?,
            pending: Vec::new(),
        })
    }

    fn lines(&mut self, line: &mut impl FnMut(&str)) -> Result<()> {
        self.file.read_to_end(&mut self.pending)?;
        while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
            let rest = self.pending.split_off(end + 1);
            let whole = std::mem::replace(&mut self.pending, rest);
            line(&String::from_utf8_lossy(&whole[..end]));
        }
        Ok(())
    }

    fn rest(&mut self, line: &mut impl FnMut(&str)) {
        if !self.pending.is_empty() {
            line(&String::from_utf8_lossy(&self.pending));
            self.pending.clear();
        }
    }
}
