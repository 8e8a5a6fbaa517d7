//! Archives end to end: replicas and workers in this process, a real database, a folder or a real S3-compatible server.
//!
//! `KL_SHARED_DIR` names the directory with the corpus of real documents.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on stops where it is"
)]

#[path = "../../../kld/tests/api/harness.rs"]
#[expect(
    dead_code,
    reason = "made for another test binary, of which this one needs a part"
)]
mod harness;
#[path = "../../../../crates/blob/tests/contract/s3_server.rs"]
mod s3_server;

mod documents;
mod jobs;
mod kills;
mod memory;
mod outages;
mod quotas;
mod refusals;
mod round_trip;
mod uploads;
mod world;
