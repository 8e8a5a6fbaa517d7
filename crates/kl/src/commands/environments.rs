//! `kl env`: the environments of the workspace.

use protocol::EnvironmentId;
use protocol::tenancy::{CreateEnvironment, Environment, UpdateEnvironment};
use serde::Serialize;

use super::{Context, pages};
use crate::cli::{EnvironmentCommand, EnvironmentCreateArgs, EnvironmentSetArgs};
use crate::failure::{Failure, Result};
use crate::output::table::Table;
use crate::output::time::{span, when};

#[derive(Serialize)]
struct View {
    environments: Vec<Environment>,
}

pub(super) async fn run(command: EnvironmentCommand, context: &Context) -> Result<()> {
    match command {
        EnvironmentCommand::List => list(context).await,
        EnvironmentCommand::Show { id } => show(id, context).await,
        EnvironmentCommand::Create(args) => create(args, context).await,
        EnvironmentCommand::Set(args) => set(args, context).await,
    }
}

async fn list(context: &Context) -> Result<()> {
    let client = context.client()?;
    let workspace = context.workspace(&client).await?;
    let environments = pages::all(async |cursor| {
        let page = client
            .list_environments(&workspace, cursor.as_deref())
            .await?;
        Ok((page.environments, page.next_cursor))
    })
    .await
    .map_err(|error| {
        Failure::from(error).context(format!("could not list the environments of {workspace}"))
    })?;
    let view = View { environments };
    context.printer.result(&view, || {
        let mut table = Table::new(&["ID", "NAME", "LOCKS", "LOCK LIMIT", "MADE"]);
        for environment in &view.environments {
            table.row([
                environment.id.to_string(),
                environment.name.clone(),
                locks(environment).to_owned(),
                limit(environment),
                when(environment.created_at, context.now),
            ]);
        }
        table.finish()
    })
}

async fn show(id: Option<EnvironmentId>, context: &Context) -> Result<()> {
    let client = context.client()?;
    let id = chosen(id, context)?;
    let workspace = context.workspace(&client).await?;
    let environment = client
        .get_environment(&workspace, &id)
        .await
        .map_err(|error| Failure::from(error).context(format!("could not read {id}")))?;
    print(&environment, context)
}

async fn create(args: EnvironmentCreateArgs, context: &Context) -> Result<()> {
    let client = context.client()?;
    let workspace = context.workspace(&client).await?;
    let wanted = CreateEnvironment {
        name: args.name,
        require_locks: args.require_locks,
        terraform_lock_ttl_seconds: args.lock_limit.0,
    };
    let environment = client
        .create_environment(&workspace, &wanted)
        .await
        .map_err(|error| {
            Failure::from(error).context(format!("could not make environment `{}`", wanted.name))
        })?;
    print(&environment, context)
}

async fn set(args: EnvironmentSetArgs, context: &Context) -> Result<()> {
    if args.require_locks.is_none() && args.lock_limit.is_none() {
        return Err(Failure::usage("nothing to set")
            .hint("run `kl env set --require-locks true`, or `--lock-limit 2h`"));
    }
    let client = context.client()?;
    let id = chosen(args.id, context)?;
    let workspace = context.workspace(&client).await?;
    let change = UpdateEnvironment {
        require_locks: args.require_locks,
        terraform_lock_ttl_seconds: args.lock_limit.map(|limit| limit.0),
    };
    let environment = client
        .update_environment(&workspace, &id, &change)
        .await
        .map_err(|error| Failure::from(error).context(format!("could not change {id}")))?;
    print(&environment, context)
}

fn chosen(id: Option<EnvironmentId>, context: &Context) -> Result<EnvironmentId> {
    match id {
        Some(id) => Ok(id),
        None => context.settings.environment().cloned(),
    }
}

fn print(environment: &Environment, context: &Context) -> Result<()> {
    context.printer.result(environment, || {
        let mut table = Table::without_headings();
        table.pair("id", environment.id.to_string());
        table.pair("name", &environment.name);
        table.pair("locks", locks(environment));
        table.pair("lock limit", limit(environment));
        table.pair("made", when(environment.created_at, context.now));
        table.finish()
    })
}

fn locks(environment: &Environment) -> &'static str {
    if environment.require_locks {
        "required"
    } else {
        "optional"
    }
}

fn limit(environment: &Environment) -> String {
    environment
        .terraform_lock_ttl_seconds
        .map_or_else(|| "none".to_owned(), |seconds| span(seconds.into()))
}
