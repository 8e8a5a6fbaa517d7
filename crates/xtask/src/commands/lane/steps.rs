//! One terraform command after the other, each held against the requests it must make.

use std::time::Instant;

use anyhow::Result;

use crate::stack::Stack;
use crate::terraform::{BACKEND, Backend, Directory, Outcome, Terraform};
use crate::witness::{Witness, sequence};

/// How terraform must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    Refused,
}

/// What was seen so far, and the way to see more.
pub(crate) struct Lane<'a> {
    pub(crate) terraform: &'a Terraform,
    pub(crate) stack: &'a Stack,
    witness: Witness,
    started: Instant,
    passed: usize,
    failures: Vec<String>,
}

impl<'a> Lane<'a> {
    pub(crate) async fn open(terraform: &'a Terraform, stack: &'a Stack) -> Result<Self> {
        Ok(Self {
            terraform,
            stack,
            witness: Witness::start(stack.url()).await?,
            started: Instant::now(),
            passed: 0,
            failures: Vec::new(),
        })
    }

    /// A state of the main workspace, written through the witness by its writer.
    pub(crate) fn backend(&self, state: &str) -> Backend {
        self.stack.tenancy.writes(self.witness.url(), state)
    }

    /// A directory with the http backend configured, not yet initialised.
    pub(crate) fn directory(&self, state: &str) -> Result<Directory> {
        let directory = self.terraform.directory(Some(self.backend(state)))?;
        directory.write("backend.tf", BACKEND)?;
        Ok(directory)
    }

    /// Runs a command that must end well; `expected` are its requests as [`sequence`] prints them.
    pub(crate) async fn done(
        &mut self,
        directory: &Directory,
        line: &str,
        expected: &str,
    ) -> Result<Outcome> {
        self.step(directory, line, "", expected, Ending::Done).await
    }

    /// Runs a command that terraform must refuse.
    pub(crate) async fn refused(
        &mut self,
        directory: &Directory,
        line: &str,
        expected: &str,
    ) -> Result<Outcome> {
        self.step(directory, line, "", expected, Ending::Refused)
            .await
    }

    pub(crate) async fn step(
        &mut self,
        directory: &Directory,
        line: &str,
        input: &str,
        expected: &str,
        ending: Ending,
    ) -> Result<Outcome> {
        // What was prepared by hand does not count.
        self.witness.take();
        let words: Vec<&str> = line.split(' ').collect();
        let outcome = directory.run_with_input(&words, input).await?;
        let seen = sequence(&self.witness.take());

        let ended_well = (outcome.code == 0) == (ending == Ending::Done);
        if seen == expected && ended_well {
            self.passed += 1;
            println!("test lane: terraform {line:<50} {seen:<24} ... ok");
        } else {
            println!("test lane: terraform {line:<50} {seen:<24} ... FAILED");
            self.failures.push(format!(
                "terraform {line}\n  requests seen     {seen}\n  requests expected {expected}\n  ended with {} (expected: {ending:?})\n{}{}",
                outcome.code, outcome.stdout, outcome.stderr
            ));
        }
        Ok(outcome)
    }

    /// Prints the failures and the closing line, in the form of Rust's own test harness; answers the exit code.
    pub(crate) fn close(self) -> u8 {
        for failure in &self.failures {
            println!("\n---- {failure}");
        }
        let verdict = if self.failures.is_empty() {
            "ok"
        } else {
            "FAILED"
        };
        println!(
            "\ntest result: {verdict}. {} passed; {} failed; 0 ignored; 0 measured; 0 filtered out; finished in {:.2}s\n",
            self.passed,
            self.failures.len(),
            self.started.elapsed().as_secs_f64()
        );
        u8::from(!self.failures.is_empty())
    }
}
