//! The peer of the PostgreSQL store: pgbench with the store's statements, on a private server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::work::Bodies;

/// The statements of a run, one transaction per request.
const SCRIPT: &str = include_str!("../pgbench.sql");

/// The versions to look for in Debian's folder, newest first.
const VERSIONS: [&str; 5] = ["18", "17", "16", "15", "14"];

/// A PostgreSQL server in a separate folder, with durable commits. Dropping it stops the server.
pub(crate) struct PrivateServer {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
}

impl PrivateServer {
    /// Starts a server in a new folder; `None` if PostgreSQL is not installed.
    pub(crate) fn start(folder: &Path) -> Result<Option<PrivateServer>> {
        let programs = VERSIONS.map(|version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin")));
        let Some(programs) = programs.into_iter().find(|folder| folder.join("initdb").is_file()) else {
            return Ok(None);
        };
        fs::create_dir_all(folder)?;
        if is_root()? {
            // The server refuses to run as root.
            run(Command::new("chown").arg("postgres").arg(folder))?;
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = PrivateServer { programs, folder: folder.to_owned(), port };
        let data = server.folder.join("data");
        server
            .run(&format!("initdb --pgdata {} --auth trust --username slipform --no-sync", data.display()))?;
        server.run(&format!(
            "pg_ctl --pgdata {} --wait --log {} --options \"-p {port} -k {} -c listen_addresses=127.0.0.1 -c max_connections=200\" start",
            data.display(),
            server.folder.join("log").display(),
            server.folder.display(),
        ))?;
        Ok(Some(server))
    }

    /// Creates a database and returns its URL.
    pub(crate) fn create_database(&self, name: &str) -> Result<String> {
        self.run(&format!("createdb --host 127.0.0.1 --port {} --username slipform {name}", self.port))?;
        Ok(format!("postgres://slipform@127.0.0.1:{}/{name}", self.port))
    }

    /// Returns the runs per second of the unbatched script with `clients` clients. The database must have the store's
    /// tables and a run.
    pub(crate) fn pgbench(&self, database: &str, clients: usize, runs: usize) -> Result<f64> {
        let script = self.folder.join("run.sql");
        fs::write(&script, SCRIPT)?;
        let bodies = Bodies::new();
        let mut bench = Command::new(self.programs.join("pgbench"));
        bench.args(["--no-vacuum", "--protocol=prepared", "--host", "127.0.0.1", "--username", "slipform"]);
        bench.args(["--port", &self.port.to_string(), "--client", &clients.to_string(), "--jobs", "1"]);
        bench.args(["--transactions", &(runs / clients).max(1).to_string()]);
        bench.arg("--file").arg(&script);
        for (number, body) in bodies.appends.iter().chain(&bodies.finish).enumerate() {
            bench.arg(format!("--define=body{number}={body}"));
        }
        let start = self.query(database, "SELECT body FROM events WHERE seq = 1 LIMIT 1")?;
        bench.arg(format!("--define=start={start}")).arg(database);
        let output = bench.output().context("starting pgbench")?;
        let (report, log) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let rate =
            report.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        if !output.status.success() || log.contains("aborted") {
            bail!("pgbench failed: {report}\n{log}");
        }
        rate.with_context(|| format!("no rate in the output of pgbench: {report}"))
    }

    /// Returns the only column of the only row.
    pub(crate) fn query(&self, database: &str, sql: &str) -> Result<String> {
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["--host", "127.0.0.1", "--username", "slipform", "--port", &self.port.to_string()]);
        let output = command.args(["--no-align", "--tuples-only", "--command", sql, database]).output()?;
        if !output.status.success() {
            bail!("psql failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// Runs one of the server's programs as an unprivileged account.
    fn run(&self, line: &str) -> Result<()> {
        let line = format!("cd {} && {}/{line}", self.folder.display(), self.programs.display());
        if is_root()? {
            run(Command::new("su").args(["postgres", "-c", &line]))
        } else {
            run(Command::new("sh").args(["-c", &line]))
        }
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        let data = self.folder.join("data");
        let _ = self.run(&format!("pg_ctl --pgdata {} --mode immediate stop", data.display()));
    }
}

fn is_root() -> Result<bool> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).context("no Uid")?;
    Ok(line.split_whitespace().nth(1) == Some("0"))
}

fn run(command: &mut Command) -> Result<()> {
    // The server that pg_ctl starts inherits its streams, so a pipe would never close.
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if !status.success() {
        bail!("{command:?} failed");
    }
    Ok(())
}
