//! The one decision: may this principal do this there?

use protocol::{EnvironmentId, RunId, WorkspaceId};

use crate::{Action, CallerKind, Context, Principal, Roles};

/// What an action is asked for on. A workspace that a request names must be the token's own, wherever it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// The caller itself.
    Caller,
    /// The deployment.
    Deployment,
    /// A workspace.
    Workspace(WorkspaceId),
    /// An environment, or a state in it.
    Environment(WorkspaceId, EnvironmentId),
    /// A run on a state of an environment.
    Run(WorkspaceId, EnvironmentId, RunId),
}

/// What [`authorize`] says.
#[derive(Debug, Clone)]
pub enum Decision {
    /// The caller may.
    Allowed(Context),
    /// The caller may not, but may know that the thing exists.
    Forbidden,
    /// The caller may not even know whether the thing exists. Also the answer for what does not exist.
    Hidden,
    /// The caller's workspace is suspended.
    Suspended,
}

/// Decides whether the principal may do the action on the resource. Deny is the default; no role reaches into another
/// workspace; operators reach into none.
#[must_use]
pub fn authorize(principal: &Principal, action: Action, resource: &Resource) -> Decision {
    if principal.suspended {
        return Decision::Suspended;
    }
    if let Some(own) = principal.run
        && !(action.for_runs() && matches!(resource, Resource::Run(_, _, run) if *run == own))
    {
        return Decision::Hidden;
    }
    let operator = principal.kind == CallerKind::Operator;
    let roles = match resource {
        Resource::Caller if action == Action::ReadSelf => {
            return Decision::Allowed(allow(principal, action, resource, Roles::NONE));
        }
        Resource::Caller => return Decision::Hidden,
        // Nothing of the deployment is a secret but what is in it, so everybody else is told plainly.
        Resource::Deployment | Resource::Workspace(_) if operator => {
            return if action.for_operators() {
                Decision::Allowed(allow(principal, action, resource, Roles::NONE))
            } else {
                Decision::Forbidden
            };
        }
        Resource::Deployment => return Decision::Forbidden,
        Resource::Workspace(workspace) => {
            if principal.workspace.as_ref() != Some(workspace) {
                return Decision::Hidden;
            }
            if !any_role(principal) {
                return Decision::Hidden;
            }
            workspace_roles(principal, action)
        }
        Resource::Environment(workspace, environment)
        | Resource::Run(workspace, environment, _) => {
            if principal.workspace.as_ref() != Some(workspace)
                || !principal.environments.contains(environment)
            {
                return Decision::Hidden;
            }
            let roles = environment_roles(principal, environment);
            if roles.is_empty() {
                return Decision::Hidden;
            }
            roles
        }
    };
    if roles.intersects(action.roles()) && cap(principal).intersects(action.roles()) {
        Decision::Allowed(allow(principal, action, resource, roles))
    } else {
        Decision::Forbidden
    }
}

/// The roles that count on the workspace itself: those granted for all of it.
fn workspace_roles(principal: &Principal, action: Action) -> Roles {
    if action.any_environment_suffices() {
        return principal.grants.iter().map(|grant| grant.role).collect();
    }
    if principal.scope.environment.is_some() {
        return Roles::NONE;
    }
    let wide = principal
        .grants
        .iter()
        .filter(|grant| grant.environment.is_none());
    wide.map(|grant| grant.role).collect()
}

/// The roles that count in an environment: those granted for it, and those for the whole workspace.
fn environment_roles(principal: &Principal, environment: &EnvironmentId) -> Roles {
    if principal
        .scope
        .environment
        .as_ref()
        .is_some_and(|only| only != environment)
    {
        return Roles::NONE;
    }
    let matching = principal.grants.iter().filter(|grant| {
        grant
            .environment
            .as_ref()
            .is_none_or(|granted| granted == environment)
    });
    matching.map(|grant| grant.role).collect()
}

fn any_role(principal: &Principal) -> bool {
    !principal.grants.is_empty()
}

