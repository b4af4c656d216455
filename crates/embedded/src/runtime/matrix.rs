//! Weight matrices quantised to four or eight bits.
//!
//! Both forms have one scale per 32 values. Four-bit tensors of a file stay in four bits. All others are
//! converted to eight bits, which has no measurable effect on the output. The width must be a multiple of 32.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use half::f16;

use crate::Error;

/// The values that share a scale.
pub(super) const BLOCK: usize = 32;

/// The values that are requantised at once. This bounds the extra memory during loading.
const PIECE: usize = 1 << 20;

/// The largest half-precision number.
const HALF_MAX: f32 = 65504.0;

/// 2^112: the difference between the exponent biases of half and single precision.
const HALF_SCALE: f32 = f32::from_bits((127 + 112) << 23);

/// A matrix of `outputs` rows of `inputs` values.
pub(super) struct Matrix {
    pub(super) outputs: usize,
    pub(super) inputs: usize,
    pub(super) form: Form,
}

/// The values of a matrix; scales and minima are in half precision.
pub(super) enum Form {
    /// A value is its four bits times the scale plus the minimum. A byte holds values `n` and `n + 16` of a block.
    Four { quants: Vec<u8>, scales: Vec<u16>, minima: Vec<u16> },
    /// A value is its eight bits times the scale.
    Eight { quants: Vec<i8>, scales: Vec<u16> },
}

impl std::fmt::Debug for Matrix {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bits = match self.form {
            Form::Four { .. } => 4,
            Form::Eight { .. } => 8,
        };
        write!(formatter, "Matrix({} x {} in {bits} bits)", self.outputs, self.inputs)
    }
}

impl Matrix {
    /// Converts a tensor of a file.
    pub(super) fn new(tensor: &QTensor, outputs: usize, inputs: usize) -> Result<Matrix, Error> {
        if !inputs.is_multiple_of(BLOCK) {
            return Err(Error::Unsupported(format!(
                "a matrix with rows of {inputs} values, which is not a multiple of {BLOCK}"
            )));
        }
        let blocks = outputs * inputs / BLOCK;
        let form = match tensor.dtype() {
            GgmlDType::Q4_0 => four(&tensor.data()?, blocks, |block: &[u8; 18], build| {
                let scale = half_at(block, 0);
                build.push(scale, -8.0 * scale, &block[2..]);
            }),
            GgmlDType::Q4_1 => four(&tensor.data()?, blocks, |block: &[u8; 20], build| {
                build.push(half_at(block, 0), half_at(block, 2), &block[4..]);
            }),
            GgmlDType::Q4K => four(&tensor.data()?, blocks, four_k),
            GgmlDType::Q8_0 => {
                let mut quants = Vec::with_capacity(blocks * BLOCK);
                let mut scales = Vec::with_capacity(blocks);
                for block in tensor.data()?.as_chunks::<34>().0 {
                    scales.push(u16::from_le_bytes([block[0], block[1]]));
                    quants.extend(block[2..].iter().map(|byte| byte.cast_signed()));
                }
                Form::Eight { quants, scales }
            }
            _ => eight(tensor, outputs, inputs)?,
        };
        let matrix = Matrix { outputs, inputs, form };
        if matrix.is_complete() {
            Ok(matrix)
        } else {
            Err(crate::gguf::malformed("values of a matrix are missing"))
        }
    }

    fn is_complete(&self) -> bool {
        let values = self.outputs * self.inputs;
        match &self.form {
            Form::Four { quants, scales, minima } => {
                quants.len() * 2 == values && scales.len() * BLOCK == values && minima.len() == scales.len()
            }
            Form::Eight { quants, scales } => quants.len() == values && scales.len() * BLOCK == values,
        }
    }

    /// Returns the number of blocks per row.
    pub(super) fn across(&self) -> usize {
        self.inputs / BLOCK
    }

    /// Calls `take` with the index and the dequantised values of each block of a row.
    #[inline(always)]
    pub(super) fn unpack_row(&self, row: usize, mut take: impl FnMut(usize, &[f32; BLOCK])) {
        let across = self.across();
        let part = row * across..(row + 1) * across;
        let mut values = [0.0; BLOCK];
        match &self.form {
            Form::Four { quants, scales, minima } => {
                let (quants, _) = quants[part.start * BLOCK / 2..part.end * BLOCK / 2].as_chunks::<16>();
                let scales = scales[part.clone()].iter().zip(&minima[part]);
                for (index, (quants, (scale, minimum))) in quants.iter().zip(scales).enumerate() {
                    let (scale, minimum) = (single(*scale), single(*minimum));
                    let (low, high) = values.split_at_mut(BLOCK / 2);
                    for ((low, high), quant) in low.iter_mut().zip(high).zip(quants) {
                        *low = f32::from(quant & 15) * scale + minimum;
                        *high = f32::from(quant >> 4) * scale + minimum;
                    }
                    take(index, &values);
                }
            }
            Form::Eight { quants, scales } => {
                let (quants, _) = quants[part.start * BLOCK..part.end * BLOCK].as_chunks::<BLOCK>();
                for (index, (quants, scale)) in quants.iter().zip(&scales[part]).enumerate() {
                    let scale = single(*scale);
                    for (value, quant) in values.iter_mut().zip(quants) {
                        *value = f32::from(*quant) * scale;
                    }
                    take(index, &values);
                }
            }
        }
    }

