//! Rotary position embedding (RoPE) of queries and keys.

/// The dimensions that are rotated together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pairs {
    /// Adjacent dimensions, as in files of the architecture `llama`.
    Neighbours,
    /// Dimensions that are half of the rotated width apart.
    Halves,
}

/// The rotations of a model.
#[derive(Debug)]
pub(super) struct Rope {
    pairs: Pairs,
    /// The angle between consecutive positions for each pair, in radians.
    steps: Vec<f64>,
}

impl Rope {
    /// Creates rotations of the first `width` dimensions of each head. `factors` divide the angle of each pair.
    pub(super) fn new(pairs: Pairs, width: usize, base: f64, scale: f64, factors: Option<&[f32]>) -> Rope {
        let steps = (0..width / 2).map(|pair| {
            let factor =
                factors.and_then(|factors| factors.get(pair)).map_or(1.0, |factor| f64::from(*factor));
            base.powf(-2.0 * pair as f64 / width as f64) * scale / factor
        });
        Rope { pairs, steps: steps.collect() }
    }

    /// Returns sine and cosine of every pair for consecutive positions.
    pub(super) fn turns(&self, start: usize, rows: usize) -> Vec<(f32, f32)> {
        let mut turns = Vec::with_capacity(rows * self.steps.len());
        for position in start..start + rows {
            for step in &self.steps {
                let (sine, cosine) = (position as f64 * step).sin_cos();
                turns.push((sine as f32, cosine as f32));
            }
        }
        turns
    }

    /// Rotates rows of heads with this width. `turns` has the sines and cosines of their positions.
    pub(super) fn rotate(&self, rows: &mut [f32], across: usize, width: usize, turns: &[(f32, f32)]) {
        let half = self.steps.len();
        for (row, turns) in rows.chunks_exact_mut(across).zip(turns.chunks_exact(half)) {
            for head in row.chunks_exact_mut(width) {
                match self.pairs {
                    Pairs::Neighbours => {
                        for (pair, (sine, cosine)) in head.chunks_exact_mut(2).zip(turns) {
                            let (one, other) = (pair[0], pair[1]);
                            pair[0] = one * cosine - other * sine;
                            pair[1] = one * sine + other * cosine;
                        }
                    }
                    Pairs::Halves => {
                        let (low, high) = head.split_at_mut(half);
                        for ((low, high), (sine, cosine)) in low.iter_mut().zip(high).zip(turns) {
                            let (one, other) = (*low, *high);
                            *low = one * cosine - other * sine;
                            *high = one * sine + other * cosine;
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_depends_on_position_and_pairing() {
        let rope = Rope::new(Pairs::Halves, 4, 100.0, 1.0, None);
        let turns = rope.turns(3, 1);
        assert_eq!(turns.len(), 2);
        assert!((turns[0].0 - 3.0_f32.sin()).abs() < 1e-6 && (turns[1].1 - 0.3_f32.cos()).abs() < 1e-6);
        let mut row = [1.0, 2.0, 0.0, 0.0];
        rope.rotate(&mut row, 4, 4, &turns);
        assert!((row[0] - turns[0].1).abs() < 1e-6 && (row[2] - turns[0].0).abs() < 1e-6);
        let rope = Rope::new(Pairs::Neighbours, 4, 100.0, 1.0, Some(&[2.0, 1.0]));
        assert!((rope.turns(2, 1)[0].0 - 1.0_f32.sin()).abs() < 1e-6);
        let mut row = [1.0, 0.0, 1.0, 0.0];
        rope.rotate(&mut row, 4, 4, &turns);
        assert!((row[1] - turns[0].0).abs() < 1e-6);
    }
}
