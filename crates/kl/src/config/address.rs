//! Where a state lives: server, workspace, environment and name, parsed once.
//!
//! A state's address is the URL that a Terraform `backend "http"` block carries:
//! `https://HOST[/PREFIX]/v1/states/WORKSPACE/ENVIRONMENT/NAME`.

use std::fmt;
use std::str::FromStr;

use protocol::{EnvironmentId, InvalidId, InvalidName, StateName, WorkspaceId};
use reqwest::Url;

/// The part of the path that tells a Kilolock address from any other http backend's.
const STATES: &str = "/v1/states/";

/// Why a piece of an address was refused. The text names the piece and what it should look like.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("`{0}` is not a URL with a scheme and a host, such as https://api.example.com")]
    NotAUrl(String),
    #[error("`{0}` is neither http nor https")]
    Scheme(String),
    #[error("the URL carries a user name or password; the token belongs in KL_TOKEN or a file")]
    Userinfo,
    #[error("the URL has a query or fragment (`?…`, `#…`), which a Kilolock address never has")]
    Query,
    #[error("`{0}` is not the address of a state: HOST/v1/states/WORKSPACE/ENVIRONMENT/NAME")]
    NotAState(String),
    #[error("`{0}` is not the id of a workspace: {1}")]
    Workspace(String, InvalidId),
    #[error("`{0}` is not the id of an environment: {1}")]
    Environment(String, InvalidId),
    #[error("`{0}` cannot name a state: {1}")]
    State(String, InvalidName),
    #[error(
        "`{0}` has too many parts: a state is named NAME, ENVIRONMENT/NAME, WORKSPACE/ENVIRONMENT/NAME or by its URL"
    )]
    Parts(String),
}

/// The base URL of a server, without `/v1` and without a final slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server(Url);

impl Server {
    /// The URL of a route, its segments percent-encoded one by one.
    pub(crate) fn route(&self, segments: &[&str]) -> Url {
        let mut url = self.0.clone();
        url.path_segments_mut()
            .expect("an http URL has a path")
            .pop_if_empty()
            .extend(segments);
        url
    }

    /// Whether requests to it cross a network without encryption.
    pub(crate) fn is_clear_text_over_network(&self) -> bool {
        let loopback = match self.0.host_str() {
            Some(host) => {
                let host = host.trim_start_matches('[').trim_end_matches(']');
                host == "localhost"
                    || host
                        .parse::<std::net::IpAddr>()
                        .is_ok_and(|address| address.is_loopback())
            }
            None => false,
        };
        self.0.scheme() == "http" && !loopback
    }

    fn from_url(mut url: Url, path: &str) -> Self {
        url.set_path(path.trim_end_matches('/'));
        Self(url)
    }
}

impl FromStr for Server {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let url = http_url(text)?;
        let path = url.path().trim_end_matches('/');
        let base = path.strip_suffix("/v1").unwrap_or(path).to_owned();
        Ok(Self::from_url(url, &base))
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

/// One state, fully named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateAddress {
    pub(crate) server: Server,
    pub(crate) workspace: WorkspaceId,
    pub(crate) environment: EnvironmentId,
    pub(crate) state: StateName,
}

impl StateAddress {
    /// The address as a backend block spells it.
    pub(crate) fn url(&self) -> Url {
        self.server.route(&[
            "v1",
            "states",
            self.workspace.as_str(),
            self.environment.as_str(),
            self.state.as_str(),
        ])
    }

    /// `workspace/environment/name`, as requests name it.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}/{}", self.workspace, self.environment, self.state)
    }

    /// The URL of a route beneath the state.
    pub(crate) fn route(&self, rest: &[&str]) -> Url {
        let mut url = self.url();
        url.path_segments_mut()
            .expect("an http URL has a path")
            .extend(rest);
        url
    }
}

impl FromStr for StateAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::from_url(http_url(text)?)
    }
}

impl StateAddress {
    fn from_url(url: Url) -> Result<Self, AddressError> {
        let path = url.path().trim_end_matches('/').to_owned();
        let not_a_state = || AddressError::NotAState(url.as_str().to_owned());
        let (prefix, rest) = path.split_once(STATES).ok_or_else(not_a_state)?;
        let segments: Vec<&str> = rest.split('/').collect();
        let [workspace, environment, state] = segments[..] else {
            return Err(not_a_state());
        };
        Ok(Self {
            workspace: workspace_id(&percent_decode(workspace))?,
            environment: environment_id(&percent_decode(environment))?,
            state: state_name(&percent_decode(state))?,
            server: Server::from_url(url.clone(), prefix),
        })
    }

    /// Reads a backend's `address`, which Terraform lets carry `user:password@`; that part is
    /// taken off; the password is returned.
    pub(crate) fn from_backend(text: &str) -> Result<(Self, Option<String>), AddressError> {
        let mut url: Url = text
            .trim()
            .parse()
            .map_err(|_| AddressError::NotAUrl(without_userinfo(text)))?;
        let password = url.password().map(percent_decode);
        // Both fail only for URLs without a host, which are refused right below.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Ok((Self::from_url(checked(url)?)?, password))
    }
}

