//! A state as people name it on the command line.

use std::str::FromStr;

use protocol::{EnvironmentId, StateName, WorkspaceId};

use super::StateAddress;
use super::address::{AddressError, environment_id, state_name, workspace_id};

/// A whole URL, or the last one, two or three parts of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StateRef {
    Url(StateAddress),
    Path {
        workspace: Option<WorkspaceId>,
        environment: Option<EnvironmentId>,
        state: StateName,
    },
}

impl FromStr for StateRef {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.contains("://") {
            return Ok(Self::Url(text.parse()?));
        }
        let parts: Vec<&str> = text.split('/').collect();
        let (workspace, environment, state) = match parts[..] {
            [state] => (None, None, state),
            [environment, state] => (None, Some(environment_id(environment)?), state),
            [workspace, environment, state] => (
                Some(workspace_id(workspace)?),
                Some(environment_id(environment)?),
                state,
            ),
            _ => return Err(AddressError::Parts(text.to_owned())),
        };
        Ok(Self::Path {
            workspace,
            environment,
            state: state_name(state)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://api.example.com/v1/states/ws_0123456789ab/env_0123456789ab/prod";

    #[test]
    fn a_positional_state_is_a_name_a_path_or_a_url() {
        assert!(matches!(
            "prod".parse().unwrap(),
            StateRef::Path {
                workspace: None,
                environment: None,
                ..
            }
        ));
        assert!(matches!(
            "env_0123456789ab/prod".parse().unwrap(),
            StateRef::Path {
                workspace: None,
                environment: Some(_),
                ..
            }
        ));
        assert!(matches!(URL.parse().unwrap(), StateRef::Url(_)));
        assert!("team/prod".parse::<StateRef>().is_err());
        assert!("a\nb".parse::<StateRef>().is_err());
    }
}
