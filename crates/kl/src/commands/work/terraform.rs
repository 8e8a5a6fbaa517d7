//! Planning and applying with the real Terraform, on either lane.

use std::path::PathBuf;

use protocol::RunId;

use super::prepare::Prepared;
use super::said::{Said, is_progress};
use crate::failure::{Failure, Kind, Result};
use crate::output::progress::Progress;
use crate::plan::Plan;
use crate::terraform::{DataDir, Ended, Redirection, Terraform};

/// Terraform with a data directory of its own.
pub(in crate::commands) struct Workshop<'a> {
    prepared: &'a Prepared<'a>,
    data: DataDir,
}

/// A plan that was made.
pub(super) struct Made {
    pub(super) file: PathBuf,
    /// What Terraform says it will do, without progress.
    pub(super) text: String,
    /// What it said beside that: warnings.
    pub(super) warnings: String,
    pub(super) plan: Plan,
}

impl<'a> Workshop<'a> {
    pub(in crate::commands) fn open(prepared: &'a Prepared<'a>, to: &Redirection) -> Result<Self> {
        let surroundings = &prepared.context.surroundings;
        let data = DataDir::create(
            &surroundings.directory,
            surroundings.terraform_data_dir(),
            &prepared.configuration,
            to,
        )?;
        Ok(Self { prepared, data })
    }

    /// Makes the data directory ready for another program, and leaves it behind.
    pub(in crate::commands) async fn leave(mut self, run: &RunId) -> Result<PathBuf> {
        if !self.data.is_ready() {
            self.initialise().await?;
        }
        self.data.leave(run)
    }

    /// Plans, and reads what was planned.
    ///
    /// # Errors
    /// What Terraform said, after it was printed.
    pub(super) async fn plan(&mut self, targets: &[String], more: &[String]) -> Result<Made> {
        let file = self.data.file("plan");
        let mut arguments = vec![
            "plan".to_owned(),
            "-input=false".to_owned(),
            format!("-out={}", file.display()),
        ];
        arguments.extend(self.colour());
        if self.prepared.asked.destroy {
            arguments.push("-destroy".to_owned());
        }
        let replace = self.prepared.asked.replace.iter();
        arguments.extend(replace.map(|address| format!("-replace={address}")));
        arguments.extend(self.prepared.terraform.for_plan());
        arguments.extend(self.prepared.variables.for_plan().iter().cloned());
        arguments.extend(targets.iter().map(|target| format!("-target={target}")));
        arguments.extend(more.iter().cloned());
        if !self.data.is_ready() {
            self.initialise().await?;
        }
        let mut ended = self.watched(&arguments, "terraform plan").await?;
        if needs_initialising(&ended) {
            self.initialise().await?;
            ended = self.watched(&arguments, "terraform plan").await?;
        }
        if !ended.succeeded() {
            return Err(self.failed("plan", &ended));
        }
        let text = Said::of_plan(&String::from_utf8_lossy(&ended.stdout));
        let plan = self.read(&file).await?;
        Ok(Made {
            file,
            text,
            warnings: ended.stderr,
            plan,
        })
    }

    /// Reads a plan file.
    pub(super) async fn read(&self, file: &std::path::Path) -> Result<Plan> {
        let shown = self.shown(file, &["-json"]).await?;
        Plan::parse(&shown).map_err(|_| {
            // The reader's own words may quote a value.
            Failure::failed("what `terraform show -json` printed is not a plan kl can read")
        })
    }

    /// A plan file in Terraform's own words.
    pub(super) async fn described(&self, file: &std::path::Path) -> Result<String> {
        let colour = self.colour();
        let flags: Vec<&str> = colour.iter().map(String::as_str).collect();
        let shown = self.shown(file, &flags).await?;
        Ok(String::from_utf8_lossy(&shown).into_owned())
    }

