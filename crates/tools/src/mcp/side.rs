//! The other side: what is known of a server when something goes wrong with it.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use slipform_process::{COMMON_ENVIRONMENT, Running, last_words};
use slipform_types::REDACTED;

use super::heard::Heard;
use crate::Error;

/// How long to wait for the end of a program that has closed its output. It is mostly gone already; how it
/// ended and what it said last is then missing from the message.
const END_WAIT_MAX: Duration = Duration::from_secs(2);

/// How much is shown of what a server says, to a model as to a person: it may be an error page or a stack
/// trace, and the start of it says what happened.
const WORDS_CHARACTERS_MAX: usize = 2_000;

/// Shorter values are not looked for in texts: they would be found by chance.
const SECRET_BYTES_MIN: usize = 6;

/// A server as far as its errors are concerned.
pub(crate) struct Side {
    server: String,
    pub(crate) heard: Arc<Heard>,
    /// The server itself, where it is a program: it lives as long as this does.
    program: Option<Running>,
    /// What it was given to keep and might repeat in its complaints.
    secrets: Vec<String>,
}

impl Side {
    fn new(
        server: &str,
        heard: Arc<Heard>,
        program: Option<Running>,
        secrets: impl Iterator<Item = String>,
    ) -> Side {
        let secrets = secrets.filter(|secret| secret.len() >= SECRET_BYTES_MIN).collect();
        Side { server: server.to_owned(), heard, program, secrets }
    }

    /// A server that is a program, with the variables it sees.
    pub(crate) fn of_program(
        server: &str,
        heard: Arc<Heard>,
        program: Running,
        environment: &[(String, String)],
    ) -> Side {
        let own = environment.iter().filter(|(name, _)| !COMMON_ENVIRONMENT.contains(&name.as_str()));
        let secrets = own.map(|(_, value)| value.clone());
        Side::new(server, heard, Some(program), secrets)
    }

    /// A server elsewhere, whose address may hold keys.
    pub(crate) fn of_address(server: &str, heard: Arc<Heard>, url: &Url) -> Side {
        let values = url.query_pairs().map(|(_, value)| value.into_owned());
        let secrets = values.chain(url.password().map(str::to_owned));
        Side::new(server, heard, None, secrets)
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// An error of this server.
    pub(crate) fn error(&self, reason: &str) -> Error {
        Error::Server { server: self.server.clone(), reason: self.words(reason) }
    }

    /// A server's own words: without what it was given to keep, and not all of them if they are many.
    pub(crate) fn words(&self, text: &str) -> String {
        let said = text.trim();
        let text = self.secrets.iter().fold(said.to_owned(), |text, secret| text.replace(secret, REDACTED));
        match text.char_indices().nth(WORDS_CHARACTERS_MAX) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
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
