//! ureq's errors as failures, in words of ours: its own may repeat headers.

use std::io;

use rustls::AlertDescription;
use ureq::{Error, Timeout};

use super::line::{Cut, Line};
use super::resolve::Elsewhere;
use super::wire::Broken;
use crate::outcome::{Executed, Failure, FailureReason};

/// The failure that `error` of the call of `line` is.
pub(super) fn failure(error: Error, line: &Line) -> Failure {
    if line.is_cut() {
        return cancelled(line);
    }
    match error {
        Error::Timeout(Timeout::Resolve | Timeout::Connect) => connect("no connection in time"),
        Error::Timeout(Timeout::PerRead) => {
            Failure { message: "the backend was silent for too long".to_owned(), ..limit(line) }
        }
        Error::Timeout(_) => limit(line),
        Error::HostNotFound => connect("the host name has no address"),
        Error::TooManyRedirects => redirect("too many redirects"),
        Error::RedirectFailed => redirect("a redirect that would repeat the body"),
        Error::BadUri(_) => redirect("redirected to something that is no HTTP URL"),
        Error::LargeResponseHeader(_, most) => too_large("head of the answer", most as u64),
        Error::Io(error) => io_failure(&error, line),
        Error::Tls(rule) if !line.is_sent() => connect(rule),
        Error::Other(error) if error.is::<Elsewhere>() => redirect(error.to_string()),
        Error::Other(error) if error.is::<Broken>() => broken(error.to_string(), line),
        Error::Other(error) if error.is::<Cut>() => cancelled(line),
        Error::ConnectionFailed => connect("the host has no address that can be connected to"),
        Error::Protocol(_) => protocol("the answer is no valid HTTP"),
        _ => broken("the connection failed".to_owned(), line),
    }
}

/// The call was ended at its limit.
pub(super) fn limit(line: &Line) -> Failure {
    Failure::new(FailureReason::Limit, "the request was ended at its limit")
        .executed(executed(line))
}

/// The call was ended by a cancel.
pub(super) fn cancelled(line: &Line) -> Failure {
    Failure::new(FailureReason::Cancelled, "the request was cancelled").executed(executed(line))
}

/// More than `most` bytes of `what`.
pub(super) fn too_large(what: &str, most: u64) -> Failure {
    Failure::new(FailureReason::TooLarge, format!("the {what} exceeds {most} bytes"))
}

fn executed(line: &Line) -> Executed {
    if line.is_sent() { Executed::Unknown } else { Executed::No }
}

fn io_failure(error: &io::Error, line: &Line) -> Failure {
    if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        let message = format!("TLS: {tls}");
        // The backend may look at our certificate after the handshake is done for us.
        let refused = matches!(tls, rustls::Error::AlertReceived(alert) if is_refusal(*alert));
        return if refused { connect(message) } else { broken(message, line) };
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => broken(
            "the backend closed the connection before its answer was complete".to_owned(),
            line,
        ),
        kind => broken(format!("the connection failed: {kind}"), line),
    }
}

fn is_refusal(alert: AlertDescription) -> bool {
    use AlertDescription as Alert;
    matches!(
        alert,
        Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::DecryptError
            | Alert::HandshakeFailure
    )
}

/// A connection that failed: before or after the request was sent.
fn broken(message: String, line: &Line) -> Failure {
    if line.is_sent() { protocol(message) } else { connect(message) }
}

fn connect(message: impl Into<String>) -> Failure {
    Failure::new(FailureReason::Connect, message).executed(Executed::No)
}

fn protocol(message: impl Into<String>) -> Failure {
    Failure::new(FailureReason::HttpProtocol, message).executed(Executed::Unknown)
}

fn redirect(message: impl Into<String>) -> Failure {
    Failure::new(FailureReason::Redirect, message)
}
