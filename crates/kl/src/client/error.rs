//! What can go wrong with a request, and what that means for the user.

use protocol::{Code, LockInfo, Problem};
use reqwest::{Response, StatusCode};

use super::coding;
use crate::config::Server;
use crate::failure::{Failure, Kind};

/// Why a request has no usable answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The server understood and said no.
    #[error("{}", said(.problem))]
    Refused {
        problem: Box<Problem>,
        /// Whether a token went with the request.
        with_token: bool,
    },
    /// Something answered that is not Kilolock: a proxy, a wrong address.
    #[error("the answer was {status}, and not in the form Kilolock uses")]
    Foreign { status: StatusCode },
    #[error("could not reach {server}: {reason}")]
    Unreachable { server: String, reason: String },
    /// The reader's own words are left out: they may quote what was in the answer.
    #[error(
        "the answer of {path} is not what this version of kl expects (line {line}, column {column})"
    )]
    Unreadable {
        path: String,
        line: usize,
        column: usize,
    },
    #[error("the request could not be written")]
    Unsendable(#[source] serde_json::Error),
}

impl ApiError {
    pub(crate) fn unreachable(server: &Server, error: &reqwest::Error) -> Self {
        let reason = if error.is_timeout() {
            "no answer in time".to_owned()
        } else {
            innermost(error)
        };
        Self::Unreachable {
            server: server.to_string(),
            reason,
        }
    }

