//! A request that has been checked, and what arguments make of it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ureq::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use ureq::http::{Method, Uri};

use super::body::BodyTemplate;
use super::header::header_value;
use crate::driver::args::{ArgSpec, ArgType, Args, Signature, Template, invalid};
use crate::outcome::Failure;

/// Everything but what RFC 3986 calls unreserved: an argument never adds a path segment, a
/// parameter or a fragment.
const ARGUMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A checked request.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) method: Method,
    pub(super) path: Template,
    pub(super) query: Vec<(String, Template)>,
    pub(super) headers: Vec<(HeaderName, Template)>,
    pub(super) body: Option<BodyTemplate>,
    pub(super) accept: Vec<u16>,
    pub(super) keep: Vec<HeaderName>,
    pub(super) idempotency: Option<HeaderName>,
    pub(super) signature: Signature,
}

/// A request with its arguments in it.
#[derive(Clone)]
pub(super) struct Filled {
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Vec<u8>>,
}

impl Plan {
    pub(super) fn accepts(&self, status: u16) -> bool {
        if self.accept.is_empty() {
            (200..300).contains(&status)
        } else {
            self.accept.contains(&status)
        }
    }

    /// The request with `args`, on top of the partition's `headers`.
    pub(super) fn fill(
        &self,
        origin: &str,
        headers: &HeaderMap,
        args: &Args,
    ) -> Result<Filled, Failure> {
        let args = self.signature.check(args)?;
        let uri = self.uri(origin, &args)?;
        let mut headers = headers.clone();
        for (name, template) in &self.headers {
            if template.names().any(|arg| args[arg].is_null()) {
                continue;
            }
            let value = template.fill(&args, str::to_owned);
            headers.insert(name, header_value(name.as_str(), &value).map_err(invalid)?);
        }
        let body = self.body.as_ref().map(|body| body.fill(&args).to_string().into_bytes());
        if body.is_some() {
            let json = HeaderValue::from_static("application/json");
            headers.entry(CONTENT_TYPE).or_insert(json);
        }
        Ok(Filled { uri, headers, body })
    }

    fn uri(&self, origin: &str, args: &Args) -> Result<Uri, Failure> {
        let empty = |name: &&str| args[*name].is_null() || args[*name] == "";
        if let Some(name) = self.path.names().find(empty) {
            return Err(invalid(format!(
                "argument `{name}` is part of a path: it must not be empty"
            )));
        }
        let path = self.path.fill(args, encode);
        if has_dot_segment(&path) {
            return Err(invalid("an argument makes `.` or `..` a segment of the path"));
        }
        let mut url = format!("{origin}{path}");
        let mut before = '?';
        for (name, template) in &self.query {
            if template.names().any(|arg| args[arg].is_null()) {
                continue;
            }
            url.push(before);
            url.push_str(name);
            url.push('=');
            url.push_str(&template.fill(args, encode));
            before = '&';
        }
        url.parse().map_err(|_| invalid("the arguments make the URL longer than 64 KiB"))
    }
}

/// Whether a server would walk the path up or down. Percent-encoding does not keep it from that.
pub(super) fn has_dot_segment(path: &str) -> bool {
    path.split('/').any(|segment| matches!(segment, "." | ".."))
}

pub(super) fn encode(text: &str) -> String {
    utf8_percent_encode(text, ARGUMENT).to_string()
}

/// Every placeholder, and what its argument must be.
pub(super) fn signature(
    mut declared: Vec<ArgSpec>,
    path: &Template,
    query: &[(String, Template)],
    headers: &[(HeaderName, Template)],
    body: Option<&BodyTemplate>,
) -> Signature {
    let mut plain = vec![path];
    plain.extend(query.iter().map(|(_, template)| template));
    plain.extend(headers.iter().map(|(_, template)| template));
    let mut whole = Vec::new();
    if let Some(body) = body {
        body.templates(&mut plain, &mut whole);
    }
    for name in whole {
        let elsewhere = plain.iter().flat_map(|template| template.names()).any(|n| n == name);
        if !elsewhere && !declared.iter().any(|spec| spec.name == name) {
            declared.push(ArgSpec { name: name.to_owned(), kind: ArgType::Any, default: None });
        }
    }
    Signature::of(plain, declared, ArgType::Scalar)
}
