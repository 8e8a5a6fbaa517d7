//! Commands that plan and apply, and those around a run.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use protocol::RunId;

use super::state::StateArgs;
use crate::config::values::{Fallback, Span};
use crate::failure::Failure;
use crate::scope::Asked;

/// What a run is on. Nothing selected is the whole state.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Scope")]
pub(crate) struct ScopeArgs {
    /// The resources that this file declares, or declared; repeat for more files.
    #[arg(long = "file", short, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// A resource, a module, or an instance of one; repeat for more.
    #[arg(long = "target", value_name = "ADDRESS")]
    targets: Vec<String>,

    /// The files that differ from a git revision.
    #[arg(long, value_name = "REV")]
    changed_from: Option<String>,

    /// Destroy what is selected, and what depends on it.
    #[arg(long)]
    destroy: bool,

    /// Replace this instance even if nothing about it changed; repeat for more.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "destroy")]
    replace: Vec<String>,

    /// What to do when the scope cannot be proven: ask, never or always.
    #[arg(long, value_name = "WORD")]
    pub(crate) fallback: Option<Fallback>,

    /// How long to wait for a busy scope; 0 fails at once.
    #[arg(long, visible_alias = "lock-timeout", value_name = "DURATION")]
    pub(crate) wait: Option<Span>,
}

impl ScopeArgs {
    pub(crate) fn asked(&self) -> Asked {
        Asked {
            files: self.files.clone(),
            targets: self.targets.clone(),
            changed_from: self.changed_from.clone(),
            replace: self.replace.clone(),
            destroy: self.destroy,
        }
    }

    /// The selectors as typed, for the record: values of variables are not among them.
    pub(crate) fn words(&self) -> String {
        let mut words = String::new();
        let mut push = |flag: &str, value: &str| {
            words.push_str(&format!(" {flag} {value}"));
        };
        for file in &self.files {
            push("-f", &file.display().to_string());
        }
        for target in &self.targets {
            push("--target", target);
        }
        if let Some(revision) = &self.changed_from {
            push("--changed-from", revision);
        }
        for address in &self.replace {
            push("--replace", address);
        }
        if self.destroy {
            words.push_str(" --destroy");
        }
        words
    }
}

/// Terraform's own flags that choose no scope: handed on as they are.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Handed on to Terraform")]
pub(crate) struct TerraformArgs {
    /// A value for an input variable.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    var: Vec<String>,

    /// A file of values for input variables.
    #[arg(long, value_name = "FILE")]
    var_file: Vec<String>,

    /// How many operations at once.
    #[arg(long, value_name = "N")]
    parallelism: Option<u32>,

    /// Whether to look at the real objects first: `--refresh=false` does not.
    #[arg(long, value_name = "BOOL")]
    refresh: Option<bool>,

    /// Only bring the record up to date with the real objects.
    #[arg(long, conflicts_with_all = ["destroy", "replace"])]
    refresh_only: bool,

    /// Where the configuration has another backend, or none, and cannot be changed: override it in a file beside it,
    /// which is there only while kl works.
    #[arg(long)]
    pub(crate) override_backend: bool,

    /// Show warnings in short.
    #[arg(long)]
    compact_warnings: bool,

    /// No colour in Terraform's output.
    #[arg(long)]
    pub(crate) no_color: bool,

    /// Accepted for habit: kl asks for variables itself, where there is a terminal.
    #[arg(long, hide = true, value_name = "BOOL")]
    input: Option<bool>,

    /// Refused with an explanation.
    #[arg(long, hide = true, value_name = "BOOL")]
    pub(crate) lock: Option<String>,
}

/// `NAME=VALUE`, as Terraform wants it.
fn assignment(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.trim().is_empty() => Ok(text.to_owned()),
        _ => Err("a variable is given as NAME=VALUE".to_owned()),
    }
}

impl TerraformArgs {
    /// `-var` and `-var-file`, for the plan and, where ephemeral variables need it, for the apply.
    pub(crate) fn variables(&self) -> Vec<String> {
        let files = self.var_file.iter().map(|file| format!("-var-file={file}"));
        let values = self.var.iter().map(|value| format!("-var={value}"));
        files.chain(values).collect()
    }

