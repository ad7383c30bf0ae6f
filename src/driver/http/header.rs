//! The names and values of headers that are sent.

use ureq::http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HeaderName, HeaderValue, TE,
    TRANSFER_ENCODING, UPGRADE,
};

/// Headers that belong to the connection and not to a tool.
const RESERVED: [HeaderName; 7] =
    [ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, TE, TRANSFER_ENCODING, UPGRADE];

/// A header name that a tool or a partition may set.
pub(super) fn header_name(key: &str, name: &str) -> Result<HeaderName, String> {
    let parsed = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| format!("`{key}`: `{name}` is no header name"))?;
    if RESERVED.contains(&parsed) {
        return Err(format!("`{key}`: `{name}` belongs to the connection and cannot be set"));
    }
    Ok(parsed)
}

/// A header's value, marked so that nothing prints it. The error does not repeat it.
pub(super) fn header_value(name: &str, value: &str) -> Result<HeaderValue, String> {
    let parsed = HeaderValue::from_str(value).ok().filter(|_| value.is_ascii());
    let mut value = parsed.ok_or_else(|| {
        format!("`headers.{name}`: the value must be printable ASCII without line breaks")
    })?;
    value.set_sensitive(true);
    Ok(value)
}
