//! Asking for an import: the name is reserved before anything is uploaded.

use protocol::archives::{Job, PART_BYTES};
use protocol::{Code, JobId, StateName};
use store::jobs::{JobKind, JobStatus, NewJob};
use store::queue::{self, Task};
use store::{Lifecycle, WorkspaceTx};
use uuid::Uuid;

use super::rejected;
use super::uploads::{PART_LIMIT, digest};
use crate::archive::{Archives, ImportInput, json};
use crate::lock::same_spelling;
use crate::{Caller, EngineError, audit};

/// An upload that does not come within a day never will.
const UPLOAD_PATIENCE_SECONDS: i64 = 24 * 3600;

/// An import that is asked for.
#[derive(Debug, Clone)]
pub struct NewImport<'a> {
    pub name: &'a StateName,
    pub size_bytes: u64,
    pub parts: &'a [String],
    pub state_id: Option<Uuid>,
    pub archived: bool,
    pub overwrite: bool,
    pub allow_foreign: bool,
}

impl Archives {
    /// Asks for an import: reserves the name, and makes the job that waits for the archive.
    pub async fn request_import(
        &self,
        tx: &mut WorkspaceTx,
        caller: &Caller,
        import: &NewImport<'_>,
    ) -> Result<Job, EngineError> {
        self.check_upload(import)?;
        if store::jobs::count_open_imports(tx).await? >= self.limits.imports_at_once {
            let most = self.limits.imports_at_once;
            let detail = format!("a workspace has at most {most} imports that have not ended");
            return Err(rejected(Code::RateLimited, detail));
        }
        let hidden = format!("{}~import", import.name);
        self.clear_name(tx, caller, import).await?;
        let state_id = match import.state_id {
            Some(id) if !store::state_id_is_taken(tx, id).await? => id,
            _ => Uuid::now_v7(),
        };
        // In place of a state that lives on until the end, the new one waits under a name that no address can hold.
        let reserved = if import.overwrite {
            hidden.as_str()
        } else {
            import.name.as_str()
        };
        let created =
            store::create_importing_state(tx, caller.environment(), reserved, state_id).await;
        match created {
            Err(error) if error.is_constraint("states_live_name") => {
                return Err(rejected(Code::StateExists, "the name is taken"));
            }
            outcome => outcome?,
        }
        let id = Uuid::now_v7();
        let input = ImportInput {
            size_bytes: import.size_bytes,
            parts: import.parts.to_vec(),
            upload: Uuid::new_v4().simple().to_string(),
            archived: import.archived,
            overwrite: import.overwrite,
            allow_foreign: import.allow_foreign,
        };
        let new = NewJob {
            id,
            kind: JobKind::Import,
            status: JobStatus::Uploading,
            input: json(&input),
            ..self.new_job(caller, state_id, import.name.as_str())
        };
        store::jobs::insert_job(tx, &new).await?;
        queue::enqueue(tx, id, Task::Clean, UPLOAD_PATIENCE_SECONDS).await?;
        let what = audit::What::ImportAsked {
            job: JobId::from_uuid(id),
            size_bytes: import.size_bytes,
            overwrite: import.overwrite,
            allow_foreign: import.allow_foreign,
        };
        audit::record(tx, caller, state_id, import.name.as_str(), what).await?;
        self.get_job(tx, caller, id).await
    }

    fn check_upload(&self, import: &NewImport<'_>) -> Result<(), EngineError> {
        let wrong = |detail: String| Err(rejected(Code::InvalidRequest, detail));
        if import.size_bytes == 0 {
            return wrong("an archive is not empty".to_owned());
        }
        if import.size_bytes > self.limits.archive_bytes {
            let detail = format!(
                "an archive has at most {} bytes here",
                self.limits.archive_bytes
            );
            return Err(rejected(Code::BodyTooLarge, detail));
        }
        let wanted = import.size_bytes.div_ceil(PART_BYTES);
        if import.parts.len() as u64 != wanted || import.parts.len() > PART_LIMIT {
            return wrong(format!(
                "{} bytes are {wanted} parts of {PART_BYTES} bytes, not {}",
                import.size_bytes,
                import.parts.len()
            ));
        }
        match import.parts.iter().find(|part| digest(part).is_none()) {
            Some(part) => wrong(format!("`{part}` is no SHA-256 in lower-case hex")),
            None => Ok(()),
        }
    }

    /// Sees to it that the name is free, or is one that may be replaced. A name that was only planned against gives way.
    async fn clear_name(
        &self,
        tx: &mut WorkspaceTx,
        caller: &Caller,
        import: &NewImport<'_>,
    ) -> Result<(), EngineError> {
        let Some(state) = store::find_state(tx, caller.environment(), import.name).await? else {
            return Ok(());
        };
        store::lock_ledger(tx, state.id).await?;
        let active = store::list_active(tx, state.id).await?;
        let state = store::lock_state(tx, state.id).await?;
        if state.lifecycle == Lifecycle::Importing {
            let detail = "another import is making a state of this name";
            return Err(rejected(Code::StateExists, detail));
        }
        if import.overwrite {
            return same_spelling(&state, import.name);
        }
        if state.head_seq == 0 && active.is_empty() {
            return Ok(store::delete_state(tx, state.id).await?);
        }
        Err(rejected(
            Code::StateExists,
            format!("a state `{}` exists", state.name),
        ))
    }
}
