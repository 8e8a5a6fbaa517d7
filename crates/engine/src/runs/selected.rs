//! Commits of the state engine: a client says which addresses it writes and what is to stand there.

use bytes::Bytes;
use graph::claims::{Access, Claim, ClaimSet, Path};
use graph::scope::{Target, addresses_of};
use protocol::StateName;
use store::{LockedRun, Reservation, RunStanding, State, Version, VersionRef, WorkspaceTx};
use tfstate::Document;
use uuid::Uuid;

use super::may_write;
use super::standing::alive;
use super::unscoped::lock_own;
use crate::commit::{Commit, Delta, First, OutputPlace, Place, commit};
use crate::graphs::{Prepared, StateGraph};
use crate::reservations::extend;
use crate::tries::Tries;
use crate::write::{head_facts, keep_whole_if_unindexable, new_instance, new_output};
use crate::{Caller, Engine, EngineError, slice};

/// What is to be committed.
#[derive(Debug, Clone)]
pub struct SelectedCommit {
    pub run: Uuid,
    /// The serial of the version that the client worked from.
    pub base_serial: Option<u64>,
    /// A state document with what is to stand.
    pub document: Bytes,
    /// Addresses that are to hold what the document holds there, or nothing.
    pub write: Vec<Target>,
    /// Addresses that are to hold nothing, whatever the document says.
    pub delete: Vec<Target>,
    pub outputs: SelectedOutputs,
}

/// Which outputs are to be what the document says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectedOutputs {
    All,
    /// These; those that the document does not have go.
    Named(Vec<String>),
}

/// What a commit came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelectedVersion {
    pub serial: u64,
    /// The version; `None` where the state still has none.
    pub version: Option<Uuid>,
}

