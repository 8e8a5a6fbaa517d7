//! Chaining audit logs in the background: each entry some time after its commit.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use protocol::WorkspaceId;
use store::tenancy::{audit_chain, workspaces};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::Engine;

/// How long entries gather before they are chained.
const GATHER: Duration = Duration::from_secs(1);
/// How often every workspace is looked at: what another replica wrote before it died is nobody's else.
const SWEEP: Duration = Duration::from_secs(600);
/// How soon what failed is tried again, if no entry comes sooner.
const AGAIN: Duration = Duration::from_secs(5);
/// How many entries are chained in one transaction.
const AT_ONCE: i64 = 500;
/// How many workspaces are listed at a time.
const PAGE: u32 = 100;

impl Engine {
    /// Chains what is written into audit logs, until dropped. Replicas do it side by side: a workspace is chained by one of
    /// them at a time.
    pub async fn keep_chain(&self) {
        let mut audited = self.db.audited();
        let mut pending = HashSet::new();
        let mut all = true;
        let mut swept = Instant::now();
        loop {
            // Also while a workspace fails again and again: others are not to wait for it.
            if all || swept.elapsed() >= SWEEP {
                all = !self.chain_all(&mut pending).await;
                swept = Instant::now();
            }
            let is_done = pending.is_empty() && !all;
            let patience = if is_done { SWEEP } else { AGAIN };
            match tokio::time::timeout(patience, audited.recv()).await {
                Ok(Ok(workspace)) => _ = pending.insert(workspace),
                Ok(Err(RecvError::Lagged(_))) => all = true,
                Ok(Err(RecvError::Closed)) => return,
                // Time for a sweep, or for what failed.
                Err(_) => {}
            }
            tokio::time::sleep(GATHER).await;
            loop {
                match audited.try_recv() {
                    Ok(workspace) => _ = pending.insert(workspace),
                    Err(TryRecvError::Lagged(_)) => all = true,
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            for workspace in std::mem::take(&mut pending) {
                if !self.chain(&workspace).await {
                    pending.insert(workspace);
                }
            }
        }
    }

    /// Chains every workspace; those that failed join `failed`. Answers whether it got to the end of the list.
    async fn chain_all(&self, failed: &mut HashSet<WorkspaceId>) -> bool {
        let mut after: Option<WorkspaceId> = None;
        loop {
            let last = after.as_ref().map(WorkspaceId::as_str);
            let page = workspaces::list_workspaces(&self.db, last, PAGE).await;
            let Ok(page) = page else {
                // The database is away.
                return false;
            };
            for workspace in &page {
                if !self.chain(&workspace.id).await {
                    failed.insert(workspace.id.clone());
                }
            }
            match page.into_iter().last() {
                Some(workspace) => after = Some(workspace.id),
                None => return true,
            }
        }
    }

    /// Chains what a workspace has; answers whether that succeeded.
    async fn chain(&self, workspace: &WorkspaceId) -> bool {
        loop {
            match self.chain_some(workspace).await {
                Ok(chained) if chained < AT_ONCE.unsigned_abs() => return true,
                Ok(_) => {}
                Err(error) => {
                    tracing::info!(%error, workspace.id = %workspace, "audit entries were not chained yet");
                    return false;
                }
            }
        }
    }

    async fn chain_some(&self, workspace: &WorkspaceId) -> store::Result<u64> {
        let mut tx = self.db.begin(workspace).await?;
        let chained = audit_chain::chain_entries(&mut tx, AT_ONCE).await?;
        tx.commit().await?;
        Ok(chained)
    }
}
