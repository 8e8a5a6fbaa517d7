//! The audit log: what was changed or revealed, by whom. Rows are added in the transaction of the change, and never
//! changed.

use auth::Context;
use chrono::{DateTime, Utc};
use protocol::tenancy::AuditEntry;
use protocol::{AuditId, EnvironmentId, PrincipalId, StateId};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{Error, Result, WorkspaceTx, text::without_nul};

/// How an audited act ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditResult {
    /// It was done.
    #[default]
    Done,
    /// It was refused.
    Refused,
}

/// Who did something, where it was not a request of a [`Context`]: commands on the server's own machine.
#[derive(Debug, Clone)]
pub struct Actor<'a> {
    /// Who did it.
    pub principal: &'a PrincipalId,
    /// That principal's name.
    pub display: &'a str,
    /// With which token.
    pub token_id: Option<&'a str>,
    /// In which request.
    pub request_id: &'a str,
}

impl<'a> From<&'a Context> for Actor<'a> {
    fn from(context: &'a Context) -> Self {
        Self {
            principal: context.principal(),
            display: context.display(),
            token_id: Some(context.token_id().as_str()),
            request_id: context.request_id(),
        }
    }
}

/// One act to be recorded.
#[derive(Debug, Clone, Default)]
pub struct NewEntry<'a> {
    /// What was done: `<thing>.<verb>`, such as `token.create`.
    pub action: &'a str,
    /// To what: an id or a name.
    pub target: &'a str,
    /// In which environment.
    pub environment: Option<&'a EnvironmentId>,
    /// To which state.
    pub state: Option<StateId>,
    /// What was there before: settings, counts, digests, never values of a state.
    pub before: Option<Value>,
    /// What is there now.
    pub after: Option<Value>,
    /// How it ended.
    pub result: AuditResult,
}

/// An entry as a statement takes it that does more than add it.
#[derive(Debug, Clone)]
pub struct Entry(pub(crate) Value);

impl Entry {
    /// The entry of an act, with an id of its own.
    #[must_use]
    pub fn new<'a>(actor: impl Into<Actor<'a>>, entry: NewEntry<'_>) -> Self {
        let actor = actor.into();
        // By the names that `record_entry` reads.
        Self(value_without_nul(json!({
            "id": Uuid::now_v7(),
            "principal_id": actor.principal,
            "display": actor.display,
            "token_id": actor.token_id,
            "action": entry.action,
            "target": entry.target,
            "environment_id": entry.environment,
            "state_id": entry.state.map(|state| state.as_uuid()),
            "request_id": actor.request_id,
            "before": entry.before,
            "after": entry.after,
            "result": match entry.result {
                AuditResult::Done => "done",
                AuditResult::Refused => "refused",
            },
        })))
    }
}

/// Adds an entry to the log of the transaction's workspace.
///
/// # Errors
///
/// Those of the database.
pub async fn record<'a>(
    tx: &mut WorkspaceTx,
    actor: impl Into<Actor<'a>>,
    entry: NewEntry<'_>,
) -> Result<()> {
    let entry = Entry::new(actor, entry);
    sqlx::query!(
        "SELECT FROM record_entry($1, $2)",
        tx.workspace().as_str(),
        entry.0,
    )
    .execute(&mut **tx)
    .await?;
    tx.note_entry();
    Ok(())
}

/// A value that `jsonb` takes: clients may put a NUL into what they say of themselves.
fn value_without_nul(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(without_nul(&text).into_owned()),
        Value::Array(items) => items.into_iter().map(value_without_nul).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (without_nul(&name).into_owned(), value_without_nul(value)))
            .collect(),
        other => other,
    }
}

struct Row {
    id: Uuid,
    at: DateTime<Utc>,
    principal_id: String,
    display: String,
    token_id: Option<String>,
    action: String,
    target: String,
    environment_id: Option<String>,
    request_id: String,
    before: Option<Value>,
    after: Option<Value>,
    result: String,
}

impl TryFrom<Row> for AuditEntry {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self> {
        let impossible = |error: protocol::InvalidId| Error::impossible("audit_entries", error);
        Ok(Self {
            id: AuditId::from_uuid(row.id),
            at: row.at,
            principal: row.principal_id.parse().map_err(impossible)?,
            display: row.display,
            token_id: row.token_id,
            action: row.action,
            target: row.target,
            environment: row
                .environment_id
                .map(|id| id.parse())
                .transpose()
                .map_err(impossible)?,
            request_id: row.request_id,
            before: row.before,
            after: row.after,
            result: row.result,
        })
    }
}

/// The entries before one, newest first.
///
/// # Errors
///
/// Those of the database.
pub async fn list_entries(
    tx: &mut WorkspaceTx,
    before: Option<AuditId>,
    limit: u32,
) -> Result<Vec<AuditEntry>> {
    let workspace = tx.workspace().clone();
    sqlx::query_as!(
        Row,
        r#"
            SELECT
                id, at, principal_id, display, token_id, action, target,
                environment_id, request_id, before, after, result
            FROM audit_entries
            WHERE workspace_id = $1 AND id < $2
            ORDER BY id DESC
            LIMIT $3
        "#,
        workspace.as_str(),
        before.map_or(Uuid::max(), |id| id.as_uuid()),
        i64::from(limit),
    )
    .fetch_all(&mut **tx)
    .await?
    .into_iter()
    .map(TryInto::try_into)
    .collect()
}