/// What the token's scope leaves of any role.
fn cap(principal: &Principal) -> Roles {
    principal
        .scope
        .role
        .map_or(Roles::ALL, |role| Roles::of(&[role]))
}

fn allow(principal: &Principal, action: Action, resource: &Resource, roles: Roles) -> Context {
    let (workspace, environment) = match resource {
        Resource::Caller | Resource::Deployment => (None, None),
        Resource::Workspace(workspace) => (Some(workspace.clone()), None),
        Resource::Environment(workspace, environment)
        | Resource::Run(workspace, environment, _) => {
            (Some(workspace.clone()), Some(environment.clone()))
        }
    };
    let run = match resource {
        Resource::Run(_, _, run) => Some(*run),
        _ => None,
    };
    Context {
        principal: principal.id.clone(),
        display: principal.display.clone(),
        token_id: principal.token_id.clone(),
        action,
        roles,
        cap: cap(principal),
        operator: principal.kind == CallerKind::Operator,
        workspace,
        environment,
        run,
        request_id: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Grant, Role, TokenScope};

    fn workspace(n: u8) -> WorkspaceId {
        WorkspaceId::from_bytes([n; 6])
    }

    fn environment(n: u8) -> EnvironmentId {
        EnvironmentId::from_bytes([n; 6])
    }

    fn member(grants: &[(Role, Option<u8>)]) -> Principal {
        Principal {
            id: protocol::PrincipalId::from_bytes([1; 6]),
            display: "ann".into(),
            kind: CallerKind::Person,
            token_id: "AAAAAAAAAAAA".parse().unwrap(),
            run: None,
            scope: TokenScope::default(),
            workspace: Some(workspace(1)),
            suspended: false,
            grants: grants
                .iter()
                .map(|&(role, env)| Grant {
                    role,
                    environment: env.map(environment),
                })
                .collect(),
            environments: [environment(1), environment(2)].into(),
        }
    }

    fn word(decision: &Decision) -> &'static str {
        match decision {
            Decision::Allowed(_) => "allowed",
            Decision::Forbidden => "forbidden",
            Decision::Hidden => "hidden",
            Decision::Suspended => "suspended",
        }
    }

    #[track_caller]
    fn assert_decision(principal: &Principal, action: Action, resource: &Resource, expected: &str) {
        assert_eq!(
            word(&authorize(principal, action, resource)),
            expected,
            "{action:?}"
        );
    }

    #[test]
    fn every_role_gets_what_the_table_gives_it_and_nothing_else() {
        let place = Resource::Environment(workspace(1), environment(1));
        for role in Role::ALL {
            for &action in Action::ALL {
                for grant in [None, Some(1)] {
                    let decision = authorize(&member(&[(role, grant)]), action, &place);
                    let allowed = action.roles().contains(role);
                    assert_eq!(
                        word(&decision),
                        if allowed { "allowed" } else { "forbidden" },
                        "{role} {action:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn another_environment_another_workspace_and_nothing_at_all_look_the_same() {
        for role in Role::ALL {
            for &action in Action::ALL {
                let principal = member(&[(role, Some(1))]);
                for place in [
                    Resource::Environment(workspace(1), environment(2)),
                    Resource::Environment(workspace(1), environment(9)),
                    Resource::Environment(workspace(2), environment(1)),
                    Resource::Workspace(workspace(2)),
                ] {
                    assert_decision(&principal, action, &place, "hidden");
                }
            }
        }
    }

    #[test]
    fn a_grant_in_an_environment_does_not_reach_the_workspace() {
        let principal = member(&[(Role::Admin, Some(1))]);
        let place = Resource::Workspace(workspace(1));
        assert_decision(&principal, Action::CreateToken, &place, "forbidden");
        assert_decision(&principal, Action::ListEnvironments, &place, "allowed");
    }

    #[test]
    fn a_member_without_grants_sees_nothing_but_itself() {
        let principal = member(&[]);
        assert_decision(&principal, Action::ReadSelf, &Resource::Caller, "allowed");
        assert_decision(
            &principal,
            Action::ReadWorkspace,
            &Resource::Workspace(workspace(1)),
            "hidden",
        );
    }

    #[test]
    fn a_tokens_scope_narrows_and_never_widens() {
        let here = Resource::Environment(workspace(1), environment(1));
        let there = Resource::Environment(workspace(1), environment(2));
        let mut principal = member(&[(Role::Writer, None)]);
        principal.scope = TokenScope {
            role: Some(Role::Reader),
            environment: Some(environment(1)),
        };
        assert_decision(&principal, Action::ReadDocument, &here, "allowed");
        assert_decision(&principal, Action::WriteState, &here, "forbidden");
        assert_decision(&principal, Action::ReadDocument, &there, "hidden");

        principal.scope.role = Some(Role::Admin);
        assert_decision(&principal, Action::WriteState, &here, "allowed");
        assert_decision(&principal, Action::RollBackState, &here, "forbidden");
    }

    #[test]
    fn what_a_context_permits_is_what_would_be_decided() {
        let place = Resource::Environment(workspace(1), environment(1));
        for role in Role::ALL {
            for cap in [None, Some(Role::Viewer), Some(Role::Writer)] {
                let mut principal = member(&[(role, None)]);
                principal.scope.role = cap;
                for &first in Action::ALL {
                    let Decision::Allowed(context) = authorize(&principal, first, &place) else {
                        continue;
                    };
                    for &second in Action::ALL {
                        let decided = word(&authorize(&principal, second, &place)) == "allowed";
                        assert_eq!(
                            context.permits(second),
                            decided,
                            "{role} {first:?} {second:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn operators_make_workspaces_and_see_nothing_inside() {
        let mut operator = member(&[]);
        operator.kind = CallerKind::Operator;
        operator.workspace = None;
        operator.environments.clear();
        for &action in Action::ALL {
            let inside = Resource::Environment(workspace(1), environment(1));
            assert_decision(&operator, action, &inside, "hidden");
            let expected = if action.for_operators() {
                "allowed"
            } else {
                "forbidden"
            };
            assert_decision(
                &operator,
                action,
                &Resource::Workspace(workspace(1)),
                expected,
            );
            assert_decision(&operator, action, &Resource::Deployment, expected);
        }
    }

    #[test]
    fn members_are_told_plainly_that_the_deployment_is_not_theirs() {
        let admin = member(&[(Role::Admin, None)]);
        assert_decision(
            &admin,
            Action::CreateWorkspace,
            &Resource::Deployment,
            "forbidden",
        );
        assert_decision(
            &admin,
            Action::UpdateWorkspace,
            &Resource::Workspace(workspace(1)),
            "forbidden",
        );
    }

    #[test]
    fn the_token_of_a_run_reaches_that_run_and_nothing_else() {
        let id = |n| RunId::from_uuid(uuid::Uuid::from_u128(n));
        let mut principal = member(&[(Role::Admin, None)]);
        principal.run = Some(id(1));
        let own = Resource::Run(workspace(1), environment(1), id(1));
        let others = [
            Resource::Run(workspace(1), environment(1), id(2)),
            Resource::Environment(workspace(1), environment(1)),
            Resource::Workspace(workspace(1)),
            Resource::Deployment,
            Resource::Caller,
        ];
        for &action in Action::ALL {
            let expected = if action == Action::UseRun {
                "allowed"
            } else {
                "hidden"
            };
            assert_decision(&principal, action, &own, expected);
            for other in &others {
                assert_decision(&principal, action, other, "hidden");
            }
        }
        principal.grants.clear();
        assert_decision(&principal, Action::UseRun, &own, "hidden");
    }

    #[test]
    fn a_suspended_workspace_gets_one_answer_for_everything() {
        let mut principal = member(&[(Role::Admin, None)]);
        principal.suspended = true;
        for place in [
            Resource::Environment(workspace(1), environment(1)),
            Resource::Environment(workspace(2), environment(9)),
            Resource::Caller,
        ] {
            assert_decision(&principal, Action::ReadDocument, &place, "suspended");
        }
    }
}
