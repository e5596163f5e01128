//! A PostgreSQL server of the tests' own: from the distribution's binaries, in a temporary folder, on a free loopback port.
//!
//! PostgreSQL refuses to run as root; then it runs as the user `postgres` or `nobody`. One server is shared by the tests of a
//! process and ends with it; a test that stops its server starts one of its own.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Ends the server at a line on standard input, or when whoever writes there has ended; then its folder ($0) goes too.
const WATCH: &str = r#"
"$@" & server=$!
read -r line
kill -QUIT $server
wait $server
[ "$line" = stop ] || rm -rf "$0"
"#;

pub(crate) struct Server {
    binaries: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
    /// User and group of the server's files.
    pub(crate) user: Option<(u32, u32)>,
    process: parking_lot::Mutex<Option<Child>>,
    databases: AtomicU32,
}

/// The server that tests share. `None` where this machine has no PostgreSQL.
pub(crate) fn shared() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    SERVER.get_or_init(Server::start).as_ref()
}

impl Server {
    /// Makes a cluster and starts it.
    pub(crate) fn start() -> Option<Self> {
        Self::start_as(&|_| {})
    }

    /// `prepare`: what is done to the cluster before it starts.
    pub(crate) fn start_as(prepare: &dyn Fn(&Self)) -> Option<Self> {
        let Some(binaries) = binaries() else {
            assert!(std::env::var_os("CI").is_none(), "CI installs PostgreSQL (.ci/run)");
            eprintln!("SKIPPED on PostgreSQL: no initdb in /usr/lib/postgresql/*/bin or PATH");
            return None;
        };
        let user = rustix::process::geteuid().is_root().then(unprivileged_user);
        let folder = tempfile::tempdir().unwrap();
        if let Some((user, group)) = user {
            std::os::unix::fs::chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = parking_lot::Mutex::new(None);
        let server = Self { binaries, folder, port, user, process, databases: AtomicU32::new(0) };
        let mut initdb = server.command(&server.binaries.join("initdb"));
        initdb.args(["--auth=trust", "--username=turnpike", "--encoding=UTF8", "--no-sync", "-D"]);
        let made = initdb.arg(server.data()).output().unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        prepare(&server);
        server.run();
        Some(server)
    }

    /// The cluster's folder.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A program, run by the server's user.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // libpq looks for certificates in a home directory, which must be one that this user can read.
        command.current_dir(self.folder.path()).env("HOME", self.folder.path()).stdin(Stdio::null());
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }

    /// Starts the server and waits until it accepts connections.
    pub(crate) fn run(&self) {
        let mut postgres = self.command(Path::new("/bin/sh"));
        postgres.args(["-c", WATCH]).arg(self.folder.path());
        postgres.arg(self.binaries.join("postgres")).arg("-D").arg(self.data());
        postgres.arg("-k").arg(self.folder.path()).args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        for setting in ["fsync=off", "max_connections=200", "log_min_messages=fatal"] {
            postgres.args(["-c", setting]);
        }
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        postgres.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        *self.process.lock() = Some(postgres.spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.sql("postgres", "SELECT 1") {
            assert!(Instant::now() < deadline, "PostgreSQL does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills the server as a crash would.
    pub(crate) fn kill(&self) {
        if let Some(mut process) = self.process.lock().take() {
            process.stdin.take().unwrap().write_all(b"stop\n").unwrap();
            process.wait().unwrap();
        }
    }

    pub(crate) fn sql(&self, database: &str, text: &str) -> bool {
        let port = self.port.to_string();
        let mut psql = self.command(&self.binaries.join("psql"));
        psql.args(["-q", "-h", "127.0.0.1", "-p", &port, "-U", "turnpike", "-d", database, "-c", text]);
        psql.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    }

    /// The URL of a new, empty database.
    pub(crate) fn new_database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        assert!(self.sql("postgres", &format!("CREATE DATABASE {name}")), "no database {name}");
        format!("postgres://turnpike@127.0.0.1:{}/{name}?sslmode=disable", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The folder of `initdb` and `postgres`: the newest of the distribution's, or in PATH.
fn binaries() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    folders.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    folders.splice(0..0, std::env::split_paths(&path));
    folders.into_iter().rev().find(|folder| folder.join("initdb").exists() && folder.join("psql").exists())
}

/// User and group that PostgreSQL runs as when the tests run as root.
fn unprivileged_user() -> (u32, u32) {
    let users = std::fs::read_to_string(Path::new("/etc/passwd")).unwrap();
    let ids = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    ids("postgres").or_else(|| ids("nobody")).unwrap()
}
