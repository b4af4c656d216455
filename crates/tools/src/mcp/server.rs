//! Identity and state of a server, used to build its error messages.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use slipform_process::{COMMON_ENVIRONMENT, Running, output_tail};
use slipform_types::REDACTED;

use super::diagnostics::Diagnostics;
use crate::Error;

/// Time to wait for the exit of a program that closed its output. Most have exited already; after a timeout
/// the message lacks exit status and standard error.
const EXIT_WAIT_MAX: Duration = Duration::from_secs(2);

/// Maximum length of a server's text in a message. It may be an error page or a stack trace, whose start
/// names the cause.
const TEXT_CHARACTERS_MAX: usize = 2_000;

/// Minimum length of a secret that is redacted. Shorter values would match by chance.
const SECRET_BYTES_MIN: usize = 6;

/// A server, its process if it has one, and its secrets.
pub(crate) struct ServerHandle {
    name: String,
    pub(crate) diagnostics: Arc<Diagnostics>,
    /// The server's process, if it is a program. Dropping it kills the process.
    program: Option<Running>,
    /// Values that the server received and might repeat in its output.
    secrets: Vec<String>,
}

impl ServerHandle {
    fn new(
        name: &str,
        diagnostics: Arc<Diagnostics>,
        program: Option<Running>,
        secrets: impl Iterator<Item = String>,
    ) -> ServerHandle {
        let secrets = secrets.filter(|secret| secret.len() >= SECRET_BYTES_MIN).collect();
        ServerHandle { name: name.to_owned(), diagnostics, program, secrets }
    }

    /// Creates the handle of a program. All variables beyond the common ones count as secrets.
    pub(crate) fn for_program(
        name: &str,
        diagnostics: Arc<Diagnostics>,
        program: Running,
        environment: &[(String, String)],
    ) -> ServerHandle {
        let own = environment.iter().filter(|(variable, _)| !COMMON_ENVIRONMENT.contains(&variable.as_str()));
        let secrets = own.map(|(_, value)| value.clone());
        ServerHandle::new(name, diagnostics, Some(program), secrets)
    }

    /// Creates the handle of a remote server. The password and query values of its URL count as secrets.
    pub(crate) fn for_url(name: &str, diagnostics: Arc<Diagnostics>, url: &Url) -> ServerHandle {
        let values = url.query_pairs().map(|(_, value)| value.into_owned());
        let secrets = values.chain(url.password().map(str::to_owned));
        ServerHandle::new(name, diagnostics, None, secrets)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns an error of this server. `reason` completes a sentence that begins with its name.
    pub(crate) fn error(&self, reason: &str) -> Error {
        Error::Server { server: self.name.clone(), reason: self.redacted(reason) }
    }

    /// Returns a text of the server with secrets redacted, shortened if it is long.
    pub(crate) fn redacted(&self, text: &str) -> String {
        let text = text.trim();
        let text = self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, REDACTED));
        match text.char_indices().nth(TEXT_CHARACTERS_MAX) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }

    /// Returns the error for a closed connection, with exit status and standard error if known.
    pub(crate) async fn connection_lost(&self, during: &str) -> Error {
        let Some(program) = &self.program else {
            return self.error(&format!("broke off the connection {during}"));
        };
        let status = tokio::time::timeout(EXIT_WAIT_MAX, program.ended()).await.ok().flatten();
        let ended = match status {
            Some(status) => format!("ended ({status}) {during}"),
            None => format!("closed its standard output {during}"),
        };
        self.error(&format!("{ended}{}{}", self.stderr_note(), self.stray_output_note()))
    }

    /// Returns the error for a request that timed out.
    pub(crate) fn timed_out(&self, during: &str, limit: Duration) -> Error {
        let seconds = limit.as_secs_f64();
        let reason = format!(
            "did not answer within {seconds} s {during}{}{}",
            self.stderr_note(),
            self.stray_output_note()
        );
        self.error(&reason)
    }

    fn stderr_note(&self) -> String {
        let words = self.program.as_ref().map(|program| output_tail(&program.stderr())).unwrap_or_default();
        if words.is_empty() { words } else { format!(": {words}") }
    }

    fn stray_output_note(&self) -> String {
        match self.diagnostics.first_stray_output() {
            Some(output) => {
                format!(" (its standard output, which is for MCP alone, has: {output})")
            }
            None => String::new(),
        }
    }
}
