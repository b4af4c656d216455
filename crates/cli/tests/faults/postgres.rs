//! A private PostgreSQL server that a test can crash and restart.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The account that runs the server, which refuses to run as root. It is also the database user.
const ACCOUNT: &str = "postgres";

/// The folder in which Debian installs the server's programs, one folder per version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The number of log lines about one deadlock.
const DEADLOCK_LINES: usize = 24;

/// A server in a temporary folder. Dropping it stops the server and deletes the folder.
pub(crate) struct Postgres {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
}

impl Postgres {
    /// Starts a server; `None`, with a printed notice, if PostgreSQL is not installed.
    pub(crate) fn start() -> Option<Postgres> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let Some(programs) = programs() else {
            println!(
                "SKIPPED: PostgreSQL not found; set SLIPFORM_TEST_POSTGRES_BIN to the folder of its programs"
            );
            return None;
        };
        let number = COUNT.fetch_add(1, Ordering::SeqCst);
        // The server's account may have no access to the target folder.
        let folder = std::env::temp_dir().join(format!("slipform-faults-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        if is_root() {
            run(Command::new("chown").arg(ACCOUNT).arg(&folder));
        }
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let server = Postgres { programs, folder, port };
        let mut init = server.program("initdb");
        run(init
            .args(["--username", ACCOUNT, "--auth", "trust", "--no-sync", "--pgdata"])
            .arg(server.data()));
        server.start_server();
        Some(server)
    }

    /// Starts the server process on the existing data.
    pub(crate) fn start_server(&self) {
        // Written data survives a process crash without fsync; only a machine crash would lose it.
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={} -c max_connections=200 -c fsync=off",
            self.port,
            self.folder.display()
        );
        let mut start = self.program("pg_ctl");
        start.arg("start").arg("--wait").arg("--pgdata").arg(self.data());
        run(start.arg("--log").arg(self.log()).args(["--options", &options]));
    }

    /// Stops the server like a crash: connections break, and the next start performs recovery.
    pub(crate) fn crash(&self) {
        let mut stop = self.program("pg_ctl");
        run(stop.args(["stop", "--mode", "immediate", "--wait", "--pgdata"]).arg(self.data()));
    }

    /// Creates a database and returns its URL.
    pub(crate) fn create_database(&self, name: &str) -> String {
        let name = name.replace('-', "_");
        self.query("postgres", &format!("CREATE DATABASE {name}"));
        format!("postgres://{ACCOUNT}@127.0.0.1:{}/{name}", self.port)
    }

    /// Runs a query and returns its rows, each with its columns as text.
    pub(crate) fn query(&self, database: &str, sql: &str) -> Vec<Vec<String>> {
        let database = database.rsplit('/').next().unwrap();
        let mut psql = self.program("psql");
        psql.args(["--host", "127.0.0.1", "--username", ACCOUNT, "--port", &self.port.to_string()]);
        psql.args([
            "--dbname",
            database,
            "--no-psqlrc",
            "--tuples-only",
            "--no-align",
            "--field-separator",
            "\t",
        ]);
        let output = run(psql.args(["--command", sql]));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    /// Returns the reports of deadlocks from the server's log.
    pub(crate) fn deadlocks(&self) -> Vec<String> {
        let log = fs::read(self.log()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let reports = log.split("deadlock detected").skip(1);
        reports.map(|text| text.lines().take(DEADLOCK_LINES).collect::<Vec<_>>().join("\n")).collect()
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Prepares one of the server's programs to run as an unprivileged account.
    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", ACCOUNT, "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(&self.folder);
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let mut stop = self.program("pg_ctl");
        let _ = stop.args(["stop", "--mode", "immediate", "--pgdata"]).arg(self.data()).output();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn programs() -> Option<PathBuf> {
    let named = std::env::var_os("SLIPFORM_TEST_POSTGRES_BIN").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = fs::read_dir(DEBIAN).into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let mut folders = named.into_iter().chain(std::env::split_paths(&path)).chain(debian);
    folders.find(|folder| ["initdb", "pg_ctl", "psql"].iter().all(|name| is_program(&folder.join(name))))
}

fn is_program(path: &Path) -> bool {
    path.is_file()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}{}", String::from_utf8_lossy(&output.stdout));
    output
}
