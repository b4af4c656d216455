//! The matrices of a model and their product with activations, over candle's quantised kernels.
//!
//! Candle's fast kernels on x86 want rows of a multiple of 256 and a multiple of 16 rows, in Q8_0 or Q4_K.
//! Whatever else a file holds is requantised to Q8_0 as it is loaded, and padded with zeros. Those kernels
//! keep their own arrangement of the weights, so the original is given back once they have it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use candle_core::quantized::k_quants::{BlockQ8_0, GgmlType, matmul, matmul_f16};
use candle_core::quantized::{GgmlDType, QStorage, QTensor, QuantizedType};
use candle_core::{CpuStorage, CustomOp1, Device, Layout, Result as Computed, Shape, Tensor};

use crate::Error;

/// What candle's fast kernels want the length of a row to be a multiple of.
const ROW: usize = 256;

/// What they want the number of rows to be a multiple of.
const ROWS: usize = 16;

/// How many values are requantised at once, so that loading takes little more memory than the result.
const PIECE: usize = 1 << 20;

/// From this many activations on, without the fast kernels, it pays to unpack a matrix and multiply plainly.
const UNPACK_MIN: usize = 24;

/// A matrix of weights, and the bias that is added to its product.
pub(super) struct Linear {
    weights: QTensor,
    outputs: usize,
    padded_outputs: usize,
    bias: Option<Vec<f32>>,
}

/// Rows of activations, padded as the matrices they are multiplied with are.
pub(super) struct Activations {
    storage: CpuStorage,
    layout: Layout,
    rows: usize,
}

impl Activations {
    /// Takes rows that are `stride(width)` apart, the surplus being zeros.
    pub(super) fn new(values: Vec<f32>, rows: usize, width: usize) -> Activations {
        let layout = Layout::contiguous((rows, stride(width)));
        Activations { storage: CpuStorage::F32(values), layout, rows }
    }

    /// Takes rows that are `width` apart.
    pub(super) fn pad(values: Vec<f32>, rows: usize, width: usize) -> Activations {
        let stride = stride(width);
        if stride == width {
            return Activations::new(values, rows, width);
        }
        let mut padded = vec![0.0; rows * stride];
        for (to, from) in padded.chunks_exact_mut(stride).zip(values.chunks_exact(width)) {
            to[..width].copy_from_slice(from);
        }
        Activations::new(padded, rows, width)
    }
}

/// How far apart rows of activations of this width are.
pub(super) fn stride(width: usize) -> usize {
    if fast() { width.next_multiple_of(ROW) } else { width }
}

impl Linear {
    /// Takes a matrix of `outputs` rows of `inputs` values from a file.
    pub(super) fn new(
        tensor: QTensor,
        outputs: usize,
        inputs: usize,
        bias: Option<Vec<f32>>,
    ) -> Result<Linear, Error> {
        if keeps(tensor.dtype()) && outputs.is_multiple_of(ROWS) {
            return Ok(Linear { weights: tensor, outputs, padded_outputs: outputs, bias });
        }
        Linear::requantise(&tensor, outputs, inputs, bias)
    }

    /// Takes a copy of a matrix that is also used otherwise.
    pub(super) fn copy(tensor: &QTensor, outputs: usize, inputs: usize) -> Result<Linear, Error> {
        Linear::requantise(tensor, outputs, inputs, None)
    }

