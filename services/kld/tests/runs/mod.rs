//! Runs as their clients meet them: what they reserve, commit, leave out and keep.

mod begin;
mod commits;
mod queue;
mod stage;
mod uploads;
