//! What those are sent who watch a state or a run: server-sent events, each with JSON as its data.
//!
//! The names of events: `version` ([`Version`]), `missed` ([`Missed`]), `standing` ([`StandingEvent`]), `run`
//! ([`RunEvent`]), and at the end of a stream `bye` ([`Bye`]).

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::RunId;
use crate::runs::{RunKind, RunStatus};
use crate::states::{LockHolder, Version, WaitingClient};

/// The names of events.
pub mod names {
    /// There is a new version.
    pub const VERSION: &str = "version";
    /// There were versions that are not sent.
    pub const MISSED: &str = "missed";
    /// Who holds the state and who waits.
    pub const STANDING: &str = "standing";
    /// A run has begun, ended or gone to sleep.
    pub const RUN: &str = "run";
    /// The stream ends.
    pub const BYE: &str = "bye";
}

/// Who holds a state and who waits for it. Sent first, and at each change.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StandingEvent {
    /// The newest version's number; 0 before the first write.
    pub head_seq: i64,
    /// Who holds the state or parts of it, oldest first; at most a hundred.
    pub holders: Vec<LockHolder>,
    /// How many hold parts of it.
    pub holder_count: u32,
    /// Who waits for a part of it, in the order in which they will be served; at most a hundred.
    pub waiting: Vec<WaitingClient>,
    /// How many wait.
    pub waiting_count: u32,
    /// How many addresses may differ from the real infrastructure.
    pub unsettled_count: u32,
}

/// What a run is at this moment. Sent when that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunEvent {
    /// Its id.
    pub id: RunId,
    /// What it is for.
    pub kind: RunKind,
    /// How far it has come.
    pub status: RunStatus,
    /// The command.
    pub command: String,
    /// `user@host`.
    pub who: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<DateTime<Utc>>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Versions that came since the one that the client named and are too many to be sent: the list of versions has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Missed {
    /// The first of them.
    pub from_seq: i64,
    /// The last of them.
    pub to_seq: i64,
}

/// Why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Bye {
    /// Why.
    pub reason: ByeReason,
}

/// Why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ByeReason {
    /// The replica goes away: another one goes on where this one ended.
    Draining,
    /// The caller may not see it any more.
    Unauthorized,
    /// The run is over.
    Over,
}

/// One event of a stream, as its client reads it.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum Event {
    /// [`names::VERSION`].
    Version(Box<Version>),
    /// [`names::MISSED`].
    Missed(Missed),
    /// [`names::STANDING`].
    Standing(Box<StandingEvent>),
    /// [`names::RUN`].
    Run(Box<RunEvent>),
    /// [`names::BYE`].
    Bye(Bye),
}

impl Event {
    /// Reads an event; `None` for one of a kind that is not known yet, which is to be passed over.
    ///
    /// # Errors
    ///
    /// When a known one is not what it should be.
    pub fn read(name: &str, data: &str) -> Result<Option<Self>, serde_json::Error> {
        Ok(Some(match name {
            names::VERSION => Self::Version(serde_json::from_str(data)?),
            names::MISSED => Self::Missed(serde_json::from_str(data)?),
            names::STANDING => Self::Standing(serde_json::from_str(data)?),
            names::RUN => Self::Run(serde_json::from_str(data)?),
            names::BYE => Self::Bye(serde_json::from_str(data)?),
            _ => return Ok(None),
        }))
    }
}
