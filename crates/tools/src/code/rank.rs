//! Ranks chunks by BM25. Terms in paths and definitions weigh more, coverage of the query counts, and the
//! lines of the best candidates refine the score.

use super::chunks::Chunk;
use super::index::{Index, IndexedFile};
use super::terms::{self, Term, each_term};

/// BM25's usual parameters k1 and b.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;

/// Weights of a term in the path and in a definition, relative to the text. Each counts once, so that
/// repeated words cannot outweigh it.
const PATH_WEIGHT: f64 = 1.0;
const DEFINITION_WEIGHT: f64 = 0.6;

/// Factor for a chunk that covers almost none of the query's terms.
const COVERAGE_FLOOR: f64 = 0.4;

/// Factor for the second chunk of a file, so that other files come first.
const SECOND_CHUNK_WEIGHT: f64 = 0.7;

/// Factor for tests, unless the query asks for them: they contain the words of the code they test.
const TEST_WEIGHT: f64 = 0.5;

/// Maximum relative increase when terms of the query occur on the same line.
const SAME_LINE_WEIGHT: f64 = 1.0;

/// A chunk that matches a query.
#[derive(Debug)]
pub(super) struct Hit<'a> {
    pub(super) path: &'a str,
    pub(super) chunk: &'a Chunk,
    pub(super) score: f64,
}

/// A query with the weight of each of its terms in this project.
#[derive(Debug)]
pub(super) struct Query {
    terms: Vec<Term>,
    rarities: Vec<f64>,
    /// Average number of terms per chunk.
    average_length: f64,
    is_about_tests: bool,
}

impl Query {
    /// Computes the inverse document frequency of each term.
    pub(super) fn new(index: &Index, terms: Vec<Term>) -> Query {
        let mut chunk_counts = vec![0_u64; terms.len()];
        let (mut count, mut words) = (0_u64, 0_u64);
        for chunk in index.files.values().flat_map(|file| &file.chunks) {
            count += 1;
            words += u64::from(chunk.length);
            for (term, chunk_count) in terms.iter().zip(&mut chunk_counts) {
                *chunk_count += u64::from(chunk.occurrence(*term).is_some());
            }
        }
        let rarity = |chunk_count: u64| {
            (1.0 + (count as f64 - chunk_count as f64 + 0.5) / (chunk_count as f64 + 0.5)).ln()
        };
        let is_about_tests = terms::query_terms("test spec fixture").iter().any(|term| terms.contains(term));
        let average_length = (words as f64 / count.max(1) as f64).max(1.0);
        Query {
            rarities: chunk_counts.into_iter().map(rarity).collect(),
            terms,
            average_length,
            is_about_tests,
        }
    }

    /// Returns the best chunks of the files that `within` accepts, at most two per file.
    pub(super) fn rank<'a>(
        &self,
        index: &'a Index,
        limit: usize,
        within: impl Fn(&str) -> bool,
    ) -> Vec<Hit<'a>> {
        let mut hits = Vec::new();
        for (path, file) in index.files.iter().filter(|(path, _)| within(path)) {
            let weight = if self.is_about_tests || !is_test_path(path) { 1.0 } else { TEST_WEIGHT };
            let mut candidates: Vec<Hit<'a>> = file
                .chunks
                .iter()
                .map(|chunk| Hit { path, chunk, score: weight * self.score(file, chunk) })
                .filter(|hit| hit.score > 0.0)
                .collect();
            candidates.sort_by(|one, other| other.score.total_cmp(&one.score));
            let mut candidates = candidates.into_iter();
            if let Some(best) = candidates.next() {
                let apart = |hit: &Hit<'_>| {
                    hit.chunk.first_line > best.chunk.last_line || hit.chunk.last_line < best.chunk.first_line
                };
                let second =
                    candidates.find(apart).map(|hit| Hit { score: hit.score * SECOND_CHUNK_WEIGHT, ..hit });
                hits.push(best);
                hits.extend(second);
            }
        }
        // The sort is stable, so equal scores stay in path order.
        hits.sort_by(|one, other| other.score.total_cmp(&one.score));
        hits.truncate(limit);
        hits
    }

    fn score(&self, file: &IndexedFile, chunk: &Chunk) -> f64 {
        let length = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * f64::from(chunk.length) / self.average_length;
        let (mut sum, mut covered, mut total) = (0.0, 0.0, 0.0);
        for (term, rarity) in self.terms.iter().zip(&self.rarities) {
            let occurrence = chunk.occurrence(*term);
            let in_path = file.path_terms.binary_search(term).is_ok();
            total += rarity;
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
        if total <= 0.0 { 0.0 } else { sum * (COVERAGE_FLOOR + (1.0 - COVERAGE_FLOOR) * covered / total) }
    }

    /// Adjusts a chunk's score after reading its text.
    pub(super) fn refine(&self, score: f64, path: &str, text: &str) -> f64 {
        let total: f64 = self.rarities.iter().sum();
        let best_line = text.lines().map(|line| self.covered(line)).fold(0.0, f64::max);
        // `rank` has already applied the factor to files that are tests as a whole.
        let is_test = !self.is_about_tests && !is_test_path(path) && has_tests(text);
        let weight = if is_test { TEST_WEIGHT } else { 1.0 };
        score * weight * (1.0 + SAME_LINE_WEIGHT * best_line / total.max(f64::MIN_POSITIVE))
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

/// Returns whether a path belongs to a test, by the conventions of most languages.
fn is_test_path(path: &str) -> bool {
    const FOLDERS: [&str; 8] =
        ["test", "tests", "__tests__", "spec", "testdata", "test_data", "fixtures", "__snapshots__"];
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    folders.split('/').any(|folder| FOLDERS.contains(&folder))
        || [".test.", ".spec.", "_test.", "_spec."].iter().any(|mark| name.contains(mark))
        || stem.starts_with("test_")
}

/// Returns whether a text contains Rust unit tests.
fn has_tests(text: &str) -> bool {
    ["#[test]", "#[tokio::test]", "#[cfg(test)]"].iter().any(|mark| text.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_paths_are_recognised() {
        for path in ["a/tests/b.rs", "tests/b.rs", "a/b.test.ts", "b_test.go", "x/test_b.py", "spec/b.rb"] {
            assert!(is_test_path(path), "{path}");
        }
        for path in ["src/testing.rs", "latest/b.rs", "src/contest.rs", "attest.py", "tests.rs"] {
            assert!(!is_test_path(path), "{path}");
        }
    }
}
