//! What a tool sends: a method, a path, a query, headers and a body with placeholders in them.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use ureq::http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderMap, HeaderName, HeaderValue, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use ureq::http::{Method, Uri};

use super::body::BodyTemplate;
use crate::driver::args::{ArgSpec, ArgType, Args, Signature, Template, invalid};
use crate::outcome::Failure;

/// Everything but what RFC 3986 calls unreserved: an argument never adds a path segment, a
/// parameter or a fragment.
const ARGUMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Headers that belong to the connection and not to a tool.
const RESERVED: [HeaderName; 6] = [
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The request of one tool, with placeholders for its arguments.
///
/// `{name}` stands for an argument: percent-encoded as a whole in the path and the query, as it is
/// in a header, with its JSON type where a string of the body is one placeholder and nothing else.
/// An argument is a string, a number or a boolean unless [`Request::arg`] says otherwise; one that
/// appears only as a whole value of the body may be anything.
///
/// A query parameter or header with a null argument is left out, so an optional one is an argument
/// whose default is null. Nothing is checked before [`Client::tool`](super::Client::tool).
///
/// ```
/// use serde_json::json;
/// use watertight::driver::http::Request;
///
/// let search = Request::get("/search").query("q", "{q}").query("limit", "{limit}");
/// let comment = Request::post("/tickets/{id}/comments").body(json!({"text": "{text}"}));
/// # let _ = (search, comment);
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    path: String,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    body: Option<Value>,
    args: Vec<ArgSpec>,
    accept: Vec<u16>,
    keep: Vec<String>,
    idempotency_header: Option<String>,
}

impl Request {
    /// A request by `method` (`GET`, `HEAD`, `POST`, `PUT`, `PATCH` or `DELETE`) for `path`, which
    /// starts with a slash and is appended to the base URL.
    pub fn new(method: impl Into<String>, path: impl Into<String>) -> Request {
        Request {
            method: method.into(),
            path: path.into(),
            query: Vec::new(),
            headers: Vec::new(),
            body: None,
            args: Vec::new(),
            accept: Vec::new(),
            keep: Vec::new(),
            idempotency_header: None,
        }
    }

    /// A `GET` of `path`.
    pub fn get(path: impl Into<String>) -> Request {
        Request::new("GET", path)
    }

    /// A `POST` to `path`.
    pub fn post(path: impl Into<String>) -> Request {
        Request::new("POST", path)
    }

    /// A `PUT` of `path`.
    pub fn put(path: impl Into<String>) -> Request {
        Request::new("PUT", path)
    }

    /// A `PATCH` of `path`.
    pub fn patch(path: impl Into<String>) -> Request {
        Request::new("PATCH", path)
    }

    /// A `DELETE` of `path`.
    pub fn delete(path: impl Into<String>) -> Request {
        Request::new("DELETE", path)
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn query(mut self, name: impl Into<String>, value: impl Into<String>) -> Request {
        self.query.push((name.into(), value.into()));
        self
    }

    /// Adds a header, which stands in for one of that name for all of the partition's tools.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Request {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends `body` as JSON; its strings may hold placeholders. Defaults to no body.
    #[must_use]
    pub fn body(mut self, body: Value) -> Request {
        self.body = Some(body);
        self
    }

    /// Says more of an argument: its type, its default.
    #[must_use]
    pub fn arg(mut self, arg: ArgSpec) -> Request {
        self.args.push(arg);
        self
    }

    /// Which statuses are a success. Defaults to 200 to 299.
    #[must_use]
    pub fn accept(mut self, statuses: impl IntoIterator<Item = u16>) -> Request {
        self.accept.extend(statuses);
        self
    }

    /// Adds a response header to the result, beside `content-type`.
    #[must_use]
    pub fn keep_header(mut self, name: impl Into<String>) -> Request {
        self.keep.push(name.into());
        self
    }

    /// Sends the call's idempotency key, where it has one, in the header `name`. Defaults to not
    /// at all.
    #[must_use]
    pub fn idempotency_header(mut self, name: impl Into<String>) -> Request {
        self.idempotency_header = Some(name.into());
        self
    }

    /// Checks it all, so that nothing but arguments can be wrong later.
    pub(super) fn plan(self, base: &str) -> Result<Plan, String> {
        let method = parse_method(&self.method)?;
        let path = parse_path(base, &self.path)?;
        let mut query = Vec::new();
        for (name, value) in &self.query {
            let template =
                Template::parse(value).map_err(|error| format!("`query.{name}`: {error}"))?;
            query.push((encode(name), template));
        }
        let mut headers = Vec::new();
        for (name, value) in &self.headers {
            let key = header_name("headers", name)?;
            let template =
                Template::parse(value).map_err(|error| format!("`headers.{name}`: {error}"))?;
            if template.names().next().is_none() {
                header_value(name, &template.fill(&Args::new(), str::to_owned))?;
            }
            headers.push((key, template));
        }
        let body = self.body.as_ref().map(BodyTemplate::parse).transpose()?;
        if body.is_some() && matches!(method, Method::GET | Method::HEAD) {
            return Err(format!(
                "`body`: {method} sends none; use POST, PUT, PATCH or DELETE"
            ));
        }
        if let Some(status) = self
            .accept
            .iter()
            .find(|status| !(200..600).contains(*status))
        {
            return Err(format!(
                "`accept`: {status} is no final status; use 200 to 599"
            ));
        }
        let keep = self
            .keep
            .iter()
            .map(|name| header_name("keep_headers", name));
        let keep = keep.collect::<Result<_, _>>()?;
        let idempotency = self
            .idempotency_header
            .map(|name| header_name("idempotency_header", &name));
        let idempotency = idempotency.transpose()?;
        let signature = signature(self.args, &path, &query, &headers, body.as_ref());
        let accept = self.accept;
        Ok(Plan {
            method,
            path,
            query,
            headers,
            body,
            accept,
            keep,
            idempotency,
            signature,
        })
    }
}

/// A checked request.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) method: Method,
    path: Template,
    query: Vec<(String, Template)>,
    headers: Vec<(HeaderName, Template)>,
    body: Option<BodyTemplate>,
    accept: Vec<u16>,
    pub(super) keep: Vec<HeaderName>,
    pub(super) idempotency: Option<HeaderName>,
    signature: Signature,
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
        let body = self
            .body
            .as_ref()
            .map(|body| body.fill(&args).to_string().into_bytes());
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
            return Err(invalid(
                "an argument makes `.` or `..` a segment of the path",
            ));
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
        url.parse()
            .map_err(|_| invalid("the arguments make the URL longer than 64 KiB"))
    }
}

