use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;

use super::*;
use crate::testing::{Recipe, Tiny, recipe};

fn load(recipe: &Recipe) -> Result<CandleModel, Error> {
    CandleModel::load(recipe.write().path(), Options::default())
}

fn prompt(length: u32) -> Vec<u32> {
    (0..length).map(|index| index * 31 % 250).collect()
}

#[track_caller]
fn check_close(one: &[f32], other: &[f32]) {
    assert_eq!(one.len(), other.len());
    let size = one.iter().fold(0.0_f32, |size, value| size.max(value.abs()));
    assert!(size > 0.1 && size.is_finite(), "the largest logit is {size}");
    let difference = one.iter().zip(other).fold(0.0_f32, |most, (one, other)| most.max((one - other).abs()));
    assert!(difference <= 0.02 * size, "difference {difference} for values up to {size}");
}

impl CandleModel {
    /// Returns a model with the same weights and an empty cache.
    fn sibling(&self) -> CandleModel {
        let weights = Arc::clone(&self.weights);
        let caches = weights.layers.iter().map(|_| Cache::new(weights.shape.heads)).collect();
        let interrupt = Interrupt::default();
        CandleModel { weights, caches, length: 0, context: self.context, interrupt, logits: Vec::new() }
    }
}

#[test]
fn batched_and_single_evaluation_give_equal_logits() -> Result<(), Error> {
    for architecture in ["llama", "qwen2", "qwen3"] {
        for dtype in [GgmlDType::Q8_0, GgmlDType::Q4_1, GgmlDType::Q4_0, GgmlDType::Q5_1, GgmlDType::F16] {
            let mut batched = load(&recipe(architecture, dtype))?;
            let mut single = batched.sibling();
            let tokens = prompt(70);
            let expected = batched.eval(&tokens)?.to_vec();
            let mut found = Vec::new();
            for token in &tokens {
                found = single.eval(&[*token])?.to_vec();
            }
            assert_eq!((batched.length(), single.length()), (70, 70));
            check_close(&expected, &found);
        }
    }
    Ok(())
}

#[test]
fn architectures_compute_different_logits() -> Result<(), Error> {
    let logits = |recipe: Recipe| Ok::<_, Error>(load(&recipe)?.eval(&prompt(9))?.to_vec());
    let llama = logits(recipe("llama", GgmlDType::Q8_0))?;
    let qwen = logits(recipe("qwen2", GgmlDType::Q8_0))?;
    assert!(llama.iter().zip(&qwen).any(|(one, other)| (one - other).abs() > 0.1));
    Ok(())
}

#[test]
fn evaluation_in_parts_gives_equal_logits() -> Result<(), Error> {
    let mut model = load(&recipe("llama", GgmlDType::Q8_0))?;
    let tokens = prompt(600);
    let expected = model.eval(&tokens)?.to_vec();
    model.rewind(0);
    for part in tokens.chunks(97) {
        model.eval(part)?;
    }
    check_close(&expected, &model.logits);
    Ok(())
}

#[test]
fn rewind_removes_later_tokens() -> Result<(), Error> {
    let mut model = load(&recipe("llama", GgmlDType::Q4_1))?;
    let tokens = prompt(100);
    model.eval(&tokens[..40])?;
    let expected = model.eval(&tokens[40..])?.to_vec();
    model.eval(&prompt(120))?;
    model.rewind(40);
    assert_eq!(model.length(), 40);
    let found = model.eval(&tokens[40..])?.to_vec();
    assert_eq!(expected, found);
    model.rewind(1000);
    assert_eq!(model.length(), 100);
    Ok(())
}

#[test]
fn interrupted_evaluation_leaves_the_cache_unchanged() -> Result<(), Error> {
    let mut model = load(&recipe("llama", GgmlDType::Q8_0))?;
    let interrupt = Interrupt::default();
    model.set_interrupt(&interrupt);
    model.eval(&prompt(30))?;
    interrupt.set_deadline(Some(std::time::Instant::now()));
    assert!(matches!(model.eval(&prompt(300)), Err(Error::Late)));
    interrupt.cancel();
    assert!(matches!(model.eval(&prompt(300)), Err(Error::Cancelled)));
    assert_eq!(model.length(), 30);
    model.set_interrupt(&Interrupt::default());
    let found = model.eval(&[5])?.to_vec();
    let mut fresh = model.sibling();
    fresh.eval(&prompt(30))?;
    assert_eq!(found, fresh.eval(&[5])?);
    Ok(())
}