    /// Reads the problem out of an answer that is not a success.
    pub(super) async fn read(response: Response, with_token: bool) -> Self {
        let status = response.status();
        let headers = response.headers().clone();
        let body = response.bytes().await.unwrap_or_default();
        let body = coding::unpack(&headers, body).unwrap_or_default();
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Self::Refused {
                problem: Box::new(problem),
                with_token,
            },
            Err(_) => Self::Foreign { status },
        }
    }

    /// The stable code of a refusal.
    pub(crate) fn code(&self) -> Option<Code> {
        match self {
            Self::Refused { problem, .. } => Some(problem.code),
            _ => None,
        }
    }

    /// Whether the answer is that a state was never written. What the caller may not see is another answer.
    pub(crate) fn is_absent_state(&self) -> bool {
        self.code() == Some(Code::StateNotFound)
    }

    /// Whether the server has nothing at this address for anybody, or for this caller.
    pub(crate) fn is_absent_route(&self) -> bool {
        matches!(self.code(), Some(Code::NotFound | Code::MethodNotAllowed))
    }

    /// Whether the answer is that there is no such thing, as far as this caller may see.
    fn is_hidden(&self) -> bool {
        let Self::Refused { problem, .. } = self else {
            return false;
        };
        // With a detail it is something the caller may see, and that is not there.
        problem.code == Code::NotFound && problem.detail.is_none()
    }

    pub(crate) fn kind(&self) -> Kind {
        if self.is_hidden() {
            return Kind::NotAuthorised;
        }
        let (code, status) = match self {
            Self::Refused { problem, .. } => (Some(problem.code), problem.status),
            Self::Foreign { status } => (None, status.as_u16()),
            Self::Unreachable { .. } => return Kind::Unreachable,
            Self::Unreadable { .. } | Self::Unsendable(_) => return Kind::Failed,
        };
        match (code, status) {
            (Some(Code::StateLocked | Code::LockIdMismatch), _) | (_, 423) => Kind::Held,
            (Some(Code::ScopeUnsafe | Code::NativeUnsupported), _) => Kind::Unproven,
            (_, 401 | 403) => Kind::NotAuthorised,
            (_, 502..=504) => Kind::Unreachable,
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        let Self::Refused {
            problem,
            with_token,
        } = self
        else {
            return match self {
                Self::Unreachable { .. } => {
                    Some("run `kl config` to see where the address comes from".to_owned())
                }
                Self::Foreign { .. } => Some(
                    "run `kl config` and check the address: this may be a proxy or another product"
                        .to_owned(),
                ),
                Self::Unreadable { .. } => Some(
                    "run `kl version` and compare it with the server's: one of them may be too old"
                        .to_owned(),
                ),
                _ => None,
            };
        };
        let hint = match problem.code {
            Code::Unauthenticated if !with_token => {
                "no token was sent: run `export KL_TOKEN=…`, or name one in [auth] of .kl.toml"
            }
            Code::Unauthenticated => {
                "the token may have ended or been revoked: run `kl config` to see where it comes from"
            }
            Code::Forbidden => "run `kl whoami` to see what this token may do",
            Code::NotFound if self.is_hidden() => {
                "what this token may not see looks as if it did not exist: run `kl whoami`"
            }
            Code::StateNotFound => "run `kl list` for the states there are",
            Code::VersionNotFound => "run `kl history` for the versions there are",
            Code::StateLocked | Code::LockIdMismatch => {
                "wait, or run `kl status` to see who holds it and `kl unlock` to break the lock"
            }
            Code::ReservationConflict => {
                "run `kl status` to see who holds what; `--wait 10m` waits for it"
            }
            Code::PlanUnknown | Code::PlanSpent | Code::PlanStale => "run `kl plan` again",
            Code::LeaseLost => "what was built is kept: run `kl recover` to see and adopt it",
            Code::EncodingNotJson => "run `kl import snapshot FILE`, which converts it",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        let (kind, hint) = (error.kind(), error.hint());
        let failure = Self::new(kind, error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// A problem in a sentence: what, in this case, and how to find it in the server's log.
fn said(problem: &Problem) -> String {
    let mut text = match &problem.detail {
        Some(detail) => detail.clone(),
        None => problem.title.clone(),
    };
    if let Some(lock) = problem.lock_info() {
        text = held_by(&lock);
    }
    format!("{text} [{}, request {}]", problem.code, problem.request_id)
}

fn held_by(lock: &LockInfo) -> String {
    let mut text = format!("held by {}", or_unknown(&lock.who));
    if !lock.operation.is_empty() {
        text.push_str(&format!(" for {}", lock.operation));
    }
    if !lock.info.is_empty() {
        text.push_str(&format!(" ({})", lock.info));
    }
    if let Some(created) = lock.created {
        text.push_str(&format!(" since {}", crate::output::time::stamp(created)));
    }
    format!("{text}, lock id {}", LockInfo::id_word(&lock.id))
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "somebody" } else { text }
}

/// The last cause of a transport error: "connection refused", without the layers that wrap it.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> Failure {
        let problem = serde_json::from_str(body).unwrap();
        ApiError::Refused {
            problem: Box::new(problem),
            with_token: true,
        }
        .into()
    }

    #[test]
    fn a_lock_conflict_names_the_holder_and_is_kind_held() {
        let failure = refused(
            r#"{"type":"about:blank#state_locked","title":"State locked","status":423,"code":"state_locked","request_id":"r1",
                "ID":"abc OperationTypeApply by ann@laptop","Operation":"OperationTypeApply","Who":"ann@laptop","Info":"","Version":"1.11.4","Created":"2026-11-29T10:00:00Z","Path":""}"#,
        );
        assert_eq!(failure.kind(), Kind::Held);
        assert_eq!(
            failure.causes().next().unwrap(),
            "held by ann@laptop for OperationTypeApply since 2026-11-29T10:00:00Z, lock id abc [state_locked, request r1]"
        );
    }

    #[test]
    fn statuses_become_kinds() {
        let kind = |status: u16, code: &str| {
            refused(&format!(
                r#"{{"type":"","title":"t","status":{status},"code":"{code}","request_id":"r"}}"#
            ))
            .kind()
        };
        assert_eq!(kind(401, "unauthenticated"), Kind::NotAuthorised);
        assert_eq!(kind(403, "forbidden"), Kind::NotAuthorised);
        assert_eq!(kind(409, "lock_id_mismatch"), Kind::Held);
        assert_eq!(kind(409, "stale_serial"), Kind::Failed);
        assert_eq!(kind(404, "not_found"), Kind::NotAuthorised);
        assert_eq!(kind(404, "state_not_found"), Kind::Failed);
        assert_eq!(kind(503, "unavailable"), Kind::Unreachable);
        assert_eq!(kind(404, "from_the_future"), Kind::Failed);
        assert_eq!(kind(500, "internal"), Kind::Failed);
    }
}
