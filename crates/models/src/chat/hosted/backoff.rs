//! The delay before a retry.

use std::time::{Duration, SystemTime};

use super::options::RetryPolicy;

/// The delay before retry number `retried`, from 0: random, up to a limit that doubles each time ("full
/// jitter", so that clients that failed together do not retry together), and at least what the server requested.
/// `random` is uniformly distributed.
pub(super) fn wait(
    retries: &RetryPolicy,
    retried: u32,
    asked_for: Option<Duration>,
    random: u64,
) -> Duration {
    let doubled =
        2_u32.checked_pow(retried).and_then(|times| retries.base_delay.checked_mul(times));
    let ceiling = doubled.unwrap_or(Duration::MAX).min(retries.max_delay);
    let ceiling_us = u64::try_from(ceiling.as_micros()).unwrap_or(u64::MAX);
    let jitter_us = (u128::from(ceiling_us) * u128::from(random)) >> 64;
    let jitter = Duration::from_micros(u64::try_from(jitter_us).unwrap_or(u64::MAX));
    asked_for.map_or(jitter, |asked_for| asked_for.max(jitter))
}

/// The delay in the header `Retry-After`: seconds, or the time until a date. `None` if it is neither.
///
/// Source: RFC 9110 §10.2.3.
pub(super) fn retry_after(value: &str, date: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that does not fit is the maximum.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    Some(until.duration_since(date).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRIES: RetryPolicy = RetryPolicy {
        max_retries: 4,
        base_delay: Duration::from_secs(1),
        max_delay: Duration::from_secs(30),
    };

    #[test]
    fn the_delay_limit_doubles_up_to_the_maximum() {
        let half = u64::MAX / 2 + 1;
        let cases = [
            (0, 0, 0.0),
            (0, half, 0.5),
            (1, half, 1.0),
            (2, half, 2.0),
            (5, half, 15.0),
            (31, half, 15.0),
            (32, half, 15.0),
            (u32::MAX, half, 15.0),
        ];
        for (retried, random, seconds) in cases {
            let expected = Duration::from_secs_f64(seconds);
            assert_eq!(wait(&RETRIES, retried, None, random), expected, "retry {retried}");
        }
        assert!(wait(&RETRIES, 0, None, u64::MAX) < Duration::from_secs(1));
    }

    #[test]
    fn delays_do_not_overflow() {
        let endless = RetryPolicy {
            max_retries: u32::MAX,
            base_delay: Duration::MAX,
            max_delay: Duration::MAX,
        };
        let long = wait(&endless, u32::MAX, Some(Duration::MAX), u64::MAX);
        assert_eq!(long, Duration::MAX);
    }

    #[test]
    fn the_delay_is_at_least_what_the_server_requests() {
        let asked_for = Some(Duration::from_secs(7));
        assert_eq!(wait(&RETRIES, 0, asked_for, 0), Duration::from_secs(7));
        assert_eq!(wait(&RETRIES, 5, asked_for, u64::MAX / 2 + 1), Duration::from_secs(15));
    }

    #[test]
    fn only_seconds_and_dates_are_parsed() {
        // 1994-11-06 08:49:37 UTC.
        let date = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let cases = [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sunday, 06-Nov-94 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ];
        for (value, seconds) in cases {
            assert_eq!(retry_after(value, date), seconds.map(Duration::from_secs), "{value:?}");
        }
    }
}
