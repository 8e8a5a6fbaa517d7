//! A run from this side: begun and waited for, kept alive, ended.
//!
//! [`begin`] reserves a scope and says who is in front, [`lease`] renews it, [`signals`] passes on
//! who wants the work to stop, [`intent`] puts a contract into words. What Terraform does inside a
//! run is not known here.

mod begin;
mod intent;
mod lease;
mod signals;

pub(crate) use self::begin::{Begun, begin, reopen};
pub(crate) use self::intent::{announce, doubts, outcome, unsettled};
pub(crate) use self::lease::Lease;
pub(crate) use self::signals::Interrupts;
