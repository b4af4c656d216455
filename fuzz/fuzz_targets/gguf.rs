//! Fuzzes the reader of weights: any file is refused or can be read, tensor by tensor, without a panic.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use slipform_embedded::gguf::Gguf;

/// Names of tensors in files of the corpus.
const TENSORS: [&str; 3] = ["token_embd.weight", "output_norm.weight", "t"];

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("slipform-fuzz-{}.gguf", std::process::id()));
    fs::write(&path, bytes).expect("a writable temporary folder");
    if let Ok(mut file) = Gguf::open(&path) {
        let _ = (file.text("general.architecture"), file.count("llama.block_count"));
        let _ = (file.number("llama.rope.freq_base"), file.flag("tokenizer.ggml.add_bos_token"));
        for name in TENSORS {
            if let Some(dims) = file.dims(name).map(<[usize]>::to_vec) {
                let _ = file.tensor(name, &dims);
            }
        }
    }
});
