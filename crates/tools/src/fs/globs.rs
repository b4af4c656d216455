//! Compiles glob patterns for paths.

use ignore::Match;
use ignore::overrides::{Override, OverrideBuilder};

use crate::Error;

/// Maximum length of a glob or regular expression, because compile time and memory grow with it. The
/// arguments' schema rejects longer patterns.
pub(super) const PATTERN_CHARACTERS_MAX: usize = 1_000;

/// A compiled path pattern with the syntax of ignore files: one without `/` matches names in any folder.
pub(super) struct Globs {
    globs: Override,
    /// Length of the path prefix that leads to the folder that the pattern is relative to.
    prefix: usize,
}

impl Globs {
    /// Compiles a pattern for paths below `prefix`. `None` matches every path.
    pub(super) fn compile(pattern: Option<&str>, prefix: &str) -> Result<Globs, Error> {
        let mut builder = OverrideBuilder::new(".");
        if let Some(pattern) = pattern {
            let refused = |error: ignore::Error| Error::Pattern {
                pattern: pattern.to_owned(),
                reason: format!("{error}; write it like '*.rs' or 'src/**/*.{{ts,tsx}}'"),
            };
            builder.add(pattern.strip_prefix("./").unwrap_or(pattern)).map_err(refused)?;
            return Ok(Globs { globs: builder.build().map_err(refused)?, prefix: prefix.len() });
        }
        Ok(Globs { globs: Override::empty(), prefix: prefix.len() })
    }

    /// Returns whether a file's path matches.
    pub(super) fn is_match(&self, path: &str) -> bool {
        // The path of a file that the caller named directly is shorter than the prefix; match its name only.
        let inside = path.get(self.prefix..).unwrap_or_else(|| path.rsplit('/').next().unwrap_or(path));
        !matches!(self.globs.matched(inside, false), Match::Ignore(_))
    }
}
