//! Commands of the workspace: environments, members, tokens, audit.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use protocol::tenancy::Grant;
use protocol::{EnvironmentId, Role};

use crate::config::address::environment_id;
use crate::config::values::Span;
use crate::secret::Secret;

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum EnvironmentCommand {
    /// List the environments of the workspace.
    #[command(
        visible_alias = "ls",
        after_help = "\
Example: kl env list

JSON: {\"environments\": [`Environment` of the API, …]}."
    )]
    List,
    /// Show an environment.
    #[command(after_help = "Example: kl env show env_…\n\nJSON: `Environment` of the API.")]
    Show {
        /// The environment; as configured when left out.
        #[arg(value_name = "ENV", value_parser = environment_id)]
        id: Option<EnvironmentId>,
    },
    /// Make an environment.
    Create(EnvironmentCreateArgs),
    /// Change an environment's rules.
    Set(EnvironmentSetArgs),
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl env create production --require-locks

JSON: `Environment` of the API.")]
pub(crate) struct EnvironmentCreateArgs {
    /// Its name.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Accept writes of plain Terraform only under a lock.
    #[arg(long)]
    pub(crate) require_locks: bool,

    /// Let a Terraform lock end by itself after this long; `none` for never.
    #[arg(long, value_name = "DURATION|none", default_value = "none")]
    pub(crate) lock_limit: LockLimit,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl env set --require-locks true

What is not mentioned stays as it is.

JSON: `Environment` of the API.")]
pub(crate) struct EnvironmentSetArgs {
    /// The environment; as configured when left out.
    #[arg(value_name = "ENV", value_parser = environment_id)]
    pub(crate) id: Option<EnvironmentId>,

    /// Whether writes of plain Terraform are accepted only under a lock.
    #[arg(long, value_name = "BOOL")]
    pub(crate) require_locks: Option<bool>,

    /// After how long a Terraform lock ends by itself; `none` for never.
    #[arg(long, value_name = "DURATION|none")]
    pub(crate) lock_limit: Option<LockLimit>,
}

/// A limit on the age of Terraform locks, in seconds, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockLimit(pub(crate) Option<u32>);

impl FromStr for LockLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let span: Span = text.parse()?;
        match u32::try_from(span.0.as_secs()) {
            Ok(0) => Err(
                "a limit of 0 would end every lock at once; write `none` for no limit".to_owned(),
            ),
            Ok(seconds) => Ok(Self(Some(seconds))),
            Err(_) => Err(format!("`{text}` is too long")),
        }
    }
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum MemberCommand {
    /// List members and what they may do.
    #[command(
        visible_alias = "ls",
        after_help = "\
Example: kl member list

JSON: {\"members\": [`Member` of the API, …]}."
    )]
    List,
    /// Make a member with a first grant.
    Create(MemberCreateArgs),
    /// Replace all grants of a member.
    Set(MemberSetArgs),
    /// Take all grants of a member away.
    #[command(after_help = "\
Example: kl member remove bob@example.com

JSON: {\"removed\"}: the member's id.")]
    Remove {
        /// Its id or its name.
        #[arg(value_name = "MEMBER")]
        member: String,
    },
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl member create ci --service --grant writer@env_…

Roles: outputs, viewer, reader, writer, maintainer, admin, auditor.

JSON: `Member` of the API.")]
pub(crate) struct MemberCreateArgs {
    /// Its name for people, such as an e-mail address or the name of a pipeline.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// What it may act as: ROLE everywhere in the workspace, or ROLE@ENV.
    #[arg(long, value_name = "ROLE[@ENV]")]
    pub(crate) grant: GrantText,

    /// A service, such as a CI system, and not a person.
    #[arg(long)]
    pub(crate) service: bool,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl member set ci --grant reader --grant writer@env_…

Roles: outputs, viewer, reader, writer, maintainer, admin, auditor.

JSON: `Member` of the API.")]
pub(crate) struct MemberSetArgs {
    /// Its id or its name.
    #[arg(value_name = "MEMBER")]
    pub(crate) member: String,

    /// What it may act as: ROLE everywhere in the workspace, or ROLE@ENV.
    #[arg(long = "grant", value_name = "ROLE[@ENV]", required = true)]
    pub(crate) grants: Vec<GrantText>,
}

/// A grant as it is typed: `writer`, or `writer@env_…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrantText(pub(crate) Grant);

impl FromStr for GrantText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (role, environment) = match text.split_once('@') {
            Some((role, environment)) => (role, Some(environment)),
            None => (text, None),
        };
        Ok(Self(Grant {
            role: role
                .parse()
                .map_err(|error| format!("`{role}` is {error}"))?,
            environment: environment
                .map(environment_id)
                .transpose()
                .map_err(|error| error.to_string())?,
        }))
    }
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl audit --limit 50

JSON: {\"entries\": [`AuditEntry` of the API, …]}.")]
pub(crate) struct AuditArgs {
    /// How many entries; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
}

#[derive(Debug, Clone, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it, once.
    Create(TokenCreateArgs),
    /// List tokens, without their secrets.
    #[command(
        visible_alias = "ls",
        after_help = "\
Example: kl token list

JSON: {\"tokens\": [`Token` of the API, …]}."
    )]
    List,
    /// Revoke a token.
    Revoke(TokenRevokeArgs),
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl token create --description 'CI of team net' --expires 30d -o token

JSON: `CreatedToken` of the API, the one place a secret is printed; with -o the
secret is in the file and not in the JSON.")]
pub(crate) struct TokenCreateArgs {
    /// Whose token, by id or name; the caller's own when left out.
    #[arg(long, value_name = "MEMBER")]
    pub(crate) principal: Option<String>,

    /// When it ends: whole days, 1d to 365d.
    #[arg(long, value_name = "DURATION", default_value = "90d")]
    pub(crate) expires: Span,

    /// What it is for.
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    /// Let it do no more than this role may.
    #[arg(long, value_name = "ROLE")]
    pub(crate) limit_role: Option<Role>,

    /// Let it act in this environment only.
    #[arg(long, value_name = "ENV", value_parser = environment_id)]
    pub(crate) limit_environment: Option<EnvironmentId>,

    /// Write it to this file, readable by its owner alone, and not to the terminal.
    #[arg(long, short, visible_alias = "out", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Example: kl token revoke 4fGh2kLm9QpR

A token that was found where it does not belong is revoked by itself, without
any login: kl token revoke --leaked < file

JSON: {\"revoked\"}: the token's id, or null for a leaked one.")]
pub(crate) struct TokenRevokeArgs {
    /// The token's id, from `kl token list`.
    #[arg(
        value_name = "TOKEN_ID",
        value_parser = super::secret,
        required_unless_present = "leaked",
        conflicts_with = "leaked"
    )]
    pub(crate) token_id: Option<Secret>,

    /// Read the token itself from standard input.
    #[arg(long)]
    pub(crate) leaked: bool,
}