    fn requantise(
        tensor: &QTensor,
        outputs: usize,
        inputs: usize,
        bias: Option<Vec<f32>>,
    ) -> Result<Linear, Error> {
        // A row that is no whole number of blocks is padded even where the fast kernels are not.
        let stride = stride(inputs);
        if !stride.is_multiple_of(BlockQ8_0::BLCK_SIZE) {
            return Err(Error::Unsupported(format!(
                "a matrix with rows of {inputs}, which is no multiple of 32"
            )));
        }
        let padded_outputs = if fast() { outputs.next_multiple_of(ROWS) } else { outputs };
        let across = stride / BlockQ8_0::BLCK_SIZE;
        let mut blocks = vec![BlockQ8_0::zeros(); padded_outputs * across];
        let piece = (PIECE / stride).max(1);
        let mut padded = Vec::new();
        for first in (0..outputs).step_by(piece) {
            let last = outputs.min(first + piece);
            let values = rows(tensor, first, last)?;
            padded.clear();
            for row in values.chunks_exact(inputs) {
                padded.extend_from_slice(row);
                padded.resize(padded.len().next_multiple_of(stride), 0.0);
            }
            BlockQ8_0::from_float(&padded, &mut blocks[first * across..last * across]);
        }
        let weights = pack(blocks, padded_outputs, stride)?;
        Ok(Linear { weights, outputs, padded_outputs, bias })
    }

    /// The product with each row of activations.
    pub(super) fn forward(&self, input: &Activations) -> Result<Vec<f32>, Error> {
        let mut output = product(&self.weights, input)?;
        if self.padded_outputs != self.outputs {
            for row in 1..input.rows {
                output.copy_within(
                    row * self.padded_outputs..row * self.padded_outputs + self.outputs,
                    row * self.outputs,
                );
            }
            output.truncate(input.rows * self.outputs);
        }
        if let Some(bias) = &self.bias {
            for row in output.chunks_exact_mut(self.outputs) {
                super::slices::add(row, bias);
            }
        }
        Ok(output)
    }
}

/// Some rows of a tensor as they are meant.
pub(super) fn rows(tensor: &QTensor, first: usize, last: usize) -> Result<Vec<f32>, Error> {
    let wanted: Vec<u32> = (first..last).map(|row| u32::try_from(row).unwrap_or(u32::MAX)).collect();
    pick(tensor, &wanted)
}

/// The rows of a tensor with these numbers.
pub(super) fn pick(tensor: &QTensor, numbers: &[u32]) -> Result<Vec<f32>, Error> {
    let numbers = Tensor::new(numbers, &Device::Cpu)?;
    Ok(tensor.embedding(&numbers)?.flatten_all()?.to_vec1::<f32>()?)
}

fn product(weights: &QTensor, input: &Activations) -> Result<Vec<f32>, Error> {
    match weights.cpu_fwd(&input.storage, &input.layout)? {
        (CpuStorage::F32(output), _) => Ok(output),
        _ => Err(Error::Unsupported("a product that is not in single precision".into())),
    }
}

/// Whether candle has a kernel for this type that is worth keeping the type for.
fn keeps(dtype: GgmlDType) -> bool {
    match dtype {
        GgmlDType::Q4K => true,
        GgmlDType::Q2K | GgmlDType::Q3K | GgmlDType::Q5K | GgmlDType::Q6K => !fast(),
        _ => false,
    }
}

/// Whether this processor has what candle's fast kernels for Q8_0 need, found by trying them.
fn fast() -> bool {
    static FAST: OnceLock<bool> = OnceLock::new();
    *FAST.get_or_init(|| {
        let blocks = Blocks::new(vec![BlockQ8_0::zeros(); ROWS * ROW / BlockQ8_0::BLCK_SIZE]);
        let missed = Arc::clone(&blocks.missed);
        let input = Activations {
            storage: CpuStorage::F32(vec![0.0; ROW]),
            layout: Layout::contiguous((1, ROW)),
            rows: 1,
        };
        let tried = QTensor::new(QStorage::Cpu(Box::new(blocks)), (ROWS, ROW)).map_err(Error::from);
        let tried = tried.and_then(|weights| product(&weights, &input));
        cfg!(target_arch = "x86_64") && tried.is_ok() && !missed.load(Ordering::Relaxed)
    })
}

