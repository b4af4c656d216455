//! Looking at the project's files for a criterion.

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};

use super::Seen;
use super::criterion::{Kind, Look};
use crate::Error;
use crate::fs::text;
use crate::project::{Inside, Project, cut};

/// The longest pattern. A model that writes a longer one has lost its way.
pub(super) const PATTERN_CHARACTERS_MAX: usize = 1_000;

/// How large a compiled pattern may get; one that repeats repetitions is refused, in words.
const PATTERN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How much of a line a note shows.
const LINE_CHARACTERS_MAX: usize = 160;

/// Whether what is looked for is there, and what was seen. What cannot be looked at decides nothing.
pub(super) fn look(project: &Project, look: &Look) -> Seen {
    let (found, note) = match find(project, look) {
        Ok(Seeing::Is(found, note)) => (found, note),
        // Nobody can tell what is not in a file that is not there.
        Ok(Seeing::Nowhere(note)) if look.absent => return (None, format!("not decided: {note}")),
        Ok(Seeing::Nowhere(note)) => (false, note),
        Err(reason) => return (None, format!("not decided: {reason}")),
    };
    if look.is_loose && !found {
        return (None, format!("not decided: {note} word by word; look at the file"));
    }
    (Some(found != look.absent), note)
}

/// What there is to see.
enum Seeing {
    /// Whether it is there, and what was seen.
    Is(bool, String),
    /// The file is not there that it would have to be in.
    Nowhere(String),
}

/// Looks, whether it is to be there or not.
fn find(project: &Project, look: &Look) -> Result<Seeing, Error> {
    let has_content = look.contains.is_some() || look.matches.is_some();
    let path = project.locate(&look.path)?;
    if path.is_protected() {
        return Err(path.refused("is not one of the project's files"));
    }
    let shown = path.shown();
    if project.lacks(&path) {
        let note = format!("{shown} does not exist");
        return Ok(if has_content { Seeing::Nowhere(note) } else { Seeing::Is(false, note) });
    }
    let metadata = project.metadata(&path)?;
    let kind = if metadata.is_dir() { "folder" } else { "file" };
    if !has_content {
        let is_meant = match look.kind {
            Kind::Any => true,
            Kind::File => metadata.is_file(),
            Kind::Folder => metadata.is_dir(),
        };
        return Ok(Seeing::Is(is_meant, format!("{shown} is a {kind}")));
    }
    let content = text(&path, project.read(&path)?)?;
    let mut seen = None;
    for (place, description) in places(look, &content)? {
        match place {
            Some(place) => seen = Some(at(&path, &content, place)),
            None => return Ok(Seeing::Is(false, format!("{shown} does not {description}"))),
        }
    }
    Ok(Seeing::Is(true, seen.unwrap_or_default()))
}

/// Where each thing that is looked for begins in a text, and what it is.
fn places(look: &Look, content: &str) -> Result<Vec<(Option<usize>, String)>, Error> {
    let mut places = Vec::new();
    if let Some(wanted) = &look.contains {
        places.push((content.find(wanted), format!("contain '{}'", cut(wanted, LINE_CHARACTERS_MAX).0)));
    }
    if let Some(pattern) = &look.matches {
        let found = matcher(pattern)?.find(content.as_bytes());
        // A pattern that begins with space may begin on an empty line before.
        let place = found.ok().flatten().map(|found| {
            let matched = content.get(found.start()..found.end()).unwrap_or_default();
            found.start() + matched.len() - matched.trim_start().len()
        });
        places.push((place, format!("match '{}'", cut(pattern, LINE_CHARACTERS_MAX).0)));
    }
    Ok(places)
}

fn matcher(pattern: &str) -> Result<RegexMatcher, Error> {
    RegexMatcherBuilder::new()
        .multi_line(true)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build(pattern)
        .map_err(|error| Error::Pattern { pattern: pattern.to_owned(), reason: error.to_string() })
}

/// The line that something begins in.
fn at(path: &Inside, content: &str, place: usize) -> String {
    let before = content.get(..place).unwrap_or_default();
    let number = before.matches('\n').count() + 1;
    let line = content.lines().nth(number - 1).unwrap_or_default().trim();
    format!("line {number} of {}: {}", path.shown(), cut(line, LINE_CHARACTERS_MAX).0)
}
