//! `kl token`: making, listing and revoking tokens.
//!
//! A new token is printed once, alone on stdout, or written to a file. Nothing else here, in any
//! command, prints one.

use std::io::{Read as _, Write as _};
use std::path::Path;

use protocol::tenancy::{CreateToken, CreatedToken, Token, TokenScope};
use serde::Serialize;

use super::{Context, members, pages};
use crate::cli::{TokenCommand, TokenCreateArgs, TokenRevokeArgs};
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::output::table::Table;
use crate::output::target::private_file;
use crate::output::time::when;
use crate::secret::{Secret, find_token};

pub(super) async fn run(command: TokenCommand, context: &Context) -> Result<()> {
    match command {
        TokenCommand::Create(args) => create(args, context).await,
        TokenCommand::List => list(context).await,
        TokenCommand::Revoke(args) => revoke(args, context).await,
    }
}

async fn create(args: TokenCreateArgs, context: &Context) -> Result<()> {
    const DAY: u64 = 86_400;
    let seconds = args.expires.0.as_secs();
    let days = u16::try_from(seconds / DAY)
        .ok()
        .filter(|days| seconds.is_multiple_of(DAY) && (1..=365).contains(days))
        .ok_or_else(|| {
            Failure::usage(format!(
                "a token lives for whole days, 1d to 365d, and not for {}",
                args.expires
            ))
        })?;
    let client = context.client()?;
    let workspace = context.workspace(&client).await?;
    let refused = |error| Failure::from(error).context("could not make a token");
    let principal = match &args.principal {
        Some(name) => members::find(&client, &workspace, name).await?,
        None => client.get_caller().await.map_err(refused)?.principal,
    };
    // Opened first: a token that cannot be written down would be lost.
    let file = args
        .output
        .as_deref()
        .map(|path| open(path).map(|file| (path, file)))
        .transpose()?;
    let scope = TokenScope {
        role: args.limit_role,
        environment: args.limit_environment,
    };
    let wanted = CreateToken {
        principal,
        expires_in_days: Some(days),
        description: args.description,
        scope: (scope != TokenScope::default()).then_some(scope),
    };
    let made = client.create_token(&workspace, &wanted).await;
    let mut created = made.map_err(|error| {
        if let Some((path, _)) = &file {
            // An empty file would look like a token.
            _ = std::fs::remove_file(path);
        }
        refused(error)
    })?;
    if let Some((path, mut file)) = file {
        let secret = created.secret.take().unwrap_or_default();
        writeln!(file, "{secret}")?;
        context
            .printer
            .note(&format!("wrote the token to {}", path.display()));
    }
    announce(&created, context);
    context.printer.result(&created, || {
        created
            .secret
            .as_ref()
            .map_or_else(String::new, |secret| format!("{secret}\n"))
    })
}

fn open(path: &Path) -> Result<std::fs::File> {
    private_file(path).map_err(|error| {
        Failure::from(error).context(format!("could not create {}", path.display()))
    })
}

fn announce(created: &CreatedToken, context: &Context) {
    let token = &created.token;
    context.printer.note(&format!(
        "token {} of {}, ends {}; it is not shown again",
        token.token_id,
        token.principal,
        when(token.expires_at, context.now)
    ));
}

#[derive(Serialize)]
struct View {
    tokens: Vec<Token>,
}

async fn list(context: &Context) -> Result<()> {
    let client = context.client()?;
    let workspace = context.workspace(&client).await?;
    let tokens = pages::all(async |cursor| {
        let page = client.list_tokens(&workspace, cursor.as_deref()).await?;
        Ok((page.tokens, page.next_cursor))
    })
    .await
    .map_err(|error| {
        Failure::from(error).context(format!("could not list the tokens of {workspace}"))
    })?;
    let view = View { tokens };
    context.printer.result(&view, || {
        let mut table = Table::new(&["ID", "PRINCIPAL", "FOR", "ENDS", "LAST USED"]);
        for token in &view.tokens {
            table.row([
                token.token_id.clone(),
                token.principal.to_string(),
                token.description.clone().unwrap_or_else(|| "-".to_owned()),
                match token.revoked_at {
                    Some(revoked) => format!("revoked {}", when(revoked, context.now)),
                    None => when(token.expires_at, context.now),
                },
                token
                    .last_used_at
                    .map_or_else(|| "never".to_owned(), |time| when(time, context.now)),
            ]);
        }
        table.finish()
    })
}

/// The public part of a token.
const ID_LENGTH: usize = 12;

#[derive(Serialize)]
struct Revoked<'a> {
    revoked: Option<&'a str>,
}

async fn revoke(args: TokenRevokeArgs, context: &Context) -> Result<()> {
    let Some(given) = args.token_id else {
        return revoke_leaked(&from_stdin()?, context).await;
    };
    // Whoever pastes the whole token where its id belongs wants it gone, and has leaked it.
    if find_token(given.expose()) == Some(0) {
        return revoke_leaked(&given, context).await;
    }
    let id = given.expose();
    if id.len() != ID_LENGTH || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(Failure::usage(format!(
            "that is no token id: it has {ID_LENGTH} letters and digits, those after the prefix"
        ))
        .hint("run `kl token list`"));
    }
    let client = context.client()?;
    let workspace = context.workspace(&client).await?;
    client
        .revoke_token(&workspace, id)
        .await
        .map_err(|error| Failure::from(error).context(format!("could not revoke token {id}")))?;
    let view = Revoked { revoked: Some(id) };
    context
        .printer
        .result(&view, || format!("revoked token {id}\n"))
}

async fn revoke_leaked(token: &Secret, context: &Context) -> Result<()> {
    let client: Client = context.anonymous_client()?;
    client
        .revoke_leaked_token(token)
        .await
        .map_err(|error| Failure::from(error).context("could not revoke the token"))?;
    context.printer.result(&Revoked { revoked: None }, || {
        "revoked the token\n".to_owned()
    })
}

/// The token on standard input, also when it stands in the middle of other text.
fn from_stdin() -> Result<Secret> {
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    let Some(start) = find_token(&text) else {
        return Err(Failure::usage("there is no token on standard input")
            .hint("run `kl token revoke --leaked < FILE`"));
    };
    let rest = &text[start..];
    let end = rest
        .find(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        .unwrap_or(rest.len());
    Ok(Secret::new(&rest[..end]))
}
