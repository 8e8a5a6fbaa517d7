//! The runs that made versions of a history: those of this deployment, and those that an archive brought as provenance.

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::{Error, WorkspaceTx};

/// A run of this deployment, with the versions it made.
#[derive(Debug, Clone)]
pub struct HistoricRun {
    pub id: Uuid,
    pub kind: String,
    pub status: String,
    pub who: String,
    pub base_seq: i64,
    pub started_at: DateTime<Utc>,
    pub finished_at: Option<DateTime<Utc>>,
    /// Ascending.
    pub versions: Vec<i64>,
}

/// What made a version: a run, or what its provenance says of one.
#[derive(Debug, Clone)]
pub enum MakerOfVersion {
    Here(HistoricRun),
    Elsewhere { seq: i64, run: Value },
}

/// The runs that made versions up to `head`, in the order of their first versions here; then, version by version, what an
/// archive told of the runs that made it.
pub async fn runs_of_history(
    tx: &mut WorkspaceTx,
    state_id: Uuid,
    head: i64,
) -> Result<Vec<MakerOfVersion>, Error> {
    let workspace = tx.workspace().clone();
    let here = sqlx::query_as!(
        HistoricRun,
        r#"
            SELECT r.id, r.kind, r.status, r.who, r.base_seq, r.started_at, r.finished_at,
                   array_agg(v.seq ORDER BY v.seq) AS "versions!"
            FROM state_versions v
            JOIN runs r ON r.workspace_id = v.workspace_id AND r.id = v.run_id
            WHERE v.workspace_id = $1 AND v.state_id = $2 AND v.seq <= $3
            GROUP BY r.workspace_id, r.id
            ORDER BY min(v.seq), r.id
        "#,
        workspace.as_str(),
        state_id,
        head,
    )
    .fetch_all(&mut **tx)
    .await?;
    let elsewhere = sqlx::query!(
        r#"
            SELECT seq, provenance -> 'run' AS "run!"
            FROM state_versions
            WHERE workspace_id = $1 AND state_id = $2 AND seq <= $3 AND run_id IS NULL
              AND jsonb_typeof(provenance -> 'run') = 'object'
            ORDER BY seq
        "#,
        workspace.as_str(),
        state_id,
        head,
    )
    .fetch_all(&mut **tx)
    .await?;
    let elsewhere = elsewhere.into_iter().map(|row| MakerOfVersion::Elsewhere {
        seq: row.seq,
        run: row.run,
    });
    let here = here.into_iter().map(MakerOfVersion::Here);
    Ok(here.chain(elsewhere).collect())
}
