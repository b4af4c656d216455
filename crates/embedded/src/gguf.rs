//! Reads GGUF files: metadata and tensors.
//!
//! A file may be damaged or malicious. Every count is therefore checked against the remaining bytes before
//! memory is allocated, and every tensor against the end of the file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::TensorInfo;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Shape};

use crate::Error;

/// The deepest nesting of arrays. Real files have none, and the parser recurses.
const DEPTH_MAX: usize = 4;

/// The alignment of tensors without `general.alignment`, in bytes.
const ALIGNMENT_DEFAULT: u64 = 32;

/// A metadata value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// An integer of any width. Values above `i64::MAX` are clamped.
    Integer(i64),
    /// A float of any width.
    Float(f64),
    /// A boolean, stored as one byte; every byte but zero is true.
    Bool(bool),
    /// A string; invalid UTF-8 is replaced.
    Text(String),
    /// An array of strings.
    Texts(Vec<String>),
    /// An array of 32-bit integers.
    Integers(Vec<i32>),
    /// An array of 32-bit floats.
    Floats(Vec<f32>),
    /// An array of another type, which is not stored.
    Skipped,
}

/// An open GGUF file.
#[derive(Debug)]
pub struct Gguf {
    reader: BufReader<File>,
    size: u64,
    path: PathBuf,
    data: u64,
    metadata: HashMap<String, Value>,
    tensors: HashMap<String, TensorInfo>,
}

impl Gguf {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// Fails if the file is unreadable, is not GGUF, or has an invalid header.
    pub fn open(path: &Path) -> Result<Gguf, Error> {
        let unreadable = |source| Error::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        let details = file.metadata().map_err(unreadable)?;
        if !details.is_file() {
            return Err(Error::Open {
                path: path.to_owned(),
                source: std::io::Error::other("it is not a regular file"),
            });
        }
        let size = details.len();
        let mut header = Header { reader: BufReader::new(file), left: size, is_wide: true };
        let (metadata, tensors) = header.read()?;
        let alignment = match metadata.get("general.alignment") {
            None => ALIGNMENT_DEFAULT,
            Some(Value::Integer(alignment @ 1..=0x10_0000)) => alignment.unsigned_abs(),
            Some(_) => return Err(malformed("its `general.alignment` is not a valid number")),
        };
        let data = (size - header.left).next_multiple_of(alignment);
        let gguf = Gguf { reader: header.reader, size, path: path.to_owned(), data, metadata, tensors };
        for (name, tensor) in &gguf.tensors {
            gguf.check(name, tensor)?;
        }
        Ok(gguf)
    }

