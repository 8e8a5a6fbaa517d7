//! Running the real Terraform (or OpenTofu) in the user's own directory, without a trace in it.
//!
//! [`binary`] finds the program, [`backend`] reads which backend the configuration has,
//! [`data_dir`] makes the private data directory that leads Terraform to another http backend, [`left`] takes away those
//! that nobody did, [`override_file`] gives a configuration an http backend for a while,
//! [`variables`] asks for what is missing, [`process`] runs and follows it. What is planned and
//! whether it is applied is decided elsewhere.

mod backend;
mod binary;
mod data_dir;
mod left;
mod override_file;
mod process;
mod variables;

pub(crate) use self::backend::{override_backend, require_http};
pub(crate) use self::binary::Binary;
pub(crate) use self::data_dir::{DataDir, Redirection};
pub(crate) use self::left::remove_left;
pub(crate) use self::override_file::OverrideFile;
pub(crate) use self::process::{Ended, Stop, Terraform};
pub(crate) use self::variables::{Variables, ask_missing};
