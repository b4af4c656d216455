//! Which pieces a question is about: BM25, with more for words of paths and definitions, a say for every word of the
//! question, and then a look at the best ones' lines.

use super::chunks::Chunk;
use super::index::{Index, Indexed};
use super::terms::{self, Term, each_term};

/// BM25's usual saturation and weight of length.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;

/// What a word of the path, and one by which something is defined, is worth beside one of the text. They are counted
/// once, because a word that is often repeated must not outdo them.
const PATH_WEIGHT: f64 = 1.0;
const DEFINITION_WEIGHT: f64 = 0.6;

/// What remains of a score when only few of the question's words are there.
const COVERAGE_FLOOR: f64 = 0.4;

/// What remains of the score of a file's second piece, so that other files come first.
const SECOND_WEIGHT: f64 = 0.7;

/// What remains of the score of tests, unless they are asked for: they have the words of what they test.
const TEST_WEIGHT: f64 = 0.5;

/// How much is added to a score when the question's words stand together on one line.
const TOGETHER_WEIGHT: f64 = 1.0;

/// A piece that a question is about.
#[derive(Debug)]
pub(super) struct Hit<'a> {
    pub(super) path: &'a str,
    pub(super) chunk: &'a Chunk,
    pub(super) score: f64,
}

/// A question, and how much each of its words tells in this project.
#[derive(Debug)]
pub(super) struct Question {
    terms: Vec<Term>,
    rarities: Vec<f64>,
    /// How long pieces are on average.
    usual_length: f64,
    about_tests: bool,
}

impl Question {
    /// Weighs the words of a question: one tells the more the fewer pieces have it.
    pub(super) fn new(index: &Index, terms: Vec<Term>) -> Question {
        let mut having = vec![0_u64; terms.len()];
        let (mut count, mut words) = (0_u64, 0_u64);
        for chunk in index.files.values().flat_map(|file| &file.chunks) {
            count += 1;
            words += u64::from(chunk.length);
            for (term, having) in terms.iter().zip(&mut having) {
                *having += u64::from(chunk.occurrence(*term).is_some());
            }
        }
        let rarity = |having: u64| (1.0 + (count as f64 - having as f64 + 0.5) / (having as f64 + 0.5)).ln();
        let about_tests = terms::question("test spec fixture").iter().any(|term| terms.contains(term));
        let usual_length = (words as f64 / count.max(1) as f64).max(1.0);
        Question { rarities: having.into_iter().map(rarity).collect(), terms, usual_length, about_tests }
    }

    /// The best pieces of the files that `within` lets through, two of a file at most.
    pub(super) fn rank<'a>(
        &self,
        index: &'a Index,
        limit: usize,
        within: impl Fn(&str) -> bool,
    ) -> Vec<Hit<'a>> {
        let mut hits = Vec::new();
        for (path, file) in index.files.iter().filter(|(path, _)| within(path)) {
            let weight = if self.about_tests || !is_test_path(path) { 1.0 } else { TEST_WEIGHT };
            let mut pieces: Vec<Hit<'a>> = file
                .chunks
                .iter()
                .map(|chunk| Hit { path, chunk, score: weight * self.score(file, chunk) })
                .filter(|hit| hit.score > 0.0)
                .collect();
            pieces.sort_by(|one, other| other.score.total_cmp(&one.score));
            let mut pieces = pieces.into_iter();
            if let Some(best) = pieces.next() {
                let apart = |hit: &Hit<'_>| {
                    hit.chunk.first_line > best.chunk.last_line || hit.chunk.last_line < best.chunk.first_line
                };
                let second = pieces.find(apart).map(|hit| Hit { score: hit.score * SECOND_WEIGHT, ..hit });
                hits.push(best);
                hits.extend(second);
            }
        }
        // Sorting is stable, and files come in the order of their paths.
        hits.sort_by(|one, other| other.score.total_cmp(&one.score));
        hits.truncate(limit);
        hits
    }

    fn score(&self, file: &Indexed, chunk: &Chunk) -> f64 {
        let length = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * f64::from(chunk.length) / self.usual_length;
        let (mut sum, mut covered, mut whole) = (0.0, 0.0, 0.0);
        for (term, rarity) in self.terms.iter().zip(&self.rarities) {
            let occurrence = chunk.occurrence(*term);
            let in_path = file.path_terms.binary_search(term).is_ok();
            whole += rarity;
            if occurrence.is_some() || in_path {
                covered += rarity;
            }
            if let Some((count, defined)) = occurrence {
                let count = f64::from(count);
                sum += rarity * count * (SATURATION + 1.0) / (count + SATURATION * length);
                sum += if defined { DEFINITION_WEIGHT * rarity } else { 0.0 };
            }
            sum += if in_path { PATH_WEIGHT * rarity } else { 0.0 };
        }
        if whole <= 0.0 { 0.0 } else { sum * (COVERAGE_FLOOR + (1.0 - COVERAGE_FLOOR) * covered / whole) }
    }

    /// What a piece's text makes of its score.
    pub(super) fn refine(&self, score: f64, path: &str, text: &str) -> f64 {
        let whole: f64 = self.rarities.iter().sum();
        let together = text.lines().map(|line| self.covered(line)).fold(0.0, f64::max);
        // Where the whole file is a test, that has been counted already.
        let is_test = !self.about_tests && !is_test_path(path) && has_tests(text);
        let weight = if is_test { TEST_WEIGHT } else { 1.0 };
        score * weight * (1.0 + TOGETHER_WEIGHT * together / whole.max(f64::MIN_POSITIVE))
    }

    fn covered(&self, line: &str) -> f64 {
        let mut seen = vec![false; self.terms.len()];
        each_term(line, |term| {
            if let Ok(index) = self.terms.binary_search(&term) {
                seen[index] = true;
            }
        });
        seen.iter().zip(&self.rarities).filter(|(seen, _)| **seen).map(|(_, rarity)| rarity).sum()
    }
}

/// Whether a file is a test by where it is, in the habits of most languages.
fn is_test_path(path: &str) -> bool {
    const FOLDERS: [&str; 8] =
        ["test", "tests", "__tests__", "spec", "testdata", "test_data", "fixtures", "__snapshots__"];
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    folders.split('/').any(|folder| FOLDERS.contains(&folder))
        || [".test.", ".spec.", "_test.", "_spec."].iter().any(|mark| name.contains(mark))
        || stem.starts_with("test_")
}

/// Whether tests stand beside the code.
fn has_tests(text: &str) -> bool {
    ["#[test]", "#[tokio::test]", "#[cfg(test)]"].iter().any(|mark| text.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_known_by_their_paths() {
        for path in ["a/tests/b.rs", "tests/b.rs", "a/b.test.ts", "b_test.go", "x/test_b.py", "spec/b.rb"] {
            assert!(is_test_path(path), "{path}");
        }
        for path in ["src/testing.rs", "latest/b.rs", "src/contest.rs", "attest.py", "tests.rs"] {
            assert!(!is_test_path(path), "{path}");
        }
    }
}
