//! Commands that work on one state.

use std::path::PathBuf;
use std::str::FromStr as _;

use clap::{Args, Subcommand};
use protocol::StateId;

use super::transfer::ImportArchiveArgs;
use crate::config::StateRef;
use crate::config::values::Span;

/// A command on one state that needs no more.
#[derive(Debug, Clone, Args)]
pub(crate) struct StateArgs {
    /// NAME, ENV/NAME, WS/ENV/NAME or a URL; as configured when left out.
    #[arg(id = "argument", value_name = "STATE")]
    pub(crate) argument: Option<StateRef>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) state: StateArgs,

    /// Go on and tell what happens: who takes a part, waits or gives up, new versions, runs.
    #[arg(long)]
    pub(crate) watch: bool,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl init https://api.example.com/v1/states/ws_…/env_…/prod

Without an address, the one that Terraform is configured to use here is taken.
The file names where the token is found (KL_TOKEN unless --token-env says
another variable), never the token.

JSON: {\"file\", \"written\", \"backend_block\", \"principal\", \"state_exists\"}.")]
pub(crate) struct InitArgs {
    /// The address of the state, or the parts of it that are not known yet.
    #[arg(id = "argument", value_name = "STATE")]
    pub(crate) argument: Option<StateRef>,

    /// Replace a .kl.toml that is there already.
    #[arg(long)]
    pub(crate) force: bool,

    /// The variable that will hold the token.
    #[arg(long, value_name = "NAME", default_value = "KL_TOKEN")]
    pub(crate) token_env: String,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl history prod --limit 5

JSON: {\"versions\": [`Version` of the API, …]}.")]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) state: StateArgs,

    /// How many versions; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl diff prod --from 7

JSON: {\"from\", \"to\", \"added\", \"changed\", \"removed\"}: two `Version` of the API and
three lists of addresses.")]
pub(crate) struct VersionDiffArgs {
    #[command(flatten)]
    pub(crate) state: StateArgs,

    /// The version to start from: a number, a tag, @K or an id.
    #[arg(long, value_name = "REF", default_value = "@1")]
    pub(crate) from: String,

    /// The version to compare with.
    #[arg(long, value_name = "REF", default_value = "head")]
    pub(crate) to: String,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl pull prod --version 7 -o prod.tfstate

A version is named by its number in `kl history`, by its tag, by `@1` for the one
before the newest, `@2` for the one before that, or by its id.

JSON: {\"file\", \"bytes\"}; needs -o.")]
pub(crate) struct PullArgs {
    #[command(flatten)]
    pub(crate) state: StateArgs,

    /// Which version: a number, a tag, @K or an id; the newest when left out.
    #[arg(long, value_name = "REF", default_value = "head")]
    pub(crate) version: String,

    /// Write to this file; it is replaced only once everything has arrived.
    #[arg(long, short, visible_alias = "out", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum StateCommand {
    /// List the addresses in a state, as `terraform state list` does.
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show one resource, as `terraform state show` does.
    Show(ShowArgs),
    /// Write out the document, byte for byte.
    Pull(PullArgs),
    /// Forget what stands at addresses; the infrastructure stays. A preview unless
    /// --apply is given.
    #[command(visible_alias = "remove")]
    Rm(StateRmArgs),
    /// Let an object stand elsewhere; a preview unless --apply is given.
    #[command(visible_alias = "move")]
    Mv(StateMvArgs),
}

#[derive(Debug, Clone, Args)]
#[command(
    override_usage = "kl state rm [OPTIONS] [STATE] ADDRESS...",
    after_help = "\
Example: kl state rm prod 'module.old.aws_instance.web[0]' --apply

An address names an instance, a resource with all its instances, or a module with
all beneath it. Only these are claimed: others go on working on the rest, and
plain Terraform is locked out for the moment it takes.

JSON: {\"action\", \"address\", \"changes\", \"dependents\", \"warnings\", \"version\"}:
`version` is null for a preview, and where there is nothing to do."
)]
pub(crate) struct StateRmArgs {
    /// The state, where it is not the configured one, and what to forget.
    #[arg(value_name = "STATE|ADDRESS", required = true)]
    arguments: Vec<String>,

