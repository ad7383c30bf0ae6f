//! `[partition.….http]` and its tools.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toml::de::DeValue;

use super::args::Declared;
use super::driver::{Context, Driver, Opened};
use super::env;
use super::fault::Faults;
use super::raw::{Bytes, Field, Read, Table};
use crate::driver::Sizing;
use crate::driver::http::{Http, Request};

/// An HTTP partition's driver and tools.
#[derive(Clone, Debug)]
struct HttpPlan {
    http: Http,
    /// Whether its headers cross a network that others may listen to.
    secret_in_clear: bool,
    tools: Vec<(Arc<str>, Request)>,
}

/// Reads the driver's table.
pub(super) fn read(
    table: &mut Table<'_>,
    context: &Context<'_>,
    faults: &mut Faults<'_>,
) -> Option<Box<dyn Driver>> {
    table.hide("base_url");
    let fix = "give the backend's URL, as in base_url = \"https://search.example\"";
    let base_url = table.require::<String>("base_url", fix, faults);
    let base_url = base_url.and_then(|url| context.expand(&url, faults));
    let headers = headers(table, context, faults);
    let connect_timeout = table.take::<Duration>("connect_timeout", faults);
    let body_max = table.take::<Bytes>("body_max", faults);
    let redirects = table.take::<u32>("redirects", faults);
    let quotas = table.take::<Quotas>("quota_headers", faults);
    let base_url = base_url?;
    let mut http = Http::new(&base_url);
    for (name, value) in &headers {
        http = http.header(name, value);
    }
    if let Some(timeout) = connect_timeout {
        http = http.connect_timeout(timeout.value);
    }
    if let Some(Field { value: Bytes(most), .. }) = body_max {
        http = http.body_max(most);
    }
    if let Some(most) = redirects {
        http = http.redirects(most.value);
    }
    for quota in quotas.into_iter().flat_map(|quotas| quotas.value.0) {
        http = match quota {
            Quota::Pair { remaining, reset } => http.quota_headers(remaining, reset),
            Quota::Field(name) => http.quota_header(name),
        };
    }
    let in_clear = base_url.starts_with("http:") && !is_loopback(&base_url);
    Some(Box::new(HttpPlan {
        http,
        secret_in_clear: in_clear && !headers.is_empty(),
        tools: Vec::new(),
    }))
}

fn headers(
    table: &mut Table<'_>,
    context: &Context<'_>,
    faults: &mut Faults<'_>,
) -> Vec<(String, String)> {
    let entries = table.entries("headers", faults).unwrap_or_default();
    let mut headers = Vec::new();
    for (name, node) in entries {
        let value = node.secret().read::<String>(faults);
        if let Some(value) = value.and_then(|value| context.expand(&value, faults)) {
            headers.push((name, value));
        }
    }
    headers
}

/// The headers of `quota_headers`.
struct Quotas(Vec<Quota>);

enum Quota {
    Pair { remaining: String, reset: String },
    Field(String),
}

impl Read for Quotas {
    const RULE: &'static str =
        "must be a table with `remaining` and `reset`, the one header that has both, or a list";
    const FIX: &'static str =
        "write it as in `{ remaining = \"x-ratelimit-remaining\", reset = \"x-ratelimit-reset\" }`";

    fn read(value: &DeValue<'_>) -> Option<Quotas> {
        match value {
            DeValue::Array(items) => {
                let quotas = items.iter().map(|item| Quota::read(item.get_ref()));
                quotas.collect::<Option<_>>().map(Quotas)
            }
            one => Quota::read(one).map(|quota| Quotas(vec![quota])),
        }
    }
}

impl Quota {
    fn read(value: &DeValue<'_>) -> Option<Quota> {
        let DeValue::Table(table) = value else {
            return String::read(value).map(Quota::Field);
        };
        let name = |key| String::read(table.get(key)?.get_ref());
        let pair = Quota::Pair { remaining: name("remaining")?, reset: name("reset")? };
        (table.len() == 2).then_some(pair)
    }
}

