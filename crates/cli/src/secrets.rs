//! Redacts the keys and tokens of this process from its output and logs.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use slipform_model::BackendConfig;
use slipform_runner::{Secrets, is_secret_variable};
use tracing_subscriber::fmt::MakeWriter;

use crate::backends::environment;

/// The secrets to redact, set by [`install`].
static KNOWN: RwLock<Option<Secrets>> = RwLock::new(None);

/// Collects the secrets of this process: variables with secret-like names, and the key variables of backends.
pub(crate) fn collect(backends: &BTreeMap<String, BackendConfig>) -> Secrets {
    let named = backends.values().flat_map(|backend| {
        let listed = backend.env.iter().filter_map(|name| Some((name.clone(), environment(name)?)));
        let listed = listed.filter(|(name, value)| is_secret_variable(name, value)).map(|(_, value)| value);
        let key = backend.api_key_env.as_deref().and_then(environment);
        listed.chain(key).collect::<Vec<_>>()
    });
    Secrets::new(from_environment().chain(named))
}

/// Returns the values of variables with secret-like names, except existing paths such as that of `SSH_AUTH_SOCK`.
fn from_environment() -> impl Iterator<Item = String> {
    let secret = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        let is_secret = is_secret_variable(&name, &value) && !is_plain(&value) && !Path::new(&value).exists();
        is_secret.then_some(value)
    });
    secret.collect::<Vec<_>>().into_iter()
}

/// Returns whether a value consists of plain words, as in `PRIMARY_KEY=customer_number`. Redacting a plain word would
/// remove it from every output.
fn is_plain(value: &str) -> bool {
    value
        .chars()
        .all(|character| character.is_ascii_lowercase() || matches!(character, '_' | '-' | ' ' | '.'))
}

/// Sets the secrets that this process redacts from now on.
pub(crate) fn install(secrets: Secrets) {
    *KNOWN.write().unwrap_or_else(PoisonError::into_inner) = Some(secrets);
}

/// Adds a secret, such as a token that this process created.
pub(crate) fn add(secret: String) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    *known = Some(known.clone().unwrap_or_default().with([secret]));
}

/// Returns the secrets that this process redacts.
pub(crate) fn known() -> Secrets {
    KNOWN.read().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
}

/// Returns a JSON value with its secrets redacted.
pub(crate) fn redact_json(value: serde_json::Value) -> serde_json::Value {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    match &*known {
        Some(secrets) => secrets.redact_json(value),
        None => value,
    }
}

/// Returns a text with its secrets redacted.
pub(crate) fn redact(text: String) -> String {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    match &*known {
        Some(secrets) => secrets.redact(text),
        None => text,
    }
}

/// Writes log lines to stderr with their secrets redacted. Each write is one whole line.
pub(crate) struct RedactedStderr;

impl Write for RedactedStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = redact(String::from_utf8_lossy(bytes).into_owned());
        io::stderr().lock().write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

impl MakeWriter<'_> for RedactedStderr {
    type Writer = RedactedStderr;

    fn make_writer(&self) -> RedactedStderr {
        RedactedStderr
    }
}
