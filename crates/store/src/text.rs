//! What Postgres text cannot hold.

use std::borrow::Cow;

/// Text without NUL characters, each replaced by U+FFFD: Postgres refuses them, Terraform does not.
/// For columns that are read by people and compared loosely; bytes that must survive are `bytea`.
pub(crate) fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}
