//! The link to the dashboard of a server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::{Command, Stdio};

use crate::output;

/// The link to a server's dashboard.
pub(crate) struct DashboardLink {
    url: String,
    /// The token that the server requires; `None` if it requires none.
    token: Option<String>,
}

/// Returns the link to the dashboard of a server.
pub(crate) fn link(scheme: &str, address: SocketAddr, token: Option<&str>) -> DashboardLink {
    // A browser cannot connect to an address that stands for all.
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let address = SocketAddr::new(ip, address.port());
    DashboardLink { url: format!("{scheme}://{address}/ui/"), token: token.map(str::to_owned) }
}

impl DashboardLink {
    /// Prints the link. The token is for a person at a terminal, not for log files.
    pub(crate) fn print(&self) {
        match &self.token {
            Some(token) if slipform_coordinator::has_dashboard() && output::is_terminal() => {
                output::secret_line(&format!("slipform: dashboard at {}#token={token}", self.url));
            }
            _ => output::lines([self.line()]),
        }
    }

    fn line(&self) -> String {
        let Self { url, token } = self;
        if !slipform_coordinator::has_dashboard() {
            return format!("slipform: {url} has no dashboard, because this binary was built without it");
        }
        match token {
            None => format!("slipform: dashboard at {url}"),
            Some(_) => format!(
                "slipform: dashboard at {url}; it asks for a token, such as the one in .slipform/admin.token"
            ),
        }
    }

    /// Opens the dashboard in the browser of this desktop, without the token: other users can read command lines.
    pub(crate) fn open(&self) {
        let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        let mut command = Command::new(program);
        command.arg(&self.url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(mut opened) => {
                std::thread::spawn(move || opened.wait());
            }
            Err(error) => output::lines([format!(
                "slipform: cannot open a browser with `{program}`: {error}; open {}",
                self.url
            )]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_names_an_address_that_browsers_reach() {
        let url = |address: &str| link("http", address.parse().unwrap(), None).url;
        assert_eq!(url("0.0.0.0:80"), "http://127.0.0.1:80/ui/");
        assert_eq!(url("[::]:8765"), "http://[::1]:8765/ui/");
        assert_eq!(url("10.0.0.7:8765"), "http://10.0.0.7:8765/ui/");
    }
}
