//! The query string of the Terraform lane.
//!
//! Terraform adds exactly one `ID` to a write while it holds a lock, and re-sorts and re-escapes
//! whatever else the configured address carries; so other parameters are let through unread.

/// The lock ID of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LockId {
    None,
    One(String),
    /// More than one: which of them holds the state cannot be told.
    Several,
}

/// Reads `ID` out of a raw query. Its name is matched exactly: `id` is another parameter.
pub(crate) fn lock_id(query: Option<&str>) -> LockId {
    let mut found = LockId::None;
    for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        if name != "ID" {
            continue;
        }
        found = match found {
            LockId::None => LockId::One(value.into_owned()),
            LockId::One(_) | LockId::Several => LockId::Several,
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_id_counts() {
        assert_eq!(lock_id(None), LockId::None);
        assert_eq!(lock_id(Some("team=a&id=x")), LockId::None);
        assert_eq!(lock_id(Some("ID=a-1&team=a")), LockId::One("a-1".into()));
        assert_eq!(
            lock_id(Some("ID=a%2Db+c%zz")),
            LockId::One("a-b c%zz".into())
        );
        assert_eq!(lock_id(Some("ID=a&ID=b")), LockId::Several);
        assert_eq!(lock_id(Some("ID=a&ID=a")), LockId::Several);
        assert_eq!(lock_id(Some("ID=")), LockId::One(String::new()));
    }
}
