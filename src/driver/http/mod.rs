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
mod exchange;
mod request;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::http::Uri;
use ureq::http::header::HeaderMap;

use self::exchange::exchange;
use self::request::{Plan, header_name, header_value};
use crate::call::Run;
use crate::driver::{Args, Operation, Sizing, Tool};
use crate::outcome::Failure;

pub use self::request::Request;

/// The settings of an HTTP partition: one backend with its credential.
///
/// Nothing is checked before [`Http::open`].
#[derive(Clone)]
pub struct Http {
    base_url: String,
    headers: Vec<(String, String)>,
    connect_timeout: Duration,
    body_max: u64,
    redirects: u32,
}

impl Http {
    /// The backend at `base_url`, such as `https://search.example/v1`; the paths of its tools are
    /// appended.
    pub fn new(base_url: impl Into<String>) -> Http {
        Http {
            base_url: base_url.into(),
            headers: Vec::new(),
            connect_timeout: Duration::from_secs(5),
            body_max: 1024 * 1024,
            redirects: 5,
        }
    }

    /// Sends a header with every request. Its value appears in no log, error or outcome.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Http {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The longest that looking the name up, and then connecting with TLS, may each take. Defaults
    /// to 5 s; what is left of the run limit bounds them as well.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Http {
        self.connect_timeout = timeout;
        self
    }

    /// The most bytes of a response's body. Defaults to 1 MiB.
    #[must_use]
    pub fn body_max(mut self, bytes: u64) -> Http {
        self.body_max = bytes;
        self
    }

    /// How many redirects are followed. Defaults to 5; 0 follows none.
    #[must_use]
    pub fn redirects(mut self, most: u32) -> Http {
        self.redirects = most;
        self
    }

    /// Checks the settings and makes the partition's agent. Connects to nothing yet.
    ///
    /// # Errors
    ///
    /// The key that is wrong and the rule it breaks.
    pub fn open(self, sizing: &Sizing) -> Result<Client, String> {
        let (origin, prefix) = parse_base_url(&self.base_url)?;
        if self.connect_timeout.is_zero() {
            return Err("`connect_timeout`: must be above zero".to_owned());
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            headers.append(header_name("headers", name)?, header_value(name, value)?);
        }
        let connections = sizing.connections as usize;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .accept_encoding("identity")
            .user_agent(concat!("watertight/", env!("CARGO_PKG_VERSION")))
            .max_idle_connections(connections)
            .max_idle_connections_per_host(connections)
            .max_redirects(self.redirects)
            .max_redirects_will_error(self.redirects > 0)
            .build();
        let partition = Partition {
            agent: Agent::new_with_config(config),
            origin,
            prefix,
            headers,
            connect_timeout: self.connect_timeout,
            body_max: self.body_max,
        };
        Ok(Client(Arc::new(partition)))
    }
}

/// Names the headers and shows none of their values.
impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Http")
            .field("base_url", &self.base_url)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

/// An open HTTP partition, from which its tools are made. Clones share its connections.
#[derive(Clone)]
pub struct Client(Arc<Partition>);

impl Client {
    /// The tool that sends `request`.
    ///
    /// # Errors
    ///
    /// The key that is wrong and the rule it breaks.
    pub fn tool(&self, request: Request) -> Result<Arc<dyn Tool>, String> {
        let plan = Arc::new(request.plan(&self.0.prefix)?);
        Ok(Arc::new(HttpTool {
            partition: Arc::clone(&self.0),
            plan,
        }))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("origin", &self.0.origin)
            .finish_non_exhaustive()
    }
}

/// What the tools of a partition share.
struct Partition {
    agent: Agent,
    /// Scheme, host and port.
    origin: String,
    /// The path of the base URL, without a slash at its end.
    prefix: String,
    headers: HeaderMap,
    connect_timeout: Duration,
    body_max: u64,
}

struct HttpTool {
    partition: Arc<Partition>,
    plan: Arc<Plan>,
}

impl Tool for HttpTool {
    fn prepare(&self, args: &Args) -> Result<Operation, Failure> {
        let partition = Arc::clone(&self.partition);
        let plan = Arc::clone(&self.plan);
        let filled = plan.fill(&partition.origin, &partition.headers, args)?;
        Ok(Box::new(move |run: &Run| {
            exchange(&partition, &plan, &filled, run)
        }))
    }
}

/// The origin and the path of `base_url`. The errors do not repeat it: it may hold a credential.
fn parse_base_url(base_url: &str) -> Result<(String, String), String> {
    let broken = |rule: &str| Err(format!("`base_url`: {rule}"));
    let Ok(uri) = base_url.parse::<Uri>() else {
        return broken("is no URL; write it as in `https://search.example/v1`");
    };
    let (Some("http" | "https"), Some(scheme)) = (uri.scheme_str(), uri.scheme()) else {
        return broken("must start with `http://` or `https://`");
    };
    let Some(authority) = uri
        .authority()
        .filter(|authority| !authority.host().is_empty())
    else {
        return broken("has no host");
    };
    if authority.as_str().contains('@') {
        return broken("must hold no user or password; send the `Authorization` header instead");
    }
    if uri.query().is_some() || base_url.contains('#') {
        return broken("must have no `?` or `#`; parameters belong to the tools");
    }
    let prefix = uri.path().trim_end_matches('/').to_owned();
    Ok((format!("{scheme}://{authority}"), prefix))
}
