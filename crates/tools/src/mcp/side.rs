//! The other side: what is known of a server when something goes wrong with it.

use std::sync::Arc;
use std::time::Duration;

use formwork_process::{COMMON_ENVIRONMENT, Running, last_words};

use super::heard::Heard;
use crate::Error;

/// How long to wait for the end of a program that has closed its output. It is mostly gone already; how it ended and what
/// it said last is then missing from the message.
const END_WAIT_MAX: Duration = Duration::from_secs(2);

/// Shorter values are not looked for in texts: they would be found by chance.
const SECRET_BYTES_MIN: usize = 6;

/// A server as far as its errors are concerned.
pub(crate) struct Side {
    server: String,
    pub(crate) heard: Arc<Heard>,
    /// The server itself, where it is a program: it lives as long as this does.
    program: Option<Running>,
    /// Values of the variables that it was given, which it might repeat in its complaints.
    secrets: Vec<String>,
}

impl Side {
    pub(crate) fn new(
        server: &str,
        heard: Arc<Heard>,
        program: Option<Running>,
        environment: &[(String, String)],
    ) -> Side {
        let secrets = environment
            .iter()
            .filter(|(name, value)| {
                !COMMON_ENVIRONMENT.contains(&name.as_str()) && value.len() >= SECRET_BYTES_MIN
            })
            .map(|(_, value)| value.clone())
            .collect();
        Side { server: server.to_owned(), heard, program, secrets }
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// An error of this server.
    pub(crate) fn error(&self, reason: &str) -> Error {
        Error::Server { server: self.server.clone(), reason: self.redacted(reason.to_owned()) }
    }

    /// A text of the server's own without the values that it was given to keep.
    pub(crate) fn redacted(&self, text: String) -> String {
        self.secrets.iter().fold(text, |text, secret| text.replace(secret, "[redacted]"))
    }

    /// The connection is gone.
    pub(crate) async fn lost(&self, during: &str) -> Error {
        let Some(program) = &self.program else {
            return self.error(&format!("broke off the connection {during}"));
        };
        let status = tokio::time::timeout(END_WAIT_MAX, program.ended()).await.ok().flatten();
        let ended = match status {
            Some(status) => format!("ended ({status}) {during}"),
            None => format!("closed its standard output {during}"),
        };
        self.error(&format!("{ended}{}{}", self.complaints(), self.noise()))
    }

    /// It does not answer.
    pub(crate) fn silent(&self, during: &str, limit: Duration) -> Error {
        let seconds = limit.as_secs_f64();
        let reason =
            format!("did not answer within {seconds} s {during}{}{}", self.complaints(), self.noise());
        self.error(&reason)
    }

    fn complaints(&self) -> String {
        let words = self.program.as_ref().map(|program| last_words(&program.stderr())).unwrap_or_default();
        if words.is_empty() { words } else { format!(": {words}") }
    }

    fn noise(&self) -> String {
        match self.heard.first_noise() {
            Some(noise) => {
                format!(" (its standard output, which is for MCP alone, has: {noise})")
            }
            None => String::new(),
        }
    }
}
