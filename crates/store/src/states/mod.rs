//! States, their versions and the rows a version is made of.
//!
//! Every function takes the transaction of one workspace; row security holds beneath it. Rules about
//! what may be written live in the engine: here a statement either changes the rows it names or says
//! that it did not. The one exception asks for the head in a single round trip, and its SQL names the
//! workspace.

mod documents;
mod find_versions;
mod graph_rows;
mod identity;
mod instances;
mod locked;
mod outputs;
mod resources;
mod rollback;
mod slices;
mod sources;
mod transfer;
mod versions;

pub use documents::{find_document, find_parts, insert_document, insert_parts};
pub use find_versions::{
    count_versions, find_head, find_head_at_once, find_seq_of_serial, find_version, list_versions,
    was_written_under,
};
pub use graph_rows::{
    Changes, DeadRow, GraphRow, Touched, changes_since, each_graph_row, touched_between,
};
pub use identity::{
    Lifecycle, State, StateRecord, delete_state, find_deleted, find_or_create_state, find_state,
    list_deleted, list_states, lock_state, undelete_state,
};
pub use instances::{
    LiveRow, NewInstance, RowAt, RowPage, close_instances, insert_instances, list_live_rows,
    list_rows_at, live_rows_at, page_of_rows,
};
pub use locked::{LockedState, lock_to_commit};
pub use outputs::{
    LiveOutput, NewOutput, OutputRow, close_outputs, insert_outputs, list_live_outputs,
    live_outputs_named, outputs_at,
};
pub use resources::{ResourceRow, find_instance, list_resources};
pub use rollback::restore_rows;
pub use slices::{SliceRow, live_places_in_ranges, outputs_named, rows_in_ranges, serials_of};
pub use sources::{RecordedSource, list_sources, record_sources, sources_in_files};
pub use transfer::{
    BornRow, ChangesOfVersion, ClosedRow, HistoricRun, HistoricVersion, HistorySize,
    MakerOfVersion, RestoredVersion, VersionSpan, born_bytes, changes_of_versions,
    create_importing_state, history_page, history_size, insert_restored_version, list_restored,
    list_unrendered, publish_state, remove_importing_state, remove_restored_rows, runs_of_history,
    state_id_is_taken, version_id_is_taken,
};
pub use versions::{
    Changed, Form, Head, HeadRef, NewVersion, Source, Version, VersionRef, insert_version,
    set_document_digest,
};
