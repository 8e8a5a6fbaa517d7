//! Runs as their clients meet them: what they reserve, commit, leave out and keep.

mod begin;
mod commits;
mod endings;
mod faults;
mod leases;
mod plans;
mod queue;
mod real;
mod recover;
mod restore;
mod stage;
mod uploads;
