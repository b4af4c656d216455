//! The trace that a request belongs to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// The digits of version, trace id, parent id and flags in a `traceparent` header.
const PARTS: [usize; 4] = [2, 32, 16, 2];

/// The position of a caller in its trace, as the W3C header `traceparent` has it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceParent(String);

impl TraceParent {
    /// Returns the value of the header.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for TraceParent {
    type Err = Error;

    /// Parses the header. Later versions may append further parts, which are dropped as the standard asks.
    fn from_str(text: &str) -> Result<TraceParent, Error> {
        let parts: Vec<&str> = text.trim().split('-').collect();
        let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_zero = |part: &str| part.bytes().all(|byte| byte == b'0');
        let has_form = parts.len() >= PARTS.len()
            && parts.iter().zip(PARTS).all(|(part, digits)| part.len() == digits && is_hex(part));
        let has_extra = parts.len() > PARTS.len();
        if !has_form
            || parts[0] == "ff"
            || (parts[0] == "00" && has_extra)
            || is_zero(parts[1])
            || is_zero(parts[2])
        {
            return Err(Error::TraceParent);
        }
        Ok(TraceParent(format!("00-{}-{}-{}", parts[1], parts[2], parts[3])))
    }
}

impl TryFrom<String> for TraceParent {
    type Error = Error;

    fn try_from(text: String) -> Result<TraceParent, Error> {
        text.parse()
    }
}

impl From<TraceParent> for String {
    fn from(parent: TraceParent) -> String {
        parent.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_of_the_standard_is_read() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(text.parse::<TraceParent>().unwrap().as_str(), text);
        let later = format!("cc{}-what-the-future-holds", &text[2..]);
        assert_eq!(later.parse::<TraceParent>().unwrap().as_str(), text);
    }

    #[test]
    fn malformed_headers_are_refused() {
        for text in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nx: y",
        ] {
            assert_eq!(text.parse::<TraceParent>(), Err(Error::TraceParent), "{text}");
        }
    }
}
