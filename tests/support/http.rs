//! What the tests of the HTTP driver share.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use watertight::call::{CancelToken, Run};
use watertight::driver::http::{Client, Http};
use watertight::driver::{Args, Sizing, Tool};
use watertight::outcome::Failure;
use watertight::testing::Vendor;

/// Longer than anything that works takes, even on a busy machine.
pub(crate) const PLENTY: Duration = Duration::from_secs(30);

pub(crate) fn vendor() -> Vendor {
    Vendor::start().expect("a loopback port")
}

pub(crate) fn sizing(connections: u32) -> Sizing {
    Sizing { partition: "search".into(), connections, run_limit: PLENTY }
}

/// A client of four connections to `vendor`.
pub(crate) fn client(vendor: &Vendor) -> Client {
    Http::new(vendor.url()).open(&sizing(4)).expect("a good base URL")
}

pub(crate) fn args(value: &Value) -> Args {
    value.as_object().expect("arguments are an object").clone()
}

/// One call, limited to `limit`, decoded.
pub(crate) fn call(tool: &Arc<dyn Tool>, given: &Value, limit: Duration) -> Result<Value, Failure> {
    let mut operation = tool.prepare(&args(given))?;
    operation(&Run::detached(limit, CancelToken::new()))?.decode()
}
