//! Terraform's lock information, in Terraform's own spelling.
//!
//! Source: `statemgr.LockInfo` of Terraform and OpenTofu. The keys are written in this order and casing by every
//! version; extra keys in answers are ignored by them.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

/// Who holds, or asks for, the lock of a whole state.
///
/// Reading is tolerant, as clients differ: an absent or null member is empty, an unreadable time is absent, and unknown
/// members are skipped. OpenTofu's force-unlock, for one, fills only `ID` and leaves the time at year 1.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct LockInfo {
    /// The lock's id, chosen by the client: a random UUID.
    #[serde(rename = "ID", default, deserialize_with = "text_or_empty")]
    pub id: String,
    /// What the holder is doing, such as `OperationTypeApply`.
    #[serde(rename = "Operation", default, deserialize_with = "text_or_empty")]
    pub operation: String,
    /// Anything more the holder wants to say.
    #[serde(rename = "Info", default, deserialize_with = "text_or_empty")]
    pub info: String,
    /// `user@host` of the holder.
    #[serde(rename = "Who", default, deserialize_with = "text_or_empty")]
    pub who: String,
    /// The holder's Terraform version, without `v`.
    #[serde(rename = "Version", default, deserialize_with = "text_or_empty")]
    pub version: String,
    /// When the lock was made. Written always, as RFC 3339 in UTC: a client of 1.15 or newer does not wait for a lock
    /// whose information it cannot parse.
    #[serde(
        rename = "Created",
        default,
        deserialize_with = "time_or_none",
        serialize_with = "time_or_epoch"
    )]
    #[schema(value_type = String, format = DateTime)]
    pub created: Option<DateTime<Utc>>,
    /// Empty for the http backend.
    #[serde(rename = "Path", default, deserialize_with = "text_or_empty")]
    pub path: String,
}

/// A body that is no lock information.
#[derive(Debug, thiserror::Error)]
#[error("not a lock information object: {0}")]
pub struct InvalidLockInfo(#[from] serde_json::Error);

impl LockInfo {
    /// Reads lock information as clients send it.
    ///
    /// # Errors
    ///
    /// When the bytes are not one JSON object.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, InvalidLockInfo> {
        // Through a map, because a derived reader would take an array of the right length for the object.
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(bytes)?;
        Ok(serde_json::from_value(serde_json::Value::Object(object))?)
    }

    /// The id with a readable text behind it, for clients up to 1.14 that show nothing of a conflict but the id.
    ///
    /// Unlocking accepts both forms: the first word counts ([`LockInfo::id_word`]).
    #[must_use]
    pub fn readable_id(&self) -> String {
        let mut text = self.id.clone();
        if !self.operation.is_empty() {
            text.push(' ');
            text.push_str(&self.operation);
        }
        if !self.who.is_empty() {
            text.push_str(" by ");
            text.push_str(&self.who);
        }
        text
    }

    /// The part of an id that identifies: what stands before the first space.
    #[must_use]
    pub fn id_word(id: &str) -> &str {
        id.split(' ').next().unwrap_or(id)
    }
}

fn text_or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(match value {
        serde_json::Value::String(text) => text,
        serde_json::Value::Null => String::new(),
        other => other.to_string(),
    })
}

fn time_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<DateTime<Utc>>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    let time = value
        .as_str()
        .and_then(|text| DateTime::parse_from_rfc3339(text).ok());
    Ok(time.map(|time| time.with_timezone(&Utc)))
}

fn time_or_epoch<S: Serializer>(
    time: &Option<DateTime<Utc>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let time = time.unwrap_or(DateTime::UNIX_EPOCH);
    serializer.serialize_str(&time.to_rfc3339_opts(SecondsFormat::AutoSi, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: &str = r#"{"ID":"aaaaaaaa-0000-0000-0000-000000000001","Operation":"OperationTypeApply","Info":"","Who":"ann@laptop","Version":"1.11.4","Created":"2026-11-29T10:00:00.123456789Z","Path":""}"#;

    #[test]
    fn what_terraform_sends_is_written_back_byte_for_byte() {
        let info = LockInfo::from_slice(SENT.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&info).unwrap(), SENT);
    }

    #[test]
    fn missing_null_and_odd_members_do_not_matter() {
        let info =
            LockInfo::from_slice(br#"{"ID":"x","Who":null,"Info":7,"Created":"soon","New":[1]}"#)
                .unwrap();
        assert_eq!(info.id, "x");
        assert_eq!(info.who, "");
        assert_eq!(info.info, "7");
        assert_eq!(info.created, None);
        assert!(
            serde_json::to_string(&info)
                .unwrap()
                .contains("\"Created\":\"1970-01-01T00:00:00Z\"")
        );
    }

    #[test]
    fn a_body_that_is_no_object_is_refused() {
        for body in ["", "[]", "null", "\"x\"", "{\"ID\":\"a\"", "{} {}"] {
            assert!(LockInfo::from_slice(body.as_bytes()).is_err(), "{body:?}");
        }
    }

    #[test]
    fn the_readable_id_begins_with_the_id() {
        let info = LockInfo::from_slice(SENT.as_bytes()).unwrap();
        let readable = info.readable_id();
        assert_eq!(
            readable,
            format!("{} OperationTypeApply by ann@laptop", info.id)
        );
        assert_eq!(LockInfo::id_word(&readable), info.id);
    }
}
