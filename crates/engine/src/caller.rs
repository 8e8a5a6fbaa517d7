//! Who acts, where, and with which rights: what the authoriser hands to a use case.

use auth::{Action, Context};
use protocol::{EnvironmentId, PrincipalId, WorkspaceId};

/// A decided request inside one environment. It is made of a [`Context`], which only the authoriser
/// makes, so a use case can neither be reached without a decision nor be pointed elsewhere.
#[derive(Debug, Clone)]
pub struct Caller {
    context: Context,
    workspace: WorkspaceId,
    environment: EnvironmentId,
}

impl Caller {
    /// `None` where the decision was on something wider than an environment.
    #[must_use]
    pub fn new(context: Context) -> Option<Self> {
        let workspace = context.workspace()?.clone();
        let environment = context.environment()?.clone();
        Some(Self {
            context,
            workspace,
            environment,
        })
    }

    #[must_use]
    pub fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }

    #[must_use]
    pub fn environment(&self) -> &EnvironmentId {
        &self.environment
    }

    #[must_use]
    pub fn principal(&self) -> &PrincipalId {
        self.context.principal()
    }

    /// How people know the principal; recorded as the author of versions.
    #[must_use]
    pub fn display(&self) -> &str {
        self.context.display()
    }

    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Whether the caller may end what somebody else holds.
    #[must_use]
    pub fn may_break_locks(&self) -> bool {
        self.context.permits(Action::BreakLock)
    }
}
