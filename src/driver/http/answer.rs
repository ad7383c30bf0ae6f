//! What a response comes to: a result for the caller, or a failure with what can be shown of it.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};
use ureq::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, RETRY_AFTER};

use crate::outcome::{Executed, Failure, FailureReason};

/// The most bytes of a refusal's body that are read.
pub(super) const REFUSAL_MAX: u64 = 8 * 1024;
/// The most characters of a refusal's body that are shown.
const EXCERPT_MAX: usize = 2000;
/// The shortest part of a header's value that is looked for in a refusal.
const SECRET_MIN: usize = 6;

/// A response that was accepted, with its whole body.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// The result: `status`, the headers in `keep` and the content type, and the body: JSON if it
    /// says so, text otherwise, null if empty. `body_lossy` says that bytes of a text were no UTF-8
    /// and have been replaced.
    pub(super) fn decode(self, keep: &[HeaderName]) -> Result<Value, Failure> {
        let kept = std::iter::once(&CONTENT_TYPE).chain(keep);
        let headers: Map<String, Value> = kept
            .filter_map(|name| Some((name.to_string(), text_of(&self.headers, name)?.into())))
            .collect();
        let mut result = Map::with_capacity(4);
        result.insert("status".to_owned(), self.status.into());
        result.insert("headers".to_owned(), Value::Object(headers));
        let (body, lossy) = self.body()?;
        result.insert("body".to_owned(), body);
        if lossy {
            result.insert("body_lossy".to_owned(), Value::Bool(true));
        }
        Ok(Value::Object(result))
    }

    /// The body, and whether bytes of it were lost.
    fn body(self) -> Result<(Value, bool), Failure> {
        if self.body.is_empty() {
            return Ok((Value::Null, false));
        }
        if is_json(&self.headers) {
            let body = serde_json::from_slice(&self.body).map_err(|error| {
                Failure::new(FailureReason::Decode, format!("the body is no JSON: {error}"))
                    .evidence(json!({"status": self.status}))
            })?;
            return Ok((body, false));
        }
        Ok(match String::from_utf8(self.body) {
            Ok(text) => (Value::String(text), false),
            Err(error) => {
                (Value::String(String::from_utf8_lossy(error.as_bytes()).into_owned()), true)
            }
        })
    }
}

/// The failure that a status which was not accepted comes to. `reset` is when a quota that is used up
/// is filled again; `body` is the body's beginning; `sent` are the partition's headers, whose values
/// are blotted out should the backend repeat them.
pub(super) fn refusal(
    status: u16,
    headers: &HeaderMap,
    reset: Option<Duration>,
    body: &[u8],
    sent: &HeaderMap,
    now: SystemTime,
) -> Failure {
    let asked = retry_after(headers, now);
    let failure = match status {
        429 => Failure::new(FailureReason::Throttled, "the backend asks for a pause (status 429)")
            .executed(Executed::No),
        503 if asked.is_some() => {
            Failure::new(FailureReason::Throttled, "the backend asks for a pause (status 503)")
                .executed(Executed::Unknown)
        }
        _ => Failure::new(FailureReason::HttpStatus, format!("the backend answered {status}"))
            .refusal(status < 500),
    };
    let failure = match asked.or(reset) {
        Some(pause) => failure.retry_after(pause),
        None => failure,
    };
    failure.evidence(json!({"status": status, "body": excerpt(body, sent)}))
}

/// `Retry-After`, as seconds or as a date; a date that has passed is now.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(text) = text_of(headers, &CONTENT_TYPE) else {
        return false;
    };
    let kind = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

fn text_of(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn excerpt(body: &[u8], sent: &HeaderMap) -> String {
    let mut text = String::from_utf8_lossy(body).into_owned();
    for value in sent.values().filter_map(|value| value.to_str().ok()) {
        // A credential may be repeated without its scheme, as in `Bearer …`.
        for secret in [value, value.rsplit(' ').next().unwrap_or_default()] {
            if secret.len() >= SECRET_MIN {
                text = text.replace(secret, "[redacted]");
            }
        }
    }
    if let Some((end, _)) = text.char_indices().nth(EXCERPT_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}
