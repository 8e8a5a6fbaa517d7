//! Runs as their clients meet them: what they reserve, commit, leave out and keep.

mod begin;
mod commits;
mod endings;
mod failover;
mod faults;
mod index;
mod leases;
mod plans;
mod queue;
mod real;
mod recover;
mod restore;
pub(crate) mod stage;
mod uploads;
