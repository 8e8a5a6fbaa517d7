//! Times as the service writes them.

use serde_json::Value;

/// An RFC 3339 time in UTC, in microseconds since 1970.
pub(super) fn microseconds(time: &Value) -> Option<i64> {
    let text = time.as_str()?;
    let (date, clock) = text.split_once('T')?;
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let clock = clock.trim_end_matches('Z').trim_end_matches("+00:00");
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut clock = clock.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let fraction: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    // Days since 1970 of the proleptic Gregorian calendar (Howard Hinnant, days_from_civil).
    let shifted = if month > 2 { year } else { year - 1 };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000 + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_to_the_microsecond() {
        let of = |text: &str| microseconds(&Value::from(text));
        assert_eq!(of("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(
            of("2026-11-30T08:50:50.123456Z"),
            Some(1_796_028_650_123_456)
        );
        assert_eq!(of("2024-02-29T00:00:00.5Z"), Some(1_709_164_800_500_000));
        assert_eq!(of("nonsense"), None);
    }
}