/// Whether the URL's host is this machine.
fn is_loopback(url: &str) -> bool {
    let host = url.trim_start_matches("http://");
    ["localhost", "127.", "[::1]"].iter().any(|here| host.starts_with(here))
}

impl Driver for HttpPlan {
    fn kind(&self) -> &'static str {
        "http"
    }

    fn read_tool(
        &mut self,
        name: &Arc<str>,
        table: &mut Table<'_>,
        context: &Context<'_>,
        faults: &mut Faults<'_>,
    ) {
        let args = Declared::read(table, faults);
        let reading = Reading { args, table, context, faults };
        self.tools.push((Arc::clone(name), reading.request()));
    }

    fn open(&self, sizing: &Sizing, opened: &mut Opened) {
        let client = match self.http.clone().open(sizing) {
            Ok(client) => client,
            Err(error) => return opened.complain(None, &error),
        };
        for (name, request) in &self.tools {
            opened.add(name, client.tool(request.clone()));
        }
    }

    fn copy(&self) -> Box<dyn Driver> {
        Box::new(self.clone())
    }

    fn advice(&self) -> Vec<String> {
        let clear = self.secret_in_clear.then(|| {
            "headers are sent over plain http: whoever is on the way can read them; use https"
                .to_owned()
        });
        clear.into_iter().collect()
    }
}

struct Reading<'r, 't, 'f> {
    args: Declared,
    table: &'r mut Table<'t>,
    context: &'r Context<'r>,
    faults: &'r mut Faults<'f>,
}

impl Reading<'_, '_, '_> {
    fn request(mut self) -> Request {
        let method = self.table.take::<String>("method", self.faults);
        let method = method.map_or_else(|| "GET".to_owned(), |method| method.value);
        let fix = "give the path below base_url, as in path = \"/search\"";
        let path = self.table.require::<String>("path", fix, self.faults);
        if let Some(path) = &path {
            self.args.template(&path.value, &path.place, self.faults);
        }
        let request = Request::new(method, path.map(|path| path.value).unwrap_or_default());
        let request = self.query(request);
        let request = self.headers(request);
        let request = self.body(request);
        let request = self.answer(request);
        let args = self.args.finish(self.faults);
        args.into_iter().fold(request, Request::arg)
    }

    fn query(&mut self, mut request: Request) -> Request {
        let entries = self.table.entries("query", self.faults);
        for (name, node) in entries.unwrap_or_default() {
            if let Some(value) = node.read::<String>(self.faults) {
                self.args.template(&value.value, &value.place, self.faults);
                request = request.query(name, value.value);
            }
        }
        request
    }

    fn headers(&mut self, mut request: Request) -> Request {
        let entries = self.table.entries("headers", self.faults);
        for (name, node) in entries.unwrap_or_default() {
            let Some(value) = node.secret().read::<String>(self.faults) else {
                continue;
            };
            let plain = env::without_variables(&value.value);
            self.args.template(&plain, &value.place, self.faults);
            if let Some(value) = self.context.expand_template(&value, self.faults) {
                request = request.header(name, value);
            }
        }
        request
    }

    fn body(&mut self, request: Request) -> Request {
        match self.table.take::<Value>("body", self.faults) {
            Some(body) => {
                self.args.templates(&body.value, &body.place, self.faults);
                request.body(body.value)
            }
            None => request,
        }
    }

    /// What of the answer counts as a success, and what is kept of it.
    fn answer(&mut self, mut request: Request) -> Request {
        let accept = self.table.list::<u32>("accept", self.faults);
        let statuses = accept.unwrap_or_default().into_iter().filter_map(|status| {
            let known = u16::try_from(status.value).ok();
            if known.is_none() {
                let fix = "use 200 to 599";
                self.faults.add(&status.place, "is no HTTP status", fix);
            }
            known
        });
        request = request.accept(statuses.collect::<Vec<_>>());
        let keep = self.table.list::<String>("keep_headers", self.faults);
        for name in keep.unwrap_or_default() {
            request = request.keep_header(name.value);
        }
        match self.table.take::<String>("idempotency_header", self.faults) {
            Some(name) => request.idempotency_header(name.value),
            None => request,
        }
    }
}
