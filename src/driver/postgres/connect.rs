//! A new connection, made by the call that needs it and ended with it.

use std::net::IpAddr;

use postgres::config::Host;
use r2d2::ManageConnection;
use r2d2_postgres::PostgresConnectionManager;

use super::cancel::CancelRequest;
use super::error;
use super::resolve::Resolver;
use super::session::Session;
use super::socket::Capture;
use super::url::{Endpoint, Target};
use super::watch::Watched;
use crate::call::Run;
use crate::driver::sql::ended;
use crate::outcome::{Executed, Failure, FailureReason};

/// Tries the target's servers in order. Blocks at most until the run's limit; a cancel ends it at
/// once, unless a server does not answer the TCP connect, which `connect_timeout` bounds.
pub(super) fn connect(
    target: &Target,
    resolver: &Resolver,
    call: &Watched,
    run: &Run,
) -> Result<Session, Failure> {
    let mut failure = None;
    for endpoint in &target.endpoints {
        let addresses = match (&endpoint.host, endpoint.address) {
            (_, Some(address)) => Ok(vec![Some(address)]),
            (Host::Tcp(name), None) => {
                let found = resolver.addresses(name, run);
                found.map(|addresses| addresses.into_iter().map(Some).collect())
            }
            (Host::Unix(_), None) => Ok(vec![None]),
        };
        let attempts = match addresses {
            Ok(addresses) => addresses,
            Err(unresolved) => {
                failure = Some(unresolved);
                continue;
            }
        };
        for address in attempts {
            if let Some(reason) = call.ending() {
                return Err(ended(reason, Executed::No));
            }
            match attempt(target, endpoint, address, call, run) {
                Ok(session) => return Ok(session),
                Err(refused) => failure = Some(refused),
            }
        }
    }
    Err(failure.unwrap_or_else(|| ended(FailureReason::Limit, Executed::No)))
}

fn attempt(
    target: &Target,
    endpoint: &Endpoint,
    address: Option<IpAddr>,
    call: &Watched,
    run: &Run,
) -> Result<Session, Failure> {
    let remaining = run.remaining();
    if remaining.is_zero() {
        return Err(ended(FailureReason::Limit, Executed::No));
    }
    let capture = Capture::new(target.tls.clone(), target.user_timeout, call.holder());
    let found = capture.found().clone();
    let mut config = target.config.clone();
    match &endpoint.host {
        Host::Tcp(name) => config.host(name),
        Host::Unix(folder) => config.host_path(folder),
    };
    if let Some(address) = address {
        config.hostaddr(address);
    }
    config.port(endpoint.port);
    config.connect_timeout(target.connect_timeout.min(remaining));
    config.tcp_user_timeout(capture.mark());
    let client = PostgresConnectionManager::new(config, capture)
        .connect()
        .map_err(|error| error::connecting(&error))?;
    let request = CancelRequest {
        token: client.cancel_token(),
        tls: found.is_encrypted().then(|| target.tls.clone()),
    };
    Session::new(client, found.socket(), request, target.statement_timeout, call.began())
}
