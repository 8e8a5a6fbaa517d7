//! `kl init`: `.kl.toml`, the backend block to paste, and a test of the connection.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use protocol::tenancy::WhoAmI;
use serde::Serialize;

use super::{Context, status};
use crate::cli::InitArgs;
use crate::client::Client;
use crate::config::{CredentialSource, Origin, Sourced, StateAddress, credential, file};
use crate::failure::{Failure, Result};

#[derive(Serialize)]
struct View {
    file: PathBuf,
    written: bool,
    backend_block: String,
    principal: String,
    state_exists: bool,
}

pub(super) async fn run(args: InitArgs, context: &Context) -> Result<()> {
    let client = client(&args, context)?;
    let state = context.state(&client).await?;
    let path = context.surroundings.directory.join(file::NAME);
    write(&path, &contents(&state, &args.token_env), args.force)?;
    context.printer.note(&format!(
        "wrote {}",
        context.surroundings.shown(&path).display()
    ));

    let backend_block = backend_block(&state);
    if !context.printer.wants_json() {
        context
            .printer
            .note("paste this into your configuration, then run `terraform init`:");
        context.printer.bytes(backend_block.as_bytes())?;
        context.printer.note(&format!(
            "and give Terraform the token: export TF_HTTP_PASSWORD=\"${}\"",
            args.token_env
        ));
    }

    let (caller, state_exists) = test(&state, &client).await.map_err(|failure| {
        failure.context(format!(
            "{} is written, but the connection does not work yet",
            file::NAME
        ))
    })?;
    let head = if state_exists {
        "the state is there"
    } else {
        "the state is empty until the first write"
    };
    context.printer.note(&format!(
        "the connection works: {} knows you as {}, {head}",
        state.server, caller.display
    ));
    if context.printer.wants_json() {
        let view = View {
            file: path,
            written: true,
            backend_block,
            principal: caller.principal.to_string(),
            state_exists,
        };
        return context.printer.result(&view, String::new);
    }
    Ok(())
}

fn contents(state: &StateAddress, token_env: &str) -> String {
    format!(
        "# Where the Terraform state of this directory lives. Safe to commit: the token is not here.\n\
         state_url = \"{}\"\n\
         \n\
         [auth]\n\
         token_env = \"{token_env}\"\n",
        state.url()
    )
}

fn write(path: &Path, contents: &str, force: bool) -> Result<()> {
    let mut options = File::options();
    options
        .write(true)
        .create_new(!force)
        .create(force)
        .truncate(force);
    let mut file = options.open(path).map_err(|error| {
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            Failure::failed(format!("{} exists already", file::NAME))
                .hint("run `kl config` to see what it says, or `kl init --force` to replace it")
        } else {
            Failure::from(error).context(format!("could not write {}", path.display()))
        }
    })?;
    file.write_all(contents.as_bytes()).map_err(|error| {
        Failure::from(error).context(format!("could not write {}", path.display()))
    })
}

/// The block as the http backend wants it. User name: Kilolock looks at the password alone, but
/// Terraform sends neither without one.
fn backend_block(state: &StateAddress) -> String {
    let url = state.url();
    format!(
        "terraform {{\n  backend \"http\" {{\n    \
           address        = \"{url}\"\n    \
           lock_address   = \"{url}\"\n    \
           unlock_address = \"{url}\"\n    \
           lock_method    = \"LOCK\"\n    \
           unlock_method  = \"UNLOCK\"\n    \
           username       = \"kl\"\n  \
         }}\n}}\n"
    )
}

async fn test(state: &StateAddress, client: &Client) -> Result<(WhoAmI, bool)> {
    let caller = client.get_caller().await?;
    match client.get_state_status(state).await {
        Ok(status) => Ok((caller, status.head.is_some())),
        Err(error) if error.is_absent_state() => Ok((caller, false)),
        Err(error) => Err(status::unreadable(error.into(), state)),
    }
}

/// The connection as it will be once the file counts: with the variable it names, where that is
/// set, and with the token that is configured now otherwise.
fn client(args: &InitArgs, context: &Context) -> Result<Client> {
    if context.surroundings.variable(&args.token_env).is_none() {
        return context.client();
    }
    let source = Sourced::new(
        CredentialSource::Variable(args.token_env.clone()),
        Origin::Flag("--token-env"),
    );
    let credential = credential::fetch(&source, &context.surroundings)?;
    let server = context.settings.server()?.clone();
    Client::new(server, Some(credential), context.printer)
}
