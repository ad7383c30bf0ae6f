//! TLS to PostgreSQL: what each `sslmode` checks, and that calls end over it as they do without.
#![cfg(all(feature = "postgres", target_os = "linux"))]

#[path = "support/flight.rs"]
#[expect(dead_code, reason = "other tests do more with calls in flight")]
mod flight;
#[path = "support/postgres.rs"]
#[expect(dead_code, reason = "other tests look at more of their server")]
mod server;
#[path = "support/sql.rs"]
mod sql;

use std::path::PathBuf;
use std::sync::Arc;

use flight::{Bench, InFlight, LIMIT, Stopped, alone, napping, server_is_idle};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use server::Cluster;
use sql::{AMPLE, call, sizing};
use watertight::driver::postgres::Postgres;
use watertight::driver::sql::Query;
use watertight::outcome::{Executed, Failure, FailureReason};

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// A server with a certificate for 127.0.0.1, and the files of its clients.
struct Secured {
    cluster: Cluster,
    root: PathBuf,
    stranger: PathBuf,
    client: (PathBuf, PathBuf),
}

const TLS: [&str; 4] =
    ["ssl=on", "ssl_cert_file=server.pem", "ssl_key_file=server.key", "ssl_ca_file=root.pem"];

impl Secured {
    /// Issued to `name`.
    fn start(name: &str) -> Secured {
        let mut cluster = Cluster::start(&[]);
        let (root, stranger) = (issuer(), issuer());
        let (certificate, key) = issued(&root, name);
        cluster.put("server.pem", &certificate);
        cluster.put("server.key", &key);
        let (certificate, key) = issued(&root, "postgres");
        let client = (cluster.put("client.pem", &certificate), cluster.put("client.key", &key));
        let stranger = cluster.put("stranger.pem", &stranger.pem());
        let root = cluster.put("root.pem", &root.pem());
        cluster.restart_with(&TLS);
        Secured { cluster, root, stranger, client }
    }

    /// Whether the connection of a call with these options is encrypted.
    fn encrypted(&self, options: &str) -> Result<bool, Failure> {
        let url = format!("{}?{options}", self.cluster.url());
        let db = Postgres::new(url).open(&sizing(1)).expect("the options are right");
        let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
        let rows = call(&db.tool(Query::new(sql)).unwrap(), &json!({}))?;
        Ok(rows == json!([{"ssl": true}]))
    }

    fn refused(&self, options: &str) -> String {
        let failure = self.encrypted(options).expect_err(options);
        assert_eq!((failure.reason, failure.executed), (FailureReason::Connect, Executed::No));
        failure.message
    }
}

fn issuer() -> Issuer {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn issued(issuer: &Issuer, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.signed_by(&key, issuer).unwrap();
    (certificate.pem(), key.serialize_pem())
}

#[test]
fn each_mode_checks_what_it_says() {
    let _alone = alone();
    let mut secured = Secured::start("127.0.0.1");
    let (root, stranger) = (secured.root.display(), secured.stranger.display());
    let (with_root, with_stranger) =
        (format!("sslrootcert={root}"), format!("sslrootcert={stranger}"));
    assert!(secured.encrypted("").unwrap(), "preferred, if the server can");
    assert!(secured.encrypted("sslmode=prefer").unwrap());
    assert!(!secured.encrypted("sslmode=disable").unwrap());
    assert!(secured.encrypted("sslmode=require").unwrap());
    for mode in ["verify-ca", "verify-full"] {
        assert!(secured.encrypted(&format!("sslmode={mode}&{with_root}")).unwrap());
        let message = secured.refused(&format!("sslmode={mode}&{with_stranger}"));
        assert!(message.contains("certificate"), "{message}");
        secured.refused(&format!("sslmode={mode}"));
    }

    secured.cluster.restart_with(&["ssl=off"]);
    assert!(!secured.encrypted("").unwrap());
    for mode in ["require", "verify-full"] {
        let message = secured.refused(&format!("sslmode={mode}"));
        assert!(message.contains("does not support TLS"), "{message}");
    }
}

#[test]
fn a_certificate_of_another_host_passes_for_its_issuer_only() {
    let _alone = alone();
    let secured = Secured::start("db.example");
    let root = format!("sslrootcert={}", secured.root.display());
    assert!(secured.encrypted(&format!("sslmode=verify-ca&{root}")).unwrap());
    let message = secured.refused(&format!("sslmode=verify-full&{root}"));
    assert!(message.contains("not valid for name"), "{message}");
}

#[test]
fn a_client_shows_its_certificate() {
    let _alone = alone();
    let mut secured = Secured::start("127.0.0.1");
    secured.cluster.put("pg_hba.conf", "hostssl all all 127.0.0.1/32 cert\n");
    secured.cluster.restart_with(&TLS);
    secured.refused("sslmode=require");
    let (certificate, key) = &secured.client;
    let own = format!("sslcert={}&sslkey={}", certificate.display(), key.display());
    assert!(secured.encrypted(&format!("sslmode=require&{own}")).unwrap());
}

#[test]
fn calls_end_over_tls_as_they_do_without() {
    let alone = alone();
    let secured = Secured::start("127.0.0.1");
    let root = secured.root.display();
    let url = format!("{}?sslmode=verify-full&sslrootcert={root}", secured.cluster.url());
    let bench = Bench::on(Arc::new(secured.cluster), &url, AMPLE, alone);
    let mut outside = bench.cluster.client();
    for call in bench.in_flight(LIMIT) {
        assert_eq!(call.failure().0, FailureReason::Limit);
    }
    server_is_idle(&mut outside);
    let calls = bench.in_flight(LIMIT);
    let stopped: Vec<_> = napping(&mut outside).into_iter().map(Stopped::stop).collect();
    for call in calls {
        assert_eq!(call.failure().0, FailureReason::Limit);
    }
    drop(stopped);
    bench.works();

    let calls = bench.in_flight(LIMIT);
    let postmaster = Stopped::stop(bench.cluster.postmaster());
    for call in calls {
        assert_eq!(call.failure().0, FailureReason::Limit);
    }
    let (reason, executed, _) = InFlight::start(&bench.one, LIMIT).failure();
    assert_eq!((reason, executed), (FailureReason::Limit, Executed::No));
    drop(postmaster);
    bench.works();
    let rows: Value = call(&bench.one, &json!({})).unwrap();
    assert_eq!(rows, json!([{"one": 1}]));
}
