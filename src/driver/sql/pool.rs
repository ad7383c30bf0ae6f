//! A fixed number of seats for connections.

use std::convert::Infallible;
use std::sync::Arc;

use r2d2::{ManageConnection, PooledConnection};
use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

use super::BuildError;
use crate::call::Run;
use crate::driver::Sizing;
use crate::outcome::{Executed, Failure, FailureReason};

/// As many seats as a partition has calls, each with a connection in it or none yet.
///
/// The pool itself never connects: a connection is opened, tested and closed by the call that
/// holds its seat, within that call's limit. So no stuck server can hold the pool up, opening it
/// needs no server, and each call learns of its own error.
pub(crate) struct Pool<C: Send + 'static> {
    seats: r2d2::Pool<Seats<C>>,
    #[cfg(feature = "postgres")]
    housekeeping: Arc<ScheduledThreadPool>,
}

/// More than any server takes.
const CONNECTIONS_MAX: u32 = 65_536;

/// A seat that a call holds.
pub(crate) type Seat<C> = PooledConnection<Seats<C>>;

impl<C: Send + 'static> Pool<C> {
    /// A pool for one partition, with one thread of its own for housekeeping.
    pub(crate) fn open(sizing: &Sizing) -> Result<Pool<C>, BuildError> {
        if !(1..=CONNECTIONS_MAX).contains(&sizing.connections) {
            let rule = format!("must be from 1 to {CONNECTIONS_MAX}");
            return Err(BuildError::new("connections", rule));
        }
        let pattern = format!("{}-sql", sizing.partition);
        let scheduler = ScheduledThreadPool::builder()
            .num_threads(1)
            .thread_name_pattern(&pattern)
            .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled);
        // It panics where the system has no thread to give.
        let housekeeping = std::panic::catch_unwind(|| Arc::new(scheduler.build()))
            .map_err(|_| BuildError::new("connections", "there is no thread for the pool"))?;
        let seats = r2d2::Pool::builder()
            .max_size(sizing.connections)
            .min_idle(None)
            .test_on_check_out(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .thread_pool(Arc::clone(&housekeeping))
            .build(Seats(std::marker::PhantomData))
            .map_err(|error| BuildError::new("connections", error.to_string()))?;
        Ok(Pool {
            seats,
            #[cfg(feature = "postgres")]
            housekeeping,
        })
    }

    /// Takes a seat. There is one for every call of the partition; if others hold them, blocks for
    /// what is left of the call's limit.
    pub(crate) fn seat(&self, run: &Run) -> Result<Seat<C>, Failure> {
        if let Some(seat) = self.seats.try_get() {
            return Ok(seat);
        }
        self.seats.get_timeout(run.remaining()).map_err(|_| {
            Failure::new(
                FailureReason::PoolExhausted,
                format!("all {} connections of the pool are in use", self.seats.max_size()),
            )
            .executed(Executed::No)
        })
    }

    /// The partition's thread for what may block and that no call waits for.
    #[cfg(feature = "postgres")]
    pub(crate) fn housekeeping(&self) -> &Arc<ScheduledThreadPool> {
        &self.housekeeping
    }
}

impl<C: Send + 'static> std::fmt::Debug for Pool<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("seats", &self.seats.max_size()).finish_non_exhaustive()
    }
}

/// Makes empty seats.
pub(crate) struct Seats<C>(std::marker::PhantomData<fn() -> C>);

impl<C: Send + 'static> ManageConnection for Seats<C> {
    type Connection = Option<C>;
    type Error = Infallible;

    fn connect(&self) -> Result<Option<C>, Infallible> {
        Ok(None)
    }

    fn is_valid(&self, _: &mut Option<C>) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, _: &mut Option<C>) -> bool {
        false
    }
}
