//! Which pieces a question is about: BM25, with more for words of paths and definitions, and a say for every word of the question.

use super::chunks::Chunk;
use super::index::{Index, Indexed};
use super::terms::Term;

/// BM25's usual saturation and weight of length.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;

/// What a word of the path, and one by which something is defined, is worth beside one of the text. They are counted
/// once, because a word that is often repeated must not outdo them.
const PATH_WEIGHT: f64 = 1.0;
const DEFINITION_WEIGHT: f64 = 0.8;

/// What remains of a score when only few of the question's words are there.
const COVERAGE_FLOOR: f64 = 0.4;

/// What remains of the score of a file's second piece, so that other files come first.
const SECOND_WEIGHT: f64 = 0.7;

/// A piece that a question is about.
#[derive(Debug)]
pub(super) struct Hit<'a> {
    pub(super) path: &'a str,
    pub(super) chunk: &'a Chunk,
    pub(super) score: f64,
}

/// The best pieces of the files that `within` lets through, two of a file at most.
pub(super) fn rank<'a>(
    index: &'a Index,
    question: &[Term],
    limit: usize,
    within: impl Fn(&str) -> bool,
) -> Vec<Hit<'a>> {
    let rarities = rarities(index, question);
    let (count, words) = index
        .files
        .values()
        .flat_map(|file| &file.chunks)
        .fold((0_u64, 0_u64), |(count, words), chunk| (count + 1, words + u64::from(chunk.length)));
    let usual_length = (words as f64 / count.max(1) as f64).max(1.0);
    let mut hits = Vec::new();
    for (path, file) in index.files.iter().filter(|(path, _)| within(path)) {
        let score = |chunk| score(file, chunk, question, &rarities, usual_length);
        let mut pieces: Vec<Hit<'a>> = file
            .chunks
            .iter()
            .map(|chunk| Hit { path, chunk, score: score(chunk) })
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

/// How much each word tells, which is the more the fewer pieces have it.
fn rarities(index: &Index, question: &[Term]) -> Vec<f64> {
    let mut having = vec![0_u64; question.len()];
    let mut count = 0_u64;
    for chunk in index.files.values().flat_map(|file| &file.chunks) {
        count += 1;
        for (term, having) in question.iter().zip(&mut having) {
            *having += u64::from(chunk.occurrence(*term).is_some());
        }
    }
    let rarity = |having: u64| (1.0 + (count as f64 - having as f64 + 0.5) / (having as f64 + 0.5)).ln();
    having.into_iter().map(rarity).collect()
}

fn score(file: &Indexed, chunk: &Chunk, question: &[Term], rarities: &[f64], usual_length: f64) -> f64 {
    let length = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * f64::from(chunk.length) / usual_length;
    let (mut sum, mut covered, mut whole) = (0.0, 0.0, 0.0);
    for (term, rarity) in question.iter().zip(rarities) {
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
