//! Drivers that work in process, and HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use watertight::call::{Run, Terms};
use watertight::driver::compute::Compute;
use watertight::driver::http::{Http, Request};
use watertight::outcome::{Executed, Failure, FailureReason, Outcome};
use watertight::testing::{Behaviour, Vendor};
use watertight::{PartitionSpec, Runtime, Ticket};

use crate::suite::{Driver, HOME, Work, alone, hold};

/// How many bodies run, which is all there is to see of work in process.
#[derive(Clone, Default)]
pub(crate) struct Running(Arc<AtomicUsize>);

impl Running {
    pub(crate) fn begin(&self) -> impl Drop + use<> {
        struct Begun(Arc<AtomicUsize>);
        impl Drop for Begun {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.0.fetch_add(1, Ordering::SeqCst);
        Begun(Arc::clone(&self.0))
    }

    pub(crate) fn work(&self) -> Work {
        match self.0.load(Ordering::SeqCst) {
            0 => Work::None,
            _ => Work::Full,
        }
    }
}

/// A closure that waits for its cancel, as one with a socket of its own would.
#[derive(Default)]
pub(crate) struct Function(Running);

impl Driver for Function {
    fn open(&self, spec: PartitionSpec) -> Runtime {
        Runtime::builder().partition(spec).build().expect("threads")
    }

    fn hang(&self, runtime: &Runtime, terms: Terms) -> Ticket<Value> {
        let running = self.0.clone();
        let home = runtime.partition(HOME).expect("it was just built");
        home.submit_with(terms, move |run: &Run| {
            let _running = running.begin();
            let off = run.cancel_token().wait(run.remaining());
            let reason = if off { FailureReason::Cancelled } else { FailureReason::Limit };
            Err(Failure::new(reason, "it waited").executed(Executed::Unknown))
        })
    }

    fn quick(&self, runtime: &Runtime) -> Outcome<Value> {
        let home = runtime.partition(HOME).expect("it was just built");
        home.call(|_| Ok(json!(1)))
    }

    fn work(&self) -> Work {
        self.0.work()
    }
}

#[test]
fn function() {
    let _alone = alone();
    hold(&Function::default());
}

/// Chunks without an end, on two threads.
#[derive(Default)]
struct Computing(Running);

impl Driver for Computing {
    fn open(&self, spec: PartitionSpec) -> Runtime {
        let pool = Compute::new().threads(2).open(&spec.sizing());
        let pool = pool.expect("two threads");
        let running = self.0.clone();
        let hang = pool.tool([], move |_, work| {
            let _running = running.begin();
            let items: Vec<u64> = (0..2048).collect();
            loop {
                work.par_chunks(&items, 256, |chunk| chunk.iter().sum::<u64>())?;
            }
        });
        Runtime::builder()
            .partition(spec)
            .tool("hang", HOME, hang)
            .tool("quick", HOME, pool.tool([], |_, _| Ok(json!(1))))
            .build()
            .expect("threads")
    }

    fn work(&self) -> Work {
        self.0.work()
    }
}

#[test]
fn compute() {
    let _alone = alone();
    hold(&Computing::default());
}

/// A vendor that never answers.
struct Hypertext(Vendor);

impl Driver for Hypertext {
    fn open(&self, spec: PartitionSpec) -> Runtime {
        let client = Http::new(self.0.url()).open(&spec.sizing());
        let client = client.expect("a base URL");
        let get = |path: &str| client.tool(Request::get(path)).expect("a request");
        let (hang, quick) = (get("/hang"), get("/quick"));
        Runtime::builder()
            .partition(spec)
            .tool("hang", HOME, hang)
            .tool("quick", HOME, quick)
            .build()
            .expect("threads")
    }

    /// It is in flight until the vendor sees that its connection is closed.
    fn work(&self) -> Work {
        match self.0.counts().in_flight {
            0 => Work::None,
            _ => Work::Full,
        }
    }

    fn connections(&self) -> usize {
        self.0.counts().connections
    }
}

#[test]
fn http() {
    let _alone = alone();
    let vendor = Vendor::start().expect("a loopback port");
    vendor.set_path("/hang", Behaviour::Hang);
    hold(&Hypertext(vendor));
}