    fn check(&self, name: &str, tensor: &TensorInfo) -> Result<(), Error> {
        let dims = tensor.shape.dims();
        let count =
            dims.iter().try_fold(1_usize, |count, dim| count.checked_mul(*dim)).filter(|count| *count > 0);
        let row = dims.last().copied().unwrap_or(0);
        let block = tensor.ggml_dtype.block_size();
        let bytes = count.filter(|_| row.is_multiple_of(block)).and_then(|count| {
            let bytes = (count / block).checked_mul(tensor.ggml_dtype.type_size())?;
            u64::try_from(bytes).ok()
        });
        let end = bytes.and_then(|bytes| self.data.checked_add(tensor.offset)?.checked_add(bytes));
        match end {
            None => Err(malformed(format!("tensor `{name}` has the impossible shape {dims:?}"))),
            Some(end) if end > self.size => {
                let size = self.size;
                Err(malformed(format!("tensor `{name}` ends at byte {end}, but the file has {size} bytes")))
            }
            Some(_) => Ok(()),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a metadata value of any type.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// Returns a metadata value if it is a string.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.metadata.get(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns a metadata value if it is a non-negative integer.
    pub fn count(&self, key: &str) -> Option<usize> {
        match self.metadata.get(key) {
            Some(Value::Integer(number)) => usize::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Returns a metadata value if it is an integer or a float.
    pub fn number(&self, key: &str) -> Option<f64> {
        match self.metadata.get(key) {
            Some(Value::Integer(number)) => Some(*number as f64),
            Some(Value::Float(number)) => Some(*number),
            _ => None,
        }
    }

    /// Returns a metadata value if it is a boolean.
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.metadata.get(key) {
            Some(Value::Bool(flag)) => Some(*flag),
            _ => None,
        }
    }

    /// Returns whether the file has a tensor with this name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Returns the dimensions of a tensor, outermost first.
    pub fn dims(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|tensor| tensor.shape.dims())
    }

    /// Reads a tensor without conversion.
    ///
    /// # Errors
    /// Fails if the tensor is missing or does not have these dimensions.
    pub fn tensor(&mut self, name: &str, dims: &[usize]) -> Result<QTensor, Error> {
        let Some(tensor) = self.tensors.get(name) else {
            return Err(malformed(format!("it has no tensor `{name}`")));
        };
        if tensor.shape.dims() != dims {
            let found = tensor.shape.dims();
            return Err(malformed(format!("tensor `{name}` has the shape {found:?}, which is not {dims:?}")));
        }
        Ok(tensor.read(&mut self.reader, self.data, &Device::Cpu)?)
    }
}

pub(crate) fn malformed(what: impl Into<String>) -> Error {
    Error::Malformed(what.into())
}

type Contents = (HashMap<String, Value>, HashMap<String, TensorInfo>);

/// A sequential reader of the header.
struct Header {
    reader: BufReader<File>,
    /// The bytes between the current position and the end of the file.
    left: u64,
    /// Whether lengths have 64 bits, as in version 2 and later.
    is_wide: bool,
}

impl Header {
    fn read(&mut self) -> Result<Contents, Error> {
        self.reader.seek(SeekFrom::Start(0)).map_err(truncated)?;
        if &self.bytes::<4>()? != b"GGUF" {
            return Err(malformed("it does not begin with `GGUF`"));
        }
        match self.u32()? {
            1 => self.is_wide = false,
            2 | 3 => {}
            version => return Err(malformed(format!("its version {version} is not supported"))),
        }
        let prefix = if self.is_wide { 8 } else { 4 };
        let tensor_count = self.length()?;
        let value_count = self.length()?;
        self.fits(tensor_count, prefix + 16)?;
        self.fits(value_count, prefix + 5)?;
        let mut metadata = HashMap::new();
        for _ in 0..value_count {
            let key = self.text()?;
            let kind = self.u32()?;
            let value = self.value(kind, 0)?;
            metadata.insert(key, value);
        }
        let mut tensors = HashMap::new();
        for _ in 0..tensor_count {
            let name = self.text()?;
            let tensor = self.tensor(&name)?;
            if tensors.insert(name.clone(), tensor).is_some() {
                return Err(malformed(format!("tensor `{name}` occurs twice")));
            }
        }
        Ok((metadata, tensors))
    }

    fn tensor(&mut self, name: &str) -> Result<TensorInfo, Error> {
        let rank = self.u32()?;
        if !(1..=4).contains(&rank) {
            return Err(malformed(format!("tensor `{name}` has {rank} dimensions")));
        }
        let mut dims = Vec::new();
        for _ in 0..rank {
            let dim = self.length()?;
            dims.push(usize::try_from(dim).map_err(|_| malformed(format!("tensor `{name}` is too large")))?);
        }
        dims.reverse();
        let kind = self.u32()?;
        let Some(ggml_dtype) = element(kind) else {
            return Err(Error::Unsupported(format!(
                "tensor `{name}` has elements of GGML type {kind}; use a file quantised to Q8_0, Q4_K_M or the like"
            )));
        };
        let offset = u64::from_le_bytes(self.bytes()?);
        Ok(TensorInfo { ggml_dtype, shape: Shape::from(dims), offset })
    }

    fn value(&mut self, kind: u32, depth: usize) -> Result<Value, Error> {
        Ok(match kind {
            0 => Value::Integer(i64::from(u8::from_le_bytes(self.bytes()?))),
            1 => Value::Integer(i64::from(i8::from_le_bytes(self.bytes()?))),
            2 => Value::Integer(i64::from(u16::from_le_bytes(self.bytes()?))),
            3 => Value::Integer(i64::from(i16::from_le_bytes(self.bytes()?))),
            4 => Value::Integer(i64::from(u32::from_le_bytes(self.bytes()?))),
            5 => Value::Integer(i64::from(i32::from_le_bytes(self.bytes()?))),
            6 => Value::Float(f64::from(f32::from_le_bytes(self.bytes()?))),
            7 => Value::Bool(self.bytes::<1>()? != [0]),
            8 => Value::Text(self.text()?),
            9 => self.array(depth)?,
            10 => {
                let number = u64::from_le_bytes(self.bytes()?);
                Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
            }
            11 => Value::Integer(i64::from_le_bytes(self.bytes()?)),
            12 => Value::Float(f64::from_le_bytes(self.bytes()?)),
            kind => return Err(malformed(format!("its metadata has a value of the unknown type {kind}"))),
        })
    }

    fn array(&mut self, depth: usize) -> Result<Value, Error> {
        let kind = self.u32()?;
        let length = self.length()?;
        let width = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 9 => 4,
            10..=12 => 8,
            kind => return Err(malformed(format!("its metadata has an array of the unknown type {kind}"))),
        };
        self.fits(length, width)?;
        match kind {
            4 | 5 => {
                let mut numbers = Vec::new();
                for _ in 0..length {
                    numbers.push(i32::from_le_bytes(self.bytes()?));
                }
                Ok(Value::Integers(numbers))
            }
            6 => {
                let mut numbers = Vec::new();
                for _ in 0..length {
                    numbers.push(f32::from_le_bytes(self.bytes()?));
                }
                Ok(Value::Floats(numbers))
            }
            8 => {
                let mut texts = Vec::new();
                for _ in 0..length {
                    texts.push(self.text()?);
                }
                Ok(Value::Texts(texts))
            }
            9 if depth >= DEPTH_MAX => Err(malformed("its metadata nests arrays too deeply")),
            kind => {
                for _ in 0..length {
                    self.value(kind, depth + 1)?;
                }
                Ok(Value::Skipped)
            }
        }
    }

    fn text(&mut self) -> Result<String, Error> {
        let length = self.length()?;
        self.fits(length, 1)?;
        let length = usize::try_from(length).map_err(|_| malformed("a string is too long"))?;
        let mut bytes = vec![0; length];
        self.take(&mut bytes)?;
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        Ok(text)
    }

    /// Fails if `count` elements of at least `width` bytes exceed the rest of the file.
    fn fits(&self, count: u64, width: u64) -> Result<(), Error> {
        match count.checked_mul(width) {
            Some(bytes) if bytes <= self.left => Ok(()),
            _ => {
                Err(malformed(format!("it declares {count} elements, but only {} bytes are left", self.left)))
            }
        }
    }

    fn length(&mut self) -> Result<u64, Error> {
        if self.is_wide { Ok(u64::from_le_bytes(self.bytes()?)) } else { Ok(u64::from(self.u32()?)) }
    }

    fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.take(&mut bytes)?;
        Ok(bytes)
    }

    fn take(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        self.reader.read_exact(bytes).map_err(truncated)?;
        self.left = self.left.saturating_sub(bytes.len() as u64);
        Ok(())
    }
}

fn truncated(_: std::io::Error) -> Error {
    malformed("it is truncated")
}

fn element(kind: u32) -> Option<GgmlDType> {
    Some(match kind {
        0 => GgmlDType::F32,
        1 => GgmlDType::F16,
        2 => GgmlDType::Q4_0,
        3 => GgmlDType::Q4_1,
        6 => GgmlDType::Q5_0,
        7 => GgmlDType::Q5_1,
        8 => GgmlDType::Q8_0,
        10 => GgmlDType::Q2K,
        11 => GgmlDType::Q3K,
        12 => GgmlDType::Q4K,
        13 => GgmlDType::Q5K,
        14 => GgmlDType::Q6K,
        30 => GgmlDType::BF16,
        _ => return None,
    })
}
