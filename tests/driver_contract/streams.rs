//! A stream holds a slot of its partition for as long as it lasts, and ends as any call does.

use std::sync::Arc;
use std::thread::spawn;
use std::time::{Duration, Instant};

use watertight::call::Terms;
use watertight::driver::Args;
use watertight::driver::http::{Http, Request, Stream, StreamLimits, StreamTool};
use watertight::outcome::{Failure, FailureReason, Outcome, Status};
use watertight::testing::{Behaviour, Framing, Reply, Vendor};
use watertight::{Partition, PartitionSpec, Runtime};

use crate::suite::{HOME, alone};

const AMPLE: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(300);

/// A partition of one slot, whose vendor sends half of a body and no more.
struct Model {
    vendor: Vendor,
    ask: StreamTool,
    runtime: Runtime,
}

impl Model {
    fn new(run_limit: Duration, limits: StreamLimits) -> Model {
        let vendor = Vendor::start().expect("a loopback port");
        let reply = Reply::text("one two");
        vendor.set(Behaviour::HangBody { framing: Framing::Chunked, reply });
        let spec = PartitionSpec::new(HOME).slots(1).queue(0).run_limit(run_limit);
        let client = Http::new(vendor.url()).open(&spec.sizing()).expect("a base URL");
        let ask = client.streaming(Request::get("/"), limits).expect("a request");
        let runtime = Runtime::builder().partition(spec).build().expect("threads");
        Model { vendor, ask, runtime }
    }

    fn partition(&self) -> &Partition {
        self.runtime.partition(HOME).expect("it was just built")
    }

    fn open_with(&self, terms: Terms) -> Result<Stream, Box<Outcome<()>>> {
        self.partition().stream(terms, self.ask.prepare(&Args::new()).expect("no arguments"))
    }

    /// A stream that has brought the half that there is.
    fn half(&self, terms: Terms) -> Stream {
        let mut stream = self.open_with(terms).expect("a slot is free");
        let mut block = [0; 16];
        let count = stream.receive(&mut block).expect("half of the body");
        assert_eq!(&block[..count], b"one");
        assert_eq!(self.free(), 0, "the stream has the only slot");
        stream
    }

    fn free(&self) -> u32 {
        self.partition().snapshot().gauges.free
    }

    /// Its slot is free and its connection closed.
    fn is_let_go(&self) {
        assert!(self.vendor.wait(AMPLE, |counts| counts.connections == 0));
        let since = Instant::now();
        while self.free() == 0 {
            assert!(since.elapsed() < AMPLE, "the slot is not free");
            std::thread::yield_now();
        }
    }
}

/// Why a stream that brings no more ends.
fn end(stream: &mut Stream) -> Failure {
    stream.receive(&mut [0; 16]).expect_err("the vendor sends no more")
}

#[test]
fn a_stream_holds_its_slot_until_it_is_dropped() {
    let _alone = alone();
    let model = Model::new(AMPLE, StreamLimits::default());
    let stream = model.half(Terms::new());
    let refused = model.open_with(Terms::new()).expect_err("the stream has the only slot");
    assert_eq!(refused.status(), Status::Busy);
    assert_eq!(model.vendor.counts().requests, 1, "nothing was sent for it");
    drop(stream);
    assert_eq!(model.free(), 1, "at once");
    model.is_let_go();
    drop(model.half(Terms::new()));
    model.is_let_go();
    assert_eq!(model.partition().snapshot().counts.ok, 2);
}

#[test]
fn a_stream_that_has_ended_has_given_its_slot_back() {
    let _alone = alone();
    let model = Model::new(AMPLE, StreamLimits::default());
    model.vendor.set(Behaviour::Answer(Reply::text("one")));
    for _ in 0..50 {
        let mut stream = model.open_with(Terms::new()).expect("a slot is free");
        while stream.receive(&mut [0; 16]).expect("a whole body") > 0 {}
        assert_eq!(model.free(), 1, "although the stream is still there");
    }
}

#[test]
fn the_run_limit_and_the_deadline_end_a_stream() {
    let _alone = alone();
    let model = Model::new(SHORT, StreamLimits::default());
    let mut stream = model.half(Terms::new());
    assert_eq!(end(&mut stream).reason, FailureReason::Limit);
    model.is_let_go();

    let model = Model::new(AMPLE, StreamLimits::default());
    let since = Instant::now();
    let mut stream = model.half(Terms::new().deadline(SHORT));
    let reason = end(&mut stream).reason;
    assert!(matches!(reason, FailureReason::Limit | FailureReason::Cancelled), "{reason:?}");
    assert!(since.elapsed() < AMPLE / 2);
    model.is_let_go();
}

#[test]
fn a_consumer_that_does_not_read_loses_its_slot() {
    let _alone = alone();
    let limits = StreamLimits { idle_max: SHORT, ..StreamLimits::default() };
    let model = Model::new(AMPLE, limits);
    let mut stream = model.half(Terms::new());
    assert!(model.vendor.wait(AMPLE, |counts| counts.connections == 0), "nobody reads it");
    assert_eq!(end(&mut stream).reason, FailureReason::Limit);
    model.is_let_go();
}

#[test]
fn a_cancel_ends_a_stream_that_is_being_read() {
    let _alone = alone();
    let model = Model::new(AMPLE, StreamLimits::default());
    let mut stream = model.half(Terms::new());
    let token = stream.cancel_token().clone();
    let reader = spawn(move || end(&mut stream).reason);
    token.cancel();
    assert_eq!(reader.join().expect("no panic"), FailureReason::Cancelled);
    model.is_let_go();
}

#[test]
fn a_shutdown_ends_a_stream_within_its_grace() {
    let _alone = alone();
    let model = Arc::new(Model::new(AMPLE, StreamLimits::default()));
    let mut stream = model.half(Terms::new());
    let reader = spawn(move || end(&mut stream).reason);
    let since = Instant::now();
    let report = model.runtime.shutdown(Duration::from_secs(2));
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(reader.join().expect("no panic"), FailureReason::Cancelled);
    assert!(since.elapsed() < AMPLE / 2);
    model.is_let_go();
}

#[test]
fn a_stream_that_cannot_begin_is_an_outcome() {
    let _alone = alone();
    let model = Model::new(AMPLE, StreamLimits::default());
    model.vendor.set(Behaviour::Answer(Reply::status(404)));
    let refused = model.open_with(Terms::new()).expect_err("not found");
    assert_eq!(refused.status(), Status::Failed);
    model.vendor.set(Behaviour::Hang);
    let since = Instant::now();
    let late = model.open_with(Terms::new().deadline(SHORT)).expect_err("no head in time");
    assert_eq!(late.status(), Status::Timeout);
    assert!(since.elapsed() < AMPLE / 2);
    model.is_let_go();
}
