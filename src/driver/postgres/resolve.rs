//! Host names to addresses, within the limit of the call that asks.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use scheduled_thread_pool::ScheduledThreadPool;

use super::aside::{self, Claim};
use crate::call::Run;
use crate::outcome::{Executed, Failure, FailureReason};

/// Asks the system's resolver on the pool's housekeeping thread, since it cannot be interrupted.
pub(super) struct Resolver {
    housekeeping: Arc<ScheduledThreadPool>,
    /// Questions that were asked and not answered, those that nobody waits for any more included.
    open: Arc<AtomicUsize>,
    open_max: usize,
    lookup: fn(&str) -> io::Result<Vec<IpAddr>>,
}

impl Resolver {
    /// A resolver that takes `open_max` questions at once.
    pub(super) fn new(housekeeping: &Arc<ScheduledThreadPool>, open_max: usize) -> Resolver {
        let lookup =
            |host: &str| Ok((host, 0).to_socket_addrs()?.map(|found| found.ip()).collect());
        Resolver { housekeeping: Arc::clone(housekeeping), open: Arc::default(), open_max, lookup }
    }

    /// The addresses of `host`. Blocks at most until the run's limit or its cancel.
    pub(super) fn addresses(&self, host: &str, run: &Run) -> Result<Vec<IpAddr>, Failure> {
        if let Ok(address) = host.parse() {
            return Ok(vec![address]);
        }
        let claim = Claim::take(&self.open, self.open_max)
            .ok_or_else(|| unresolved(host, "the resolver does not answer"))?;
        let (asker, lookup, name) = (Arc::new(()), self.lookup, host.to_owned());
        let asked = Arc::downgrade(&asker);
        let found = aside::wait_for(run, |reply| {
            self.housekeeping.execute(move || {
                // A question that was given up while it waited is not asked.
                let found = asked.upgrade().map(|_| lookup(&name));
                // Before the answer: the asker may ask again at once.
                drop(claim);
                if let Some(found) = found {
                    reply.send(found);
                }
            });
            Ok(())
        })?;
        match found {
            Ok(addresses) if !addresses.is_empty() => Ok(addresses),
            Ok(_) => Err(unresolved(host, "there is no address")),
            Err(error) => Err(unresolved(host, &error.to_string())),
        }
    }
}

fn unresolved(host: &str, why: &str) -> Failure {
    let message = format!("the host `{host}` was not found: {why}");
    Failure::new(FailureReason::Connect, message).executed(Executed::No)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::CancelToken;
    use std::sync::{Condvar, Mutex};
    use std::time::{Duration, Instant};

    /// Whether the look-up has begun, and whether it may end.
    static HANGING: (Mutex<(bool, bool)>, Condvar) = (Mutex::new((false, false)), Condvar::new());

    fn hangs(_: &str) -> io::Result<Vec<IpAddr>> {
        let mut state = HANGING.0.lock().unwrap();
        state.0 = true;
        HANGING.1.notify_all();
        let released = HANGING.1.wait_while(state, |(_, released)| !*released);
        drop(released.unwrap());
        Ok(vec![IpAddr::from([127, 0, 0, 1])])
    }

    #[test]
    fn a_resolver_that_hangs_costs_each_call_its_limit_and_no_more() {
        let pool = ScheduledThreadPool::builder().num_threads(1).build();
        let mut resolver = Resolver::new(&Arc::new(pool), 3);
        resolver.lookup = hangs;
        let ask = |limit: u64, token: &CancelToken| {
            let run = Run::detached(Duration::from_millis(limit), token.clone());
            resolver.addresses("db.example", &run)
        };
        let token = CancelToken::new();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| ask(60_000, &token).unwrap_err());
            let begun = HANGING.0.lock().unwrap();
            drop(HANGING.1.wait_while(begun, |(begun, _)| !*begun).unwrap());
            token.cancel();
            assert_eq!(first.join().unwrap().reason, FailureReason::Cancelled);
        });
        for _ in 0..2 {
            let queued = ask(20, &CancelToken::new()).unwrap_err();
            assert_eq!((queued.reason, queued.executed), (FailureReason::Limit, Executed::No));
        }
        let full = ask(60_000, &CancelToken::new()).unwrap_err();
        assert_eq!((full.reason, full.executed), (FailureReason::Connect, Executed::No));
        let literal = resolver.addresses("::1", &Run::detached(Duration::ZERO, token.clone()));
        assert_eq!(literal.unwrap(), [IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])]);

        HANGING.0.lock().unwrap().1 = true;
        HANGING.1.notify_all();
        let started = Instant::now();
        let mut found = ask(60_000, &CancelToken::new());
        while found.is_err() && started.elapsed() < Duration::from_secs(60) {
            found = ask(60_000, &CancelToken::new());
        }
        assert_eq!(found.unwrap(), [IpAddr::from([127, 0, 0, 1])], "it works again");
    }

    #[test]
    fn names_are_looked_up() {
        let pool = Arc::new(ScheduledThreadPool::builder().num_threads(1).build());
        let resolver = Resolver::new(&pool, 1);
        let run = Run::detached(Duration::from_secs(30), CancelToken::new());
        assert!(resolver.addresses("localhost", &run).unwrap().iter().any(IpAddr::is_loopback));
        let failure = resolver.addresses("no such host", &run).unwrap_err();
        assert_eq!((failure.reason, failure.executed), (FailureReason::Connect, Executed::No));
    }
}
