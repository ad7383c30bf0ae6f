//! A new connection, made for the call that needs it and ended with it.
//!
//! The client library connects where nobody sees its socket before the server has answered the TCP
//! connect, so nobody can end one that is not answered. It is made on a thread of its own, which the
//! call need not wait for; `connect_timeout` ends it. There are at most as many as connections.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::Builder;

use postgres::config::Host;
use r2d2::ManageConnection;
use r2d2_postgres::PostgresConnectionManager;

use super::aside::{self, Claim};
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

/// Makes the connections of one partition.
pub(super) struct Connector {
    target: Target,
    resolver: Resolver,
    partition: Arc<str>,
    /// Threads that connect, those that nobody waits for any more included.
    open: Arc<AtomicUsize>,
    open_max: usize,
}

impl Connector {
    /// A connector to `target` with at most `open_max` threads.
    pub(super) fn new(
        target: Target,
        resolver: Resolver,
        partition: &Arc<str>,
        open_max: usize,
    ) -> Connector {
        let partition = Arc::clone(partition);
        Connector { target, resolver, partition, open: Arc::default(), open_max }
    }

    /// Tries the target's servers in order. Blocks at most until the run's limit or its cancel;
    /// while too many servers have not answered calls that were cancelled, until
    /// `connect_timeout`.
    pub(super) fn connect(&self, call: &Watched, run: &Run) -> Result<Session, Failure> {
        let mut failure = None;
        for endpoint in &self.target.endpoints {
            let addresses = match (&endpoint.host, endpoint.address) {
                (_, Some(address)) => Ok(vec![Some(address)]),
                (Host::Tcp(name), None) => {
                    let found = self.resolver.addresses(name, run);
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
                match self.attempt(endpoint, address, call, run) {
                    Ok(session) => return Ok(session),
                    Err(refused) => failure = Some(refused),
                }
            }
        }
        Err(failure.unwrap_or_else(|| ended(FailureReason::Limit, Executed::No)))
    }

    fn attempt(
        &self,
        endpoint: &Endpoint,
        address: Option<IpAddr>,
        call: &Watched,
        run: &Run,
    ) -> Result<Session, Failure> {
        let remaining = run.remaining();
        if remaining.is_zero() {
            return Err(ended(FailureReason::Limit, Executed::No));
        }
        let target = &self.target;
        let capture = Capture::new(target.tls.clone(), target.user_timeout, call.holder());
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
        let (tls, limit, began) = (target.tls.clone(), target.statement_timeout, call.began());
        let make = move || {
            let found = capture.found().clone();
            let client = PostgresConnectionManager::new(config, capture)
                .connect()
                .map_err(|error| error::connecting(&error))?;
            let token = client.cancel_token();
            let request = CancelRequest { token, tls: found.is_encrypted().then_some(tls) };
            Session::new(client, found.socket(), request, limit, began)
        };
        match address.and_then(|_| Claim::take(&self.open, self.open_max)) {
            Some(claim) => self.aside(claim, run, make),
            None => make(),
        }
    }

    /// Makes a connection on a thread of its own, and waits for it as long as the call may.
    fn aside(
        &self,
        claim: Claim,
        run: &Run,
        make: impl FnOnce() -> Result<Session, Failure> + Send + 'static,
    ) -> Result<Session, Failure> {
        aside::wait_for(run, |reply| {
            let thread = Builder::new().name(format!("{}-connect", self.partition));
            let begun = thread.spawn(move || {
                let session = make();
                drop(claim);
                reply.send(session);
            });
            begun.map(drop).map_err(|error| {
                let message = format!("there is no thread to connect on: {error}");
                Failure::new(FailureReason::Connect, message).executed(Executed::No)
            })
        })?
    }
}
