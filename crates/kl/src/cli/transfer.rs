//! Moving states with their history: `export state`, `import archive`, `jobs`; and tags.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use protocol::{JobId, StateName};

use super::StateArgs;
use crate::config::address::state_name;

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ExportCommand {
    /// Write a state with every version, its tags and where each comes from into an archive.
    State(ExportArgs),
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl export state prod --out prod.klstate

A job on the server writes the archive; it is downloaded, checked from beginning
to end, and takes its name only then. Takes the role maintainer: the file holds
every value of every version. A download that broke off goes on with
`kl jobs JOB --out FILE`. For the newest document alone use `kl pull`.

JSON: {\"file\", \"bytes\", \"job\"}: the last is `Job` of the API, and all there is
with --no-wait.")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) state: StateArgs,

    /// The file; NAME.klstate when left out.
    #[arg(long, short, visible_alias = "output", value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Print the job and leave it to the server.
    #[arg(long, conflicts_with = "out")]
    pub(crate) no_wait: bool,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl import archive prod.klstate --as prod-copy

The file is checked here first, then uploaded, checked again and restored by a
job of the server. Nothing is visible before everything is there. A name that is
in use is refused before anything is uploaded. An upload that broke off goes on
with `kl import archive FILE --resume JOB`. For a state file without history use
`kl import snapshot`.

JSON: `Job` of the API.")]
pub(crate) struct ImportArchiveArgs {
    /// The archive.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The name of the new state; the one in the archive when left out.
    #[arg(long = "as", value_name = "NAME", value_parser = state_name)]
    pub(crate) name: Option<StateName>,

    /// Make a read-only copy.
    #[arg(long)]
    pub(crate) archived: bool,

    /// Delete the state of this name, which must be typed here, and put the restored one in its place.
    #[arg(long, value_name = "NAME", value_parser = state_name)]
    pub(crate) overwrite: Option<StateName>,

    /// Take an archive that no key trusted by the server has signed. Takes the role admin.
    #[arg(long)]
    pub(crate) allow_foreign: bool,

    /// Go on with the upload of this job.
    #[arg(long, value_name = "JOB", conflicts_with_all = ["name", "archived", "overwrite", "allow_foreign"])]
    pub(crate) resume: Option<JobId>,

    /// Upload, print the job, and leave the rest to the server.
    #[arg(long)]
    pub(crate) no_wait: bool,

    /// Memory the check may use, in MiB. A document needs its size and a little more.
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    pub(crate) memory: u64,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl jobs

Lists the exports and imports of the environment, newest first; with a job, that
one.

JSON: {\"jobs\": [`Job` of the API, …]}; with a job `Job`; with --out as
`kl export state`.")]
pub(crate) struct JobsArgs {
    /// One job: its id, `job_…`.
    #[arg(value_name = "JOB")]
    pub(crate) job: Option<JobId>,

    /// Follow the job until it has ended.
    #[arg(long, requires = "job")]
    pub(crate) wait: bool,

    /// End the job; what it has written is removed.
    #[arg(long, requires = "job", conflicts_with_all = ["wait", "out"])]
    pub(crate) cancel: bool,

    /// Download the archive of an export to this file, or go on with that.
    #[arg(
        long,
        short,
        visible_alias = "output",
        value_name = "FILE",
        requires = "job"
    )]
    pub(crate) out: Option<PathBuf>,

    /// How many jobs are listed; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum TagCommand {
    /// Give a version a name.
    #[command(after_help = "\
Example: kl tag set before-the-move prod --version 7

A tagged version is kept for good, travels in archives, and can be named wherever
a version can. A tag is a letter, then letters, digits, `.`, `_`, `-`.

JSON: `Tag` of the API.")]
    Set(TagSetArgs),
    /// List the tags of a state.
    #[command(
        visible_alias = "ls",
        after_help = "Example: kl tag list prod\n\nJSON: `TagList` of the API."
    )]
    List(StateArgs),
    /// Take a name away from its version.
    #[command(after_help = "\
Example: kl tag unset before-the-move prod

JSON: {\"tag\"}.")]
    Unset(TagUnsetArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct TagSetArgs {
    /// The tag.
    #[arg(value_name = "TAG")]
    pub(crate) tag: String,

    #[command(flatten)]
    pub(crate) state: StateArgs,

    /// The version: a number, another tag, @K or an id; the newest when left out.
    #[arg(long, value_name = "REF", default_value = "head")]
    pub(crate) version: String,

    /// What it is for.
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    /// Move a tag that names another version.
    #[arg(long = "move")]
    pub(crate) moving: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct TagUnsetArgs {
    /// The tag.
    #[arg(value_name = "TAG")]
    pub(crate) tag: String,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}
