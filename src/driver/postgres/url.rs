//! A URL, read into what a connect needs. Nothing of it is ever shown: it may hold a password.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use postgres::Config;
use postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::tls::{self, Check, Files};
use crate::driver::Sizing;
use crate::driver::sql::BuildError;

/// A TCP connect takes no longer unless `connect_timeout` says otherwise, and never longer than
/// what is left of its call.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where and how to connect.
pub(super) struct Target {
    pub(super) endpoints: Vec<Endpoint>,
    /// Everything but the hosts.
    pub(super) config: Config,
    pub(super) connect_timeout: Duration,
    pub(super) user_timeout: Option<Duration>,
    /// What the server allows each statement.
    pub(super) statement_timeout: Duration,
    pub(super) tls: MakeRustlsConnect,
}

/// One server of those that a URL lists; they are tried in order.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) host: Host,
    pub(super) address: Option<IpAddr>,
    pub(super) port: u16,
}

impl Target {
    pub(super) fn parse(url: &str, sizing: &Sizing) -> Result<Target, BuildError> {
        let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
        let (rest, options) = split_options(url);
        let (ours, theirs) = options.ok_or_else(not_a_url)?;
        let url =
            if theirs.is_empty() { rest.into() } else { format!("{rest}?{}", theirs.join("&")) };
        let mut config: Config = url.parse().map_err(|_| not_a_url())?;
        let endpoints = endpoints(&config)?;
        if !is_url || endpoints.is_empty() {
            return Err(not_a_url());
        }
        let mode = ours.mode.as_deref().unwrap_or("prefer");
        let (mode, check) = ssl_mode(mode)?;
        if ours.files.root.is_some() && check == Check::Nothing {
            let rule = "is looked at only with `sslmode=verify-ca` or `sslmode=verify-full`";
            return Err(BuildError::new("sslrootcert", rule));
        }
        let tls = tls::connector(check, &ours.files)?;
        config.ssl_mode(mode);
        if config.get_application_name().is_none() {
            config.application_name(&format!("watertight/{}", sizing.partition));
        }
        Ok(Target {
            endpoints,
            connect_timeout: config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT),
            user_timeout: config.get_tcp_user_timeout().copied(),
            statement_timeout: sizing.run_limit,
            config: without_hosts(&config),
            tls,
        })
    }
}

fn not_a_url() -> BuildError {
    let rule = "is no PostgreSQL URL; it is \
                `postgres://user:password@host:5432/database?option=value`, with the options of \
                libpq, and with other characters in it percent-encoded";
    BuildError::new("url", rule)
}

/// The options that are ours to act on.
#[derive(Default)]
struct TlsOptions {
    mode: Option<String>,
    files: Files,
}

/// The URL without its options, ours, and those for the client library; `None` if one is neither.
fn split_options(url: &str) -> (&str, Option<(TlsOptions, Vec<&str>)>) {
    let credentials = url.find('@').unwrap_or(0);
    let Some(at) = url[credentials..].find('?').map(|at| credentials + at) else {
        return (url, Some((TlsOptions::default(), Vec::new())));
    };
    let (mut ours, mut theirs) = (TlsOptions::default(), Vec::new());
    for option in url[at + 1..].split('&').filter(|option| !option.is_empty()) {
        let Some((key, value)) = option.split_once('=') else {
            return (url, None);
        };
        let Ok(value) = percent_decode_str(value).decode_utf8() else {
            return (url, None);
        };
        match key {
            "sslmode" => ours.mode = Some(value.into_owned()),
            "sslrootcert" => ours.files.root = Some(PathBuf::from(&*value)),
            "sslcert" => ours.files.certificate = Some(PathBuf::from(&*value)),
            "sslkey" => ours.files.key = Some(PathBuf::from(&*value)),
            _ => theirs.push(option),
        }
    }
    (&url[..at], Some((ours, theirs)))
}

fn ssl_mode(mode: &str) -> Result<(SslMode, Check), BuildError> {
    Ok(match mode {
        "disable" => (SslMode::Disable, Check::Nothing),
        "prefer" => (SslMode::Prefer, Check::Nothing),
        "require" => (SslMode::Require, Check::Nothing),
        "verify-ca" => (SslMode::Require, Check::Issuer),
        "verify-full" => (SslMode::Require, Check::Full),
        _ => {
            let rule = "is one of `disable`, `prefer`, `require`, `verify-ca` and `verify-full`";
            return Err(BuildError::new("sslmode", rule));
        }
    })
}

