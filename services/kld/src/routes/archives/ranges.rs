//! `Range` and `If-Range` of RFC 9110, as far as a download needs them: one range of bytes. Several at once, another unit or
//! a range that is none are answered with the whole, as the RFC allows; 416 is for a range of which nothing is there.

/// What of an object a request gets. Positions are of bytes; `end` is the one after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Selected {
    Whole,
    Part { start: u64, end: u64 },
    Nothing,
}

/// What `Range` and `If-Range` select of an object of this size. `etag` is the object's own, quotes included.
pub(super) fn select(
    range: Option<&str>,
    if_range: Option<&str>,
    etag: &str,
    size: u64,
) -> Selected {
    // A strong comparison: a weak tag, another one or a date says that the client may have bytes of something else.
    if if_range.is_some_and(|condition| condition.trim() != etag) {
        return Selected::Whole;
    }
    match range.and_then(|range| single(range, size)) {
        None => Selected::Whole,
        Some((start, end)) if start < end => Selected::Part { start, end },
        Some(_) => Selected::Nothing,
    }
}

/// The one range of the header, cut to the size; empty where it lies beyond. `None` where the header has no single range.
fn single(range: &str, size: u64) -> Option<(u64, u64)> {
    let (unit, set) = range.trim().split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = set.trim().split_once('-')?;
    if first.is_empty() {
        let suffix = position(last)?;
        return Some((size.saturating_sub(suffix), size));
    }
    let first = position(first)?;
    if last.is_empty() {
        return Some((first, size));
    }
    let last = position(last)?;
    (first <= last).then(|| (first, size.min(last.saturating_add(1))))
}

/// Digits and nothing else; a number beyond 64 bits is beyond every object as well.
fn position(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::Selected::{Nothing, Whole};
    use super::*;

    const ETAG: &str = "\"0f\"";

    fn part(start: u64, end: u64) -> Selected {
        Selected::Part { start, end }
    }

    #[test]
    fn single_ranges_select_what_the_rfc_says() {
        for (range, selected) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=10-19", part(10, 20)),
            ("bytes=90-150", part(90, 100)),
            ("bytes=5-", part(5, 100)),
            ("bytes=99-", part(99, 100)),
            ("bytes=-5", part(95, 100)),
            ("bytes=-100", part(0, 100)),
            ("bytes=-999", part(0, 100)),
            ("BYTES = 5-6", Whole),
            ("Bytes=5-6", part(5, 7)),
            ("bytes=5-99999999999999999999999", part(5, 100)),
            ("bytes=100-", Nothing),
            ("bytes=100-200", Nothing),
            ("bytes=99999999999999999999999-", Nothing),
            ("bytes=-0", Nothing),
            ("bytes=0-1,5-6", Whole),
            ("bytes=9-5", Whole),
            ("bytes=+1-5", Whole),
            ("bytes=-", Whole),
            ("bytes=", Whole),
            ("bytes", Whole),
            ("lines=1-2", Whole),
        ] {
            assert_eq!(select(Some(range), None, ETAG, 100), selected, "{range}");
        }
        assert_eq!(select(None, None, ETAG, 100), Whole);
        assert_eq!(select(Some("bytes=0-"), None, ETAG, 0), Nothing);
    }

    #[test]
    fn a_range_that_rests_on_another_object_selects_the_whole() {
        let select = |if_range| select(Some("bytes=5-"), Some(if_range), ETAG, 100);
        assert_eq!(select("\"0f\""), part(5, 100));
        for other in [
            "W/\"0f\"",
            "\"1f\"",
            "0f",
            "",
            "Mon, 30 Nov 2026 08:00:00 GMT",
        ] {
            assert_eq!(select(other), Whole, "{other}");
        }
    }
}
