//! What to do with a kept upload: look at it beside the state, take it over, or let it go.

use std::collections::BTreeSet;

use bytes::Bytes;
use graph::claims::{Claim, ClaimSet};
use protocol::runs::{AdoptKept, KeptComparison, Run, RunKind};
use protocol::scope::{ScopeConfidence, ScopeContract, ScopeDiagnostics};
use protocol::{RunId, StateName};
use sha2::{Digest as _, Sha256};
use store::{End, KeptBody, NewRun, SealedKind, SealedPlace, State, VersionRef, WorkspaceTx};
use tfstate::{Document, State as Rows};
use uuid::Uuid;

use super::begin::{Asking, json, native};
use super::keys::{begun_before, begun_meanwhile};
use super::standing::kind_text;
use super::threeway::{At, Changed, Standing, any_new, beside, changed, choose};
use super::view::view;
use crate::commit::{Commit, Delta, First, OutputPlace, Place, commit};
use crate::lock::same_spelling;
use crate::reservations::{Ask, end_held, insert, make_room, wire_claims};
use crate::tries::Tries;
use crate::write::{keep_whole_if_unindexable, new_instance, new_output};
use crate::{Caller, Engine, EngineError, audit};

/// The command of a run that takes a kept upload over.
const COMMAND: &str = "kl recover --adopt";

/// A kept upload, opened, with what its writer started from.
struct Opened {
    kept: KeptBody,
    bytes: Bytes,
    base: Standing,
}

impl Engine {
    /// A kept upload beside the state, address by address.
    pub async fn compare_kept(
        &self,
        caller: &Caller,
        name: &StateName,
        id: Uuid,
    ) -> Result<KeptComparison, EngineError> {
        let opened = self.open_kept(caller, name, id).await?;
        let rows = rows(&opened.bytes)?;
        let changes = self.changes(caller, &opened, &rows).await?;
        let mut tx = self.begin_read(caller).await?;
        let now = standing_at(&mut tx, opened.kept.state_id, &changes).await?;
        tx.commit().await?;
        Ok(KeptComparison {
            id,
            run: opened.kept.run_id.map(RunId::from_uuid),
            addresses: changes.iter().map(|change| change.shown(&now)).collect(),
        })
    }

