//! Planning and applying: the commands that run the real Terraform.
//!
//! [`prepare`] gets everything ready that needs no reservation, [`lane`] decides between the native
//! lane and the ordinary one, [`terraform`] plans and applies with either, [`plan`] and [`apply`]
//! are the commands, [`report`] is what they print.

mod apply;
mod lane;
mod plan;
mod prepare;
mod report;
mod said;
mod saved;
mod terraform;
mod trusted;

pub(super) use self::apply::run as apply;
pub(super) use self::lane::{Choice, Lane, choose};
pub(super) use self::plan::run as plan;
pub(super) use self::prepare::{Prepared, ToPrepare, load};
pub(super) use self::terraform::Workshop;
pub(super) use self::trusted::{finish, reason, to_run};
