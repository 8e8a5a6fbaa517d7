//! Runs: what they are, what they last saw, and what became of their commits.
//!
//! A run's row is locked before anything of the ledger. Whoever ends another's reservation leaves the run's row alone: what
//! a run is follows from both.

mod documents;
mod lists;
mod locked;
mod receipts;
mod records;
mod standings;
mod tokens;

pub use documents::{RunDocument, find_run_document, put_run_document};
pub use lists::{
    LastChange, RunVersionRow, find_last_change, find_run, list_run_versions, list_runs,
};
pub use locked::{LockedRun, WaitingRun, find_run_at_once, lock_run_of};
pub use receipts::{NewReceipt, Receipt, find_grounds, insert_receipt};
pub use records::*;
pub use standings::{RunStanding, find_run_standing, list_run_standings};
pub use tokens::{NewRunToken, create_run_token, hand_run_tokens_to, revoke_run_tokens};
