//! A state as a commit finds it: locked, with what the commit is judged by.

use uuid::Uuid;

use super::graph_rows::{Touched, touched_between};
use super::identity::{Lifecycle, State};
use super::versions::{Version, VersionRow, version_if_any};
use crate::turns::Row;
use crate::{Error, WorkspaceTx};

/// A state whose row is locked.
#[derive(Debug, Clone)]
pub struct LockedState {
    pub state: State,
    pub head: Option<Version>,
    /// The places at which the head is not what the base is.
    pub touched: Touched,
}

/// Locks the row of a state until the transaction ends, and reads it as it is then, its head, and what was touched since the
/// version `base` (0: since before the first, which takes another statement).
pub async fn lock_to_commit(
    tx: &mut WorkspaceTx,
    id: Uuid,
    base: i64,
) -> Result<LockedState, Error> {
    tx.take_turn(Row::State(id)).await;
    let row = sqlx::query!(
        r#"
            SELECT (state).name AS "name!", (state).head_seq AS "head_seq!", (state).seq_floor AS "seq_floor!",
                   (state).lifecycle AS "lifecycle!", (state).created_at AS "state_created_at!",
                   (head).seq, (head).id, (head).serial::text, (head).lineage, (head).terraform_version, (head).source,
                   (head).created_at, (head).created_by, (head).forced, (head).unlocked, (head).form,
                   (head).opaque_reason, (head).header, (head).rows_digest, (head).sha256, (head).byte_size,
                   (head).instance_count, (head).rows_changed, (head).run_id, addresses, outputs
            FROM lock_to_commit($1, $2, $3)
        "#,
        tx.workspace().as_str(),
        id,
        base,
    )
    .fetch_one(&mut **tx)
    .await?;
    let touched = if base < 1 && row.head_seq > 0 {
        touched_between(tx, id, base, row.head_seq).await?
    } else {
        Touched {
            addresses: row.addresses.unwrap_or_default(),
            outputs: row.outputs.unwrap_or_default(),
        }
    };
    Ok(LockedState {
        state: State {
            id,
            name: row.name,
            head_seq: row.head_seq,
            seq_floor: row.seq_floor,
            lifecycle: Lifecycle::parse(&row.lifecycle)?,
            created_at: row.state_created_at,
        },
        head: version_if_any!(row)?,
        touched,
    })
}
