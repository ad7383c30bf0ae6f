//! The body of a call: what its worker runs, once or again.

use crate::call::Run;
use crate::outcome::Failure;

/// What a worker runs. `R` is what it brings.
pub(crate) trait Body<R>: Send {
    fn run(&mut self, run: &Run) -> Option<Result<R, Failure>>;
}

/// Runs once; after that there is nothing to run.
pub(crate) struct Once<F>(Option<F>);

impl<F> Once<F> {
    pub(crate) fn new(body: F) -> Once<F> {
        Once(Some(body))
    }
}

impl<R, F> Body<R> for Once<F>
where
    F: FnOnce(&Run) -> Result<R, Failure> + Send,
{
    #[inline]
    fn run(&mut self, run: &Run) -> Option<Result<R, Failure>> {
        self.0.take().map(|body| body(run))
    }
}

/// Runs in a span: it is a part of the body, so that whatever a subscriber does on entering, leaving
/// and closing it happens where the body runs or is dropped.
#[cfg(feature = "tracing")]
pub(crate) struct Spanned<B>(pub(crate) tracing::Span, pub(crate) B);

#[cfg(feature = "tracing")]
impl<R, B: Body<R>> Body<R> for Spanned<B> {
    fn run(&mut self, run: &Run) -> Option<Result<R, Failure>> {
        let Spanned(span, body) = self;
        span.in_scope(|| body.run(run))
    }
}

/// Runs as often as the call is attempted.
pub(crate) struct Repeatable<F>(pub(crate) F);

impl<R, F> Body<R> for Repeatable<F>
where
    F: FnMut(&Run) -> Result<R, Failure> + Send,
{
    fn run(&mut self, run: &Run) -> Option<Result<R, Failure>> {
        Some((self.0)(run))
    }
}
