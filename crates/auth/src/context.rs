//! Who calls, and the proof that they may.

use std::collections::BTreeSet;

use protocol::{EnvironmentId, PrincipalId, RunId, WorkspaceId};

use crate::{Action, CallerKind, Grant, Roles, TokenId, TokenScope};

/// A caller as resolved from a token, with everything a decision needs.
///
/// It is a snapshot: `kld` keeps it for a few seconds at most, and decides a refusal only on a fresh one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The principal.
    pub id: PrincipalId,
    /// Its name for people.
    pub display: String,
    /// Person, service or operator.
    pub kind: CallerKind,
    /// The token it came with.
    pub token_id: TokenId,
    /// The run that the token was made for, and reaches nothing beside.
    pub run: Option<RunId>,
    /// Narrows the grants.
    pub scope: TokenScope,
    /// The workspace it belongs to; `None` for operators, and only for them.
    pub workspace: Option<WorkspaceId>,
    /// Whether that workspace is suspended.
    pub suspended: bool,
    /// What it was granted in its workspace.
    pub grants: Vec<Grant>,
    /// The environments that its workspace has. One that is not here does not exist.
    pub environments: BTreeSet<EnvironmentId>,
}

impl Principal {
    /// The environments in which it has a role; `None`: in all of them.
    #[must_use]
    pub fn visible_environments(&self) -> Option<BTreeSet<EnvironmentId>> {
        let only = self.scope.environment.as_ref();
        if self.grants.iter().any(|grant| grant.environment.is_none()) {
            return only.map(|only| [only.clone()].into());
        }
        let granted = self
            .grants
            .iter()
            .filter_map(|grant| grant.environment.clone());
        Some(
            granted
                .filter(|granted| only.is_none_or(|only| only == granted))
                .collect(),
        )
    }
}

/// The proof that a caller may do what it asked for, in the place it asked for.
///
/// Only [`crate::authorize`] makes one. Store and engine calls on behalf of a caller take it, so they can neither be
/// reached without a decision nor be pointed at a workspace that was not decided over.
#[derive(Debug, Clone)]
pub struct Context {
    pub(crate) principal: PrincipalId,
    pub(crate) display: String,
    pub(crate) token_id: TokenId,
    pub(crate) action: Action,
    pub(crate) roles: Roles,
    pub(crate) cap: Roles,
    pub(crate) operator: bool,
    pub(crate) workspace: Option<WorkspaceId>,
    pub(crate) environment: Option<EnvironmentId>,
    pub(crate) run: Option<RunId>,
    pub(crate) request_id: String,
}

impl Context {
    /// Names the request, for the audit log.
    #[must_use]
    pub fn in_request(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = request_id.into();
        self
    }

    /// Who calls.
    #[must_use]
    pub const fn principal(&self) -> &PrincipalId {
        &self.principal
    }

    /// The caller's name for people. It appears in histories and audit entries, never in logs.
    #[must_use]
    pub fn display(&self) -> &str {
        &self.display
    }

    /// The public id of the token it came with.
    #[must_use]
    pub const fn token_id(&self) -> &TokenId {
        &self.token_id
    }

    /// What was decided over.
    #[must_use]
    pub const fn action(&self) -> Action {
        self.action
    }

    /// The workspace decided over; `None` where the action is on the deployment or on the caller itself.
    #[must_use]
    pub const fn workspace(&self) -> Option<&WorkspaceId> {
        self.workspace.as_ref()
    }

    /// The environment decided over; `None` where the action is on something wider.
    #[must_use]
    pub const fn environment(&self) -> Option<&EnvironmentId> {
        self.environment.as_ref()
    }

    /// The run decided over; `None` where the action is on something else.
    #[must_use]
    pub const fn run(&self) -> Option<RunId> {
        self.run
    }

    /// The request this is done in.
    #[must_use]
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Whether the caller may also do something else in the same place.
    ///
    /// For handlers whose answer or effect depends on more than the route's action: masking values, breaking another's
    /// lock.
    #[must_use]
    pub fn permits(&self, action: Action) -> bool {
        if self.operator {
            return action.for_operators();
        }
        self.roles.intersects(action.roles()) && self.cap.intersects(action.roles())
    }
}
