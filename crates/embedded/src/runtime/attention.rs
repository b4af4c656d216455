//! The key-value cache of a layer, and attention over it.

use half::f16;
use pulp::{Arch, Simd, WithSimd};

use super::matrix::single;
use super::slices::{combine, exp};
use super::threads::Threads;

/// The positions in a block of the cache. Memory grows by one block at a time, and the keys and values of one
/// head fit into the L1 cache.
const BLOCK: usize = 64;

/// The largest half-precision number; larger values are clamped.
const HALF_MAX: f32 = 65504.0;

/// The smallest normal half-precision number. Smaller values become zero, because subnormals are slow.
const HALF_MIN: f32 = 6.103_515_6e-5;

/// The attention heads of a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    /// The number of query heads.
    pub(super) queries: usize,
    /// The number of key and value heads; divides the number of query heads.
    pub(super) keys: usize,
    /// The width of a head; a multiple of 16.
    pub(super) width: usize,
}

/// The keys and values of one layer, in half precision.
#[derive(Debug)]
pub(super) struct Cache {
    heads: Heads,
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    /// Ordered by head, then dimension, then position.
    keys: Vec<u16>,
    /// Ordered by head, then position, then dimension.
    values: Vec<u16>,
}

impl Cache {
    pub(super) fn new(heads: Heads) -> Cache {
        Cache { heads, blocks: Vec::new() }
    }

    /// Frees the blocks after the first `length` positions.
    pub(super) fn truncate(&mut self, length: usize) {
        self.blocks.truncate(length.div_ceil(BLOCK));
    }

    /// Writes keys and values of consecutive positions, one row per position.
    pub(super) fn write(&mut self, start: usize, keys: &[f32], values: &[f32]) {
        let Heads { keys: heads, width, .. } = self.heads;
        let row = heads * width;
        for (offset, (keys, values)) in keys.chunks_exact(row).zip(values.chunks_exact(row)).enumerate() {
            let (index, slot) = ((start + offset) / BLOCK, (start + offset) % BLOCK);
            while self.blocks.len() <= index {
                let empty = || vec![0; row * BLOCK];
                self.blocks.push(Block { keys: empty(), values: empty() });
            }
            let block = &mut self.blocks[index];
            for (positions, key) in block.keys.chunks_exact_mut(BLOCK).zip(keys) {
                positions[slot] = half(*key);
            }
            for head in 0..heads {
                let offset = (head * BLOCK + slot) * width;
                for (target, value) in
                    block.values[offset..offset + width].iter_mut().zip(&values[head * width..])
                {
                    *target = half(*value);
                }
            }
        }
    }

    /// Computes causal attention: each row of `queries` attends to all positions up to its own. The first row is
    /// at position `start`.
    pub(super) fn attend(&self, queries: &[f32], start: usize, threads: &Threads) -> Vec<f32> {
        let Heads { queries: heads, keys, width } = self.heads;
        let rows = queries.len() / (heads * width);
        let share = heads / keys * width;
        let work = queries.len() * (start + rows);
        let parts = threads.map(work, (0..keys).collect(), |head| {
            Arch::new().dispatch(Attend { cache: self, queries, start, rows, head })
        });
        let mut output = vec![0.0; queries.len()];
        for (head, part) in parts.iter().enumerate() {
            for (row, part) in output.chunks_exact_mut(heads * width).zip(part.chunks_exact(share)) {
                row[head * share..(head + 1) * share].copy_from_slice(part);
            }
        }
        output
    }
}

fn half(value: f32) -> u16 {
    let value = if value.abs() < HALF_MIN { 0.0 } else { value.clamp(-HALF_MAX, HALF_MAX) };
    f16::from_f32(value).to_bits()
}

#[inline(always)]
fn unpack(from: &[u16], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = single(*from);
    }
}

/// Attention of all query heads that share one key head.
struct Attend<'a> {
    cache: &'a Cache,
    queries: &'a [f32],
    start: usize,
    rows: usize,
    head: usize,
}

/// The running softmax of the queries of one key head.
struct Partial {
    output: Vec<f32>,
    maximum: Vec<f32>,
    sum: Vec<f32>,
}

impl WithSimd for Attend<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<f32> {
        let Heads { queries: heads, keys: key_heads, width } = self.cache.heads;
        let share = heads / key_heads;
        let mut found = Partial {
            output: vec![0.0; self.rows * share * width],
            maximum: vec![f32::NEG_INFINITY; self.rows * share],
            sum: vec![0.0; self.rows * share],
        };
        let (mut keys, mut values) = (vec![0.0; width * BLOCK], vec![0.0; width * BLOCK]);
        let mut scratch = vec![0.0; width.max(BLOCK) * 4];
        let part = self.head * width * BLOCK..(self.head + 1) * width * BLOCK;
        for (index, block) in self.cache.blocks.iter().enumerate() {
            let first = (index * BLOCK).saturating_sub(self.start);
            if first >= self.rows {
                break;
            }
            unpack(&block.keys[part.clone()], &mut keys);
            unpack(&block.values[part.clone()], &mut values);
            for row in first..self.rows {
                let visible = (self.start + row + 1 - index * BLOCK).min(BLOCK);
                let mut tile =
                    Tile { width, keys: &keys, values: &values[..visible * width], scratch: &mut scratch };
                let at = (row * heads + self.head * share) * width;
                let queries = &self.queries[at..at + share * width];
                let at = row * share;
                let mut head = 0;
                while head < share {
                    let queries = &queries[head * width..];
                    let at = at + head;
                    head += match share - head {
                        1 => tile.visit::<S, 1>(simd, queries, &mut found, at),
                        2 => tile.visit::<S, 2>(simd, queries, &mut found, at),
                        3 => tile.visit::<S, 3>(simd, queries, &mut found, at),
                        _ => tile.visit::<S, 4>(simd, queries, &mut found, at),
                    };
                }
            }
        }
        for (output, sum) in found.output.chunks_exact_mut(width).zip(&found.sum) {
            let scale = sum.recip();
            for value in output {
                *value *= scale;
            }
        }
        found.output
    }
}