    async fn shown(&self, file: &std::path::Path, flags: &[&str]) -> Result<Vec<u8>> {
        let mut arguments = vec!["show".to_owned()];
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        arguments.push(file.display().to_string());
        let ended = self.terraform().run(&arguments, |_| {}).await?;
        match ended.succeeded() {
            true => Ok(ended.stdout),
            false => Err(self.failed("show", &ended)),
        }
    }

    /// Applies a plan file; each line of Terraform goes out as it comes.
    pub(super) async fn apply(&self, file: &std::path::Path, more: &[String]) -> Result<Ended> {
        let mut arguments = vec!["apply".to_owned(), "-input=false".to_owned()];
        arguments.extend(self.colour());
        arguments.extend(self.prepared.terraform.for_apply());
        if self.prepared.binary.takes_variables_with_plan() {
            arguments.extend(self.prepared.variables.for_apply().iter().cloned());
        }
        arguments.extend(more.iter().cloned());
        arguments.push(file.display().to_string());
        let printer = self.prepared.context.printer;
        let mut said = Said::default();
        let mut printed = true;
        let ended = self
            .terraform()
            .run(&arguments, |line| {
                // Terraform goes on whether or not somebody reads.
                said.take(line, |line| {
                    printed = printed && printer.progress_line(line).is_ok()
                });
            })
            .await?;
        printer.raw_stderr(&ended.stderr);
        Ok(ended)
    }

    /// An error of Terraform: its own words go out as they are, kl adds what it means.
    pub(super) fn failed(&self, command: &str, ended: &Ended) -> Failure {
        self.prepared.context.printer.raw_stderr(&ended.stderr);
        let program = &self.prepared.binary.program;
        let said = &ended.stderr;
        let failure = Failure::message(
            Kind::Failed,
            format!("`{program} {command}` {}", ended.how()),
        );
        if said.contains("Error acquiring the state lock") || said.contains("already locked") {
            return Failure::message(
                Kind::Held,
                format!("`{program} {command}` found the state locked"),
            )
            .hint("run `kl why` to see by whom, or give `--wait` more time");
        }
        if said.contains("Saved plan is stale") {
            return failure.hint("plan again: somebody changed what the plan was made on");
        }
        if [
            "Module not installed",
            "nitialization required",
            "Inconsistent dependency lock",
            "registry",
        ]
        .iter()
        .any(|words| said.contains(words))
        {
            return failure.hint(format!(
                "what has to be downloaded is yours to fetch: run `{program} init` here"
            ));
        }
        failure
    }

    /// Makes the data directory ready without downloading anything.
    async fn initialise(&mut self) -> Result<()> {
        let arguments = self.data.init_arguments()?;
        let ended = self.terraform().run(&arguments, |_| {}).await?;
        if ended.succeeded() {
            return Ok(());
        }
        let failure = self.failed("init", &ended);
        Err(failure.hint(format!(
            "run `{} init` here once; kl downloads nothing",
            self.prepared.binary.program
        )))
    }

    /// Runs a command with its progress as a moving line.
    async fn watched(&self, arguments: &[String], what: &str) -> Result<Ended> {
        let progress = Progress::waiting(self.prepared.context.printer, what);
        let ended = self
            .terraform()
            .run(arguments, |line| {
                if is_progress(line) {
                    progress.say(line.trim());
                }
            })
            .await;
        progress.finish();
        ended
    }

    fn terraform(&self) -> Terraform<'_> {
        Terraform {
            program: &self.prepared.binary.program,
            directory: self.prepared.directory(),
            data: &self.data,
            variables: &self.prepared.variables,
            stop: self.prepared.interrupts.receiver(),
        }
    }

    fn colour(&self) -> Option<String> {
        let wanted =
            self.prepared.context.printer.colours_stdout() && !self.prepared.terraform.no_color;
        (!wanted).then(|| "-no-color".to_owned())
    }
}

/// Whether Terraform refused because of the stored backend. Nothing has been done by then.
fn needs_initialising(ended: &Ended) -> bool {
    !ended.succeeded()
        && ended.stderr.contains("nitialization required")
        && ended.stderr.contains("ackend")
}
