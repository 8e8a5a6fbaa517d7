//! Workspaces and what belongs to them before any state does: environments, members, tokens, the audit log.
//!
//! Writes take the transaction of the workspace they write to, so that a change and its audit entry stand or fall
//! together. Only look-ups that come before the workspace is known take [`crate::Db`].

pub mod audit;
pub mod audit_chain;
pub mod credentials;
pub mod environments;
pub mod idempotency;
pub mod members;
pub mod verdicts;
pub mod workspaces;
