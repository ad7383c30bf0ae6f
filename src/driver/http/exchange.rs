//! One request and its response, on the partition's thread and within the call's limit.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use ureq::http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, RETRY_AFTER};
use ureq::http::{Request as HttpRequest, Response as HttpResponse};
use ureq::{AsSendBody, Body, Error};

use super::answer::{Answer, REFUSAL_MAX, refusal};
use super::client::Partition;
use super::failure::{cancelled, failure, limit, too_large};
use super::line::{self, Line};
use super::plan::{Filled, Plan};
use super::quota;
use crate::call::Run;
use crate::driver::Response;
use crate::driver::args::invalid;
use crate::outcome::Failure;
use crate::time;

/// The most that is reserved for a body before any of it is there.
const CAPACITY_MAX: u64 = 1024 * 1024;

/// Sends `filled` and reads the answer to its end.
pub(super) fn exchange(
    partition: &Partition,
    plan: &Arc<Plan>,
    filled: &Filled,
    run: &Run,
) -> Result<Response, Failure> {
    let line = Arc::new(Line::default());
    // The first ends the work at once, the second does should the thread of the first be busy.
    let (first, second) = (Arc::clone(&line), Arc::clone(&line));
    let _on_cancel = run.cancel_token().on_cancel(move || first.cut());
    let _on_abort = run.cancel_token().on_abort(move || second.cut());
    line::enter(&line, || {
        let response = accepted(partition, plan, filled, run, &line, None)?;
        let answer = receive(response, partition.body_max, &line)?;
        let plan = Arc::clone(plan);
        Ok(Response::new(move || answer.decode(&plan.keep)))
    })
}

/// Sends `filled`; returns when the head of an answer with an accepted status is there. Bytes of
/// the answer may be no further apart than `silence_max`.
pub(super) fn accepted(
    partition: &Partition,
    plan: &Plan,
    filled: &Filled,
    run: &Run,
    line: &Line,
    silence_max: Option<Duration>,
) -> Result<HttpResponse<Body>, Failure> {
    let left = run.remaining();
    if left.is_zero() {
        return Err(limit(line));
    }
    let mut headers = filled.headers.clone();
    if let Some(name) = &plan.idempotency {
        let key = HeaderValue::from_str(run.idempotency_key())
            .map_err(|_| invalid("the idempotency key cannot be a header's value"))?;
        headers.insert(name, key);
    }
    let mut request = HttpRequest::builder().method(&plan.method).uri(&filled.uri);
    if let Some(request_headers) = request.headers_mut() {
        *request_headers = headers;
    }
    let limits = (left, silence_max);
    let sent = match &filled.body {
        Some(body) => perform(partition, request.body(body.as_slice()), limits),
        None => perform(partition, request.body(()), limits),
    };
    let response = sent.map_err(|error| failure(error, line))?;
    let quotas = quotas(partition, response.headers());
    // What the answer says of when to come back comes first.
    if !response.headers().contains_key(RETRY_AFTER) {
        quotas.iter().for_each(|(remaining, reset)| run.report_quota(*remaining, *reset));
    }
    if plan.accepts(response.status().as_u16()) {
        Ok(response)
    } else {
        Err(refused(response, &quotas, &filled.headers, line))
    }
}

/// What an answer with `headers` says is left of the partition's quotas.
fn quotas(partition: &Partition, headers: &HeaderMap) -> Vec<quota::Left> {
    if partition.quotas.is_empty() {
        return Vec::new();
    }
    quota::read(&partition.quotas, headers, time::wall_clock())
}

fn perform<B: AsSendBody>(
    partition: &Partition,
    request: Result<HttpRequest<B>, ureq::http::Error>,
    (limit, silence_max): (Duration, Option<Duration>),
) -> Result<HttpResponse<Body>, Error> {
    let request = partition
        .agent
        .configure_request(request?)
        .timeout_global(Some(limit))
        .timeout_per_read(silence_max)
        .build();
    partition.agent.run(request)
}

fn refused(
    response: HttpResponse<Body>,
    quotas: &[quota::Left],
    sent: &HeaderMap,
    line: &Line,
) -> Failure {
    let (head, mut body) = response.into_parts();
    let mut start = Vec::new();
    // The status is the news: it stands whatever becomes of the body.
    let _ = body.as_reader().take(REFUSAL_MAX).read_to_end(&mut start);
    if line.is_cut() {
        return cancelled(line);
    }
    let used_up = quotas.iter().filter(|(remaining, _)| *remaining == 0);
    let reset = used_up.map(|(_, reset)| *reset).max();
    refusal(head.status.as_u16(), &head.headers, reset, &start, sent, time::wall_clock())
}

/// Reads the body, to `body_max` bytes at most.
fn receive(response: HttpResponse<Body>, body_max: u64, line: &Line) -> Result<Answer, Failure> {
    let (head, mut body) = response.into_parts();
    let length = head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let length: u64 = length.and_then(|text| text.parse().ok()).unwrap_or_default();
    if length > body_max {
        return Err(too_large("body", body_max));
    }
    // Taken at its word up to a point: it may be longer than there is memory.
    let mut bytes = Vec::with_capacity(length.min(CAPACITY_MAX) as usize);
    let read = body.as_reader().take(body_max.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| failure(error.into(), line))?;
    if bytes.len() as u64 > body_max {
        return Err(too_large("body", body_max));
    }
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: bytes })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;
    use crate::call::CancelToken;
    use crate::driver::http::{Http, Request};
    use crate::driver::{Args, Operation, Sizing};
    use crate::outcome::FailureReason;

    const PLENTY: Duration = Duration::from_secs(30);

    fn operation(listener: &TcpListener, request: Request) -> Operation {
        let sizing = Sizing { partition: "p".into(), connections: 1, run_limit: PLENTY };
        let url = format!("http://{}", listener.local_addr().unwrap());
        let tool = Http::new(url).open(&sizing).unwrap().tool(request).unwrap();
        tool.prepare(&Args::new()).unwrap()
    }

    /// The next connection and what it asks for.
    fn asked(listener: &TcpListener) -> (TcpStream, String) {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        (stream, String::from_utf8(head).unwrap())
    }

    #[test]
    fn the_key_of_the_call_is_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let request = Request::post("/").idempotency_header("Idempotency-Key");
        let mut operation = operation(&listener, request);
        let mut run = Run::detached(PLENTY, CancelToken::new());
        run.given_key = Some("k\n".into());
        let failure = operation(&run).unwrap_err();
        assert_eq!(failure.reason, FailureReason::InvalidCall);
        let mut run = Run::detached(PLENTY, CancelToken::new());
        run.given_key = Some("k-1".into());
        let caller = thread::spawn(move || operation(&run).is_ok());
        let (mut stream, head) = asked(&listener);
        assert!(head.contains("idempotency-key: k-1\r\n"), "{head}");
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        assert!(caller.join().unwrap());
    }

    /// The thread that runs the cancel hooks may be busy with another call's.
    #[test]
    fn an_abort_ends_what_no_cancel_hook_has() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut operation = operation(&listener, Request::get("/"));
        let token = CancelToken::new();
        let run = Run::detached(PLENTY, token.clone());
        let caller = thread::spawn(move || operation(&run));
        let (_stream, _) = asked(&listener);
        token.trip();
        token.abort();
        let failure = caller.join().unwrap().unwrap_err();
        assert_eq!(failure.reason, FailureReason::Cancelled);
    }
}
