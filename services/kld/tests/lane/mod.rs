//! The Terraform lane as its clients meet it, case by case.
//!
//! Case numbers in doc comments (`S01` and so on) are those of the catalogue of cases that a state service must survive.
//! `KL_SHARED_DIR` names the directory with the catalogue's input files and the corpus of real documents.

mod auth;
mod bytes;
mod corpus;
pub(crate) mod documents;
mod hardening;
mod history;
mod locks;
mod operations;
mod races;
mod reads;
mod real;
mod rules;
pub(crate) mod stage;
pub(crate) mod terraform;
mod transport;
mod writes;
