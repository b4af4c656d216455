//! Multiplies activations with a quantised matrix.
//!
//! With few rows of activations, as in decoding, memory bandwidth is the limit: packed weights are multiplied
//! with 16-bit activations. With many rows, as in prompts, arithmetic is the limit: the weights are unpacked one
//! panel at a time, and each panel is multiplied with all rows in single precision.

use pulp::{Arch, Simd, WithSimd};

use super::matrix::{BLOCK, Form, Matrix, single};
use super::slices::{add, combine};
use super::threads::Threads;
use crate::Error;

/// The number of rows from which unpacking the weights is faster.
const MANY: usize = 32;

/// The outputs in a panel.
const PANEL: usize = 32;

/// The rows of activations that are multiplied with a panel at once. Their sums fit into registers.
const GROUP: usize = 6;

/// The largest 16-bit integer.
const SIXTEEN: f32 = 32767.0;

/// A matrix with an optional bias.
#[derive(Debug)]
pub(super) struct Linear {
    pub(super) matrix: Matrix,
    pub(super) bias: Option<Vec<f32>>,
}

/// Rows of activations in the layout for the multiplication.
pub(super) struct Activations {
    rows: usize,
    width: usize,
    prepared: Prepared,
}

enum Prepared {
    Few(Vec<Sixteen>),
    /// For each group of rows and each input, the values of all rows of the group.
    Many(Vec<[f32; GROUP]>),
}

/// A row quantised to 16 bits.
struct Sixteen {
    quants: Vec<i16>,
    scales: Vec<f32>,
    /// The sum of each block, which is multiplied with the minimum of the weights.
    sums: Vec<f32>,
}

impl Activations {
    pub(super) fn new(values: &[f32], width: usize) -> Activations {
        let rows = values.len() / width;
        let prepared = if rows < MANY {
            Prepared::Few(values.chunks_exact(width).map(|row| Arch::new().dispatch(Quantise(row))).collect())
        } else {
            let mut groups = vec![[0.0; GROUP]; rows.div_ceil(GROUP) * width];
            for (row, values) in values.chunks_exact(width).enumerate() {
                let group = &mut groups[row / GROUP * width..][..width];
                for (slot, value) in group.iter_mut().zip(values) {
                    slot[row % GROUP] = *value;
                }
            }
            Prepared::Many(groups)
        };
        Activations { rows, width, prepared }
    }
}

impl Linear {
    /// Returns the product with each row of activations, plus the bias.
    pub(super) fn forward(&self, input: &Activations, threads: &Threads) -> Result<Vec<f32>, Error> {
        if input.width != self.matrix.inputs {
            let (found, expected) = (input.width, self.matrix.inputs);
            return Err(Error::Malformed(format!("a matrix has {expected} inputs instead of {found}")));
        }
        let mut output = match &input.prepared {
            Prepared::Few(rows) => few(&self.matrix, rows, threads),
            Prepared::Many(groups) => many(&self.matrix, groups, input.rows, threads),
        };
        if let Some(bias) = &self.bias {
            for row in output.chunks_exact_mut(self.matrix.outputs) {
                add(row, bias);
            }
        }
        Ok(output)
    }
}

fn few(matrix: &Matrix, rows: &[Sixteen], threads: &Threads) -> Vec<f32> {
    let piece = matrix.outputs.div_ceil(threads.pieces()).max(1);
    let pieces: Vec<usize> = (0..matrix.outputs).step_by(piece).collect();
    let work = rows.len() * matrix.outputs * matrix.inputs;
    let parts = threads.map(work, pieces, |first| {
        let mut part = vec![0.0; piece.min(matrix.outputs - first) * rows.len()];
        multiply(matrix, rows, first, &mut part);
        part
    });
    if rows.len() == 1 {
        return parts.concat();
    }
    let mut output = vec![0.0; rows.len() * matrix.outputs];
    for (column, products) in parts.iter().flat_map(|part| part.chunks_exact(rows.len())).enumerate() {
        for (row, product) in products.iter().enumerate() {
            output[row * matrix.outputs + column] = *product;
        }
    }
    output
}

fn many(matrix: &Matrix, groups: &[[f32; GROUP]], rows: usize, threads: &Threads) -> Vec<f32> {
    let panels = (0..matrix.outputs.div_ceil(PANEL)).collect();
    let work = matrix.outputs * groups.len() * GROUP;
    let parts = threads.map(work, panels, |panel| Arch::new().dispatch(Panel { matrix, groups, panel }));
    let mut output = vec![0.0; rows * matrix.outputs];
    for (panel, part) in parts.iter().enumerate() {
        let width = PANEL.min(matrix.outputs - panel * PANEL);
        for (row, part) in output.chunks_exact_mut(matrix.outputs).zip(part) {
            row[panel * PANEL..panel * PANEL + width].copy_from_slice(&part[..width]);
        }
    }
    output
}

