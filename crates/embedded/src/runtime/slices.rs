//! Vectorised arithmetic over slices, with the widest vectors of the processor.

use pulp::{Arch, Simd, WithSimd};

/// Writes to `output` the values of `input` scaled to a root mean square of one and multiplied by `weight`.
pub(super) fn rms_norm(input: &[f32], weight: &[f32], epsilon: f32, output: &mut [f32]) {
    Arch::new().dispatch(RmsNorm { input, weight, epsilon, output });
}

/// Adds `other` to `values`.
pub(super) fn add(values: &mut [f32], other: &[f32]) {
    Arch::new().dispatch(Add { values, other });
}

/// Computes SwiGLU: replaces each value of `gate` by its SiLU times the value in `up`.
pub(super) fn gate(gate: &mut [f32], up: &[f32]) {
    Arch::new().dispatch(Gate { gate, up });
}

struct RmsNorm<'a> {
    input: &'a [f32],
    weight: &'a [f32],
    epsilon: f32,
    output: &'a mut [f32],
}

impl WithSimd for RmsNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (vectors, rest) = S::as_simd_f32s(self.input);
        let mut sums = [simd.splat_f32s(0.0); 4];
        let (quads, odd) = vectors.as_chunks::<4>();
        for quad in quads {
            for (sum, vector) in sums.iter_mut().zip(quad) {
                *sum = simd.mul_add_e_f32s(*vector, *vector, *sum);
            }
        }
        for vector in odd {
            sums[0] = simd.mul_add_e_f32s(*vector, *vector, sums[0]);
        }
        let [first, second, third, fourth] = sums;
        let sum = simd.add_f32s(simd.add_f32s(first, second), simd.add_f32s(third, fourth));
        let sum = simd.reduce_sum_f32s(sum) + rest.iter().map(|value| value * value).sum::<f32>();
        let scale = (sum / self.input.len() as f32 + self.epsilon).sqrt().recip();
        for ((output, input), weight) in self.output.iter_mut().zip(self.input).zip(self.weight) {
            *output = input * scale * weight;
        }
    }
}

struct Add<'a> {
    values: &'a mut [f32],
    other: &'a [f32],
}

impl WithSimd for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (value, other) in self.values.iter_mut().zip(self.other) {
            *value += other;
        }
    }
}

struct Gate<'a> {
    gate: &'a mut [f32],
    up: &'a [f32],
}

impl WithSimd for Gate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (gate, up) in self.gate.iter_mut().zip(self.up) {
            *gate = *gate / (1.0 + exp(-*gate)) * up;
        }
    }
}

/// Computes the exponential to within two units in the last place. It has no branches, so that the compiler
/// vectorises loops over it.
#[inline(always)]
pub(super) fn exp(value: f32) -> f32 {
    // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let value = value.clamp(-87.0, 88.0);
    let whole = (value * std::f32::consts::LOG2_E + ROUND) - ROUND;
    let rest = value - whole * LN_2_HIGH - whole * LN_2_LOW;
    let mut series = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = series * rest + coefficient;
    }
    // The cast turns NaN into zero and does not overflow, because `whole` is between -126 and 127.
    let power = f32::from_bits(((whole as i32 + 127) as u32) << 23);
    series * power
}

/// Adds to each of the `H` rows of `output` a linear combination of the rows of `matrix`.
#[inline(always)]
pub(super) fn combine<S: Simd, const H: usize>(
    simd: S,
    factors: &[[f32; H]],
    matrix: &[f32],
    width: usize,
    output: &mut [f32],
) {
    let (matrix, _) = S::as_simd_f32s(matrix);
    let (output, _) = S::as_mut_simd_f32s(output);
    let across = width / S::F32_LANES;
    let mut column = 0;
    while column + 2 <= across {
        let mut sums = [[simd.splat_f32s(0.0); 2]; H];
        for (row, factors) in matrix.chunks_exact(across).zip(factors) {
            let pair = [row[column], row[column + 1]];
            for (sums, factor) in sums.iter_mut().zip(factors) {
                let factor = simd.splat_f32s(*factor);
                sums[0] = simd.mul_add_e_f32s(factor, pair[0], sums[0]);
                sums[1] = simd.mul_add_e_f32s(factor, pair[1], sums[1]);
            }
        }
        for (head, sums) in sums.iter().enumerate() {
            let at = head * across + column;
            output[at] = simd.add_f32s(output[at], sums[0]);
            output[at + 1] = simd.add_f32s(output[at + 1], sums[1]);
        }
        column += 2;
    }
    if column < across {
        for (row, factors) in matrix.chunks_exact(across).zip(factors) {
            for (head, factor) in factors.iter().enumerate() {
                let at = head * across + column;
                output[at] = simd.mul_add_e_f32s(simd.splat_f32s(*factor), row[column], output[at]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_to_the_standard_library() {
        let mut value = -80.0_f32;
        while value < 80.0 {
            let (found, expected) = (exp(value), value.exp());
            assert!((found / expected - 1.0).abs() < 1e-6, "exp({value}) = {found}, not {expected}");
            value += 0.137;
        }
        assert!(exp(f32::NEG_INFINITY) < 1e-37);
    }

    #[test]
    fn rms_norm_handles_lengths_that_are_not_a_multiple_of_the_vector() {
        for length in [1, 7, 16, 64, 65, 131] {
            let input: Vec<f32> = (0..length).map(|index| (index as f32 * 0.7).sin()).collect();
            let weight: Vec<f32> = (0..length).map(|index| 1.0 + index as f32).collect();
            let mut output = vec![0.0; length];
            rms_norm(&input, &weight, 1e-5, &mut output);
            let mean = input.iter().map(|value| value * value).sum::<f32>() / length as f32;
            for index in 0..length {
                let expected = input[index] / (mean + 1e-5).sqrt() * weight[index];
                assert!((output[index] - expected).abs() <= 1e-4 * expected.abs().max(1.0));
            }
        }
    }

    #[test]
    fn gate_matches_the_formula() {
        let mut values = vec![-3.0, -0.5, 0.0, 0.5, 100.0];
        let up = vec![2.0; 5];
        gate(&mut values, &up);
        for (found, input) in values.iter().zip([-3.0_f32, -0.5, 0.0, 0.5, 100.0]) {
            let expected = input / (1.0 + (-input).exp()) * 2.0;
            assert!((found - expected).abs() < 1e-5);
        }
    }
}
