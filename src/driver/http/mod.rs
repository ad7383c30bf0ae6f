//! HTTP tools: one `ureq` agent a partition, with as many connections as the partition has slots.
//!
//! ```no_run
//! use std::sync::Arc;
//! use std::time::Duration;
//! use watertight::driver::http::{Http, Request};
//! use watertight::driver::{Sizing, Tool};
//!
//! # let token = "t";
//! let sizing =
//!     Sizing { partition: "search".into(), connections: 4, run_limit: Duration::from_secs(29) };
//! let search = Http::new("https://search.example")
//!     .header("Authorization", format!("Bearer {token}"))
//!     .open(&sizing)?;
//! let tool: Arc<dyn Tool> =
//!     search.tool(Request::get("/search").query("q", "{q}").query("limit", "{limit}"))?;
//! # Ok::<(), String>(())
//! ```
//!
//! # Outcomes
//!
//! A result is `{"status": 200, "headers": {"content-type": "…"}, "body": …}`; the body is JSON if
//! the content type says so, text otherwise, null if empty. How a call can fail:
//!
//! | what happened | reason | executed |
//! | --- | --- | --- |
//! | no such host, refused, no connection in time, no TLS | `connect` | no |
//! | the run limit came first | `limit` | no before the request was sent, else unknown |
//! | cancelled | `cancelled` | no before the request was sent, else unknown |
//! | reset, closed early, not HTTP | `http_protocol` | unknown |
//! | a status that is not accepted | `http_status`, with status and beginning of the body | yes |
//! | 429 | `throttled` | no |
//! | 503 with Retry-After | `throttled` | unknown |
//! | too many redirects, or to another origin | `redirect` | yes |
//! | too many bytes of body or headers | `too_large` | yes |
//! | the body is no JSON although it says so | `decode` | yes |

mod answer;
mod body;
mod client;
mod events;
mod exchange;
mod failure;
mod line;
mod open_body;
mod origin;
mod request;
mod resolve;
mod settings;
mod stream;
mod tls;
mod watch;
mod wire;

pub use self::client::Client;
pub use self::events::{Event, Events};
pub use self::request::Request;
pub use self::settings::Http;
pub use self::stream::{Opening, Stream, StreamLimits, StreamTool};
pub use self::tls::Tls;
