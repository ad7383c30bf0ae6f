//! A stream holds a slot of its partition for as long as it is read, by a permit.

use std::time::Duration;

use watertight::call::{CancelToken, Run};
use watertight::driver::Args;
use watertight::driver::http::{Http, Request, Stream, StreamLimits, StreamTool};
use watertight::outcome::Status;
use watertight::testing::{Behaviour, Framing, Reply, Vendor};
use watertight::{Partition, PartitionSpec, Permit, Runtime};

use crate::suite::{HOME, alone};

const AMPLE: Duration = Duration::from_secs(30);

fn open(tool: &StreamTool, permit: &Permit) -> Stream {
    let run = Run::detached(permit.limit(), CancelToken::new());
    let opening = tool.prepare(&Args::new()).expect("no arguments");
    opening.open(&run).expect("the head of an answer")
}

fn free(partition: &Partition) -> u32 {
    partition.snapshot().gauges.free
}

#[test]
fn a_stream_holds_its_slot_until_it_is_dropped() {
    let _alone = alone();
    let vendor = Vendor::start().expect("a loopback port");
    vendor.set(Behaviour::HangBody { framing: Framing::Chunked, reply: Reply::text("one two") });
    let spec = PartitionSpec::new(HOME).slots(1).queue(0).run_limit(AMPLE);
    let client = Http::new(vendor.url()).open(&spec.sizing());
    let ask = client.expect("a base URL");
    let ask = ask.streaming(Request::get("/"), StreamLimits::default());
    let ask = ask.expect("a request");
    let runtime = Runtime::builder().partition(spec).build().expect("threads");
    let model = runtime.partition(HOME).expect("it was just built");

    let permit = model.permit().expect("a slot is free");
    let mut stream = open(&ask, &permit);
    let mut block = [0; 16];
    let count = stream.receive(&mut block).expect("half of the body");
    assert_eq!(&block[..count], b"one");
    assert_eq!(free(model), 0);
    let refused = model.permit().expect_err("the stream has the only slot");
    assert_eq!(refused.status(), Status::Busy);
    assert_eq!(vendor.counts().requests, 1, "nothing was sent for it");

    drop(stream);
    drop(permit);
    assert_eq!(free(model), 1);
    assert!(vendor.wait(AMPLE, |counts| counts.connections == 0));
    let permit = model.permit().expect("the slot is free again");
    assert_eq!(open(&ask, &permit).status(), 200);
}
