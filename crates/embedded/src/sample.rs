//! Selects the next token: the most likely one, or a random one.

use toktrie::SimpleVob;

/// Selects tokens by their logits.
#[derive(Debug)]
pub(crate) struct Sampler {
    temperature: f32,
    random: Random,
    weights: Vec<(u32, f32)>,
}

impl Sampler {
    /// Creates a sampler. At temperature 0 it always selects the most likely token and ignores the seed.
    pub(crate) fn new(temperature: f32, seed: u64) -> Sampler {
        Sampler { temperature, random: Random(seed), weights: Vec::new() }
    }

    /// Selects the next token from `allowed`, or from all tokens. Returns `None` if no token is allowed.
    pub(crate) fn choose(&mut self, logits: &[f32], allowed: Option<&SimpleVob>) -> Option<u32> {
        if self.temperature <= 0.0 { most_likely(logits, allowed) } else { self.draw(logits, allowed) }
    }

    fn draw(&mut self, logits: &[f32], allowed: Option<&SimpleVob>) -> Option<u32> {
        let best = most_likely(logits, allowed)?;
        let maximum = logits[best as usize];
        self.weights.clear();
        let mut sum = 0.0;
        for_each(logits, allowed, |token, logit| {
            let weight = ((logit - maximum) / self.temperature).exp();
            if weight > 0.0 {
                sum += weight;
                self.weights.push((token, weight));
            }
        });
        let mut left = self.random.unit() * sum;
        for (token, weight) in &self.weights {
            left -= weight;
            if left <= 0.0 {
                return Some(*token);
            }
        }
        // Reached if rounding leaves a remainder, or if all logits are NaN and no weights exist.
        Some(best)
    }
}

fn most_likely(logits: &[f32], allowed: Option<&SimpleVob>) -> Option<u32> {
    let mut best: Option<(u32, f32)> = None;
    for_each(logits, allowed, |token, logit| {
        // NaN is replaced by any other logit.
        if best.is_none_or(|(_, maximum)| logit > maximum || maximum.is_nan()) {
            best = Some((token, logit));
        }
    });
    best.map(|(token, _)| token)
}

fn for_each(logits: &[f32], allowed: Option<&SimpleVob>, mut visit: impl FnMut(u32, f32)) {
    match allowed {
        None => logits.iter().zip(0..).for_each(|(logit, token)| visit(token, *logit)),
        Some(allowed) => allowed.iter_set_entries(|token| {
            if let Some(logit) = logits.get(token) {
                visit(token as u32, *logit);
            }
        }),
    }
}

/// The SplitMix64 generator: small, fast and uniform enough for sampling.
#[derive(Debug)]
struct Random(u64);

impl Random {
    /// Returns a number in the range 0 to 1, excluding 1.
    fn unit(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 40) as f32 / (1u64 << 24) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(size: usize, allowed: &[u32]) -> SimpleVob {
        let mut mask = SimpleVob::alloc(size);
        allowed.iter().for_each(|token| mask.allow_token(*token));
        mask
    }

    #[test]
    fn temperature_zero_selects_most_likely_allowed_token() {
        let mut sampler = Sampler::new(0.0, 7);
        let logits = [1.0, 5.0, f32::NAN, 3.0, f32::NEG_INFINITY];
        assert_eq!(sampler.choose(&logits, None), Some(1));
        assert_eq!(sampler.choose(&logits, Some(&mask(5, &[0, 2, 3]))), Some(3));
        assert_eq!(sampler.choose(&logits, Some(&mask(5, &[4]))), Some(4));
        assert_eq!(sampler.choose(&logits, Some(&mask(5, &[]))), None);
    }

    #[test]
    fn equal_seeds_draw_equal_tokens() {
        let logits: Vec<f32> = (0..100).map(|token| (token % 7) as f32).collect();
        let draw = |seed| {
            let mut sampler = Sampler::new(1.0, seed);
            (0..50).map(|_| sampler.choose(&logits, None)).collect::<Vec<_>>()
        };
        assert_eq!(draw(42), draw(42));
        assert_ne!(draw(42), draw(43));
    }

    #[test]
    fn draws_follow_weights_and_mask() {
        let mut sampler = Sampler::new(1.0, 1);
        let logits = [0.0, 2.0_f32.ln(), 100.0, f32::NAN];
        let allowed = mask(4, &[0, 1]);
        let drawn: Vec<_> = (0..3000).filter_map(|_| sampler.choose(&logits, Some(&allowed))).collect();
        let ones = drawn.iter().filter(|token| **token == 1).count();
        assert!(drawn.iter().all(|token| *token < 2));
        assert!((1800..2200).contains(&ones), "{ones} of 3000 where 2000 are expected");
    }
}
