//! `kl archive`: what can be done with an archive file and no server.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ArchiveCommand {
    /// Check an archive from beginning to end: every size, digest, order and count, each version's
    /// document, and the signature.
    #[command(after_help = "\
Example: kl archive verify prod.klstate --key \"$(cat deployment.pub)\"

A signature proves origin only against a key that came from the deployment
itself: give it with --key. Without --key any sound signature is reported, and
none is required.

JSON: what `archive.json` says, with \"origin\", \"counts\", \"tags\", \"runs\",
\"history\" (each version's metadata), \"unpacked_bytes\", \"content_sha256\"
(equal for two archives of the same history) and \"file_sha256\".")]
    Verify(VerifyArgs),
    /// Show what an archive holds: the state, its versions, its tags.
    #[command(after_help = "\
Example: kl archive show prod.klstate

The archive is verified first. No value of a state is shown.

JSON: as `kl archive verify`.")]
    Show(FileArgs),
    /// Take documents out of an archive.
    #[command(after_help = "\
Example: kl archive extract prod.klstate --version 7 -o prod.tfstate

A version is named by its number, by a tag of the archive, or `head`. The
documents hold secrets as the state does: files are readable by their owner only.

JSON: {\"files\": [{\"seq\", \"file\", \"bytes\"}, …]}; needs -o or --all.")]
    Extract(ExtractArgs),
    /// Compare two archives, or two versions of one.
    #[command(after_help = "\
Example: kl archive diff before.klstate after.klstate

Archives are compared by what they hold; ids may differ, as an import gives new
ones where it must. Versions are compared by addresses: values are not shown.

JSON: for two archives {\"equal\", \"only_left\", \"only_right\", \"changed\", \"tags\"};
for two versions {\"added\", \"changed\", \"removed\", \"outputs_added\",
\"outputs_changed\", \"outputs_removed\", \"opaque\"}.")]
    Diff(DiffArgs),
}

/// An archive, and how much may be spent on reading it.
#[derive(Debug, Clone, Args)]
pub(crate) struct FileArgs {
    /// The archive.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Memory the reader may use, in MiB. A document needs its size and a little more.
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    pub(crate) memory: u64,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) archive: FileArgs,

    /// Demand a signature by this public key, in base64; may be given several times.
    #[arg(long = "key", value_name = "KEY")]
    pub(crate) keys: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ExtractArgs {
    #[command(flatten)]
    pub(crate) archive: FileArgs,

    /// The version: a number, a tag, or `head`.
    #[arg(long, value_name = "REF", default_value = "head")]
    pub(crate) version: String,

    /// Write the document to this file; to stdout when left out.
    #[arg(long, short, visible_alias = "out", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Write every version to this directory, as SEQ.tfstate.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["version", "output"])]
    pub(crate) all: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
#[command(override_usage = "kl archive diff [OPTIONS] FILE OTHER
       kl archive diff [OPTIONS] FILE --from REF [--to REF]")]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) archive: FileArgs,

    /// The archive to compare it with.
    #[arg(value_name = "OTHER", required_unless_present = "from", conflicts_with_all = ["from", "to"])]
    pub(crate) other: Option<PathBuf>,

    /// Compare versions of the one archive: from this one, a number or a tag.
    #[arg(long, value_name = "REF")]
    pub(crate) from: Option<String>,

    /// … to this one.
    #[arg(long, value_name = "REF", default_value = "head")]
    pub(crate) to: String,
}
