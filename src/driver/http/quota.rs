//! What answers say of the calls that are left: how many, and until when.
//!
//! Vendors agree on neither the names of the headers nor their values, so the names are the
//! partition's to say, and the values are read in every form that is in use.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ureq::http::header::{HeaderMap, HeaderName};

use super::header::header_name;

/// A number of seconds from here on is no span but a date: 2001 if they are since 1970, else 31
/// years from now.
const EPOCH_SECONDS_MIN: f64 = 1e9;
/// From here on it is a date in milliseconds.
const EPOCH_MILLIS_MIN: f64 = 1e11;

/// Where one quota stands.
#[derive(Clone, Debug)]
pub(super) enum Source<Name = String> {
    /// The calls left in one header, the time until there are more in another.
    Pair { remaining: Name, reset: Name },
    /// Both in one.
    Field(Name),
}

/// How many calls are left, and for how long.
pub(super) type Left = (u64, Duration);

impl Source {
    /// # Errors
    ///
    /// A name that no header can have.
    pub(super) fn checked(&self) -> Result<Source<HeaderName>, String> {
        let checked = |name| header_name("quota_headers", name);
        Ok(match self {
            Source::Pair { remaining, reset } => {
                Source::Pair { remaining: checked(remaining)?, reset: checked(reset)? }
            }
            Source::Field(name) => Source::Field(checked(name)?),
        })
    }
}

/// What `headers` say of every quota at `now`, the time of day. What cannot be read says nothing.
pub(super) fn read(
    sources: &[Source<HeaderName>],
    headers: &HeaderMap,
    now: SystemTime,
) -> Vec<Left> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let mut found = Vec::new();
    for source in sources {
        match source {
            Source::Pair { remaining, reset } => {
                let left =
                    text(remaining).and_then(count).zip(text(reset).and_then(|t| span(t, now)));
                found.extend(left);
            }
            Source::Field(name) => {
                let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
                values.for_each(|value| fields(value, now, &mut found));
            }
        }
    }
    found
}

/// The field `RateLimit` of the IETF's draft in its later forms: `"minute";r=0;t=30, "day";r=9` and
/// `limit=100, remaining=0, reset=30`.
fn fields(text: &str, now: SystemTime, found: &mut Vec<Left>) {
    let (mut remaining, mut reset) = (None, None);
    for part in text.split([',', ';']).map(str::trim) {
        match part.split_once('=') {
            Some(("r" | "remaining", value)) => remaining = count(value),
            Some(("t" | "reset", value)) => reset = span(value, now),
            Some(_) => {}
            // The name of the next quota.
            None => found.extend(remaining.take().zip(reset.take())),
        }
    }
    found.extend(remaining.zip(reset));
}

/// A number of calls; some vendors write fractions, and less than one is none.
fn count(text: &str) -> Option<u64> {
    number(text).map(|count| count as u64)
}

/// The time from `now`: a number of seconds, a span with units such as `6m0s` or `120ms`, seconds or
/// milliseconds since 1970, a date as in HTTP or as in RFC 3339. A date that has passed is now.
fn span(text: &str, now: SystemTime) -> Option<Duration> {
    let until = |date: SystemTime| date.duration_since(now).unwrap_or_default();
    if let Some(number) = number(text) {
        if number < EPOCH_SECONDS_MIN {
            return Duration::try_from_secs_f64(number).ok();
        }
        let seconds = if number < EPOCH_MILLIS_MIN { number } else { number / 1000.0 };
        let since = Duration::try_from_secs_f64(seconds).ok()?;
        return UNIX_EPOCH.checked_add(since).map(until);
    }
    let text = text.trim();
    let date =
        || httpdate::parse_http_date(text).ok().or_else(|| humantime::parse_rfc3339(text).ok());
    humantime::parse_duration(text).ok().or_else(|| date().map(until))
}

fn number(text: &str) -> Option<f64> {
    let number: f64 = text.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(NOW)
    }

    #[test]
    fn a_reset_is_read_in_every_form_there_is() {
        let in_a_minute = now() + Duration::from_secs(60);
        for text in [
            "60",
            " 60.0 ",
            "1m0s",
            "60000ms",
            "1800000060",
            "1800000060000",
            &httpdate::fmt_http_date(in_a_minute),
            &humantime::format_rfc3339(in_a_minute).to_string(),
        ] {
            assert_eq!(span(text, now()), Some(Duration::from_secs(60)), "{text}");
        }
        assert_eq!(span("7.66s", now()), Some(Duration::from_millis(7660)));
        assert_eq!(span("0.25", now()), Some(Duration::from_millis(250)));
        for text in ["0", "1799999999", "2026-01-01T00:00:00Z"] {
            assert_eq!(span(text, now()), Some(Duration::ZERO), "{text} has passed");
        }
        for text in
            ["", "soon", "-1", "inf", "NaN", "1e300", "12:00", "60 s s", "99999999999999999d"]
        {
            assert_eq!(span(text, now()), None, "{text}");
        }
    }

    #[test]
    fn the_draft_has_several_quotas_in_one_field() {
        let read = |text| {
            let mut found = Vec::new();
            fields(text, now(), &mut found);
            found
        };
        let left = |count, seconds| (count, Duration::from_secs(seconds));
        assert_eq!(read("\"minute\";r=0;t=30"), [left(0, 30)]);
        assert_eq!(read("\"a\";r=9;t=30;pk=:x:, \"day\";r=0;t=600"), [left(9, 30), left(0, 600)]);
        assert_eq!(read("limit=100, remaining=0, reset=30"), [left(0, 30)]);
        assert_eq!(read("\"no reset\";r=0, \"b\";r=1;t=2"), [left(1, 2)]);
        assert_eq!(read("\"a, b\";r=0;t=5"), [left(0, 5)]);
        assert_eq!(read(""), []);
        assert_eq!(read("r=;t="), []);
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_vendor_writes_is_read_or_left(
            text in "[ -~]{0,40}",
            near in "[0-9]{0,20}[.:TZ, a-z;=\"rt-]{0,3}[0-9]{0,20}[a-zA-Z,;=]{0,3}",
        ) {
            for text in [&text, &near] {
                let _ = (count(text), span(text, now()));
                fields(text, now(), &mut Vec::new());
            }
        }
    }

    #[test]
    fn fractions_of_a_call_are_none() {
        assert_eq!(count("0.9"), Some(0));
        assert_eq!((count("12"), count("-1"), count("many")), (Some(12), None, None));
    }
}
