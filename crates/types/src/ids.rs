//! Ids of sessions and runs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// The number of hexadecimal digits after the prefix.
const DIGITS: usize = 12;

/// The most characters of an invalid id repeated in the message. Ids come from untrusted callers, and a
/// message must stay readable.
const QUOTED_CHARACTERS_MAX: usize = 40;

macro_rules! id {
    ($(#[$docs:meta])* $name:ident, $kind:literal, $prefix:literal) => {
        $(#[$docs])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Creates an id from six random bytes, which the caller provides.
            pub fn from_random(bytes: [u8; DIGITS / 2]) -> $name {
                $name(with_hex($prefix, &bytes))
            }

            /// Returns the id as text, with its prefix.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<$name, Error> {
                check(text, $kind, $prefix).map(|()| $name(text.to_owned()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;

            fn try_from(text: String) -> Result<$name, Error> {
                check(&text, $kind, $prefix).map(|()| $name(text))
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    };
}

id! {
    /// The id of a session, a conversation with an agent: `ses_` and twelve hexadecimal digits.
    SessionId, "session", "ses_"
}

id! {
    /// The id of a run, one request in a session: `run_` and twelve hexadecimal digits.
    RunId, "run", "run_"
}

/// Returns a prefix followed by bytes as hexadecimal digits, the format of ids and secrets.
pub fn with_hex(prefix: &str, bytes: &[u8]) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(prefix.len() + 2 * bytes.len());
    text.push_str(prefix);
    for byte in bytes {
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}

fn check(text: &str, kind: &'static str, prefix: &'static str) -> Result<(), Error> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match text.strip_prefix(prefix) {
        Some(digits) if digits.len() == DIGITS && digits.bytes().all(is_digit) => Ok(()),
        _ => Err(Error::Id { kind, prefix, text: text.chars().take(QUOTED_CHARACTERS_MAX).collect() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_round_trips_as_text() {
        let session = SessionId::from_random([0, 1, 0xab, 0xcd, 0xef, 0xff]);
        assert_eq!(session.to_string(), "ses_0001abcdefff");
        assert_eq!(session.as_str().parse(), Ok(session.clone()));
        let text = serde_json::to_string(&session).unwrap();
        assert_eq!(text, "\"ses_0001abcdefff\"");
        assert_eq!(serde_json::from_str::<SessionId>(&text).unwrap(), session);
        assert_eq!(RunId::from_random([7; 6]).as_str(), "run_070707070707");
    }

    #[test]
    fn malformed_id_is_refused() {
        for text in
            ["", "ses_", "run_0001abcdefff", "ses_0001ABCDEFFF", "ses_0001abcdeff", "ses_0001abcdefff0"]
        {
            assert!(text.parse::<SessionId>().is_err(), "{text}");
        }
        let error = serde_json::from_str::<RunId>("\"x\"").unwrap_err();
        assert!(
            error.to_string().starts_with("'x' is not a run id; one looks like 'run_0123456789ab'"),
            "{error}"
        );
    }
}