/// Hands blocks to candle and, if its kernels have arranged them anew, gives the original back.
fn pack(blocks: Vec<BlockQ8_0>, outputs: usize, stride: usize) -> Result<QTensor, Error> {
    let blocks = Blocks::new(blocks);
    let (held, missed) = (Arc::clone(&blocks.held), Arc::clone(&blocks.missed));
    let weights = QTensor::new(QStorage::Cpu(Box::new(blocks)), (outputs, stride))?;
    if fast() {
        let input = Activations {
            storage: CpuStorage::F32(vec![0.0; stride]),
            layout: Layout::contiguous((1, stride)),
            rows: 1,
        };
        product(&weights, &input)?;
        if !missed.load(Ordering::Relaxed) {
            *held.lock().unwrap_or_else(PoisonError::into_inner) = Vec::new();
        }
    }
    Ok(weights)
}

/// Weights in Q8_0 which notice when candle falls back to them, and which can be given back.
struct Blocks {
    held: Arc<Mutex<Vec<BlockQ8_0>>>,
    missed: Arc<AtomicBool>,
}

impl Blocks {
    fn new(blocks: Vec<BlockQ8_0>) -> Blocks {
        Blocks { held: Arc::new(Mutex::new(blocks)), missed: Arc::default() }
    }

    fn held(&self) -> MutexGuard<'_, Vec<BlockQ8_0>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The blocks, for a use that the fast kernels do not cover.
    fn missed(&self, values: usize) -> Computed<MutexGuard<'_, Vec<BlockQ8_0>>> {
        self.missed.store(true, Ordering::Relaxed);
        let held = self.held();
        if held.len() * BlockQ8_0::BLCK_SIZE < values {
            candle_core::bail!("the weights are only kept as candle's kernels arranged them");
        }
        Ok(held)
    }
}

impl QuantizedType for Blocks {
    fn dtype(&self) -> GgmlDType {
        GgmlDType::Q8_0
    }

    fn matmul_t(
        &self,
        (rows, inner, outputs): (usize, usize, usize),
        input: &[f32],
        output: &mut [f32],
    ) -> Computed<()> {
        let blocks = self.missed(inner * outputs)?;
        if rows < UNPACK_MIN {
            return matmul((rows, inner, outputs), input, &blocks, output);
        }
        let mut plain = vec![0.0; inner * outputs];
        BlockQ8_0::to_float(&blocks, &mut plain);
        let weights = Tensor::from_vec(plain, (outputs, inner), &Device::Cpu)?;
        let input = Tensor::from_slice(input, (rows, inner), &Device::Cpu)?;
        let product = input.matmul(&weights.t()?)?;
        output.copy_from_slice(&product.flatten_all()?.to_vec1::<f32>()?);
        Ok(())
    }

    fn matmul_t_f16(
        &self,
        sizes: (usize, usize, usize),
        input: &[half::f16],
        output: &mut [half::f16],
    ) -> Computed<()> {
        let blocks = self.missed(sizes.1 * sizes.2)?;
        matmul_f16(sizes, input, &blocks, output)
    }

    fn embedding(&self, numbers: &[u32], rows: usize, width: usize) -> Computed<CpuStorage> {
        self.missed(rows * width)?.embedding(numbers, rows, width)
    }

    fn dequantize(&self, values: usize) -> Computed<CpuStorage> {
        self.missed(values)?.dequantize(values)
    }

    fn storage_size_in_bytes(&self) -> usize {
        self.held().storage_size_in_bytes()
    }

    fn as_ptr(&self) -> *const u8 {
        QuantizedType::as_ptr(&*self.held())
    }

    fn block_size(&self) -> usize {
        BlockQ8_0::BLCK_SIZE
    }

    fn from_float(&mut self, values: &[f32]) {
        BlockQ8_0::from_float(values, &mut self.held());
    }

    fn from_float_imatrix(&mut self, values: &[f32], importance: &[f32], width: usize) {
        BlockQ8_0::from_float_imatrix(values, &mut self.held(), importance, width);
    }

    fn size(&self) -> usize {
        self.held().size()
    }
}

impl std::fmt::Debug for Linear {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shape: &Shape = self.weights.shape();
        write!(formatter, "Linear({shape:?}, {:?})", self.weights.dtype())
    }
}
