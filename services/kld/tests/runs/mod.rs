//! Runs as their clients meet them: what they reserve, commit, leave out and keep.

mod begin;
mod commits;
mod stage;
mod uploads;