    /// Do it; without this flag only what would change is shown.
    #[arg(long)]
    pub(crate) apply: bool,
}

impl StateRmArgs {
    pub(crate) fn state(&self) -> Option<StateRef> {
        named_state(&self.arguments)
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        beside_state(&self.arguments).map(str::to_owned).collect()
    }
}

#[derive(Debug, Clone, Args)]
#[command(
    override_usage = "kl state mv [OPTIONS] [STATE] FROM TO",
    after_help = "\
Example: kl state mv prod aws_instance.web aws_instance.front --apply

Everything that belongs to the object comes along, and the dependency lists that
name it follow.

JSON: as of `kl state rm`."
)]
pub(crate) struct StateMvArgs {
    /// The state, where it is not the configured one; from where, to where.
    #[arg(value_name = "STATE|ADDRESS", required = true, num_args = 2..=3)]
    arguments: Vec<String>,

    /// Do it; without this flag only what would change is shown.
    #[arg(long)]
    pub(crate) apply: bool,
}

impl StateMvArgs {
    pub(crate) fn state(&self) -> Option<StateRef> {
        named_state(&self.arguments)
    }

    /// From where, to where; `None` if that is not what was named.
    pub(crate) fn ends(&self) -> Option<(String, String)> {
        let ends: Vec<&str> = beside_state(&self.arguments).collect();
        match ends[..] {
            [from, to] => Some((from.to_owned(), to.to_owned())),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Args)]
#[command(
    override_usage = "kl state list [OPTIONS] [STATE] [ADDRESS]...",
    after_help = "\
Example: kl state list prod module.network

An argument with a dot that reads as an address (`module.network`, `aws_vpc.main`)
filters, as in Terraform; any other names the state. A state whose name looks
like an address is named by --state.

JSON: {\"version\", \"resources\": [`ResourceSummary` of the API, …]}."
)]
pub(crate) struct ListArgs {
    /// The state, and addresses to list only what lies below them.
    #[arg(value_name = "STATE|ADDRESS")]
    arguments: Vec<String>,

    /// Which version: a number, a tag, @K or an id; the newest when left out.
    #[arg(long, value_name = "REF", default_value = "head")]
    pub(crate) version: String,
}

impl ListArgs {
    /// Whether nothing was named: `kl list` then lists states.
    pub(crate) fn is_bare(&self) -> bool {
        self.arguments.is_empty() && self.version == "head"
    }

    /// The argument that names the state: the first that is no address.
    pub(crate) fn state(&self) -> Option<StateRef> {
        named_state(&self.arguments)
    }

    /// The other arguments.
    pub(crate) fn filters(&self) -> impl Iterator<Item = &str> {
        beside_state(&self.arguments)
    }
}

/// The argument that names the state: the first that is no address.
fn named_state(arguments: &[String]) -> Option<StateRef> {
    arguments
        .iter()
        .find(|text| !is_address(text))
        .and_then(|text| StateRef::from_str(text).ok())
}

/// The arguments beside the one that names the state.
fn beside_state(arguments: &[String]) -> impl Iterator<Item = &str> {
    let mut state_seen = false;
    arguments.iter().map(String::as_str).filter(move |text| {
        let is_state = !state_seen && !is_address(text) && StateRef::from_str(text).is_ok();
        state_seen |= is_state;
        !is_state
    })
}

/// Whether an argument reads as the address of a resource or a module.
fn is_address(text: &str) -> bool {
    !text.contains("://")
        && text.contains('.')
        && (tfstate::Address::from_str(text).is_ok() || tfstate::ModulePath::from_str(text).is_ok())
}

#[derive(Debug, Clone, Args)]
#[command(
    override_usage = "kl show [OPTIONS] [STATE] ADDRESS",
    after_help = "\
Example: kl show prod 'aws_instance.web[\"a\"]'

