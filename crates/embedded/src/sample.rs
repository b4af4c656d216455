//! Which token comes next: the likeliest, or one drawn by chance from a seed.

use toktrie::SimpleVob;

/// Draws tokens from logits.
#[derive(Debug)]
pub(crate) struct Sampler {
    temperature: f32,
    random: Random,
    weights: Vec<(u32, f32)>,
}

impl Sampler {
    /// At temperature 0 the likeliest token is taken and the seed has no effect.
    pub(crate) fn new(temperature: f32, seed: u64) -> Sampler {
        Sampler { temperature, random: Random(seed), weights: Vec::new() }
    }

    /// The next token among those that `allowed` has, or among all. None where nothing is allowed.
    pub(crate) fn choose(&mut self, logits: &[f32], allowed: Option<&SimpleVob>) -> Option<u32> {
        if self.temperature <= 0.0 { likeliest(logits, allowed) } else { self.draw(logits, allowed) }
    }

    fn draw(&mut self, logits: &[f32], allowed: Option<&SimpleVob>) -> Option<u32> {
        let best = likeliest(logits, allowed)?;
        let most = logits[best as usize];
        self.weights.clear();
        let mut sum = 0.0;
        each(logits, allowed, |token, logit| {
            let weight = ((logit - most) / self.temperature).exp();
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
        // Rounding may leave a rest, and logits that are not numbers leave no weights.
        Some(best)
    }
}

fn likeliest(logits: &[f32], allowed: Option<&SimpleVob>) -> Option<u32> {
    let mut best: Option<(u32, f32)> = None;
    each(logits, allowed, |token, logit| {
        // Written so that a logit which is not a number loses against any other.
        if best.is_none_or(|(_, most)| logit > most || most.is_nan()) {
            best = Some((token, logit));
        }
    });
    best.map(|(token, _)| token)
}

fn each(logits: &[f32], allowed: Option<&SimpleVob>, mut see: impl FnMut(u32, f32)) {
    match allowed {
        None => logits.iter().zip(0..).for_each(|(logit, token)| see(token, *logit)),
        Some(allowed) => allowed.iter_set_entries(|token| {
            if let Some(logit) = logits.get(token) {
                see(token as u32, *logit);
            }
        }),
    }
}

/// SplitMix64: small, fast and even enough to draw words.
#[derive(Debug)]
struct Random(u64);

impl Random {
    /// A number from 0 up to, not including, 1.
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
    fn without_temperature_the_likeliest_allowed_token_is_taken() {
        let mut sampler = Sampler::new(0.0, 7);
        let logits = [1.0, 5.0, f32::NAN, 3.0, f32::NEG_INFINITY];
        assert_eq!(sampler.choose(&logits, None), Some(1));
        assert_eq!(sampler.choose(&logits, Some(&mask(5, &[0, 2, 3]))), Some(3));
        assert_eq!(sampler.choose(&logits, Some(&mask(5, &[4]))), Some(4));
        assert_eq!(sampler.choose(&logits, Some(&mask(5, &[]))), None);
    }

    #[test]
    fn a_seed_decides_what_is_drawn() {
        let logits: Vec<f32> = (0..100).map(|token| (token % 7) as f32).collect();
        let draw = |seed| {
            let mut sampler = Sampler::new(1.0, seed);
            (0..50).map(|_| sampler.choose(&logits, None)).collect::<Vec<_>>()
        };
        assert_eq!(draw(42), draw(42));
        assert_ne!(draw(42), draw(43));
    }

    #[test]
    fn chance_follows_the_weights_and_the_mask() {
        let mut sampler = Sampler::new(1.0, 1);
        let logits = [0.0, 2.0_f32.ln(), 100.0, f32::NAN];
        let allowed = mask(4, &[0, 1]);
        let drawn: Vec<_> = (0..3000).filter_map(|_| sampler.choose(&logits, Some(&allowed))).collect();
        let ones = drawn.iter().filter(|token| **token == 1).count();
        assert!(drawn.iter().all(|token| *token < 2));
        assert!((1800..2200).contains(&ones), "{ones} of 3000 where 2000 are expected");
    }
}