/// Reads a workspace id, with the text in the error.
pub(crate) fn workspace_id(text: &str) -> Result<WorkspaceId, AddressError> {
    text.parse()
        .map_err(|error| AddressError::Workspace(text.to_owned(), error))
}

/// Reads an environment id, with the text in the error.
pub(crate) fn environment_id(text: &str) -> Result<EnvironmentId, AddressError> {
    text.parse()
        .map_err(|error| AddressError::Environment(text.to_owned(), error))
}

/// Reads the name of a state, with the text in the error.
pub(crate) fn state_name(text: &str) -> Result<StateName, AddressError> {
    text.parse()
        .map_err(|error| AddressError::State(text.to_owned(), error))
}

fn http_url(text: &str) -> Result<Url, AddressError> {
    let url: Url = text
        .trim()
        .parse()
        .map_err(|_| AddressError::NotAUrl(without_userinfo(text)))?;
    checked(url)
}

/// What may be shown of a text that did not parse as a URL: it may still hold a password.
fn without_userinfo(text: &str) -> String {
    text.rsplit('@').next().unwrap_or_default().to_owned()
}

fn checked(url: Url) -> Result<Url, AddressError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(AddressError::Scheme(url.scheme().to_owned()));
    }
    if url.host_str().is_none() {
        return Err(AddressError::NotAUrl(url.as_str().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(AddressError::Userinfo);
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(AddressError::Query);
    }
    Ok(url)
}

fn percent_decode(segment: &str) -> String {
    let bytes = segment.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = (bytes[at] == b'%')
            .then(|| segment.get(at + 1..at + 3))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match escape {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://api.example.com/v1/states/ws_0123456789ab/env_0123456789ab/prod";

    #[test]
    fn a_state_url_comes_apart_and_goes_together_again() {
        let address: StateAddress = URL.parse().unwrap();
        assert_eq!(address.server.to_string(), "https://api.example.com");
        assert_eq!(address.workspace.as_str(), "ws_0123456789ab");
        assert_eq!(address.environment.as_str(), "env_0123456789ab");
        assert_eq!(address.state.as_str(), "prod");
        assert_eq!(address.url().as_str(), URL);
    }

    #[test]
    fn a_path_in_front_of_v1_belongs_to_the_server() {
        let address: StateAddress =
            "http://127.0.0.1:8080/kl/v1/states/ws_0123456789ab/env_0123456789ab/a%2Db/"
                .parse()
                .unwrap();
        assert_eq!(address.server.to_string(), "http://127.0.0.1:8080/kl");
        assert_eq!(address.state.as_str(), "a-b");
        assert!(
            address
                .url()
                .as_str()
                .ends_with("/kl/v1/states/ws_0123456789ab/env_0123456789ab/a-b")
        );
        let server: Server = "http://127.0.0.1:8080/kl/v1/".parse().unwrap();
        assert_eq!(server, address.server);
    }

    #[test]
    fn what_is_not_a_kilolock_address_says_why() {
        let parse = |text: &str| text.parse::<StateAddress>().unwrap_err();
        assert!(matches!(parse("prod"), AddressError::NotAUrl(_)));
        assert!(matches!(
            parse("ftp://x/v1/states/a/b/c"),
            AddressError::Scheme(_)
        ));
        assert!(matches!(
            parse("https://gitlab.com/api/v4/projects/1/terraform/state/prod"),
            AddressError::NotAState(_)
        ));
        assert!(matches!(
            parse("https://u:p@h/v1/states/a/b/c"),
            AddressError::Userinfo
        ));
        assert!(matches!(
            parse(&format!("{URL}?token=x")),
            AddressError::Query
        ));
        assert!(matches!(
            parse("https://h/v1/states/prod/env_0123456789ab/c"),
            AddressError::Workspace(..)
        ));
    }

    #[test]
    fn a_backend_address_gives_up_its_password() {
        let (address, password) = StateAddress::from_backend(
            "https://kl:p%40ss@h/v1/states/ws_0123456789ab/env_0123456789ab/prod",
        )
        .unwrap();
        assert_eq!(password.as_deref(), Some("p@ss"));
        assert_eq!(
            address.url().as_str(),
            "https://h/v1/states/ws_0123456789ab/env_0123456789ab/prod"
        );
    }

    #[test]
    fn only_http_beyond_this_machine_is_clear_text() {
        let clear = |text: &str| text.parse::<Server>().unwrap().is_clear_text_over_network();
        assert!(clear("http://kld:8080"));
        assert!(!clear("http://127.0.0.1:8080"));
        assert!(!clear("http://[::1]:8080"));
        assert!(!clear("http://localhost"));
        assert!(!clear("https://kld"));
    }
}