/// The keys and values of one block and head that are visible to a row.
struct Tile<'a> {
    width: usize,
    keys: &'a [f32],
    values: &'a [f32],
    scratch: &'a mut [f32],
}

impl Tile<'_> {
    /// Adds this block to the running softmax of `H` queries.
    ///
    /// Earlier sums are rescaled when a larger score occurs, so that no row of scores is stored.
    #[inline(always)]
    fn visit<S: Simd, const H: usize>(
        &mut self,
        simd: S,
        queries: &[f32],
        found: &mut Partial,
        at: usize,
    ) -> usize {
        let width = self.width;
        let (factors, _) = self.scratch.as_chunks_mut::<H>();
        for (dimension, factors) in factors[..width].iter_mut().enumerate() {
            for (head, factor) in factors.iter_mut().enumerate() {
                *factor = queries[head * width + dimension];
            }
        }
        let mut scores = [[0.0; BLOCK]; H];
        combine::<S, H>(simd, &factors[..width], self.keys, BLOCK, scores.as_flattened_mut());
        let visible = self.values.len() / width;
        for (head, scores) in scores.iter_mut().enumerate() {
            scores[visible..].fill(f32::NEG_INFINITY);
            let old = found.maximum[at + head];
            let maximum = scores.iter().fold(old, |one, other| if one > *other { one } else { *other });
            let correction = exp(old - maximum);
            let mut sum = 0.0;
            for (position, score) in scores[..visible].iter_mut().enumerate() {
                *score = exp(*score - maximum);
                factors[position][head] = *score;
            }
            for score in &scores[..visible] {
                sum += score;
            }
            found.sum[at + head] = found.sum[at + head] * correction + sum;
            found.maximum[at + head] = maximum;
            if correction != 1.0 {
                for value in &mut found.output[(at + head) * width..(at + head + 1) * width] {
                    *value *= correction;
                }
            }
        }
        let output = &mut found.output[at * width..(at + H) * width];
        combine::<S, H>(simd, &factors[..visible], self.values, width, output);
        H
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(length: usize, seed: f32) -> Vec<f32> {
        (0..length).map(|index| ((index as f32 + seed) * 0.37).sin()).collect()
    }

    fn naive(heads: Heads, queries: &[f32], keys: &[f32], values: &[f32], start: usize) -> Vec<f32> {
        let Heads { queries: count, keys: key_heads, width } = heads;
        let mut output = Vec::new();
        for (row, queries) in queries.chunks_exact(count * width).enumerate() {
            for (head, query) in queries.chunks_exact(width).enumerate() {
                let shared = head / (count / key_heads);
                let of = |from: &[f32], position: usize| {
                    from[(position * key_heads + shared) * width..][..width].to_vec()
                };
                let scores: Vec<f64> = (0..=start + row)
                    .map(|position| {
                        of(keys, position)
                            .iter()
                            .zip(query)
                            .map(|(key, query)| f64::from(key * query))
                            .sum::<f64>()
                            .exp()
                    })
                    .collect();
                let sum: f64 = scores.iter().sum();
                for dimension in 0..width {
                    let value: f64 = scores
                        .iter()
                        .enumerate()
                        .map(|(position, score)| score * f64::from(of(values, position)[dimension]))
                        .sum();
                    output.push((value / sum) as f32);
                }
            }
        }
        output
    }

    #[test]
    fn attend_matches_naive_attention() -> Result<(), crate::Error> {
        let threads = Threads::new(2)?;
        for (queries, keys, width) in [(9, 3, 64), (4, 4, 16), (14, 2, 80), (5, 1, 48)] {
            let heads = Heads { queries, keys, width };
            let length = 150;
            let key = wave(length * keys * width, 1.0);
            let value = wave(length * keys * width, 5.0);
            let mut cache = Cache::new(heads);
            cache.write(0, &key, &value);
            for (start, rows) in [(0, 1), (0, 150), (63, 2), (64, 1), (140, 10)] {
                let query = wave(rows * queries * width, 9.0);
                let found = cache.attend(&query, start, &threads);
                let expected = naive(heads, &query, &key, &value, start);
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(&expected) {
                    assert!((found - expected).abs() < 3e-3, "{found} and not {expected}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn half_precision_round_trip_is_accurate() {
        for value in [0.0_f32, 1.0, -1.0, 0.333, -1234.5, 65504.0, 7e4, -7e4, 1e-7, 6.2e-5] {
            let mut read = [0.0];
            unpack(&[half(value)], &mut read);
            let expected = if value.abs() < HALF_MIN { 0.0 } else { value.clamp(-HALF_MAX, HALF_MAX) };
            assert!((read[0] - expected).abs() <= expected.abs() * 1e-3, "{value} became {}", read[0]);
        }
    }
}