/// Multiplies one panel with all rows.
struct Panel<'a> {
    matrix: &'a Matrix,
    groups: &'a [[f32; GROUP]],
    panel: usize,
}

impl WithSimd for Panel<'_> {
    type Output = Vec<[f32; PANEL]>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<[f32; PANEL]> {
        let Matrix { outputs, inputs, .. } = *self.matrix;
        let mut weights = vec![[0.0; PANEL]; inputs];
        for lane in 0..PANEL.min(outputs - self.panel * PANEL) {
            self.matrix.unpack_row(self.panel * PANEL + lane, |block, values| {
                for (weights, value) in weights[block * BLOCK..][..BLOCK].iter_mut().zip(values) {
                    weights[lane] = *value;
                }
            });
        }
        let mut product = vec![[0.0; PANEL]; self.groups.len() / inputs * GROUP];
        for (product, group) in product.chunks_exact_mut(GROUP).zip(self.groups.chunks_exact(inputs)) {
            combine::<S, GROUP>(simd, group, weights.as_flattened(), PANEL, product.as_flattened_mut());
        }
        product
    }
}

struct Quantise<'a>(&'a [f32]);

impl WithSimd for Quantise<'_> {
    type Output = Sixteen;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Sixteen {
        let across = self.0.len() / BLOCK;
        let mut sixteen = Sixteen {
            quants: Vec::with_capacity(self.0.len()),
            scales: Vec::with_capacity(across),
            sums: Vec::with_capacity(across),
        };
        for block in self.0.as_chunks::<BLOCK>().0 {
            let (mut largest, mut sums) = ([0.0_f32; 8], [0.0_f32; 8]);
            for part in block.as_chunks::<8>().0 {
                for lane in 0..8 {
                    let size = part[lane].abs();
                    largest[lane] = if size > largest[lane] { size } else { largest[lane] };
                    sums[lane] += part[lane];
                }
            }
            let largest = largest.iter().fold(0.0, |one: f32, other| one.max(*other));
            let inverse = if largest > 0.0 { SIXTEEN / largest } else { 0.0 };
            let mut quants = [0_i16; BLOCK];
            for (quant, value) in quants.iter_mut().zip(block) {
                // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer.
                *quant = ((value * inverse + 12_582_912.0) - 12_582_912.0) as i32 as i16;
            }
            sixteen.quants.extend_from_slice(&quants);
            sixteen.scales.push(largest / SIXTEEN);
            sixteen.sums.push(sums.iter().sum());
        }
        sixteen
    }
}

/// Multiplies rows of the matrix, from `first` on, with each of the inputs until `output` is full.
///
/// Each row is multiplied with all inputs before the next row is read, so that weights are read once.
fn multiply(matrix: &Matrix, inputs: &[Sixteen], first: usize, output: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        let dot = x86::Dot(simd);
        return Simd::vectorize(simd, Multiply { matrix, inputs, first, output, dot });
    }
    Arch::new().dispatch(Multiply { matrix, inputs, first, output, dot: Portable });
}

struct Multiply<'a, D> {
    matrix: &'a Matrix,
    inputs: &'a [Sixteen],
    first: usize,
    output: &'a mut [f32],
    dot: D,
}

/// The scalar product of a row of packed weights and a row of activations; `scales` has one factor per block.
trait Dot: Copy {
    fn four(self, weights: &[[u8; 16]], scales: &[f32], input: &[[i16; BLOCK]]) -> f32;
    fn eight(self, weights: &[[i8; BLOCK]], scales: &[f32], input: &[[i16; BLOCK]]) -> f32;
}

