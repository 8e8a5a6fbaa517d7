//! Native operations: what is done to single addresses of a state without Terraform.
//!
//! Each is worked out on the rows it has to do with, and shown or done. Done, it is a run that reserves what it writes,
//! commits a delta and releases, all in one transaction: it is there with its version, or not at all.

mod apply;
mod relocate;
mod rewrite;
mod single;
mod work;

pub use work::{Change, ChangeKind, Preview, Verb};

use graph::scope::Target;
use protocol::StateName;
use store::{Version, VersionRef, WorkspaceTx};
use tfstate::{Address, Step};
use uuid::Uuid;

use crate::graphs::Prepared;
use crate::lock::same_spelling;
use crate::scope::has_rows;
use crate::tries::Tries;
use crate::{Caller, Engine, EngineError};
use work::Work;

/// What is to be done.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Forget what stands at these places; the infrastructure stays.
    Remove(Vec<Target>),
    /// Let objects stand elsewhere, one pair after the other.
    Move(Vec<(Target, Target)>),
    /// Let an address hold what it held in another version.
    Restore(Address, Wanted),
    /// Change attribute values of one object.
    Patch {
        address: Address,
        deposed: Option<String>,
        values: Vec<Value>,
    },
}

/// A version, as operations on single addresses name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    Version(VersionRef),
    Serial(u64),
    /// A number that may be a version's or a serial: refused where that makes a difference.
    Number(u64),
}

/// One attribute value. JSON.
#[derive(Debug, Clone)]
pub struct Value {
    pub path: Vec<Step>,
    /// What stands there now, or nothing is done.
    pub old: Vec<u8>,
    pub new: Vec<u8>,
}

/// Who does it, as others see it.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    /// The same key is the same operation.
    pub key: &'a str,
    pub command: &'a str,
    pub who: &'a str,
    /// SHA-256 of the request: the same key with another one is refused.
    pub request_digest: [u8; 32],
}

/// What an operation came to.
#[derive(Debug)]
pub struct Operated {
    pub preview: Preview,
    /// The version it made; `None` where there was nothing to do.
    pub version: Option<Version>,
    pub run: Option<Uuid>,
}

impl Engine {
    /// Shows what an operation would do to the newest version.
    pub async fn preview_operation(
        &self,
        caller: &Caller,
        name: &StateName,
        operation: &Operation,
    ) -> Result<Preview, EngineError> {
        self.prepare_graph(caller, name).await?;
        let mut tx = self.begin_read(caller).await?;
        let (_, head, work) = self.work_out(&mut tx, caller, name, operation).await?;
        tx.commit().await?;
        Preview::of(work, head)
    }

    /// Does it, or finds that it was done under the same key.
    pub async fn operate(
        &self,
        caller: &Caller,
        name: &StateName,
        operation: &Operation,
        asked: &Asked<'_>,
    ) -> Result<Operated, EngineError> {
        let mut tries = Tries::default();
        loop {
            match self.try_operate(caller, name, operation, asked).await {
                Err(error) if tries.another(&error).await => {}
                outcome => return outcome,
            }
        }
    }

    /// The state, its head, and what the operation comes to there.
    async fn work_out(
        &self,
        tx: &mut WorkspaceTx,
        caller: &Caller,
        name: &StateName,
        operation: &Operation,
    ) -> Result<(store::State, Version, Work), EngineError> {
        let state = store::find_state(tx, caller.environment(), name)
            .await?
            .ok_or(EngineError::NoState)?;
        same_spelling(&state, name)?;
        let head = store::find_version(tx, state.id, VersionRef::Head)
            .await?
            .ok_or(EngineError::NoVersion)?;
        has_rows(&head)?;
        let loaded = self
            .load_graph(tx, state.id, &head, Prepared::default())
            .await?;
        let graph = loaded.graph;
        let mut place = work::Place {
            tx,
            graph: &graph,
            state: state.id,
            seq: head.seq,
        };
        let work = match operation {
            Operation::Remove(targets) => single::remove(&mut place, targets).await?,
            Operation::Move(moves) => relocate::relocate(&mut place, moves).await?,
            Operation::Restore(address, wanted) => {
                single::restore(&mut place, address, *wanted).await?
            }
            Operation::Patch {
                address,
                deposed,
                values,
            } => single::patch(&mut place, address, deposed.as_deref(), values).await?,
        };
        Ok((state, head, work))
    }
}
