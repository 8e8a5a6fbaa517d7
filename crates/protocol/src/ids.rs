//! Ids as types, so that a state id is never passed where a version id is meant.
//!
//! Two families. Tenancy ids (`ws_`, `env_`, `pr_`) are short texts, because people type and read them in addresses.
//! Ids of things that come by the thousand (`st_`, `ver_`, …) are version 7 UUIDs; they print as prefix and 32 hex
//! digits and are also read in the plain UUID form, which the state engine protocol speaks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A text that is not the id it was offered as.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid id: expected `{prefix}_` followed by {digits} lower-case hex digits")]
pub struct InvalidId {
    /// The prefix the id should have had, without its underscore.
    pub prefix: &'static str,
    /// How many hex digits follow the prefix.
    pub digits: usize,
}

/// Declares an id of the form `<prefix>_` + 12 lower-case hex digits.
macro_rules! short_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The prefix, without its underscore.
            pub const PREFIX: &'static str = $prefix;

            /// Makes an id of six bytes; random ones when the id is new.
            #[must_use]
            pub fn from_bytes(bytes: [u8; 6]) -> Self {
                let mut text = String::from(concat!($prefix, "_"));
                for byte in bytes {
                    text.push_str(&format!("{byte:02x}"));
                }
                Self(text)
            }

            /// The id as it is written everywhere.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let invalid = InvalidId { prefix: $prefix, digits: 12 };
                match text.strip_prefix(concat!($prefix, "_")) {
                    Some(digits) if digits.len() == 12 && is_lower_hex(digits) => {
                        Ok(Self(text.to_owned()))
                    }
                    _ => Err(invalid),
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        text_schema!($name, concat!("`", $prefix, "_` and 12 hex digits"), concat!($prefix, "_4f2a90c1d3e7"));
    };
}

/// Declares an id that wraps a version 7 UUID.
macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Uuid);

        impl $name {
            /// The prefix, without its underscore.
            pub const PREFIX: &'static str = $prefix;

            /// Wraps a UUID; a new one when the thing is new (`Uuid::now_v7`).
            #[must_use]
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The UUID, as it is kept in the database.
            #[must_use]
            pub const fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            /// Reads `<prefix>_` + 32 hex digits, or a plain UUID with hyphens.
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let invalid = InvalidId { prefix: $prefix, digits: 32 };
                match text.strip_prefix(concat!($prefix, "_")) {
                    Some(digits) if digits.len() == 32 && is_lower_hex(digits) => {
                        Uuid::try_parse(digits).map(Self).map_err(|_| invalid)
                    }
                    Some(_) => Err(invalid),
                    None if text.len() == 36 => {
                        Uuid::try_parse(text).map(Self).map_err(|_| invalid)
                    }
                    None => Err(invalid),
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}"), self.0.simple())
            }
        }

        text_schema!(
            $name,
            concat!("`", $prefix, "_` and 32 hex digits; a plain UUID is accepted too"),
            concat!($prefix, "_0197b8a45c7e7c0a9d3e6f2b1a4c8d90")
        );
    };
}

/// Describes an id as a string in the API document.
macro_rules! text_schema {
    ($name:ident, $description:expr, $example:expr) => {
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .description(Some($description))
                    .examples([serde_json::json!($example)])
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}
pub(crate) use text_schema;

short_id!(
    /// A workspace: the tenant, owner of everything below it.
    WorkspaceId,
    "ws"
);
short_id!(
    /// An environment: a group of states inside a workspace.
    EnvironmentId,
    "env"
);
short_id!(
    /// A principal: a person or a service that calls.
    PrincipalId,
    "pr"
);

uuid_id!(
    /// A state. A name that is deleted and written again gets a new one.
    StateId,
    "st"
);
uuid_id!(
    /// One version of a state.
    VersionId,
    "ver"
);
uuid_id!(
    /// A reservation: the claims that a run, a Terraform lock or an administrative lock holds.
    ReservationId,
    "rsv"
);
uuid_id!(
    /// A run: one audited operation on a scope.
    RunId,
    "run"
);
uuid_id!(
    /// A job: an export or an import.
    JobId,
    "job"
);
uuid_id!(
    /// One entry of the audit log.
    AuditId,
    "aud"
);

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_id_is_read_back_as_it_was_written() {
        let id = WorkspaceId::from_bytes([0x4f, 0x2a, 0x90, 0xc1, 0xd3, 0x07]);
        assert_eq!(id.as_str(), "ws_4f2a90c1d307");
        assert_eq!(id.as_str().parse(), Ok(id));
    }

    #[test]
    fn a_short_id_of_another_kind_case_or_length_is_refused() {
        for text in [
            "",
            "ws_",
            "env_4f2a90c1d3e7",
            "ws_4F2A90C1D3E7",
            "ws_4f2a90c1d3e",
            "ws_4f2a90c1d3e77",
            "ws_4f2a90c1d3e'",
            " ws_4f2a90c1d3e7",
        ] {
            assert!(text.parse::<WorkspaceId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_uuid_id_is_read_in_both_forms_and_printed_in_one() {
        let printed = "st_0197b8a45c7e7c0a9d3e6f2b1a4c8d90";
        let plain = "0197b8a4-5c7e-7c0a-9d3e-6f2b1a4c8d90";
        assert_eq!(printed.parse::<StateId>(), plain.parse::<StateId>());
        assert_eq!(plain.parse::<StateId>().unwrap().to_string(), printed);
    }

    #[test]
    fn a_uuid_id_of_another_kind_or_shape_is_refused() {
        for text in [
            "",
            "ver_0197b8a45c7e7c0a9d3e6f2b1a4c8d90",
            "st_0197b8a4-5c7e-7c0a-9d3e-6f2b1a4c8d90",
            "0197b8a45c7e7c0a9d3e6f2b1a4c8d90",
            "{0197b8a4-5c7e-7c0a-9d3e-6f2b1a4c8d9}",
            "st_0197B8A45c7e7c0a9d3e6f2b1a4c8d90",
        ] {
            assert!(text.parse::<StateId>().is_err(), "{text:?}");
        }
    }
}
