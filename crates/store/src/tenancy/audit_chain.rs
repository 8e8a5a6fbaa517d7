//! The chain through a workspace's audit log: `hash = SHA-256(hash of the entry before ‖ what the entry says)`.
//!
//! Entries are chained after their commit, one workspace at a time, in no promised order but without gaps. An entry that is
//! changed, or taken out, no longer fits the ones around it.

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::{Result, WorkspaceTx};

/// What the first entry of a workspace follows.
const BEGINNING: [u8; 32] = [0; 32];

/// What of an entry goes into its hash: everything that was recorded.
#[derive(Debug)]
struct Said {
    id: Uuid,
    at: DateTime<Utc>,
    principal_id: String,
    display: String,
    token_id: Option<String>,
    action: String,
    target: String,
    environment_id: Option<String>,
    state_id: Option<Uuid>,
    request_id: String,
    before: Option<String>,
    after: Option<String>,
    result: String,
    chain_no: Option<i64>,
    hash: Option<Vec<u8>>,
}

impl Said {
    /// Each part with its length before it, so that no two entries say the same bytes.
    fn hash_after(&self, previous: &[u8]) -> [u8; 32] {
        let mut hasher = Sha256::new_with_prefix(b"kilolock audit entry 1\n");
        hasher.update(previous);
        let state = self.state_id.map(|state| state.to_string());
        let parts = [
            Some(self.id.to_string()),
            Some(self.at.timestamp_micros().to_string()),
            Some(self.principal_id.clone()),
            Some(self.display.clone()),
            self.token_id.clone(),
            Some(self.action.clone()),
            Some(self.target.clone()),
            self.environment_id.clone(),
            state,
            Some(self.request_id.clone()),
            self.before.clone(),
            self.after.clone(),
            Some(self.result.clone()),
        ];
        for part in parts {
            // An absent part is another than an empty one.
            let length = part.as_ref().map_or(u64::MAX, |part| part.len() as u64);
            hasher.update(length.to_be_bytes());
            hasher.update(part.unwrap_or_default());
        }
        hasher.finalize().into()
    }
}

/// Chains up to `limit` committed entries of the transaction's workspace; answers how many. Does nothing while somebody else
/// is at it.
///
/// # Errors
///
/// Those of the database.
pub async fn chain_entries(tx: &mut WorkspaceTx, limit: i64) -> Result<u64> {
    let workspace = tx.workspace().clone();
    let mine = sqlx::query_scalar!(
        r#"SELECT pg_try_advisory_xact_lock(hashtextextended('audit chain ' || $1, 0)) AS "mine!""#,
        workspace.as_str(),
    )
    .fetch_one(&mut **tx)
    .await?;
    if !mine {
        return Ok(0);
    }
    // In a statement of its own: what another chained before it let go of the lock has to be seen.
    let last = sqlx::query!(
        r#"
            SELECT chain_no AS "chain_no!", hash AS "hash!"
            FROM audit_entries
            WHERE workspace_id = $1 AND chain_no IS NOT NULL
            ORDER BY chain_no DESC
            LIMIT 1
        "#,
        workspace.as_str(),
    )
    .fetch_optional(&mut **tx)
    .await?;
    let (mut number, mut hash) =
        last.map_or((0, BEGINNING.to_vec()), |last| (last.chain_no, last.hash));
    let entries = sqlx::query_as!(
        Said,
        r#"
            SELECT id, at, principal_id, display, token_id, action, target, environment_id, state_id, request_id,
                   before::text AS before, after::text AS after, result, chain_no, hash
            FROM audit_entries
            WHERE workspace_id = $1 AND chain_no IS NULL
            ORDER BY id
            LIMIT $2
        "#,
        workspace.as_str(),
        limit,
    )
    .fetch_all(&mut **tx)
    .await?;
    let mut ids = Vec::with_capacity(entries.len());
    let mut numbers = Vec::with_capacity(entries.len());
    let mut hashes = Vec::with_capacity(entries.len());
    for entry in &entries {
        number += 1;
        hash = entry.hash_after(&hash).to_vec();
        ids.push(entry.id);
        numbers.push(number);
        hashes.push(hash.clone());
    }
    sqlx::query!(
        r#"
            UPDATE audit_entries e
            SET chain_no = u.chain_no, hash = u.hash
            FROM unnest($2::uuid[], $3::bigint[], $4::bytea[]) AS u (id, chain_no, hash)
            WHERE e.workspace_id = $1 AND e.id = u.id AND e.chain_no IS NULL
        "#,
        workspace.as_str(),
        &ids,
        &numbers,
        &hashes,
    )
    .execute(&mut **tx)
    .await?;
    Ok(entries.len() as u64)
}

/// What is wrong with a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokenChain {
    #[error("entry number {0} is missing")]
    Missing(i64),
    #[error(
        "entry number {number} ({id}) does not say what was chained, or the one before it is another"
    )]
    Changed { number: i64, id: Uuid },
}

/// Where a chain ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainHead {
    /// How many entries are chained.
    pub number: i64,
    pub hash: Vec<u8>,
    /// How many are not chained yet.
    pub unchained: i64,
}

/// How many entries are read at a time.
const PAGE: i64 = 1_000;

/// Follows the chain of the transaction's workspace from its beginning.
///
/// # Errors
///
/// Those of the database. The inner one is what is wrong with the chain.
pub async fn verify_chain(tx: &mut WorkspaceTx) -> Result<Result<ChainHead, BrokenChain>> {
    let workspace = tx.workspace().clone();
    let (mut number, mut hash) = (0, BEGINNING.to_vec());
    loop {
        let page = sqlx::query_as!(
            Said,
            r#"
                SELECT id, at, principal_id, display, token_id, action, target, environment_id, state_id, request_id,
                       before::text AS before, after::text AS after, result, chain_no, hash
                FROM audit_entries
                WHERE workspace_id = $1 AND chain_no > $2
                ORDER BY chain_no
                LIMIT $3
            "#,
            workspace.as_str(),
            number,
            PAGE,
        )
        .fetch_all(&mut **tx)
        .await?;
        if page.is_empty() {
            break;
        }
        for entry in page {
            if entry.chain_no != Some(number + 1) {
                return Ok(Err(BrokenChain::Missing(number + 1)));
            }
            number += 1;
            let expected = entry.hash_after(&hash).to_vec();
            if entry.hash.as_ref() != Some(&expected) {
                return Ok(Err(BrokenChain::Changed {
                    number,
                    id: entry.id,
                }));
            }
            hash = expected;
        }
    }
    let unchained = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM audit_entries WHERE workspace_id = $1 AND chain_no IS NULL"#,
        workspace.as_str(),
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(Ok(ChainHead {
        number,
        hash,
        unchained,
    }))
}