    /// The flags of a plan, without variables.
    pub(crate) fn for_plan(&self) -> Vec<String> {
        let mut flags = self.for_apply();
        if let Some(refresh) = self.refresh {
            flags.push(format!("-refresh={refresh}"));
        }
        if self.refresh_only {
            flags.push("-refresh-only".to_owned());
        }
        flags
    }

    /// Fails for what Terraform refuses, before anything is asked or reserved.
    pub(crate) fn refuse_contradictions(&self) -> crate::failure::Result<()> {
        match self.refresh_only && self.skips_refresh() {
            true => Err(Failure::usage(
                "-refresh-only does nothing but refresh, and -refresh=false does not: give one of them",
            )),
            false => Ok(()),
        }
    }

    /// Whether the real objects are not looked at.
    pub(crate) fn skips_refresh(&self) -> bool {
        self.refresh == Some(false)
    }

    /// The flags of an apply, without variables.
    pub(crate) fn for_apply(&self) -> Vec<String> {
        let mut flags = Vec::new();
        if let Some(parallelism) = self.parallelism {
            flags.push(format!("-parallelism={parallelism}"));
        }
        if self.compact_warnings {
            flags.push("-compact-warnings".to_owned());
        }
        flags
    }
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl plan -f database.tf

The real Terraform plans in this directory, on the slice of the state that the
selected resources need; nothing is written here. Where the scope cannot be
proven, kl says why and, if allowed, does what plain Terraform does.

JSON: {\"lane\", \"reason\", \"run\", \"scope\", \"targets\", \"has_changes\", \"changes\":
[{\"address\", \"action\"}, …], \"outputs\", \"drifted\", \"notes\", \"plan_file\"}; \"scope\"
is `ScopeContract` of the API or null, \"run\" its id or null.")]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,

    /// Keep the plan in this file, for `kl apply FILE`. It holds values and a token.
    #[arg(long, short, visible_alias = "out", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Exit with 2 when there are changes, as Terraform does.
    #[arg(long)]
    pub(crate) detailed_exitcode: bool,

    #[command(flatten)]
    pub(crate) terraform: TerraformArgs,
}

#[derive(Debug, Clone, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "kl apply [OPTIONS] [PLANFILE]\n       kl apply abort [OPTIONS] RUN",
    after_help = "\
Example: kl apply -f database.tf

Reserves the scope, plans, holds the plan against the scope, asks, applies, and
records what was built as it is built. Others work on the rest of the state
meanwhile. With a plan file of `kl plan -o` that plan is applied.

JSON: as `kl plan`, with \"applied\", \"versions\": [`RunVersion` of the API, …] and
\"kept_count\"."
)]
pub(crate) struct ApplyArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ApplyCommand>,

    #[command(flatten)]
    pub(crate) scope: ScopeArgs,

    /// A plan of `kl plan -o FILE`.
    #[arg(value_name = "PLANFILE")]
    pub(crate) plan: Option<PathBuf>,

    /// Do not ask. What destroys, replaces or forgets needs --confirm-scope as well.
    #[arg(long, visible_alias = "yes", short = 'y')]
    pub(crate) auto_approve: bool,

    /// Agree to what the plan destroys, replaces or forgets.
    #[arg(long)]
    pub(crate) confirm_scope: bool,

    #[command(flatten)]
    pub(crate) terraform: TerraformArgs,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ApplyCommand {
    /// End somebody's run and free what it holds.
    Abort(AbortArgs),
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl apply abort run_0192f0c4a1b27c3e8d5f6a7b8c9d0e1f --reason \"runner is gone\"

One's own run takes the role writer, another's maintainer. What it held is
marked unsettled until a later run has looked at it.

JSON: `Run` of the API.")]
pub(crate) struct AbortArgs {
    /// The run, from `kl status`.
    #[arg(value_name = "RUN")]
    pub(crate) run: RunId,

    /// Why, for the record and for its holder.
    #[arg(long, value_name = "TEXT", default_value = "aborted by operator")]
    pub(crate) reason: String,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum RunCommand {
    /// Begin a run and print what a tool that runs Terraform needs to work in it.
    Begin(RunBeginArgs),
    /// Show a run.
    Status(RunStatusArgs),
    /// End a run and free what it holds.
    End(RunEndArgs),
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: eval \"$(kl run begin -f database.tf)\"

Prints the variables for a POSIX shell: TF_HTTP_* lead Terraform to the run, and
TF_CLI_ARGS_plan and _apply hold its targets. The configuration's backend block
has to leave its attributes open (`backend \"http\" {}`), because a block wins over
variables. End the run with `kl run end`.

JSON: {\"run\", \"environment\": {NAME: VALUE}, \"scope\"}, with `ScopeContract` of
the API.")]
pub(crate) struct RunBeginArgs {
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,

    /// Only plan: claims nothing, and takes no upload.
    #[arg(long)]
    pub(crate) plan_only: bool,

    /// For how long the claims live without an upload or a renewal.
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    pub(crate) lease: Span,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl run status

Without an id, the run that `kl run begin` put into this environment (KL_RUN).

JSON: `Run` of the API; with --watch a line for each event, as `kl status --watch`
has them.")]
pub(crate) struct RunStatusArgs {
    /// The run.
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<RunId>,

    /// Go on until it is over, and tell what becomes of it.
    #[arg(long)]
    pub(crate) watch: bool,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "Example: kl run end\n\nJSON: `Run` of the API.")]
pub(crate) struct RunEndArgs {
    /// The run; KL_RUN where it is left out.
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<RunId>,

    /// It did not go well.
    #[arg(long)]
    pub(crate) failed: bool,

    /// Whether Terraform looked at the real objects: `--refresh=false` where it planned without, which settles nothing.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) refresh: bool,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl why terraform_data.database

Without an address: everybody who holds something of the state.

JSON: {\"address\", \"holders\": [`LockHolder` of the API, …], \"runs\": [`Run` of the
API, …]}.")]
pub(crate) struct WhyArgs {
    /// A resource, a module, or an instance.
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: Option<String>,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl graph terraform_data.database --format dot

Reads the configuration in this directory; no server is asked.

JSON: {\"address\", \"depends_on\": [ADDRESS, …], \"needed_by\": [ADDRESS, …], \"edges\":
[[FROM, TO], …]}.")]
pub(crate) struct GraphArgs {
    /// A resource or a module.
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,

    /// How to print it: text or dot.
    #[arg(long, value_name = "WORD", default_value = "text")]
    pub(crate) format: GraphFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum GraphFormat {
    Text,
    Dot,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl recover

Lists what was uploaded too late or beyond its scope and is kept, and an
errored.tfstate in this directory, each beside what the state has now. Adopting
takes over what the state has not changed since; where both changed, --prefer-kept
or --prefer-state chooses.

JSON: {\"kept\": [{\"id\", \"kept_at\", \"kept_by\", \"addresses\": [`KeptAddress` of the
API, …]}], \"errored\", \"settled\"}.")]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    pub(crate) state: StateArgs,

    /// Take over the kept upload of this id.
    #[arg(long, value_name = "ID", conflicts_with = "discard")]
    pub(crate) adopt: Option<uuid::Uuid>,

    /// Let go of the kept upload of this id.
    #[arg(long, value_name = "ID")]
    pub(crate) discard: Option<uuid::Uuid>,

    /// Where both changed, take this address from the kept upload.
    #[arg(long, value_name = "ADDRESS", requires = "adopt")]
    pub(crate) prefer_kept: Vec<String>,

    /// Leave this address as the state has it.
    #[arg(long, value_name = "ADDRESS", requires = "adopt")]
    pub(crate) prefer_state: Vec<String>,

    /// Do not ask.
    #[arg(long, short)]
    pub(crate) yes: bool,
}