Values that are marked sensitive are masked. --sensitive shows them, needs the
role reader, and is recorded in the audit log.

JSON: `ResourceDetail` of the API."
)]
pub(crate) struct ShowArgs {
    /// The state, where it is not the configured one, and the resource's address.
    #[arg(value_names = ["STATE", "ADDRESS"], num_args = 1..=2, required = true)]
    arguments: Vec<String>,

    /// Show sensitive values too.
    #[arg(long)]
    pub(crate) sensitive: bool,

    /// In which version: a number, a tag, @K or an id; the newest when left out.
    #[arg(long, value_name = "REF", default_value = "head")]
    pub(crate) version: String,
}

impl ShowArgs {
    pub(crate) fn state(&self) -> Option<StateRef> {
        match &self.arguments[..] {
            [state, _] => StateRef::from_str(state).ok(),
            _ => None,
        }
    }

    /// The state argument when it cannot name a state.
    pub(crate) fn bad_state(&self) -> Option<String> {
        match &self.arguments[..] {
            [state, _] => StateRef::from_str(state)
                .err()
                .map(|error| error.to_string()),
            _ => None,
        }
    }

    pub(crate) fn address(&self) -> &str {
        self.arguments.last().map_or("", String::as_str)
    }
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ImportCommand {
    /// Write a state file as the next version of a state.
    Snapshot(SnapshotArgs),
    /// Restore a state with its whole history from an archive.
    Archive(ImportArchiveArgs),
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl import snapshot terraform.tfstate prod

Takes the Terraform lock around the write. A file in UTF-16 or with a byte order
mark, as Windows shells write them, is converted first. A state that holds
resources is replaced by another lineage or a lower serial only with --force.

JSON: `ImportAnswer` of the API.")]
pub(crate) struct SnapshotArgs {
    /// The file; `-` reads standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) state: StateArgs,

    /// Replace another lineage or a higher serial too. History keeps both.
    #[arg(long)]
    pub(crate) force: bool,

    /// Take the lock: `--lock=false` writes without.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) lock: bool,

    /// How long to try for the lock.
    #[arg(long, value_name = "DURATION", default_value = "0")]
    pub(crate) lock_timeout: Span,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl rollback prod --to 7 --apply

The old version becomes a new one on top, with the next serial; nothing is lost,
and rolling back again undoes it.

JSON: {\"current\", \"target\", \"added\", \"changed\", \"removed\", \"applied\"}: two
`Version` of the API, three lists of addresses, and `RollbackAnswer` or null for
a preview.")]
pub(crate) struct RollbackArgs {
    #[command(flatten)]
    pub(crate) state: StateArgs,

    /// The version to go back to: a number, a tag, @K or an id.
    #[arg(long, value_name = "REF", default_value = "@1")]
    pub(crate) to: String,

    /// Do it; without this flag only what would change is shown.
    #[arg(long)]
    pub(crate) apply: bool,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl unlock prod --lock-id 5d1e9f7e-0c55-4a3e-9c8b-0f2d1f7f6f10

Breaking a lock takes the role writer for a lock of one's own and maintainer for
another's, and is recorded in the audit log. What its holder still writes is
refused and kept aside.

JSON: {\"broken\": [`LockHolder` of the API, …]}.")]
pub(crate) struct UnlockArgs {
    #[command(flatten)]
    pub(crate) state: StateArgs,

    /// Break only the lock of this id.
    #[arg(long, value_name = "ID")]
    pub(crate) lock_id: Option<String>,

    /// Do not ask.
    #[arg(long, short, visible_alias = "force")]
    pub(crate) yes: bool,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl undelete prod

The last state of the name comes back, or the one of --id. Its history is
whole.

JSON: `UndeleteAnswer` of the API.")]
pub(crate) struct UndeleteArgs {
    #[command(flatten)]
    pub(crate) state: StateArgs,

    /// Which one, where several of the name were deleted: its id, `st_…`.
    #[arg(long, value_name = "ST")]
    pub(crate) id: Option<StateId>,
}
