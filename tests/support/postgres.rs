//! A throw-away PostgreSQL server on a free loopback port.
//!
//! The server runs under a small shell whose standard input is a pipe from this process: when the
//! cluster is dropped, or this process dies in whatever way, the pipe closes and the shell stops
//! exactly the server that it started.

use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

/// A running server; it is stopped and its data removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Cluster {
    port: u16,
    extra: Vec<String>,
    bin: PathBuf,
    server: Option<Child>,
    dir: tempfile::TempDir,
}

/// Starts the server in its own process and stops it when standard input ends. `CONT` first, since
/// a stopped server cannot quit.
const KEEPER: &str = r#"
"$0" "$@" </dev/null >"$LOG" 2>&1 &
server=$!
read -r _
kill -CONT "$server" && kill -QUIT "$server"
wait "$server"
"#;

static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());

impl Cluster {
    /// The cluster that the tests of this binary share: started by the first who asks, stopped when
    /// the last one drops it.
    pub(crate) fn shared() -> Arc<Cluster> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cluster) = shared.upgrade() {
            return cluster;
        }
        let cluster = Arc::new(Cluster::start(&[]));
        *shared = Arc::downgrade(&cluster);
        cluster
    }

    /// A cluster of one's own, with `settings` such as `max_connections=5`.
    pub(crate) fn start(settings: &[&str]) -> Cluster {
        let bin = server_binaries();
        let dir = tempfile::Builder::new().prefix("watertight-pg-").tempdir().unwrap();
        give_to_postgres(dir.path(), 0o700);
        let mut cluster = Cluster {
            port: 0,
            extra: settings.iter().map(|s| (*s).to_owned()).collect(),
            bin,
            server: None,
            dir,
        };
        let output = as_postgres(&cluster.bin.join("initdb"))
            .args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8"])
            .args(["--locale=C", "--no-instructions", "--pgdata"])
            .arg(cluster.data())
            .output()
            .expect("initdb runs");
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        // Another process may take a free port before the server does: then the next one.
        let started = (0..5).any(|_| {
            cluster.port = free_port();
            cluster.launch()
        });
        assert!(started, "the server does not start:\n{}", cluster.log());
        cluster
    }

    /// Where it listens: always on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A URL of its database `postgres`.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// A plain connection, to look from outside.
    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.url(), NoTls).expect("the server accepts a connection")
    }

    /// Runs statements from outside.
    pub(crate) fn execute(&self, sql: &str) {
        self.client().batch_execute(sql).expect("the statement runs");
    }

    /// The server's own process.
    pub(crate) fn postmaster(&self) -> i32 {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).expect("it runs");
        file.lines().next().and_then(|pid| pid.parse().ok()).expect("a process id")
    }

    /// Where certificates may be put before a restart.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Puts a file that only the server may read into its data folder, whose path this gives.
    pub(crate) fn put(&self, name: &str, content: &str) -> PathBuf {
        let path = self.data().join(name);
        fs::write(&path, content).unwrap();
        give_to_postgres(&path, 0o600);
        path
    }

    /// Starts it again with other settings.
    pub(crate) fn restart_with(&mut self, settings: &[&str]) {
        self.extra = settings.iter().map(|s| (*s).to_owned()).collect();
        self.restart();
    }

    /// Stops the server at once, as a crash would, and waits until it is gone.
    pub(crate) fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            drop(server.stdin.take());
            server.wait().expect("the keeper is our child");
        }
    }

    /// Starts it again on the same port.
    pub(crate) fn restart(&mut self) {
        self.stop();
        assert!(self.launch(), "the server does not start again:\n{}", self.log());
    }

    /// What the server wrote.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn launch(&mut self) -> bool {
        let _ = fs::remove_file(self.dir.path().join("log"));
        let mut keeper = as_postgres(Path::new("/bin/sh"));
        keeper.args(["-c", KEEPER]).arg(self.bin.join("postgres"));
        keeper.arg("-D").arg(self.data());
        let port = format!("port={}", self.port);
        let fixed = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", &port];
        for setting in fixed.into_iter().chain(self.extra.iter().map(String::as_str)) {
            keeper.args(["-c", setting]);
        }
        keeper.env("LOG", self.dir.path().join("log")).stdin(Stdio::piped());
        keeper.stderr(Stdio::null());
        self.server = Some(keeper.spawn().expect("sh runs"));
        let ready = self.await_ready(Duration::from_secs(30));
        if !ready {
            self.stop();
        }
        ready
    }

    fn await_ready(&mut self, within: Duration) -> bool {
        let end = Instant::now() + within;
        let pid_file = self.data().join("postmaster.pid");
        while Instant::now() < end {
            let ready = fs::read_to_string(&pid_file)
                .is_ok_and(|text| text.lines().nth(7).is_some_and(|line| line.trim() == "ready"));
            if ready {
                return true;
            }
            if self.server.as_mut().is_some_and(|keeper| gone(keeper, &self.dir.path().join("log")))
            {
                return false;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The keeper waits for its input even if the server could not start; the server's log says so.
fn gone(keeper: &mut Child, log: &Path) -> bool {
    let mut text = String::new();
    let _ = fs::File::open(log).and_then(|mut file| file.read_to_string(&mut text));
    text.lines().last().is_some_and(|line| line.contains("database system is shut down"))
        || text.contains("could not create any TCP/IP sockets")
        || keeper.try_wait().is_ok_and(|status| status.is_some())
}

/// The newest server under the folder where Debian puts them, or the one in PATH.
fn server_binaries() -> PathBuf {
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<_> = debian
        .filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .filter(|(_, bin)| bin.join("initdb").exists() && bin.join("postgres").exists())
        .collect();
    versions.sort();
    let in_path = || {
        std::env::split_paths(&std::env::var_os("PATH")?)
            .find(|bin| bin.join("initdb").exists() && bin.join("postgres").exists())
    };
    versions.pop().map(|(_, bin)| bin).or_else(in_path).expect(
        "these tests need a PostgreSQL server (14 or newer) under /usr/lib/postgresql or in PATH: \
         install the Debian package `postgresql`",
    )
}

/// `program` as the user `postgres` if this process is root, which the server refuses to run as.
fn as_postgres(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(program);
    command.current_dir("/");
    command
}

fn give_to_postgres(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    if is_root() {
        let users = fs::read_to_string("/etc/passwd").unwrap();
        let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let user = fields.into_iter().find(|fields| fields[0] == "postgres").expect(
            "the PostgreSQL server does not run as root and there is no user `postgres`: install \
             the Debian package `postgresql`",
        );
        let (uid, gid) = (user[2].parse().unwrap(), user[3].parse().unwrap());
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).unwrap();
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").expect("/proc is mounted").uid() == 0
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}
