//! The one envelope of refusals, after RFC 9457 (`application/problem+json`).
//!
//! The Terraform lane sends the same members as `application/json`, and on lock conflicts the holder's LockInfo
//! beside them at the top level, because that is where Terraform looks.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{Code, LockInfo};

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// A reference for the code: `urn:kilolock:problem:<code>`.
    #[serde(rename = "type")]
    pub kind: String,
    /// A short summary, the same for every occurrence of the code.
    pub title: String,
    /// The HTTP status of the answer.
    pub status: u16,
    /// The stable code to branch on.
    pub code: Code,
    /// What happened in this case, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Names this request in the service's log; give it when asking for help.
    pub request_id: String,
    /// Members that only some codes have: the current serial, the holder of a lock.
    #[serde(flatten)]
    #[schema(ignore)]
    pub extra: Map<String, Value>,
}

impl Problem {
    /// The problem of a code, with its own status and title and no detail.
    #[must_use]
    pub fn new(code: Code, request_id: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:kilolock:problem:{code}"),
            title: code.title().to_owned(),
            status: code.status(),
            code,
            detail: None,
            request_id: request_id.into(),
            extra: Map::new(),
        }
    }

    /// Says what happened in this case. The text is for people and may change.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// The holder's LockInfo, if the problem is a lock conflict that carries one at the top level.
    #[must_use]
    pub fn lock_info(&self) -> Option<LockInfo> {
        self.extra
            .contains_key("ID")
            .then(|| serde_json::from_value(Value::Object(self.extra.clone())).ok())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_members_stand_at_the_top_level() {
        let mut problem = Problem::new(Code::StateLocked, "req-1");
        problem.extra.insert("ID".into(), "abc".into());
        let json = serde_json::to_value(&problem).unwrap();
        assert_eq!(json["ID"], "abc");
        assert_eq!(json["code"], "state_locked");
        assert!(json.get("detail").is_none());
        assert_eq!(serde_json::from_value::<Problem>(json).unwrap(), problem);
        assert_eq!(problem.lock_info().unwrap().id, "abc");
    }
}
