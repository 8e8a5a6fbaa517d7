//! Doing it: a run of one transaction.

use protocol::scope::{ScopeConfidence, ScopeContract, ScopeDiagnostics, ScopeRequest};
use protocol::{RunId, StateName};
use store::{End, NewRun, State, Version, VersionRef, WorkspaceTx};
use tfstate::Digest;
use uuid::Uuid;

use super::work::{Preview, Work, claims, parsed};
use super::{Asked, Operated, Operation};
use crate::commit::{Commit, Delta, First, commit};
use crate::reservations::{Ask, end_held, hold, insert, make_room, wire_claims};
use crate::runs::{Asking, begun_before, begun_meanwhile, json};
use crate::{Caller, Engine, EngineError, audit};

/// The one commit of an operation.
const COMMIT_KEY: &str = "operation";

impl Engine {
    pub(super) async fn try_operate(
        &self,
        caller: &Caller,
        name: &StateName,
        operation: &Operation,
        asked: &Asked<'_>,
    ) -> Result<Operated, EngineError> {
        let asking = Asking::new(asked.key, asked.command, asked.who, None)?
            .with_request(asked.request_digest);
        self.prepare_graph(caller, name).await?;
        let mut tx = self.begin(caller).await?;
        let (state, head, work) = self.work_out(&mut tx, caller, name, operation).await?;
        if let Some(done) = done_before(&mut tx, caller, &state, &asking).await? {
            let (run, version) = done;
            tx.commit().await?;
            return Ok(Operated {
                preview: Preview::of(work, head)?,
                version,
                run: Some(run),
            });
        }
        let document = work.document()?;
        let after = tokio::task::block_in_place(|| parsed(&document))?;
        let delta = work.delta(after.as_ref())?;
        if delta.instances.is_empty() {
            tx.commit().await?;
            return Ok(Operated {
                preview: Preview::with(work, head, &delta),
                version: None,
                run: None,
            });
        }
        let run = write(&mut tx, caller, &state, &head, &work, &delta, &asking).await?;
        let version = store::find_version(&mut tx, state.id, VersionRef::Head).await?;
        tx.commit().await?;
        Ok(Operated {
            preview: Preview::with(work, head, &delta),
            version,
            run: Some(run),
        })
    }
}

/// The run that did this under the same key, and the version it made.
async fn done_before(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state: &State,
    asking: &Asking<'_>,
) -> Result<Option<(Uuid, Option<Version>)>, EngineError> {
    let Some(run) = begun_before(tx, caller, state, asking).await? else {
        return Ok(None);
    };
    let versions = store::list_run_versions(tx, state.id, run.id).await?;
    let version = match versions.last() {
        Some(version) => store::find_version(tx, state.id, VersionRef::Seq(version.seq)).await?,
        None => None,
    };
    Ok(Some((run.id, version)))
}

/// Reserves what is written, writes it, releases it, and records all that as a run.
async fn write(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state: &State,
    head: &Version,
    work: &Work,
    delta: &Delta<'_>,
    asking: &Asking<'_>,
) -> Result<Uuid, EngineError> {
    let run = Uuid::now_v7();
    let claims = claims(delta);
    store::lock_ledger(tx, state.id).await?;
    let room = make_room(tx, caller, state, &claims).await?;
    let locked = store::lock_state(tx, state.id).await?;
    if locked.head_seq != head.seq {
        return Err(
            store::Error::Moved("the head moved while the operation was worked out").into(),
        );
    }
    let ask = Ask {
        run,
        key: &RunId::from_uuid(run).to_string(),
        claims: &claims,
        lease_seconds: asking.lease_seconds,
        info: &asking.lock_info(run),
    };
    let reservation = insert(tx, caller, &locked, &room, &ask).await?;
    let addresses: Vec<String> = delta
        .instances
        .iter()
        .map(|place| place.path.to_string())
        .collect();
    let scope = ScopeRequest {
        write: addresses.clone(),
        ..ScopeRequest::default()
    };
    let contract = contract(work, addresses, wire_claims(&claims));
    store::insert_run(
        tx,
        &NewRun {
            id: run,
            state_id: state.id,
            kind: "operation",
            idem_key: asking.key,
            command: asking.command,
            who: asking.who,
            principal_id: caller.principal().as_str(),
            scope: &json(&scope)?,
            contract: &json(&contract)?,
            base_seq: head.seq,
            reservation_id: Some(reservation.id),
            request_digest: &asking.request_digest,
        },
    )
    .await
    .map_err(begun_meanwhile)?;
    let request_digest = Digest::of(asking.key.as_bytes()).0;
    commit(
        tx,
        caller,
        &Commit {
            run,
            state: state.id,
            held: (reservation.id, reservation.token),
            key: COMMIT_KEY,
            request_digest,
            delta,
            // An operation is on what is there, so there is a version.
            first: First {
                terraform_version: "",
                lineage: "",
            },
            sources: &[],
            was_applied: false,
        },
    )
    .await?;
    let held = hold(tx, reservation.id, reservation.token).await?;
    end_held(tx, &held, End::Released, "its operation is done").await?;
    store::end_run(tx, run, "succeeded", None, None).await?;
    let what = audit::What::RunEnded {
        run,
        status: "succeeded",
        command: asking.command,
    };
    audit::record(tx, caller, state.id, &state.name, what).await?;
    Ok(run)
}

/// An operation proves its scope by what it is: it writes what it names.
fn contract(
    work: &Work,
    addresses: Vec<String>,
    claims: Vec<protocol::scope::ScopeClaim>,
) -> ScopeContract {
    let mut addresses = addresses;
    addresses.sort_unstable();
    addresses.dedup();
    ScopeContract {
        fetch_addresses: addresses.clone(),
        write_addresses: addresses.clone(),
        read_addresses: Vec::new(),
        config_required_nodes: Vec::new(),
        removed_config_nodes: Vec::new(),
        missing_from_state: Vec::new(),
        undeployed_candidates: Vec::new(),
        unknown_missing_from_state: Vec::new(),
        reservation_candidates: claims,
        write_targets: addresses,
        outputs_inside: Vec::new(),
        outputs_written: Vec::new(),
        outputs_beyond: Vec::new(),
        dependents: work.dependents.clone(),
        confidence: ScopeConfidence::Safe,
        notes: work.warnings.clone(),
        diagnostics: ScopeDiagnostics::default(),
    }
}
