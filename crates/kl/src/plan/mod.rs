//! A plan of the real Terraform, held against the contract of its scope.
//!
//! [`json`] reads what `terraform show -json` prints, [`guards`] finds what must not be applied,
//! [`summary`] says what the plan does. Pure: nothing here runs or asks anything. Values of
//! attributes are never read.

mod guards;
mod json;
mod summary;

pub(crate) use self::guards::{Held, breaches, created_beside_slice};
pub(crate) use self::json::{Action, Plan};
pub(crate) use self::summary::{PlannedChange, Summary};
