//! `runs.json`: the runs that made versions, those of this deployment and those that an import told of.
//!
//! A run is text here: who, what and when. Nothing in it is ever a principal, a grant or a token.

use std::collections::HashMap;

use archive::Run;
use chrono::{DateTime, Utc};
use protocol::RunId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::MakerOfVersion;

use super::Export;
use crate::archive::outcome::Failure;

/// A run as the provenance of an imported version tells of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::archive) struct ToldRun {
    pub(in crate::archive) id: String,
    kind: String,
    status: String,
    actor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base_seq: Option<u64>,
    started_at: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finished_at: Option<DateTime<Utc>>,
}

impl From<&Run> for ToldRun {
    fn from(run: &Run) -> Self {
        Self {
            id: run.id.clone(),
            kind: run.kind.clone(),
            status: run.status.clone(),
            actor: run.actor.clone(),
            base_seq: run.base_seq,
            started_at: run.started_at,
            finished_at: run.finished_at,
        }
    }
}

impl ToldRun {
    fn into_run(self, made: u64) -> Run {
        Run {
            id: self.id,
            kind: self.kind,
            status: self.status,
            actor: self.actor,
            base_seq: self.base_seq,
            started_at: self.started_at,
            finished_at: self.finished_at,
            versions: vec![made],
        }
    }
}

/// The id of the run that provenance tells of: of all there is about it, or of nothing but that.
pub(super) fn provenance_run(provenance: &Value) -> Option<String> {
    match &provenance["run"] {
        Value::String(id) => Some(id.clone()),
        told => Some(told["id"].as_str()?.to_owned()),
    }
}

impl Export<'_> {
    /// The runs that made versions up to the head, each with those it made.
    pub(super) fn runs(&self) -> Result<Vec<Run>, Failure> {
        let mut tx = self.attempt.begin_read()?;
        let makers = self
            .attempt
            .wait(store::runs_of_history(&mut tx, self.state, self.head))?;
        self.attempt.wait(tx.commit())?;
        Ok(list(makers))
    }
}

fn list(makers: Vec<MakerOfVersion>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    // Ids occur once, whatever an archive has claimed.
    let mut known: HashMap<String, usize> = HashMap::new();
    for maker in makers {
        let run = match maker {
            MakerOfVersion::Here(run) => Run {
                id: RunId::from_uuid(run.id).to_string(),
                kind: run.kind,
                status: run.status,
                actor: run.who,
                base_seq: Some(run.base_seq.unsigned_abs()),
                started_at: run.started_at,
                finished_at: run.finished_at,
                versions: run.versions.into_iter().map(i64::unsigned_abs).collect(),
            },
            MakerOfVersion::Elsewhere { seq, run } => match ToldRun::deserialize(run) {
                Ok(told) => told.into_run(seq.unsigned_abs()),
                // What an older release wrote there is not read as a run; the version still names it.
                Err(_) => continue,
            },
        };
        match known.get(&run.id) {
            Some(&at) => runs[at].versions.extend(run.versions),
            None => {
                known.insert(run.id.clone(), runs.len());
                runs.push(run);
            }
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(seq: i64, id: &str) -> MakerOfVersion {
        let run = json!({
            "id": id, "kind": "apply", "status": "succeeded", "actor": "ann@laptop", "base_seq": 1,
            "started_at": "2026-11-30T08:00:00Z", "finished_at": "2026-11-30T08:01:00Z",
        });
        MakerOfVersion::Elsewhere { seq, run }
    }

    #[test]
    fn a_run_is_listed_once_with_all_versions_it_made() {
        let odd = MakerOfVersion::Elsewhere {
            seq: 4,
            run: json!({ "id": 7 }),
        };
        let runs = list(vec![
            told(2, "run_1"),
            told(3, "run_2"),
            odd,
            told(5, "run_1"),
        ]);
        let found: Vec<_> = runs.iter().map(|run| (&*run.id, &*run.versions)).collect();
        assert_eq!(found, [("run_1", &[2, 5][..]), ("run_2", &[3][..])]);
        assert_eq!(
            ToldRun::from(&runs[0]).into_run(2).started_at,
            runs[0].started_at
        );
    }

    #[test]
    fn provenance_tells_of_a_run_by_all_or_by_its_id() {
        for (provenance, id) in [
            (json!({ "run": { "id": "run_1" } }), Some("run_1")),
            (json!({ "run": "run_2" }), Some("run_2")),
            (json!({ "run": null }), None),
            (json!({ "run": { "id": 5 } }), None),
            (json!({}), None),
            (json!([]), None),
        ] {
            assert_eq!(provenance_run(&provenance).as_deref(), id, "{provenance}");
        }
    }
}