#[test]
fn invalid_tokens_are_refused() -> Result<(), Error> {
    let mut model = load(&recipe("llama", GgmlDType::Q8_0))?;
    assert_eq!((model.context(), model.vocabulary()), (700, 261));
    assert!(matches!(model.eval(&[]), Err(Error::NoTokens)));
    assert!(matches!(model.eval(&prompt(701)), Err(Error::Context { tokens: 701, context: 700 })));
    assert!(matches!(model.eval(&[3, 261]), Err(Error::Token { token: 261, vocabulary: 261 })));
    assert_eq!(model.length(), 0);
    let options = Options { context_max: 50, ..Options::default() };
    let small = CandleModel::load(recipe("llama", GgmlDType::Q8_0).write().path(), options)?;
    assert_eq!(small.context(), 50);
    Ok(())
}

#[track_caller]
fn check_refusal(recipe: &Recipe, expected: &str) {
    match load(recipe) {
        Ok(_) => panic!("the model was loaded"),
        Err(error) => assert!(error.to_string().contains(expected), "{error}"),
    }
}

#[test]
fn unsupported_models_are_refused_with_the_reason() {
    let base = || recipe("llama", GgmlDType::Q8_0);
    check_refusal(&recipe("mamba", GgmlDType::Q8_0), "`mamba`; supported are `llama`, `qwen2` and `qwen3`");
    check_refusal(&base().without("general.architecture"), "does not name its architecture");
    check_refusal(&base().without("blk.1.ffn_up.weight"), "no tensor `blk.1.ffn_up.weight`");
    check_refusal(&base().without("llama.block_count"), "`llama.block_count`");
    check_refusal(&base().metadata("llama.block_count", Value::U32(u32::MAX)), "`blk.2.");
    check_refusal(&base().metadata("llama.embedding_length", Value::U32(64)), "is not");
    check_refusal(&base().metadata("llama.attention.head_count", Value::U32(0)), "head_count");
    check_refusal(&base().metadata("llama.attention.key_length", Value::U32(1 << 30)), "tensor `blk.0.");
    check_refusal(&base().metadata("llama.expert_count", Value::U32(8)), "mixture of experts");
    check_refusal(&base().metadata("llama.rope.scaling.type", Value::String("yarn".into())), "`yarn`");
    check_refusal(&base().metadata("general.alignment", Value::U32(0)), "alignment");
    let missing = CandleModel::load(Path::new("/nowhere/model.gguf"), Options::default());
    assert!(missing.is_err_and(|error| error.to_string().contains("/nowhere/model.gguf")));
}

#[test]
fn truncated_files_are_refused() {
    let whole = recipe("llama", GgmlDType::Q4_0).write().bytes();
    for length in (0..whole.len() - 64).step_by(whole.len() / 300 + 1).chain(0..80) {
        let cut = Tiny::of(&whole[..length]);
        assert!(CandleModel::load(cut.path(), Options::default()).is_err(), "loaded from {length} bytes");
    }
}

#[test]
fn damaged_files_do_not_panic() {
    let whole = recipe("llama", GgmlDType::Q4_0).write().bytes();
    let mut seed = 3_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let header = 9000.min(whole.len());
    for round in 0..400 {
        let mut damaged = whole.clone();
        for _ in 0..=round % 4 {
            let at = if round < 100 { random(200) } else { random(header) };
            damaged[at] = random(256) as u8;
        }
        let file = Tiny::of(&damaged);
        let options = Options { context_max: 64, ..Options::default() };
        if let Ok(mut model) = CandleModel::load(file.path(), options) {
            let _ = model.eval(&[1, 2, 3]);
        }
    }
}
