//! Patterns for paths.

use ignore::Match;
use ignore::overrides::{Override, OverrideBuilder};

use crate::Error;

/// The longest pattern that is taken, for paths as for text. Compiling one takes time and memory by its length; a longer
/// one does not satisfy the arguments' schema.
pub(super) const PATTERN_CHARACTERS_MAX: usize = 1_000;

/// A pattern for the paths of files, as ignore files have them: one without `/` is for names in any folder.
pub(super) struct Globs {
    globs: Override,
    /// How much of a path leads to the folder that the pattern is relative to.
    prefix: usize,
}

impl Globs {
    /// A pattern for paths in the folder that `prefix` leads to; none matches everything.
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

    /// Whether a file's path fits.
    pub(super) fn fit(&self, path: &str) -> bool {
        // A file that was named itself, rather than found in a folder, has only its name to fit.
        let inside = path.get(self.prefix..).unwrap_or_else(|| path.rsplit('/').next().unwrap_or(path));
        !matches!(self.globs.matched(inside, false), Match::Ignore(_))
    }
}
