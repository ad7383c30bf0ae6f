//! What a tool sends: a method, a path, a query, headers and a body with placeholders in them.

use serde_json::Value;
use ureq::http::{Method, Uri};

use super::body::BodyTemplate;
use super::header::{header_name, header_value};
use super::plan::{Plan, encode, has_dot_segment, signature};
use crate::driver::args::{ArgSpec, Args, Template};

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

    /// Sends the call's idempotency key in the header `name`: the caller's own, or one that is minted
    /// for the call. Defaults to not at all.
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
            return Err(format!("`body`: {method} sends none; use POST, PUT, PATCH or DELETE"));
        }
        if let Some(status) = self.accept.iter().find(|status| !(200..600).contains(*status)) {
            return Err(format!("`accept`: {status} is no final status; use 200 to 599"));
        }
        let keep = self.keep.iter().map(|name| header_name("keep_headers", name));
        let keep = keep.collect::<Result<_, _>>()?;
        let idempotency =
            self.idempotency_header.map(|name| header_name("idempotency_header", &name));
        let idempotency = idempotency.transpose()?;
        let signature = signature(self.args, &path, &query, &headers, body.as_ref());
        let accept = self.accept;
        Ok(Plan { method, path, query, headers, body, accept, keep, idempotency, signature })
    }
}

fn parse_method(text: &str) -> Result<Method, String> {
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE]
        .into_iter()
        .find(|method| method.as_str() == text)
        .ok_or_else(|| {
            format!("`method`: `{text}` is none of GET, HEAD, POST, PUT, PATCH and DELETE")
        })
}

fn parse_path(base: &str, path: &str) -> Result<Template, String> {
    if !path.starts_with('/') {
        return Err(format!("`path`: `{path}` must start with a slash"));
    }
    if path.contains(['?', '#']) {
        return Err(format!("`path`: `{path}` must have no `?` or `#`; parameters go to `query`"));
    }
    let literal = |text: &str| text.replace('{', "{{").replace('}', "}}");
    let template = Template::parse(&format!("{}{path}", literal(base)))
        .map_err(|error| format!("`path`: {error}"))?;
    let sample: Args = template.names().map(|name| (name.to_owned(), Value::from("x"))).collect();
    let sample = template.fill(&sample, str::to_owned);
    if sample.parse::<Uri>().is_err() {
        return Err(format!("`path`: `{path}` has a character that must be percent-encoded"));
    }
    if has_dot_segment(&sample) {
        return Err(format!("`path`: `{path}` must have no `.` or `..` as a segment"));
    }
    Ok(template)
}