    /// Takes a kept upload over: what the state left alone since, and what the caller decides for. It reserves and commits
    /// like any run, and is one in the history.
    ///
    /// # Errors
    ///
    /// Addresses that both changed and nobody decided over; whoever holds one of them.
    pub async fn adopt_kept(
        &self,
        caller: &Caller,
        name: &StateName,
        id: Uuid,
        request: &AdoptKept,
    ) -> Result<Run, EngineError> {
        let mut tries = Tries::default();
        loop {
            match self.try_adopt(caller, name, id, request).await {
                Err(error) if tries.another(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_adopt(
        &self,
        caller: &Caller,
        name: &StateName,
        id: Uuid,
        request: &AdoptKept,
    ) -> Result<Run, EngineError> {
        let asked = json(&(id, &request.prefer_kept, &request.prefer_state))?;
        let asking = Asking::new(&request.key, COMMAND, caller.display(), None)?
            .with_request(tfstate::Digest::of(asked.as_bytes()).0);
        let opened = self.open_kept(caller, name, id).await?;
        let rows = rows(&opened.bytes)?;
        let changes = self.changes(caller, &opened, &rows).await?;
        let claims = ClaimSet::new(
            changes
                .iter()
                .map(|change| Claim::write(change.path.clone())),
        );

        let mut tx = self.begin(caller).await?;
        let state = find(&mut tx, caller, name).await?;
        let principal = caller.principal().as_str();
        if let Some(known) = begun_before(&mut tx, caller, &state, &asking).await? {
            return view(&mut tx, &known).await;
        }
        if opened.kept.settled {
            return Err(EngineError::KeptSettled);
        }
        store::lock_ledger(&mut tx, state.id).await?;
        let room = make_room(&mut tx, caller, &state, &claims).await?;
        let locked = store::lock_state(&mut tx, state.id).await?;
        let head = store::find_version(&mut tx, state.id, VersionRef::Head).await?;
        if let Some(head) = &head {
            native(head)?;
        }
        let now = standing_at(&mut tx, state.id, &changes).await?;
        let set = |addresses: &[String]| addresses.iter().cloned().collect::<BTreeSet<_>>();
        let (ours, theirs) = (set(&request.prefer_kept), set(&request.prefer_state));
        decided(&changes, &ours, &theirs)?;
        let taken = choose(&changes, &now, &ours, &theirs).map_err(EngineError::Undecided)?;
        let run = Uuid::now_v7();
        let ask = Ask {
            run,
            key: &RunId::from_uuid(run).to_string(),
            claims: &claims,
            lease_seconds: asking.lease_seconds,
            info: &asking.lock_info(run),
        };
        let held = insert(&mut tx, caller, &locked, &room, &ask).await?;
        let contract = json(&contract(&claims))?;
        let new = NewRun {
            id: run,
            state_id: state.id,
            kind: kind_text(RunKind::Operation),
            idem_key: asking.key,
            command: asking.command,
            who: asking.who,
            principal_id: principal,
            scope: "{}",
            contract: &contract,
            base_seq: locked.head_seq,
            reservation_id: Some(held.id),
            request_digest: &asking.request_digest,
        };
        store::insert_run(&mut tx, &new)
            .await
            .map_err(begun_meanwhile)?;
        let wanted = Commit {
            run,
            state: state.id,
            held: (held.id, held.token),
            key: &format!("adopt {id}"),
            request_digest: Sha256::digest(id.as_bytes()).into(),
            delta: &delta(&rows, &taken),
            first: First {
                terraform_version: &rows.terraform_version,
                lineage: &rows.lineage,
            },
            sources: &[],
            was_applied: false,
        };
        commit(&mut tx, caller, &wanted).await?;
        end_held(&mut tx, &held, End::Released, "the kept upload was adopted").await?;
        store::end_run(&mut tx, run, "succeeded", None, None).await?;
        settle(&mut tx, caller, &state, &opened.kept, "adopted").await?;
        let done = store::find_run(&mut tx, run).await?;
        let done = view(&mut tx, &done.ok_or(EngineError::NoRun)?).await?;
        tx.commit().await?;
        Ok(done)
    }

    /// Lets a kept upload go. It stays readable, and is asked about no more.
    pub async fn discard_kept(
        &self,
        caller: &Caller,
        name: &StateName,
        id: Uuid,
    ) -> Result<(), EngineError> {
        let mut tx = self.begin(caller).await?;
        let state = find(&mut tx, caller, name).await?;
        let kept = store::find_kept_body(&mut tx, state.id, id).await?;
        let kept = kept.ok_or(EngineError::NoKept)?;
        if !kept.settled {
            settle(&mut tx, caller, &state, &kept, "discarded").await?;
        }
        Ok(tx.commit().await?)
    }

    /// What the writer changed, as far as it was shown what stood there.
    async fn changes(
        &self,
        caller: &Caller,
        opened: &Opened,
        rows: &Rows<'_>,
    ) -> Result<Vec<Changed>, EngineError> {
        let changes = tokio::task::block_in_place(|| changed(&opened.base, &Standing::of(rows)));
        if opened.kept.run_id.is_none() || !any_new(&changes) {
            return Ok(changes);
        }
        // A run is shown a slice: what is new in its upload may have stood beside it.
        let mut tx = self.begin_read(caller).await?;
        let (state, seq) = (opened.kept.state_id, opened.kept.base_seq);
        let version = standing_of_version(&mut tx, state, seq).await?;
        tx.commit().await?;
        Ok(beside(changes, &version))
    }

    async fn open_kept(
        &self,
        caller: &Caller,
        name: &StateName,
        id: Uuid,
    ) -> Result<Opened, EngineError> {
        let mut tx = self.begin_read(caller).await?;
        let state = find(&mut tx, caller, name).await?;
        let kept = store::find_kept_body(&mut tx, state.id, id).await?;
        let kept = kept.ok_or(EngineError::NoKept)?;
        let key = self.data_key(&mut tx, caller).await?;
        let run = match kept.run_id {
            Some(run) => store::find_run(&mut tx, run).await?,
            None => None,
        };
        let of_version = match &run {
            Some(_) => Standing::default(),
            None => standing_of_version(&mut tx, state.id, kept.base_seq).await?,
        };
        tx.commit().await?;
        let place = SealedPlace {
            workspace: caller.workspace(),
            state: state.id,
            seq: kept.base_seq,
            kind: SealedKind::KeptResult,
        };
        let size = usize::try_from(kept.byte_size).unwrap_or_default();
        let bytes = tokio::task::block_in_place(|| key.unpack(&place, &kept.packed, size))?;
        let base = match &run {
            // A run's base is what it last saw: everything before that is in the state.
            Some(run) => Standing::of(&rows(&self.seen(caller, run).await?.bytes)?),
            None => of_version,
        };
        Ok(Opened {
            kept,
            bytes: Bytes::from(bytes),
            base,
        })
    }
}

async fn find(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    name: &StateName,
) -> Result<State, EngineError> {
    let state = store::find_state(tx, caller.environment(), name).await?;
    let state = state.ok_or(EngineError::NoState)?;
    same_spelling(&state, name)?;
    Ok(state)
}

/// Fails where somebody decides over what was not changed: it would be left aside without a word.
fn decided(
    changes: &[Changed],
    ours: &BTreeSet<String>,
    theirs: &BTreeSet<String>,
) -> Result<(), EngineError> {
    let known: BTreeSet<String> = changes
        .iter()
        .map(|change| change.path.to_string())
        .collect();
    if let Some(unknown) = ours.union(theirs).find(|address| !known.contains(*address)) {
        return Err(EngineError::BadRequest(format!(
            "`{unknown}`: the kept upload changed nothing there"
        )));
    }
    match ours.intersection(theirs).next() {
        Some(both) => Err(EngineError::BadRequest(format!(
            "`{both}` is to be taken from the kept upload and from the state: say one"
        ))),
        None => Ok(()),
    }
}

/// The rows of a document, in rendered form.
fn rows(bytes: &[u8]) -> Result<Rows<'_>, EngineError> {
    tokio::task::block_in_place(|| match keep_whole_if_unindexable(tfstate::parse(bytes)?) {
        Document::State(mut state) => {
            state.canonicalise(|_, _| false);
            Ok(state)
        }
        Document::Opaque(_) => Err(EngineError::NotNative(
            "the upload is encrypted, or of an unknown version".to_owned(),
        )),
    })
}

/// Everything that a version holds; nothing, where there was none.
async fn standing_of_version(
    tx: &mut WorkspaceTx,
    state: Uuid,
    seq: i64,
) -> Result<Standing, EngineError> {
    let rows = store::list_rows_at(tx, state, seq).await?;
    let outputs = store::outputs_at(tx, state, seq).await?;
    Ok(Standing {
        instances: rows.into_iter().map(|row| (row.ord, row.digest)).collect(),
        outputs: outputs
            .into_iter()
            .filter_map(|row| Some((row.name, row.digest.try_into().ok()?)))
            .collect(),
    })
}

/// What lives at the places that were changed.
async fn standing_at(
    tx: &mut WorkspaceTx,
    state: Uuid,
    changes: &[Changed],
) -> Result<Standing, EngineError> {
    let (mut places, mut names) = (Vec::new(), Vec::new());
    for change in changes {
        match &change.at {
            At::Instance(ord) => places.push(ord.clone()),
            At::Output(name) => names.push(name.clone()),
        }
    }
    let rows = store::live_rows_at(tx, state, &places).await?;
    let outputs = store::live_outputs_named(tx, state, &names).await?;
    Ok(Standing {
        instances: rows.into_iter().map(|row| (row.ord, row.digest)).collect(),
        outputs: outputs
            .into_iter()
            .map(|output| (output.name, output.digest))
            .collect(),
    })
}

/// What is to stand at the places that are taken over.
fn delta<'a>(rows: &'a Rows<'_>, taken: &[&Changed]) -> Delta<'a> {
    let mut delta = Delta::default();
    for change in taken {
        match &change.at {
            At::Instance(ord) => {
                let found = rows.instances.binary_search_by(|row| (*row.ord).cmp(ord));
                delta.instances.push(Place {
                    ord: ord.clone(),
                    path: change.path.clone(),
                    row: found.ok().map(|index| new_instance(rows, index)),
                });
            }
            At::Output(name) => {
                let found = rows.outputs.iter().find(|row| row.name == *name);
                delta.outputs.push(OutputPlace {
                    name: name.clone(),
                    row: found.map(new_output),
                });
            }
        }
    }
    delta
}

/// The scope of taking over: what is claimed.
fn contract(claims: &ClaimSet) -> ScopeContract {
    let claims = wire_claims(claims);
    ScopeContract {
        fetch_addresses: Vec::new(),
        write_addresses: claims.iter().map(|claim| claim.address.clone()).collect(),
        read_addresses: Vec::new(),
        config_required_nodes: Vec::new(),
        removed_config_nodes: Vec::new(),
        missing_from_state: Vec::new(),
        undeployed_candidates: Vec::new(),
        unknown_missing_from_state: Vec::new(),
        reservation_candidates: claims,
        write_targets: Vec::new(),
        outputs_inside: Vec::new(),
        outputs_written: Vec::new(),
        outputs_beyond: Vec::new(),
        dependents: Vec::new(),
        confidence: ScopeConfidence::Safe,
        notes: Vec::new(),
        diagnostics: ScopeDiagnostics::default(),
    }
}

/// Marks a kept upload as dealt with. The marks of its reservation go with the last one that is open.
async fn settle(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state: &State,
    kept: &KeptBody,
    how: &'static str,
) -> Result<(), EngineError> {
    store::settle_kept(tx, kept.id).await?;
    if store::count_open_kept(tx, kept.reservation_id).await? == 0 {
        let marks = store::list_unsettled(tx, state.id).await?;
        let own: Vec<_> = marks
            .iter()
            .filter(|mark| mark.reservation_id == kept.reservation_id)
            .collect();
        store::clear_unsettled(tx, state.id, &own, caller.display()).await?;
    }
    let what = audit::What::KeptSettled { id: kept.id, how };
    audit::record(tx, caller, state.id, &state.name, what).await
}
