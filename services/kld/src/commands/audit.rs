//! `kld audit verify`: follows the chains through the audit logs.

use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use protocol::WorkspaceId;
use store::tenancy::{audit_chain, workspaces};
use store::{Db, DbOptions};

use crate::config::{self, Source};

/// How many workspaces are listed at a time.
const PAGE: u32 = 100;

/// Verifies the chain of one workspace, or of each. Answers a line for each: how many entries, and the last hash, which
/// tells a cut tail to whoever wrote down an earlier one.
///
/// # Errors
///
/// When a chain is broken, with all lines.
pub async fn verify(source: &Source, only: Option<WorkspaceId>) -> anyhow::Result<String> {
    let db = Db::connect(&DbOptions::new(config::database_url(source)?))?;
    db.check_schema().await?;
    verify_chains(&db, only).await
}

/// The same on a database of the caller's.
///
/// # Errors
///
/// As [`verify`].
pub async fn verify_chains(db: &Db, only: Option<WorkspaceId>) -> anyhow::Result<String> {
    let (mut lines, mut broken) = (String::new(), 0);
    let found = match only {
        Some(workspace) => vec![workspace],
        None => every_workspace(db).await?,
    };
    for workspace in found {
        let mut tx = db.begin_read(&workspace).await?;
        match audit_chain::verify_chain(&mut tx).await? {
            Ok(head) => {
                let hash: String = head.hash.iter().map(|byte| format!("{byte:02x}")).collect();
                let (number, unchained) = (head.number, head.unchained);
                writeln!(
                    lines,
                    "{workspace}: {number} entries in the chain, {unchained} not yet; head {hash}"
                )?;
            }
            Err(problem) => {
                broken += 1;
                writeln!(lines, "{workspace}: BROKEN: {problem}")?;
            }
        }
        tx.commit().await?;
    }
    if broken > 0 {
        bail!(
            "{broken} audit logs are not what was recorded\n{}",
            lines.trim_end()
        );
    }
    Ok(lines.trim_end().to_owned())
}

async fn every_workspace(db: &Db) -> anyhow::Result<Vec<WorkspaceId>> {
    let mut found: Vec<WorkspaceId> = Vec::new();
    loop {
        let last = found.last().map(WorkspaceId::as_str);
        let page = workspaces::list_workspaces(db, last, PAGE).await;
        let page = page.context("the workspaces cannot be listed")?;
        if page.is_empty() {
            return Ok(found);
        }
        found.extend(page.into_iter().map(|workspace| workspace.id));
    }
}
