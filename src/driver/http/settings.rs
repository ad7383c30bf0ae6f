//! The settings of an HTTP partition, and the check of them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::http::header::HeaderMap;
use ureq::unversioned::transport::Connector;

use super::client::{Client, Partition};
use super::header::{header_name, header_value};
use super::origin::Origin;
use super::quota::Source;
use super::resolve::{LookUp, Names, system};
use super::tls::Tls;
use super::watch::Watch;
use super::wire::{Connected, WireConnector};
use crate::driver::Sizing;
use crate::time::Clock;

/// The settings of an HTTP partition: one backend with its credential.
///
/// Nothing is checked before [`Http::open`]. Proxies in the environment are not used.
#[derive(Clone)]
pub struct Http {
    base_url: String,
    headers: Vec<(String, String)>,
    connect_timeout: Duration,
    body_max: u64,
    redirects: u32,
    quotas: Vec<Source>,
    tls: Tls,
    look_up: LookUp,
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
            quotas: Vec::new(),
            tls: Tls::new(),
            look_up: system(),
        }
    }

    /// Sends a header with every request. Its value appears in no log, error or outcome; should a
    /// refusal of the backend repeat it, it is blotted out.
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

    /// How many redirects one call follows, all of them within the base URL's scheme, host and
    /// port: a redirect to elsewhere would leave the partition, and take its credential along.
    /// Defaults to 5; 0 follows none.
    #[must_use]
    pub fn redirects(mut self, most: u32) -> Http {
        self.redirects = most;
        self
    }

    /// Names the headers in which answers say how many calls are left, and when there are more. With
    /// none left the partition leaves the backend alone until then, at most for its `throttle_max`.
    /// May be given several times, as for requests and tokens. Defaults to none.
    ///
    /// The first is a number. The second is a number of seconds, a span such as `6m0s`, seconds or
    /// milliseconds since 1970, or a date; what cannot be read says nothing, and `Retry-After` comes
    /// first. Dates go by this machine's clock. What a stream's head says counts when it ends.
    ///
    /// ```
    /// use watertight::driver::http::Http;
    ///
    /// let model = Http::new("https://model.example")
    ///     .quota_headers("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests")
    ///     .quota_headers("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens");
    /// # let _ = model;
    /// ```
    #[must_use]
    pub fn quota_headers(mut self, remaining: impl Into<String>, reset: impl Into<String>) -> Http {
        self.quotas.push(Source::Pair { remaining: remaining.into(), reset: reset.into() });
        self
    }

    /// The same for one header that has both, for any number of quotas: `RateLimit` as the IETF's
    /// draft has it, `"minute";r=0;t=30` or `limit=100, remaining=0, reset=30`.
    #[must_use]
    pub fn quota_header(mut self, name: impl Into<String>) -> Http {
        self.quotas.push(Source::Field(name.into()));
        self
    }

    /// Whom to trust, and who to be. Defaults to [`Tls::new`].
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Http {
        self.tls = tls;
        self
    }

    /// Looks the host of the base URL up by `look_up`, which is given host and port and may block.
    /// It runs on a thread of its own, one at a time; its answer serves for 30 s. Defaults to the
    /// system's resolver. An address in place of a host is never looked up.
    #[must_use]
    pub fn resolver<F>(mut self, look_up: F) -> Http
    where
        F: Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    {
        self.look_up = Arc::new(look_up);
        self
    }

    /// Checks the settings and makes the partition's agent. Connects to nothing yet.
    ///
    /// # Errors
    ///
    /// The key that is wrong and the rule it breaks.
    pub fn open(self, sizing: &Sizing) -> Result<Client, String> {
        let (origin, prefix) = Origin::parse(&self.base_url)?;
        if self.connect_timeout.is_zero() {
            return Err("`connect_timeout`: must be above zero".to_owned());
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            headers.append(header_name("headers", name)?, header_value(name, value)?);
        }
        let quotas = self.quotas.iter().map(Source::checked).collect::<Result<_, _>>()?;
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
            .redirect_auth_headers(ureq::config::RedirectAuthHeaders::SameHost)
            .timeout_resolve(Some(self.connect_timeout))
            .timeout_connect(Some(self.connect_timeout))
            .build();
        let connector =
            WireConnector { clock: Clock::system() }.chain(self.tls.connector()?).chain(Connected);
        let names = Names::new(origin.clone(), self.look_up, format!("{}-dns", sizing.partition));
        Ok(Client::new(Partition {
            agent: Agent::with_parts(config, connector, names),
            origin,
            prefix,
            headers,
            quotas,
            body_max: self.body_max,
            watch: Arc::new(Watch::new(format!("{}-streams", sizing.partition))),
        }))
    }
}

/// Names the headers and shows none of their values.
impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        let origin = Origin::parse(&self.base_url).map(|(origin, _)| origin);
        f.debug_struct("Http")
            .field("origin", &origin.as_ref().map(Origin::as_str))
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}
