//! For tests, ours and our users': a backend that misbehaves on demand.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::TcpStream;
//! use std::time::Duration;
//! use watertight::testing::{Behaviour, Vendor};
//!
//! let vendor = Vendor::start()?;
//! vendor.set(Behaviour::Hang);
//!
//! let mut client = TcpStream::connect(vendor.addr())?;
//! client.write_all(b"GET /search HTTP/1.1\r\nHost: vendor\r\n\r\n")?;
//! assert!(vendor.wait_in_flight(1, Duration::from_secs(10)));
//!
//! vendor.release();
//! let mut answer = String::new();
//! client.read_to_string(&mut answer)?;
//! assert!(answer.starts_with("HTTP/1.1 200"));
//! # Ok::<(), std::io::Error>(())
//! ```

mod behaviour;
mod connection;
#[cfg(feature = "json")]
mod isolation;
mod request;
mod shared;
mod unreachable;
mod vendor;

pub use behaviour::{Behaviour, Framing, Reply};
#[cfg(feature = "json")]
pub use isolation::{Isolated, NotIsolated, Slow, assert_isolated, check_isolated};
pub use request::Seen;
pub use unreachable::{Unanswered, refused_addr};
pub use vendor::{Counts, Vendor};
