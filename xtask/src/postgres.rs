//! A temporary PostgreSQL server for the tests.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::debian::{self, is_root};
use crate::shell::{self, command};

/// The folder in which Debian and its derivatives install the server's programs, outside the `PATH`.
const FOLDERS: &str = "/usr/lib/postgresql";

/// The words of the server's log about a port that is taken.
const ADDRESS_IN_USE: &str = "Address already in use";

/// How often a server is started on another port, if the first one is taken.
const STARTS_MAX: u32 = 5;

/// A server in a temporary folder. Dropping it stops the server and deletes the folder.
pub(crate) struct Server {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
}

impl Server {
    /// Starts a server. Installs PostgreSQL with apt-get if it is missing.
    pub(crate) fn start() -> Result<Server> {
        let programs = match programs() {
            Some(programs) => programs,
            None => {
                debian::install("PostgreSQL", &["postgresql", "postgresql-contrib"])?;
                programs().context("initdb and pg_ctl not found after the installation of PostgreSQL")?
            }
        };
        let folder = std::env::temp_dir().join(format!("slipform-postgres-{}", std::process::id()));
        fs::create_dir_all(&folder).context("cannot create a folder for PostgreSQL")?;
        let mut server = Server { programs, folder, port: free_port()? };
        if is_root() {
            let mut chown = command("chown", &["postgres"]);
            shell::run("changing the owner of the folder to postgres", chown.arg(&server.folder))?;
        }
        let data = server.data();
        server.run(
            "initializing the database cluster",
            &format!("initdb --auth=trust --username=postgres --pgdata={data}"),
        )?;
        for _ in 1..STARTS_MAX {
            match server.start_process() {
                Err(_) if server.log_text().contains(ADDRESS_IN_USE) => server.port = free_port()?,
                started => return started.map(|()| server),
            }
        }
        server.start_process().map(|()| server)
    }

    fn start_process(&self) -> Result<()> {
        let options = format!(
            "-p {} -k {} -c listen_addresses=127.0.0.1 -c max_connections=300",
            self.port,
            self.folder.display()
        );
        self.run(
            "starting PostgreSQL",
            &format!(
                "pg_ctl start --wait --silent --pgdata={} --log={} --options=\"{options}\"",
                self.data(),
                self.log().display()
            ),
        )
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn log_text(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Returns the URL of the server's default database.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns the folder with the server's programs.
    pub(crate) fn programs(&self) -> &Path {
        &self.programs
    }

    fn data(&self) -> String {
        self.folder.join("data").display().to_string()
    }

    fn run(&self, name: &str, line: &str) -> Result<()> {
        shell::run(name, &mut self.command(line))
    }

    /// Prepares one of the server's programs. PostgreSQL refuses to run as root, so root runs it as `postgres`.
    fn command(&self, line: &str) -> Command {
        let line = format!("{}/{line}", self.programs.display());
        let mut command = if is_root() {
            command("su", &["postgres", "-s", "/bin/sh", "-c", &line])
        } else {
            command("sh", &["-c", &line])
        };
        command.current_dir(&self.folder);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let stop = format!("pg_ctl stop --silent --mode=immediate --pgdata={}", self.data());
        let _ = self.command(&stop).status();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns a port that no server uses now. A connection may take it before the database does.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr())?.port())
}

/// Returns the folder with the newest server's programs, if PostgreSQL is installed.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir(FOLDERS).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    folders.sort();
    folders.reverse();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&paths));
    folders.into_iter().find(|folder| folder.join("initdb").exists() && folder.join("pg_ctl").exists())
}
