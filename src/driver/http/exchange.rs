//! One request and its response, on the partition's thread and within the call's limit.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use ureq::http::header::{CONTENT_LENGTH, HeaderValue};
use ureq::http::{Request as HttpRequest, Response as HttpResponse};
use ureq::{AsSendBody, Body, Error, Timeout};

use super::Partition;
use super::answer::{Answer, REFUSAL_MAX, refusal};
use super::request::{Filled, Plan};
use crate::call::Run;
use crate::driver::Response;
use crate::outcome::{Executed, Failure, FailureReason};
use crate::time;

/// Sends `filled` and reads the answer to its end.
pub(super) fn exchange(
    partition: &Partition,
    plan: &Arc<Plan>,
    filled: &Filled,
    run: &Run,
) -> Result<Response, Failure> {
    let response = send(partition, plan, filled, run)?;
    let (head, mut body) = response.into_parts();
    let status = head.status.as_u16();
    if !plan.accepts(status) {
        let mut start = Vec::new();
        // The status is the news: it stands, whatever becomes of the body.
        let _ = body.as_reader().take(REFUSAL_MAX).read_to_end(&mut start);
        let sent = &filled.headers;
        return Err(refusal(
            status,
            &head.headers,
            &start,
            sent,
            time::wall_clock(),
        ));
    }
    let cap = partition.body_max;
    let declared = head
        .headers
        .get(CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: u64| length > cap) {
        return Err(too_large(cap));
    }
    let mut bytes = Vec::with_capacity(declared.unwrap_or(0) as usize);
    let read = body.as_reader().take(cap + 1).read_to_end(&mut bytes);
    read.map_err(|error| failure(Error::from(error), run))?;
    if bytes.len() as u64 > cap {
        return Err(too_large(cap));
    }
    let answer = Answer {
        status,
        headers: head.headers,
        body: bytes,
    };
    let plan = Arc::clone(plan);
    Ok(Response::new(move || answer.decode(&plan.keep)))
}

/// Sends `filled`; returns when the head of the answer is there.
fn send(
    partition: &Partition,
    plan: &Plan,
    filled: &Filled,
    run: &Run,
) -> Result<HttpResponse<Body>, Failure> {
    let left = run.remaining();
    if left.is_zero() {
        return Err(limit().executed(Executed::No));
    }
    let mut request = HttpRequest::builder().method(&plan.method).uri(&filled.uri);
    if let Some(headers) = request.headers_mut() {
        headers.clone_from(&filled.headers);
        if let (Some(name), Some(key)) = (&plan.idempotency, run.idempotency_key()) {
            let key = HeaderValue::from_str(key).map_err(|_| {
                Failure::new(
                    FailureReason::InvalidCall,
                    "the idempotency key is no header value",
                )
                .executed(Executed::No)
            })?;
            headers.insert(name, key);
        }
    }
    match &filled.body {
        Some(body) => perform(partition, request.body(body.as_slice()), left),
        None => perform(partition, request.body(()), left),
    }
    .map_err(|error| failure(error, run))
}

fn perform<B: AsSendBody>(
    partition: &Partition,
    request: Result<HttpRequest<B>, ureq::http::Error>,
    left: Duration,
) -> Result<HttpResponse<Body>, Error> {
    let agent = &partition.agent;
    let connect = left.min(partition.connect_timeout);
    let request = agent
        .configure_request(request?)
        .timeout_global(Some(left))
        .timeout_connect(Some(connect))
        .build();
    agent.run(request)
}

fn failure(error: Error, run: &Run) -> Failure {
    match error {
        Error::Timeout(Timeout::Connect | Timeout::Resolve) if !run.remaining().is_zero() => {
            Failure::new(FailureReason::Connect, "no connection in time").executed(Executed::No)
        }
        Error::Timeout(_) => limit().executed(Executed::Unknown),
        Error::TooManyRedirects | Error::RedirectFailed => {
            Failure::new(FailureReason::Redirect, error.to_string())
        }
        Error::HostNotFound => {
            Failure::new(FailureReason::Connect, "no such host").executed(Executed::No)
        }
        Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Failure::new(FailureReason::Connect, "connection refused").executed(Executed::No)
        }
        Error::LargeResponseHeader(_, most) => Failure::new(
            FailureReason::TooLarge,
            format!("the headers exceed {most} bytes"),
        ),
        error => {
            Failure::new(FailureReason::HttpProtocol, error.to_string()).executed(Executed::Unknown)
        }
    }
}

fn limit() -> Failure {
    Failure::new(FailureReason::Limit, "the request was ended at its limit")
}

fn too_large(cap: u64) -> Failure {
    Failure::new(
        FailureReason::TooLarge,
        format!("the body exceeds {cap} bytes"),
    )
    .evidence(json!({"body_max": cap}))
}