impl<D: Dot> WithSimd for Multiply<'_, D> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let across = self.matrix.across();
        let mut products = vec![0.0; across];
        for (row, outputs) in self.output.chunks_exact_mut(self.inputs.len()).enumerate() {
            let part = (self.first + row) * across..(self.first + row + 1) * across;
            for (output, input) in outputs.iter_mut().zip(self.inputs) {
                let (values, _) = input.quants.as_chunks::<BLOCK>();
                match &self.matrix.form {
                    Form::Four { quants, scales, minima } => {
                        scale(&mut products, &scales[part.clone()], &input.scales);
                        let least = weigh(&minima[part.clone()], &input.sums);
                        let (quants, _) =
                            quants[part.start * BLOCK / 2..part.end * BLOCK / 2].as_chunks::<16>();
                        *output = self.dot.four(quants, &products, values) + least;
                    }
                    Form::Eight { quants, scales } => {
                        scale(&mut products, &scales[part.clone()], &input.scales);
                        let (quants, _) = quants[part.start * BLOCK..part.end * BLOCK].as_chunks::<BLOCK>();
                        *output = self.dot.eight(quants, &products, values);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn scale(products: &mut [f32], halves: &[u16], factors: &[f32]) {
    for ((product, half), factor) in products.iter_mut().zip(halves).zip(factors) {
        *product = single(*half) * factor;
    }
}

/// The scalar product, in eight partial sums so that the compiler vectorises it.
#[inline(always)]
fn weigh(halves: &[u16], factors: &[f32]) -> f32 {
    let mut sums = [0.0; 8];
    let ((halves, rest), (factors, rest_factors)) = (halves.as_chunks::<8>(), factors.as_chunks::<8>());
    for (halves, factors) in halves.iter().zip(factors) {
        for lane in 0..8 {
            sums[lane] += single(halves[lane]) * factors[lane];
        }
    }
    for (half, factor) in rest.iter().zip(rest_factors) {
        sums[0] += single(*half) * factor;
    }
    sums.iter().sum()
}

/// The implementation for processors without AVX2.
#[derive(Clone, Copy)]
struct Portable;

impl Dot for Portable {
    #[inline(always)]
    fn four(self, weights: &[[u8; 16]], scales: &[f32], input: &[[i16; BLOCK]]) -> f32 {
        let mut total = 0.0;
        for ((weights, scale), input) in weights.iter().zip(scales).zip(input) {
            let (low, high) = input.split_at(BLOCK / 2);
            let mut sum = 0;
            for ((weight, low), high) in weights.iter().zip(low).zip(high) {
                sum += i32::from(weight & 15) * i32::from(*low) + i32::from(weight >> 4) * i32::from(*high);
            }
            total += sum as f32 * scale;
        }
        total
    }

    #[inline(always)]
    fn eight(self, weights: &[[i8; BLOCK]], scales: &[f32], input: &[[i16; BLOCK]]) -> f32 {
        let mut total = 0.0;
        for ((weights, scale), input) in weights.iter().zip(scales).zip(input) {
            let mut sum = 0;
            for (weight, input) in weights.iter().zip(input) {
                sum += i32::from(*weight) * i32::from(*input);
            }
            total += sum as f32 * scale;
        }
        total
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m128i, __m256, __m256i};

    use pulp::cast;
    use pulp::x86::V3;

    use super::{BLOCK, Portable};

    /// The implementation for processors with AVX2.
    #[derive(Clone, Copy)]
    pub(super) struct Dot(pub(super) V3);

    impl Dot {
        #[inline(always)]
        fn halves(input: &[i16; BLOCK]) -> [__m256i; 2] {
            cast(*input)
        }

        /// Adds the product of a block's weights and activations (two vectors each) to `sum`.
        #[inline(always)]
        fn block(self, weights: [__m256i; 2], scale: f32, input: &[i16; BLOCK], sum: __m256) -> __m256 {
            let V3 { avx, avx2, fma, .. } = self.0;
            let input = Dot::halves(input);
            let low = avx2._mm256_madd_epi16(weights[0], input[0]);
            let high = avx2._mm256_madd_epi16(weights[1], input[1]);
            let product = avx._mm256_cvtepi32_ps(avx2._mm256_add_epi32(low, high));
            fma._mm256_fmadd_ps(product, avx._mm256_set1_ps(scale), sum)
        }

        #[inline(always)]
        fn four_weights(self, weights: &[u8; 16]) -> [__m256i; 2] {
            let V3 { avx, avx2, .. } = self.0;
            let wide = avx2._mm256_cvtepu8_epi16(cast::<[u8; 16], __m128i>(*weights));
            [avx2._mm256_and_si256(wide, avx._mm256_set1_epi16(15)), avx2._mm256_srli_epi16::<4>(wide)]
        }

        #[inline(always)]
        fn eight_weights(self, weights: &[i8; BLOCK]) -> [__m256i; 2] {
            let avx2 = self.0.avx2;
            let [low, high]: [__m128i; 2] = cast(*weights);
            [avx2._mm256_cvtepi8_epi16(low), avx2._mm256_cvtepi8_epi16(high)]
        }

        #[inline(always)]
        fn total(self, one: __m256, other: __m256) -> f32 {
            let lanes: [f32; 8] = cast(self.0.avx._mm256_add_ps(one, other));
            let [a, b, c, d, e, f, g, h] = lanes;
            ((a + e) + (b + f)) + ((c + g) + (d + h))
        }
    }

    impl super::Dot for Dot {
        #[inline(always)]
        fn four(self, weights: &[[u8; 16]], scales: &[f32], input: &[[i16; BLOCK]]) -> f32 {
            let mut sums = [self.0.avx._mm256_setzero_ps(); 2];
            let ((weights, rest), (scales, rest_scales), (input, rest_input)) =
                (weights.as_chunks::<2>(), scales.as_chunks::<2>(), input.as_chunks::<2>());
            for ((weights, scales), input) in weights.iter().zip(scales).zip(input) {
                sums[0] = self.block(self.four_weights(&weights[0]), scales[0], &input[0], sums[0]);
                sums[1] = self.block(self.four_weights(&weights[1]), scales[1], &input[1], sums[1]);
            }
            self.total(sums[0], sums[1]) + Portable.four(rest, rest_scales, rest_input)
        }

        #[inline(always)]
        fn eight(self, weights: &[[i8; BLOCK]], scales: &[f32], input: &[[i16; BLOCK]]) -> f32 {
            let mut sums = [self.0.avx._mm256_setzero_ps(); 2];
            let ((weights, rest), (scales, rest_scales), (input, rest_input)) =
                (weights.as_chunks::<2>(), scales.as_chunks::<2>(), input.as_chunks::<2>());
            for ((weights, scales), input) in weights.iter().zip(scales).zip(input) {
                sums[0] = self.block(self.eight_weights(&weights[0]), scales[0], &input[0], sums[0]);
                sums[1] = self.block(self.eight_weights(&weights[1]), scales[1], &input[1], sums[1]);
            }
            self.total(sums[0], sums[1]) + Portable.eight(rest, rest_scales, rest_input)
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::quantized::{GgmlDType, QTensor};
    use candle_core::{Device, Tensor};

    use super::*;

    #[test]
    fn forward_matches_naive_product_for_any_number_of_rows() -> Result<(), Error> {
        let threads = Threads::new(2)?;
        for (outputs, inputs) in [(40, 96), (32, 64), (7, 576), (100, 32), (700, 288)] {
            let values: Vec<f32> = (0..outputs * inputs).map(|index| (index as f32 * 0.731).sin()).collect();
            let plain = Tensor::from_vec(values, (outputs, inputs), &Device::Cpu)?;
            for dtype in [GgmlDType::Q4_1, GgmlDType::Q8_0] {
                let matrix = Matrix::new(&QTensor::quantize(&plain, dtype)?, outputs, inputs)?;
                let numbers: Vec<u32> = (0..).take(outputs).collect();
                let unpacked = matrix.rows(&numbers);
                let linear = Linear { matrix, bias: Some(vec![0.5; outputs]) };
                for rows in [1, 2, 5, 13, 31, 32, 33, 40] {
                    let input: Vec<f32> =
                        (0..rows * inputs).map(|index| (index as f32 * 0.177).cos() * 3.0).collect();
                    let found = linear.forward(&Activations::new(&input, inputs), &threads)?;
                    assert_eq!(found.len(), rows * outputs);
                    for (index, found) in found.iter().enumerate() {
                        let (row, column) = (index / outputs, index % outputs);
                        let weights = &unpacked[column * inputs..][..inputs];
                        let expected: f32 =
                            input[row * inputs..][..inputs].iter().zip(weights).map(|(a, b)| a * b).sum();
                        assert!((found - expected - 0.5).abs() < 5e-3, "{found} and not {expected}");
                    }
                }
            }
        }
        Ok(())
    }

    #[test]
    fn avx2_and_portable_dot_products_agree() {
        let weights: Vec<[u8; 16]> =
            (0..5).map(|row| std::array::from_fn(|at| (row * 71 + at * 37) as u8)).collect();
        let wide: Vec<[i8; 32]> =
            (0..5).map(|row| std::array::from_fn(|at| (row * 71 + at * 37) as i8)).collect();
        let input: Vec<[i16; 32]> =
            (0..5).map(|row| std::array::from_fn(|at| (row * 7001 + at * 3777) as u16 as i16)).collect();
        let scales = [0.1, 0.2, -0.3, 0.4, 0.5];
        let expected = [Portable.four(&weights, &scales, &input), Portable.eight(&wide, &scales, &input)];
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = pulp::x86::V3::try_new() {
            let dot = x86::Dot(simd);
            let found = [dot.four(&weights, &scales, &input), dot.eight(&wide, &scales, &input)];
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() <= expected.abs() * 1e-4, "{found} and not {expected}");
            }
        }
    }
}
