//! Asking the server to cancel a query, over a connection made for it.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use postgres::{CancelToken, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How to ask the server to cancel the query of one connection.
pub(super) struct CancelRequest {
    pub(super) token: CancelToken,
    /// Set if the connection is encrypted. A plain request is sent without waiting for an answer.
    pub(super) tls: Option<MakeRustlsConnect>,
}

/// Sends the requests of the calls that are still `under_way` until nobody can make any more.
/// Blocks with the server.
pub(super) fn send_all(
    requests: &Receiver<(u64, Arc<CancelRequest>)>,
    under_way: impl Fn(&u64) -> bool,
) {
    for (id, request) in requests {
        if under_way(&id) {
            request.send();
        }
    }
}

impl CancelRequest {
    /// Whatever comes of it, the socket is shut down next.
    fn send(&self) {
        let _ = match &self.tls {
            Some(tls) => self.token.cancel_query(tls.clone()),
            None => self.token.cancel_query(NoTls),
        };
    }
}
