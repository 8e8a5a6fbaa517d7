//! How a command fails: what happened, what exit code that is, and what to try next.
//!
//! Every failure of `kl` is a [`Failure`]. The kind fixes the exit code that scripts rely on; the
//! error inside carries the chain of causes; the hint names the next command to run. Nothing here
//! prints: `main` does that once, through the printer.

use std::process::ExitCode;

/// What went wrong, as far as a script needs to tell cases apart. Each kind is one exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The command was understood and could not be done.
    Failed,
    /// The command line, the environment or a configuration file is wrong.
    Usage,
    /// Nothing went wrong: there are changes, and `--detailed-exitcode` asked to be told by it.
    Changes,
    /// Somebody else holds the state, or part of it.
    Held,
    /// The scope of a run cannot be proven, and falling back is not allowed.
    Unproven,
    /// The server does not know the caller, or the caller may not do this.
    NotAuthorised,
    /// The server could not be reached, or answered that it cannot serve now.
    Unreachable,
}

impl Kind {
    /// The documented exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage | Self::Changes => 2,
            Self::Held => 3,
            Self::Unproven => 4,
            Self::NotAuthorised => 5,
            Self::Unreachable => 6,
        }
    }
}

/// A failed command: its kind, its chain of causes and its hints.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    error: anyhow::Error,
    hints: Vec<String>,
}

impl Failure {
    pub(crate) fn new(kind: Kind, error: impl Into<anyhow::Error>) -> Self {
        Self {
            kind,
            error: error.into(),
            hints: Vec::new(),
        }
    }

    /// A failure that is a message of ours and has no deeper cause.
    pub(crate) fn message(kind: Kind, message: impl Into<String>) -> Self {
        Self::new(kind, anyhow::Error::msg(message.into()))
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::message(Kind::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::message(Kind::Usage, message)
    }

    /// Puts what was being attempted in front of the causes so far.
    pub(crate) fn context(mut self, attempted: impl Into<String>) -> Self {
        self.error = self.error.context(attempted.into());
        self
    }

    /// Adds something to try next, shown after the error on a line of its own.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Whether the reader of stdout went away, which is the end but not a failure.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.error.is::<crate::output::ClosedPipe>()
    }

    /// Whether there is nothing to say: the exit code is all.
    pub(crate) fn is_silent(&self) -> bool {
        self.kind == Kind::Changes
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind.code())
    }

    /// The error first, then each cause, outermost to innermost.
    pub(crate) fn causes(&self) -> impl Iterator<Item = String> + '_ {
        self.error.chain().map(ToString::to_string)
    }

    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }
}

/// Errors without a kind of their own are plain failures.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Kind::Failed, error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Kind::Failed, error)
    }
}

/// The result of every command and of everything that can end one.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;