    /// Returns the dequantised rows with these indices, concatenated.
    ///
    /// # Panics
    /// Panics if an index is out of range.
    pub(super) fn rows(&self, indices: &[u32]) -> Vec<f32> {
        let mut unpacked = Vec::with_capacity(indices.len() * self.inputs);
        for index in indices {
            self.unpack_row(*index as usize, |_, values| unpacked.extend_from_slice(values));
        }
        unpacked
    }
}

/// Converts half to single precision: shifts sign, exponent and fraction, then corrects the exponent bias.
#[inline(always)]
pub(super) fn single(half: u16) -> f32 {
    let wide = i32::from(half.cast_signed()) << 13;
    f32::from_bits(wide.cast_unsigned() & 0x8fff_e000) * HALF_SCALE
}

/// Converts single to half precision; values out of range are clamped.
fn half(value: f32) -> u16 {
    f16::from_f32(value.clamp(-HALF_MAX, HALF_MAX)).to_bits()
}

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Collects the blocks of a four-bit matrix.
struct Build {
    quants: Vec<u8>,
    scales: Vec<u16>,
    minima: Vec<u16>,
}

impl Build {
    fn push(&mut self, scale: f32, minimum: f32, quants: &[u8]) {
        self.scales.push(half(scale));
        self.minima.push(half(minimum));
        self.quants.extend_from_slice(quants);
    }
}

fn four<const N: usize>(data: &[u8], blocks: usize, take: impl Fn(&[u8; N], &mut Build)) -> Form {
    let mut build = Build {
        quants: Vec::with_capacity(blocks * BLOCK / 2),
        scales: Vec::with_capacity(blocks),
        minima: Vec::with_capacity(blocks),
    };
    for block in data.as_chunks::<N>().0 {
        take(block, &mut build);
    }
    Form::Four { quants: build.quants, scales: build.scales, minima: build.minima }
}

/// Splits a Q4_K block into eight blocks of 32 values.
///
/// The block has two common scales and, for each part, six bits of scale and six of minimum. A byte of values
/// holds value `n` of one part and value `n` of the next.
fn four_k(block: &[u8; 144], build: &mut Build) {
    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
    let packed = &block[4..16];
    let quants = &block[16..];
    for part in 0..8 {
        let (six, other) = match part {
            0..4 => (packed[part] & 63, packed[part + 4] & 63),
            _ => (
                packed[part + 4] & 15 | packed[part - 4] >> 6 << 4,
                packed[part + 4] >> 4 | packed[part] >> 6 << 4,
            ),
        };
        let pair = &quants[part / 2 * 32..part / 2 * 32 + 32];
        let value = |at: usize| if part % 2 == 0 { pair[at] & 15 } else { pair[at] >> 4 };
        let mut repacked = [0; 16];
        for (at, byte) in repacked.iter_mut().enumerate() {
            *byte = value(at) | value(at + 16) << 4;
        }
        build.push(scale * f32::from(six), -minimum * f32::from(other), &repacked);
    }
}

fn eight(tensor: &QTensor, outputs: usize, inputs: usize) -> Result<Form, Error> {
    let mut quants = Vec::with_capacity(outputs * inputs);
    let mut scales = Vec::with_capacity(outputs * inputs / BLOCK);
    let piece = (PIECE / inputs).max(1);
    for first in (0..outputs).step_by(piece) {
        let rows: Vec<u32> =
            (first..outputs.min(first + piece)).filter_map(|row| u32::try_from(row).ok()).collect();
        let rows = Tensor::new(rows, &Device::Cpu)?;
        let values = tensor.embedding(&rows)?.flatten_all()?.to_vec1::<f32>()?;
        for block in values.chunks_exact(BLOCK) {
            let largest = block.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
            let scale = half(largest / 127.0);
            let inverse = if scale == 0 { 0.0 } else { single(scale).recip() };
            scales.push(scale);
            quants.extend(block.iter().map(|value| (value * inverse).round().clamp(-127.0, 127.0) as i8));
        }
    }
    Ok(Form::Eight { quants, scales })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dequantised_values_match_candle_for_every_type() -> Result<(), Error> {
        let (outputs, inputs) = (7, 512);
        let values: Vec<f32> = (0..outputs * inputs).map(|index| (index as f32 * 0.731).sin()).collect();
        let plain = Tensor::from_vec(values, (outputs, inputs), &Device::Cpu)?;
        use GgmlDType::{F16, F32, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
        for dtype in [Q4_0, Q4_1, Q4K, Q8_0, Q5_0, Q5_1, Q5K, Q6K, Q2K, Q3K, F16, F32] {
            let tensor = QTensor::quantize(&plain, dtype)?;
            let expected = tensor.dequantize(&Device::Cpu)?.flatten_all()?.to_vec1::<f32>()?;
            let matrix = Matrix::new(&tensor, outputs, inputs)?;
            let found = matrix.rows(&[0, 1, 2, 3, 4, 5, 6]);
            for (expected, found) in expected.iter().zip(&found) {
                assert!((expected - found).abs() < 6e-3, "{dtype:?}: {found} and not {expected}");
            }
        }
        Ok(())
    }
}
