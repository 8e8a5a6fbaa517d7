//! `archive-worker`: does the jobs that `kld` takes, exports and imports of archives.
//!
//! Wiring only: the jobs themselves are in `engine::archive`. Any number of workers share the work; one that dies is
//! replaced by the next that finds its lease ended. Not for: requests, rules, anything a client waits on.

pub mod serve;
pub mod work;