/// Whether a server would walk the path up or down. Percent-encoding does not keep it from that.
fn has_dot_segment(path: &str) -> bool {
    path.split('/').any(|segment| matches!(segment, "." | ".."))
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, ARGUMENT).to_string()
}

fn parse_method(text: &str) -> Result<Method, String> {
    [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
    ]
    .into_iter()
    .find(|method| method.as_str() == text)
    .ok_or_else(|| format!("`method`: `{text}` is none of GET, HEAD, POST, PUT, PATCH and DELETE"))
}

fn parse_path(base: &str, path: &str) -> Result<Template, String> {
    if !path.starts_with('/') {
        return Err(format!("`path`: `{path}` must start with a slash"));
    }
    if path.contains(['?', '#']) {
        return Err(format!(
            "`path`: `{path}` must have no `?` or `#`; parameters go to `query`"
        ));
    }
    let literal = |text: &str| text.replace('{', "{{").replace('}', "}}");
    let template = Template::parse(&format!("{}{path}", literal(base)))
        .map_err(|error| format!("`path`: {error}"))?;
    let sample: Args = template
        .names()
        .map(|name| (name.to_owned(), Value::from("x")))
        .collect();
    let sample = template.fill(&sample, str::to_owned);
    if sample.parse::<Uri>().is_err() {
        return Err(format!(
            "`path`: `{path}` has a character that must be percent-encoded"
        ));
    }
    if has_dot_segment(&sample) {
        return Err(format!(
            "`path`: `{path}` must have no `.` or `..` as a segment"
        ));
    }
    Ok(template)
}

/// A header name that a tool or a partition may set.
pub(super) fn header_name(key: &str, name: &str) -> Result<HeaderName, String> {
    let parsed = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| format!("`{key}`: `{name}` is no header name"))?;
    if RESERVED.contains(&parsed) {
        return Err(format!(
            "`{key}`: `{name}` belongs to the connection and cannot be set"
        ));
    }
    Ok(parsed)
}

/// A header's value, marked so that nothing prints it. The error does not repeat it.
pub(super) fn header_value(name: &str, value: &str) -> Result<HeaderValue, String> {
    let parsed = HeaderValue::from_str(value)
        .ok()
        .filter(|_| value.is_ascii());
    let mut value = parsed.ok_or_else(|| {
        format!("`headers.{name}`: the value must be printable ASCII without line breaks")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn signature(
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
        let elsewhere = plain
            .iter()
            .flat_map(|template| template.names())
            .any(|n| n == name);
        if !elsewhere && !declared.iter().any(|spec| spec.name == name) {
            declared.push(ArgSpec {
                name: name.to_owned(),
                kind: ArgType::Any,
                default: None,
            });
        }
    }
    Signature::of(plain, declared, ArgType::Scalar)
}
