//! `kl whoami`: who the server takes the caller for.

use protocol::tenancy::{CallerKind, Grant, TokenScope, WhoAmI};

use super::Context;
use crate::failure::{Failure, Result};
use crate::output::table::Table;
use crate::output::time::when;

pub(super) async fn run(context: &Context) -> Result<()> {
    let client = context.client()?;
    let caller = client.get_caller().await.map_err(|error| {
        Failure::from(error).context(format!("could not ask {} who you are", client.server()))
    })?;
    context.printer.result(&caller, || text(&caller, context))
}

fn text(caller: &WhoAmI, context: &Context) -> String {
    let mut table = Table::without_headings();
    table.pair("name", &caller.display);
    table.pair(
        "principal",
        format!("{} ({})", caller.principal, kind(caller.kind)),
    );
    if let Some(workspace) = &caller.workspace {
        table.pair("workspace", workspace.to_string());
    }
    table.pair(
        "token",
        format!(
            "{}, ends {}",
            caller.token_id,
            when(caller.expires_at, context.now)
        ),
    );
    for (place, grant) in caller.grants.iter().enumerate() {
        let name = if place == 0 { "may act as" } else { "" };
        table.pair(name, granted(grant));
    }
    if caller.scope != TokenScope::default() {
        table.pair("this token", narrowed(&caller.scope));
    }
    if caller.grants.is_empty() && caller.kind != CallerKind::Operator {
        table.pair("may act as", "nothing yet: an admin has to grant a role");
    }
    table.finish()
}

fn kind(kind: CallerKind) -> &'static str {
    match kind {
        CallerKind::Person => "person",
        CallerKind::Service => "service",
        CallerKind::Operator => "operator",
    }
}

/// What the token itself takes away from the grants.
fn narrowed(scope: &TokenScope) -> String {
    let role = scope.role.map_or_else(
        || "as granted".to_owned(),
        |role| format!("no more than {role}"),
    );
    match &scope.environment {
        Some(environment) => format!("{role}, only in {environment}"),
        None => role,
    }
}

fn granted(grant: &Grant) -> String {
    match &grant.environment {
        Some(environment) => format!("{} in {environment}", grant.role),
        None => format!("{} in the whole workspace", grant.role),
    }
}
