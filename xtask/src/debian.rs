//! Installs Debian packages.

use std::process::Command;

use anyhow::{Result, bail};

use crate::shell::{self, command, exists};

/// Installs packages with apt-get. `what` names them for people.
pub(crate) fn install(what: &str, packages: &[&str]) -> Result<()> {
    if !exists("apt-get") {
        bail!("{what} not found; install it with your package manager");
    }
    let prefix: &[&str] = if is_root() { &[] } else { &["sudo"] };
    let run = |name: &str, arguments: &[&str]| {
        let invocation: Vec<&str> = prefix.iter().copied().chain(arguments.iter().copied()).collect();
        shell::run(name, command(invocation[0], &invocation[1..]).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    run("updating package lists", &["apt-get", "update", "-qq"])?;
    let install = ["apt-get", "install", "-qq", "-y", "--no-install-recommends"];
    run(&format!("installing {what}"), &[install.as_slice(), packages].concat())
}

/// Returns whether the commands run as root.
pub(crate) fn is_root() -> bool {
    let user = Command::new("id").arg("-u").output();
    user.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