fn endpoints(config: &Config) -> Result<Vec<Endpoint>, BuildError> {
    let (hosts, addresses, ports) =
        (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let count = hosts.len().max(addresses.len());
    let fits = |given: usize| given <= 1 || given == count;
    if !fits(ports.len())
        || (!hosts.is_empty() && !addresses.is_empty() && hosts.len() != addresses.len())
    {
        return Err(BuildError::new(
            "url",
            "lists hosts, addresses and ports of different numbers",
        ));
    }
    let at = |index: usize| {
        let address = addresses.get(index).copied();
        let host = hosts.get(index).cloned();
        Some(Endpoint {
            host: host.or(address.map(|address| Host::Tcp(address.to_string())))?,
            address,
            port: ports.get(index).or(ports.first()).copied().unwrap_or(5432),
        })
    };
    Ok((0..count).filter_map(at).collect())
}

/// A connect is to one address at a time, so that each can be ended.
fn without_hosts(config: &Config) -> Config {
    let mut bare = Config::new();
    if let Some(user) = config.get_user() {
        bare.user(user);
    }
    if let Some(password) = config.get_password() {
        bare.password(password);
    }
    if let Some(database) = config.get_dbname() {
        bare.dbname(database);
    }
    if let Some(options) = config.get_options() {
        bare.options(options);
    }
    if let Some(name) = config.get_application_name() {
        bare.application_name(name);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        bare.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        bare.keepalives_retries(retries);
    }
    bare.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .channel_binding(config.get_channel_binding())
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .target_session_attrs(config.get_target_session_attrs())
        // The client's own handler writes what the server says to the log.
        .notice_callback(|_| ());
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Target, BuildError> {
        let run_limit = Duration::from_secs(1);
        Target::parse(url, &Sizing { partition: "tickets".into(), connections: 1, run_limit })
    }

    #[test]
    fn a_url_lists_its_servers_and_options() {
        let url = "postgres://u:p%40w@a.example:6000,10.0.0.2/db?connect_timeout=2\
                   &tcp_user_timeout=30&sslmode=require&application_name=x";
        let target = target(url).unwrap();
        let ports: Vec<_> = target.endpoints.iter().map(|endpoint| endpoint.port).collect();
        assert_eq!(ports, [6000, 5432]);
        assert_eq!(target.endpoints[0].host, Host::Tcp("a.example".into()));
        assert_eq!(target.connect_timeout, Duration::from_secs(2));
        assert_eq!(target.user_timeout, Some(Duration::from_secs(30)));
        assert_eq!(target.config.get_password(), Some(&b"p@w"[..]));
        assert_eq!(target.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(target.config.get_application_name(), Some("x"));
        assert!(target.config.get_hosts().is_empty());
    }

    #[test]
    fn a_question_mark_in_the_password_is_no_option() {
        let target = target("postgres://u:what?sslmode=no@h/db").unwrap();
        assert_eq!(target.config.get_password(), Some(&b"what?sslmode=no"[..]));
        assert_eq!(target.connect_timeout, CONNECT_TIMEOUT);
        assert_eq!(target.config.get_application_name(), Some("watertight/tickets"));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_url() {
        for (url, key) in [
            ("postgres://u:hunter2@h:port/db", "url"),
            ("postgres://u:hunter2@h/db?hunter2=1", "url"),
            ("postgres://u:hunter2@h/db?hunter2", "url"),
            ("postgres://u:hunter2@/db", "url"),
            ("host=h password=hunter2", "url"),
            ("postgres://u:hunter2@h/db?sslmode=hunter2", "sslmode"),
            ("postgres://u:hunter2@h/db?sslrootcert=/none", "sslrootcert"),
            ("postgres://u:hunter2@h/db?sslmode=verify-full&sslrootcert=/none", "sslrootcert"),
            ("postgres://u:hunter2@h/db?sslcert=/none", "sslcert"),
            ("postgres://u:hunter2@a,b/db?hostaddr=10.0.0.1", "url"),
        ] {
            let Err(error) = target(url) else { panic!("{url} is taken") };
            assert_eq!(error.key(), key, "{url}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