impl Engine {
    /// Commits the selected addresses under the reservation of the run.
    ///
    /// # Errors
    ///
    /// What the run has not reserved for writing, and what somebody changed since the version that the client worked from.
    pub async fn commit_selected(
        &self,
        caller: &Caller,
        name: &StateName,
        wanted: &SelectedCommit,
    ) -> Result<SelectedVersion, EngineError> {
        may_write(caller)?;
        let _large = self.admit_document(wanted.document.len()).await;
        let after = tokio::task::block_in_place(|| parse(&wanted.document))?;
        // Of this request and its retries: the same content under another request is another commit.
        let key = Uuid::now_v7().to_string();
        let mut tries = Tries::default();
        loop {
            match self
                .try_commit_selected(caller, name, wanted, &after, &key)
                .await
            {
                Err(error) if tries.another(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    async fn try_commit_selected(
        &self,
        caller: &Caller,
        name: &StateName,
        wanted: &SelectedCommit,
        after: &tfstate::State<'_>,
        key: &str,
    ) -> Result<SelectedVersion, EngineError> {
        locking::point!(CommitStaged);
        self.prepare_graph(caller, name).await?;
        let mut tx = self.begin(caller).await?;
        let LockedRun {
            run: record,
            state,
            reservation,
        } = lock_own(&mut tx, caller, wanted.run, Some(name)).await?;
        alive(&record)?;
        let head = store::find_version(&mut tx, state.id, VersionRef::Head).await?;
        let before = self
            .places_before(&mut tx, &state, head.as_ref(), wanted)
            .await?;
        let known = outputs_before(&mut tx, &state, head.as_ref(), &wanted.outputs).await?;
        let delta = delta(after, &before, &known, wanted)?;
        unmoved(&mut tx, &state, &record, head.as_ref(), wanted).await?;
        let Some(held) = reservation.filter(Reservation::is_active) else {
            let paths = delta.instances.iter().map(|place| place.path.to_string());
            return Err(EngineError::OutsideScope(paths.collect()));
        };
        let held = (held.id, held.token);
        claim_outputs(&mut tx, caller, &state, held, &delta).await?;
        let lineage = match after.lineage.as_str() {
            "" => Uuid::now_v7().to_string(),
            lineage => lineage.to_owned(),
        };
        let committed = commit(
            &mut tx,
            caller,
            &Commit {
                run: record.id,
                state: state.id,
                held,
                key,
                request_digest: tfstate::Digest::of(key.as_bytes()).0,
                delta: &delta,
                first: First {
                    terraform_version: &after.terraform_version,
                    lineage: &lineage,
                },
                sources: &[],
                was_applied: true,
            },
        )
        .await?;
        let version = match committed.made {
            Some(made) => Some(made),
            None => {
                let version = VersionRef::Seq(committed.seq);
                let version = store::find_version(&mut tx, state.id, version).await?;
                version.map(|version| version.id)
            }
        };
        tx.commit().await?;
        locking::point!(CommitAfterCommit);
        Ok(SelectedVersion {
            serial: committed.serial,
            version,
        })
    }

    /// The places of the selected addresses, each with its address.
    async fn places_before(
        &self,
        tx: &mut WorkspaceTx,
        state: &State,
        head: Option<&Version>,
        wanted: &SelectedCommit,
    ) -> Result<Vec<(Vec<u8>, String)>, EngineError> {
        let Some(head) = head else {
            return Ok(Vec::new());
        };
        let loaded = self
            .load_graph(tx, state.id, head, Prepared::default())
            .await?;
        let addresses = selected(&loaded.graph, wanted);
        slice::live_places_at(tx, state.id, &addresses).await
    }
}

fn selected(graph: &StateGraph, wanted: &SelectedCommit) -> Vec<String> {
    let targets = wanted.write.iter().chain(&wanted.delete);
    targets
        .flat_map(|target| addresses_of(graph.realized(), target))
        .collect()
}

fn parse(bytes: &[u8]) -> Result<tfstate::State<'_>, EngineError> {
    match tfstate::parse(bytes).map(keep_whole_if_unindexable)? {
        Document::State(mut state) => {
            state.canonicalise(|_, _| false);
            Ok(state)
        }
        Document::Opaque(_) => Err(EngineError::NotNative(
            "the document is encrypted, or of an unknown version".to_owned(),
        )),
    }
}

/// The outputs that the state has of those that are selected.
async fn outputs_before(
    tx: &mut WorkspaceTx,
    state: &State,
    head: Option<&Version>,
    outputs: &SelectedOutputs,
) -> Result<Vec<String>, EngineError> {
    let Some(head) = head else {
        return Ok(Vec::new());
    };
    let rows = match outputs {
        SelectedOutputs::All => store::outputs_at(tx, state.id, head.seq).await?,
        SelectedOutputs::Named(names) => {
            store::outputs_named(tx, state.id, head.seq, names).await?
        }
    };
    Ok(rows.into_iter().map(|row| row.name).collect())
}

/// The selected places with what is to stand there.
fn delta<'a>(
    after: &'a tfstate::State<'_>,
    before: &[(Vec<u8>, String)],
    outputs: &[String],
    wanted: &SelectedCommit,
) -> Result<Delta<'a>, EngineError> {
    let mut delta = Delta::default();
    let mut standing = std::collections::BTreeSet::new();
    for (index, instance) in after.instances.iter().enumerate() {
        let address = after.address(instance);
        let among = |some: &[Target]| some.iter().any(|target| target.means(&address));
        if among(&wanted.write) && !among(&wanted.delete) {
            standing.insert(&*instance.ord);
            delta.instances.push(Place {
                ord: instance.ord.to_vec(),
                path: Path::from(&address),
                row: Some(new_instance(after, index)),
            });
        }
    }
    for (ord, text) in before
        .iter()
        .filter(|(ord, _)| !standing.contains(&ord[..]))
    {
        let address: tfstate::Address = text.parse().map_err(|_| {
            EngineError::BadRequest(format!("`{text}` cannot be read as an address"))
        })?;
        delta.instances.push(Place {
            ord: ord.clone(),
            path: Path::from(&address),
            row: None,
        });
    }
    let is_selected = |name: &String| match &wanted.outputs {
        SelectedOutputs::All => true,
        SelectedOutputs::Named(names) => names.contains(name),
    };
    let written = after
        .outputs
        .iter()
        .filter(|output| is_selected(&output.name));
    delta.outputs.extend(written.map(|output| OutputPlace {
        name: output.name.clone(),
        row: Some(new_output(output)),
    }));
    let is_gone = |name: &&String| after.outputs.iter().all(|output| output.name != **name);
    delta
        .outputs
        .extend(outputs.iter().filter(is_gone).map(|name| OutputPlace {
            name: name.clone(),
            row: None,
        }));
    Ok(delta)
}

/// Fails when a selected address changed between the version that the client worked from and its reservation. What it did
/// itself since then is its own affair.
async fn unmoved(
    tx: &mut WorkspaceTx,
    state: &State,
    record: &RunStanding,
    head: Option<&Version>,
    wanted: &SelectedCommit,
) -> Result<(), EngineError> {
    let conflict = || EngineError::VersionConflict {
        head: head_facts(head),
    };
    let Some(serial) = wanted.base_serial.filter(|_| record.base_seq > 0) else {
        return Ok(());
    };
    let from = match store::find_seq_of_serial(tx, state.id, serial).await? {
        Some(seq) => seq,
        None if serial == 0 => 0,
        None => return Err(conflict()),
    };
    let to = record.base_seq;
    if from >= to {
        return Ok(());
    }
    let touched = store::touched_between(tx, state.id, from, to).await?;
    let is_selected = |text: &str| match text.parse() {
        Ok(address) => {
            let mut targets = wanted.write.iter().chain(&wanted.delete);
            targets.any(|target| target.means(&address))
        }
        Err(_) => true,
    };
    if touched.addresses.iter().any(|address| is_selected(address)) {
        return Err(conflict());
    }
    Ok(())
}

/// Claims the outputs that are written and not claimed yet: clients of the protocol name addresses alone.
async fn claim_outputs(
    tx: &mut WorkspaceTx,
    caller: &Caller,
    state: &State,
    (id, token): (Uuid, i64),
    delta: &Delta<'_>,
) -> Result<(), EngineError> {
    if delta.outputs.is_empty() {
        return Ok(());
    }
    let claims = store::find_claims(tx, &[id]).await?;
    let claims = claims.get(&id).cloned().unwrap_or_default();
    let paths = delta.outputs.iter().map(|place| Path::output(&place.name));
    let missing: Vec<Claim> = paths
        .filter(|path| !claims.grants(path, Access::Write))
        .map(Claim::write)
        .collect();
    if !missing.is_empty() {
        extend(tx, caller, state, (id, token), &ClaimSet::new(missing)).await?;
    }
    Ok(())
}
