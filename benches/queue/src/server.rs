//! The measured server: `slipform serve` in a separate process.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::work::AGENT;

/// A running server. Dropping it terminates the process.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts the server in a project folder on a database.
    pub(crate) fn start(program: &Path, project: &Path, database: &str) -> Result<Server> {
        fs::create_dir_all(project.join("agents"))?;
        fs::write(project.join("agents/reviewer.yaml"), AGENT)?;
        let mut child = Command::new(program)
            .args(["serve", "--no-runner", "--listen", "127.0.0.1:0", "--db", database])
            .current_dir(project)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let mut lines = BufReader::new(child.stderr.take().context("no stderr")?).lines();
        let mut last_line = String::new();
        let address = loop {
            let Some(line) = lines.next() else { bail!("the server did not start: {last_line}") };
            last_line = line?;
            if let Some((_, rest)) = last_line.split_once("listening on http://") {
                break rest.split(' ').next().unwrap_or(rest).parse()?;
            }
        };
        // An unread pipe would fill up and block the server.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Server { child, address })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the resident memory of the server in MiB.
    pub(crate) fn memory_mib(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib / 1_024.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGTERM lets the server close its database.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// Returns the CPU time that a process has used, in seconds.
pub(crate) fn cpu_seconds(process: &str) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').context("no name in stat")?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut next = || fields.next().and_then(|field| field.parse::<f64>().ok()).context("no times in stat");
    // Linux reports these times in hundredths of a second on all machines.
    Ok((next()? + next()?) / 100.0)
}
