//! Beginning a run: prove the scope, reserve it, and record the run, all on one version.

use std::time::Duration;

use auth::{TokenId, TokenMac};
use chrono::Utc;
use graph::claims::ClaimSet;
use locking::times::{LEASE, LONGEST_WAIT, REFUSED_POLL};
use locking::{Rule, holds};
use protocol::runs::{BeginRun, Run, RunKind};
use protocol::scope::ScopeConfidence;
use protocol::{LockInfo, RunId, StateName};
use store::{NewRun, NewRunToken, State, VersionRef, WorkspaceTx};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::keys::{begun_before, begun_meanwhile, digest_of};
use super::may_write;
use super::standing::kind_text;
use super::view::view;
use crate::graphs::Prepared;
use crate::lock::same_spelling;
use crate::queue::{Request, Waiting};
use crate::reservations::{Ask, grant_at_once, insert, make_room};
use crate::scope::{Expanded, has_rows};
use crate::tries::Tries;
use crate::{Caller, Engine, EngineError};

/// Leases that may be asked for, in seconds.
const LEASES: std::ops::RangeInclusive<i64> = 10..=900;

/// A token made for the run, of which only the proof is stored.
#[derive(Debug, Clone)]
pub struct RunCredential {
    pub id: TokenId,
    pub mac: TokenMac,
}

/// Who asks for a scope, as others see it, and how.
pub(crate) struct Asking<'a> {
    pub(crate) key: &'a str,
    pub(crate) command: &'a str,
    pub(crate) who: &'a str,
    pub(crate) lease_seconds: i64,
    /// SHA-256 of what is asked for: the same key with something else is refused.
    pub(crate) request_digest: [u8; 32],
    /// Its place in the queue from an earlier try.
    pub(super) ticket: Option<&'a str>,
    pub(super) patience: Patience,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(
        key: &'a str,
        command: &'a str,
        who: &'a str,
        lease_seconds: Option<u32>,
    ) -> Result<Self, EngineError> {
        for (field, text) in [("key", key), ("command", command), ("who", who)] {
            if !is_line(text) {
                return Err(EngineError::BadRequest(format!(
                    "`{field}` is one line of 1 to 200 characters"
                )));
            }
        }
        let lease_seconds = match lease_seconds {
            Some(asked) => i64::from(asked),
            None => i64::try_from(LEASE.promised_seconds()).unwrap_or_default(),
        };
        if !LEASES.contains(&lease_seconds) {
            return Err(EngineError::BadRequest(
                "`lease_seconds` is from 10 to 900".to_owned(),
            ));
        }
        Ok(Self {
            key,
            command,
            who,
            lease_seconds,
            request_digest: [0; 32],
            ticket: None,
            patience: Patience::new(0),
        })
    }

    /// The same, for this request. Its place in the queue is no part of what is asked for.
    pub(crate) fn with_request(mut self, digest: [u8; 32]) -> Self {
        self.request_digest = digest;
        self
    }

    /// The same, waiting for a busy scope.
    pub(super) fn waiting(mut self, ticket: Option<&'a str>, wait_seconds: u32) -> Self {
        self.ticket = ticket;
        self.patience = Patience::new(wait_seconds);
        self
    }

    /// How it waits for these claims.
    pub(super) fn in_queue(&self, state: &'a State, claims: &'a ClaimSet) -> Waiting<'a> {
        Waiting {
            state,
            claims,
            key: self.key,
            who: self.who,
            command: self.command,
            ticket: self.ticket,
            until: self.patience.until(),
        }
    }

    /// What plain Terraform is shown of the run.
    pub(crate) fn lock_info(&self, run: Uuid) -> LockInfo {
        LockInfo {
            id: RunId::from_uuid(run).to_string(),
            operation: self.command.to_owned(),
            who: self.who.to_owned(),
            created: Some(Utc::now()),
            ..LockInfo::default()
        }
    }
}

