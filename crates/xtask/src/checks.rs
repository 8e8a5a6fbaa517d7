//! A list of claims, each held or not, printed as they are checked.

use anyhow::Result;

use crate::stack::Stack;

/// What was checked so far.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    passed: usize,
    failed: usize,
}

impl Checks {
    /// Prints one line: the claim, and whether it holds.
    pub(crate) fn check(&mut self, holds: bool, claim: &str) {
        if holds {
            self.passed += 1;
            println!("ok      {claim}");
        } else {
            self.failed += 1;
            println!("FAILED  {claim}");
        }
    }

    /// A line that claims nothing.
    pub(crate) fn say(&self, line: &str) {
        println!("        {line}");
    }

    /// Sums up; answers the exit code. The services' logs stay where something went wrong.
    pub(crate) fn end(&self, driven: Result<()>, stack: &mut Stack) -> Result<u8> {
        let all = self.passed + self.failed;
        println!("\n{} of {all} checks hold", self.passed);
        if driven.is_err() || self.failed > 0 {
            let scratch = &mut stack.databases.scratch;
            scratch.keep_logs();
            eprintln!("the services' logs are in {}", scratch.path().display());
        }
        driven.map(|()| u8::from(self.failed > 0))
    }
}
