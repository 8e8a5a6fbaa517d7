//! `kl member`: the people and services of the workspace, and what they may do.

use protocol::tenancy::{CreateMember, Grant, Member, MemberKind, ReplaceGrants};
use protocol::{PrincipalId, WorkspaceId};
use serde::Serialize;

use super::{Context, pages};
use crate::cli::{MemberCommand, MemberCreateArgs, MemberSetArgs};
use crate::client::{ApiError, Client};
use crate::failure::{Failure, Result};
use crate::output::table::Table;
use crate::output::time::when;

#[derive(Serialize)]
struct View {
    members: Vec<Member>,
}

pub(super) async fn run(command: MemberCommand, context: &Context) -> Result<()> {
    match command {
        MemberCommand::List => list(context).await,
        MemberCommand::Create(args) => create(args, context).await,
        MemberCommand::Set(args) => set(args, context).await,
        MemberCommand::Remove { member } => remove(&member, context).await,
    }
}

async fn all(client: &Client, workspace: &WorkspaceId) -> Result<Vec<Member>, ApiError> {
    pages::all(async |cursor| {
        let page = client.list_members(workspace, cursor.as_deref()).await?;
        Ok((page.members, page.next_cursor))
    })
    .await
}

/// The member of that id or that name.
pub(super) async fn find(
    client: &Client,
    workspace: &WorkspaceId,
    name: &str,
) -> Result<PrincipalId> {
    if let Ok(principal) = name.parse() {
        return Ok(principal);
    }
    let members = all(client, workspace).await.map_err(|error| {
        Failure::from(error).context(format!("could not look for the member `{name}`"))
    })?;
    let mut found = members.into_iter().filter(|member| member.display == name);
    match (found.next(), found.next()) {
        (Some(member), None) => Ok(member.principal),
        (None, _) => Err(
            Failure::failed(format!("{workspace} has no member `{name}`"))
                .hint("run `kl member list`, or `kl member create`"),
        ),
        (Some(_), Some(_)) => Err(Failure::failed(format!(
            "{workspace} has several members called `{name}`"
        ))
        .hint("run `kl member list` and give the id of the one that is meant")),
    }
}

async fn list(context: &Context) -> Result<()> {
    let client = context.client()?;
    let workspace = context.workspace(&client).await?;
    let members = all(&client, &workspace).await.map_err(|error| {
        Failure::from(error).context(format!("could not list the members of {workspace}"))
    })?;
    let view = View { members };
    context.printer.result(&view, || {
        let mut table = Table::new(&["ID", "NAME", "KIND", "MAY ACT AS", "SINCE"]);
        for member in &view.members {
            table.row([
                member.principal.to_string(),
                member.display.clone(),
                kind(member.kind).to_owned(),
                grants(&member.grants),
                when(member.created_at, context.now),
            ]);
        }
        table.finish()
    })
}

async fn create(args: MemberCreateArgs, context: &Context) -> Result<()> {
    let client = context.client()?;
    let workspace = context.workspace(&client).await?;
    let Grant { role, environment } = args.grant.0;
    let wanted = CreateMember {
        kind: if args.service {
            MemberKind::Service
        } else {
            MemberKind::Person
        },
        display: args.name,
        role,
        environment,
    };
    let member = client
        .create_member(&workspace, &wanted)
        .await
        .map_err(|error| {
            Failure::from(error).context(format!("could not make member `{}`", wanted.display))
        })?;
    print(&member, context)
}

async fn set(args: MemberSetArgs, context: &Context) -> Result<()> {
    let client = context.client()?;
    let workspace = context.workspace(&client).await?;
    let principal = find(&client, &workspace, &args.member).await?;
    let wanted = ReplaceGrants {
        grants: args.grants.into_iter().map(|grant| grant.0).collect(),
    };
    let member = client
        .replace_grants(&workspace, &principal, &wanted)
        .await
        .map_err(|error| {
            Failure::from(error).context(format!("could not change the grants of {}", args.member))
        })?;
    print(&member, context)
}

#[derive(Serialize)]
struct Removed {
    removed: PrincipalId,
}

async fn remove(name: &str, context: &Context) -> Result<()> {
    let client = context.client()?;
    let workspace = context.workspace(&client).await?;
    let principal = find(&client, &workspace, name).await?;
    client
        .delete_grants(&workspace, &principal)
        .await
        .map_err(|error| {
            Failure::from(error).context(format!("could not take the grants of {name} away"))
        })?;
    let view = Removed { removed: principal };
    context
        .printer
        .result(&view, || format!("{name} may do nothing any more\n"))
}

fn print(member: &Member, context: &Context) -> Result<()> {
    context.printer.result(member, || {
        let mut table = Table::without_headings();
        table.pair("id", member.principal.to_string());
        table.pair("name", &member.display);
        table.pair("kind", kind(member.kind));
        table.pair("may act as", grants(&member.grants));
        table.finish()
    })
}

fn kind(kind: MemberKind) -> &'static str {
    match kind {
        MemberKind::Person => "person",
        MemberKind::Service => "service",
    }
}

/// Grants as they are typed: `writer@env_…, reader`.
fn grants(grants: &[Grant]) -> String {
    if grants.is_empty() {
        return "nothing".to_owned();
    }
    let grants: Vec<String> = grants
        .iter()
        .map(|grant| match &grant.environment {
            Some(environment) => format!("{}@{environment}", grant.role),
            None => grant.role.to_string(),
        })
        .collect();
    grants.join(", ")
}