/// It is shown in lists, locks and histories.
fn is_line(text: &str) -> bool {
    (1..=200).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

/// Waits for a busy scope, as long as a request may.
#[derive(Clone, Copy)]
pub(super) struct Patience(Instant);

impl Patience {
    pub(super) fn new(wait_seconds: u32) -> Self {
        let asked = Duration::from_secs(wait_seconds.into());
        Self(Instant::now() + asked.min(LONGEST_WAIT.duration()))
    }

    /// When the request may wait no longer.
    pub(super) fn until(self) -> Instant {
        self.0
    }

    /// Whether to ask again after this error; waits a moment before it says so.
    pub(super) async fn another(&self, error: &EngineError) -> bool {
        let busy = matches!(error, EngineError::ScopeBusy(_));
        let pause = REFUSED_POLL.duration();
        if !busy || Instant::now() + pause > self.0 {
            return false;
        }
        sleep(pause).await;
        true
    }
}

impl Engine {
    /// Begins a run, or finds the one that was begun with the same key.
    ///
    /// # Errors
    ///
    /// A scope that cannot be proven, that somebody holds part of, or of a state that is kept whole.
    pub async fn begin_run(
        &self,
        caller: &Caller,
        name: &StateName,
        request: &BeginRun,
        credential: &RunCredential,
    ) -> Result<Run, EngineError> {
        if request.kind != RunKind::Plan {
            may_write(caller)?;
        }
        let who = request.who.as_str();
        let asking = Asking::new(&request.key, &request.command, who, request.lease_seconds)?;
        let asking = asking
            .waiting(request.ticket.as_deref(), request.wait_seconds)
            .with_request(digest_of(request)?);
        let mut tries = Tries::default();
        let (id, degraded) = loop {
            let begun = self.try_begin(caller, name, request, &asking, credential);
            match begun.await {
                Err(error) if tries.another(&error).await => {}
                Err(error) if asking.patience.another(&error).await => {}
                outcome => break outcome?,
            }
        };
        let mut run = self.shown(caller, id).await?;
        if let Some(reservation) = &mut run.reservation {
            reservation.degraded = degraded;
        }
        Ok(run)
    }

    /// The run with its slice rendered.
    pub(super) async fn shown(&self, caller: &Caller, id: Uuid) -> Result<Run, EngineError> {
        let mut tries = Tries::default();
        loop {
            match self.try_shown(caller, id).await {
                Err(error) if tries.another(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_shown(&self, caller: &Caller, id: Uuid) -> Result<Run, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let record = store::find_run(&mut tx, id).await?;
        let record = record.ok_or(EngineError::NoRun)?;
        let run = view(&mut tx, &record).await?;
        tx.commit().await?;
        self.seen(caller, &record).await?;
        Ok(run)
    }

    async fn try_begin(
        &self,
        caller: &Caller,
        name: &StateName,
        request: &BeginRun,
        asking: &Asking<'_>,
        credential: &RunCredential,
    ) -> Result<(Uuid, bool), EngineError> {
        let mut tx = self.begin(caller).await?;
        let state = store::find_or_create_state(&mut tx, caller.environment(), name).await?;
        same_spelling(&state, name)?;
        if let Some(known) = begun_before(&mut tx, caller, &state, asking).await? {
            if known.status == "running" {
                issue(&mut tx, caller, known.id, credential).await?;
            }
            tx.commit().await?;
            return Ok((known.id, false));
        }
        let head = store::find_version(&mut tx, state.id, VersionRef::Head).await?;
        if let Some(head) = &head {
            native(head)?;
        }
        // A name that is new stays, even if the run comes to nothing: it holds nothing and is not listed.
        tx.commit().await?;
        let expanded = self.expand(caller, name, &request.scope).await?;
        proven(&expanded)?;
        if request.kind == RunKind::Plan {
            let id = self
                .record(caller, &state, request, asking, credential, expanded)
                .await?;
            return Ok((id, false));
        }
        let claims = expanded.contract.reservation_candidates.clone();
        let waiting = asking.in_queue(&state, &claims);
        let (pass, queued) = self.wait_in_queue(caller, &waiting).await?;
        let recorded = self
            .record(caller, &state, request, asking, credential, expanded)
            .await;
        self.after_queue(caller, &queued, &recorded).await;
        Ok((recorded?, pass.degraded))
    }

    /// Gives the place in the queue back. If the ledger refused what the index let through, the index knew too little.
    pub(super) async fn after_queue<T>(
        &self,
        caller: &Caller,
        queued: &Request<'_>,
        outcome: &Result<T, EngineError>,
    ) {
        if outcome.is_ok() {
            self.served(caller, queued);
        } else {
            self.leave_queue(caller, queued);
        }
        if matches!(outcome, Err(EngineError::ScopeBusy(_)))
            && let Err(error) = self.load_index_of(caller, queued.state).await
        {
            tracing::debug!(%error, "the index was not loaded");
        }
    }

    /// Reserves the scope, unless the run only plans, and records the run.
    async fn record(
        &self,
        caller: &Caller,
        state: &State,
        request: &BeginRun,
        asking: &Asking<'_>,
        credential: &RunCredential,
        expanded: Expanded,
    ) -> Result<Uuid, EngineError> {
        let run = Uuid::now_v7();
        let mut tx = self.begin(caller).await?;
        locking::point!(ReserveAfterBegin);
        let (expanded, reservation) = match request.kind {
            RunKind::Plan => (expanded, None),
            RunKind::Apply | RunKind::Operation => {
                let reserved =
                    self.reserve_scope(&mut tx, caller, state, request, expanded, run, asking);
                let (expanded, reservation) = reserved.await?;
                (expanded, Some(reservation))
            }
        };
        let key = if holds(Rule::IdemKey) {
            asking.key.to_owned()
        } else {
            format!("{} {run}", asking.key)
        };
        store::insert_run(
            &mut tx,
            &NewRun {
                id: run,
                state_id: state.id,
                kind: kind_text(request.kind),
                idem_key: &key,
                command: asking.command,
                who: asking.who,
                principal_id: caller.principal().as_str(),
                scope: &json(&request.scope)?,
                contract: &json(&expanded.wire)?,
                base_seq: expanded.seq,
                reservation_id: reservation,
                request_digest: &asking.request_digest,
            },
        )
        .await
        .map_err(begun_meanwhile)?;
        issue(&mut tx, caller, run, credential).await?;
        tx.commit().await?;
        locking::point!(ReserveAfterCommit);
        Ok(run)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one request, each from elsewhere"
    )]
    async fn reserve_scope(
        &self,
        tx: &mut WorkspaceTx,
        caller: &Caller,
        state: &State,
        request: &BeginRun,
        expanded: Expanded,
        run: Uuid,
        asking: &Asking<'_>,
    ) -> Result<(Expanded, Uuid), EngineError> {
        let (key, info) = (RunId::from_uuid(run).to_string(), asking.lock_info(run));
        let claims = expanded.contract.reservation_candidates.clone();
        let ask = Ask {
            run,
            key: &key,
            claims: &claims,
            lease_seconds: asking.lease_seconds,
            info: &info,
        };
        let at_once = grant_at_once(tx, caller, state, &ask, Some(expanded.seq)).await?;
        if let Some(granted) = at_once {
            return Ok((expanded, granted.id));
        }
        let room = make_room(tx, caller, state, &claims).await?;
        let locked = store::lock_state(tx, state.id).await?;
        let expanded = self.on_head(tx, &locked, &request.scope, expanded).await?;
        let ask = Ask {
            claims: &expanded.contract.reservation_candidates,
            ..ask
        };
        let reservation = insert(tx, caller, &locked, &room, &ask).await?;
        Ok((expanded, reservation.id))
    }

    /// The scope on the head of a state whose row is locked: worked out again if the head moved.
    pub(super) async fn on_head(
        &self,
        tx: &mut WorkspaceTx,
        locked: &State,
        scope: &protocol::scope::ScopeRequest,
        expanded: Expanded,
    ) -> Result<Expanded, EngineError> {
        if expanded.seq == locked.head_seq {
            return Ok(expanded);
        }
        let head = store::find_version(tx, locked.id, VersionRef::Head).await?;
        if let Some(head) = &head {
            native(head)?;
        }
        let expanded = self
            .expand_at(
                tx,
                Some(locked.id),
                head.as_ref(),
                scope,
                Prepared::default(),
            )
            .await?;
        proven(&expanded)?;
        Ok(expanded)
    }
}

/// Stores the run's token.
pub(super) async fn issue(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    run_id: Uuid,
    credential: &RunCredential,
) -> Result<(), EngineError> {
    let new = NewRunToken {
        id: &credential.id,
        mac: &credential.mac,
        run_id,
        asked_with: caller.context().token_id(),
    };
    Ok(store::create_run_token(tx, &new).await?)
}

/// Fails for a version that is kept whole.
pub(super) fn native(head: &store::Version) -> Result<(), EngineError> {
    has_rows(head).map_err(|error| match error {
        EngineError::Opaque(reason) => EngineError::NotNative(reason),
        error => error,
    })
}

/// Fails for a scope that needs something that may be missing.
pub(super) fn proven(expanded: &Expanded) -> Result<(), EngineError> {
    if expanded.wire.confidence == ScopeConfidence::Unsafe {
        return Err(EngineError::ScopeUnsafe(Box::new(expanded.wire.clone())));
    }
    Ok(())
}

pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, EngineError> {
    serde_json::to_string(value).map_err(|_| EngineError::DamagedRun("it cannot be written down"))
}
