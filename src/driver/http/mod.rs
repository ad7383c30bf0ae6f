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
//! # Limits
//!
//! A call ends at its run limit, and within about a millisecond of a cancel, whatever it is blocked
//! in: the look-up of the name, the connection in the making, the TLS handshake, sending, waiting,
//! reading. The backend sees its connection closed. A connection on which a call has finished goes
//! back to the pool, and no late cancel reaches it there. What was cut short, by us or by a reset, is
//! never a result; a body without a length or chunks that the backend itself ends is.
//!
//! A redirect is followed within the base URL's scheme, host and port only. Proxies, cookies and
//! compression are not used.
//!
//! # Streams
//!
//! [`Client::streaming`] makes tools whose answer is read while it comes, on the caller's thread.
//! [`Partition::stream`](crate::Partition::stream) opens one in a slot, which the [`Stream`] holds
//! until it ends or is dropped; a full partition refuses, and nothing is sent:
//!
//! ```no_run
//! use serde_json::json;
//! use watertight::call::Terms;
//! use watertight::driver::Args;
//! use watertight::driver::http::{Events, Http, Request, StreamLimits};
//! use watertight::{PartitionSpec, Runtime};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let spec = PartitionSpec::new("model").slots(4);
//! let client = Http::new("https://model.example").open(&spec.sizing())?;
//! let ask = Request::post("/v1/messages").body(json!({"prompt": "{prompt}", "stream": true}));
//! let ask = client.streaming(ask, StreamLimits::default())?;
//! let runtime = Runtime::builder().partition(spec).build()?;
//! let model = runtime.partition("model").expect("it was just built");
//! # let args = Args::new();
//!
//! let opening = ask.prepare(&args).map_err(|failure| failure.message)?;
//! match model.stream(Terms::new(), opening) {
//!     Err(refused) => println!("{refused:?}"),
//!     Ok(stream) => {
//!         for event in Events::new(stream) {
//!             match event {
//!                 Ok(event) => println!("{}", event.data),
//!                 Err(failure) => println!("ended: {}", failure.message),
//!             }
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The stream ends at the run limit, by its [`StreamLimits`], by its
//! [token](Stream::cancel_token) and with the runtime: its connection is closed then, and its reader
//! gets an error, wherever it is. [`Opening::open`] opens one without a partition.
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
//! | a stream's backend silent, or its consumer idle, for too long | `limit` | unknown |
//! | a status that is not accepted | `http_status`, with status and beginning of the body | yes |
//! | 429 | `throttled` | no |
//! | 503 with Retry-After | `throttled` | unknown |
//! | too many redirects, or to another origin | `redirect` | yes |
//! | too many bytes of body or headers | `too_large` | yes |
//! | the body is no JSON although it says so | `decode` | yes |

//!
//! An answer of any status may say that no calls are left until a time
//! ([`Http::quota_headers`]): then its own outcome is as above, and the partition sends nothing
//! until that time; calls are `throttled`, with a hint.

mod answer;
mod body;
mod client;
mod events;
mod exchange;
mod failure;
mod header;
mod line;
mod open_body;
mod origin;
mod plan;
mod quota;
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
