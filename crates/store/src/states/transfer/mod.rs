//! What an archive takes out of a history and puts into one: versions with all that is recorded of them, and rows by the
//! version in which they began or ended.

mod changes;
mod history;
mod removal;
mod restored;
mod runs;

pub use changes::{
    BornRow, ChangesOfVersion, ClosedRow, VersionSpan, born_bytes, changes_of_versions,
};
pub use history::{HistoricVersion, HistorySize, history_page, history_size, list_unrendered};
pub use removal::{remove_importing_state, remove_restored_rows};
pub use restored::{
    RestoredVersion, create_importing_state, insert_restored_version, list_restored, publish_state,
    state_id_is_taken, version_id_is_taken,
};
pub use runs::{HistoricRun, MakerOfVersion, runs_of_history};
