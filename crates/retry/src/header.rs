//! The header `Retry-After` (RFC 9110, 10.2.3): seconds or a date.

use std::time::{Duration, SystemTime};

/// How long the server asks to wait, counted from `now`. Zero for a date in the past, `None` for a
/// value that is neither seconds nor a date.
#[must_use]
pub fn retry_after(value: &[u8], now: SystemTime) -> Option<Duration> {
    let text = str::from_utf8(value).ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // An overflow still means a long time.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_dates_and_garbage() {
        // Sun, 06 Nov 1994 08:49:37 GMT, the RFC's own example.
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777 - 30);
        let seconds = |text: &str| retry_after(text.as_bytes(), now).map(|pause| pause.as_secs());
        let cases = [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("18446744073709551615", Some(u64::MAX)),
            ("99999999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(30)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(30)),
            ("Sun Nov  6 08:49:37 1994", Some(30)),
            ("Sat, 05 Nov 1994 08:49:37 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("+1", None),
            ("1 s", None),
            ("soon", None),
            ("Sun, 99 Nov 1994 08:49:37 GMT", None),
        ];
        for (text, expected) in cases {
            assert_eq!(seconds(text), expected, "{text:?}");
        }
        assert_eq!(retry_after(b"\xff1", now), None);
    }
}
