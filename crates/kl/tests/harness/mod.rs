//! What the sealed tests and those against a deployment share.

use std::path::{Path, PathBuf};
use std::process::Output;

/// A finished run of `kl`.
#[derive(Debug)]
pub(crate) struct Done(pub(crate) Output);

impl Done {
    /// Checks the exit code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.0.status.code(),
            Some(code),
            "stdout: {}\nstderr: {}",
            String::from_utf8_lossy(&self.0.stdout),
            self.stderr()
        );
        self
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    /// Checks that stderr has the text.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr().contains(text), "stderr: {}", self.stderr());
        self
    }
}

/// A case file of the shared inputs.
pub(crate) fn case_file(name: &str) -> Vec<u8> {
    let shared = std::env::var_os("KL_SHARED_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = shared.join("cases/files").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
