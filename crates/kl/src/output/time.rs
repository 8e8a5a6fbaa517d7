//! Times for people: UTC to the second, and how long ago.

use chrono::{DateTime, SecondsFormat, Utc};

/// `2026-11-29T10:00:00Z (4 minutes ago)`.
pub(crate) fn when(time: DateTime<Utc>, now: DateTime<Utc>) -> String {
    format!("{} ({})", stamp(time), ago((now - time).num_seconds()))
}

/// RFC 3339 in UTC, to the second.
pub(crate) fn stamp(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// `4 minutes ago`, `in 3 days`, from seconds gone by.
pub(crate) fn ago(seconds: i64) -> String {
    if seconds < 0 {
        format!("in {}", span(seconds.unsigned_abs()))
    } else {
        format!("{} ago", span(seconds.unsigned_abs()))
    }
}

/// A length of time in its largest whole unit. Rounded down, so that "2 days" is at least that.
pub(crate) fn span(seconds: u64) -> String {
    let (count, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3_600 => (seconds / 60, "minute"),
        3_600..172_800 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_in_their_largest_unit() {
        assert_eq!(ago(0), "0 seconds ago");
        assert_eq!(ago(61), "1 minute ago");
        assert_eq!(ago(7_200), "2 hours ago");
        assert_eq!(ago(172_800), "2 days ago");
        assert_eq!(ago(-90), "in 1 minute");
    }
}
