use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;

use super::*;
use crate::testing::{Recipe, recipe, sentence_recipe};

fn tokenizer(recipe: &Recipe) -> Result<Tokenizer, Error> {
    Tokenizer::from_gguf(&Gguf::open(recipe.write().path())?)
}

fn text(tokenizer: &Tokenizer, tokens: &[u32]) -> String {
    let bytes: Vec<u8> = tokens.iter().flat_map(|token| tokenizer.bytes(*token).to_vec()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn encoded_text_decodes_to_itself() -> Result<(), Error> {
    let tokenizer = tokenizer(&recipe("llama", GgmlDType::Q8_0))?;
    for sample in ["hello", " a  b\n\t", "größe 漢字 🎉", "12 34", "<|im_start|>", "\u{0}\u{7f}"] {
        let tokens = tokenizer.encode(sample, false)?;
        assert_eq!(text(&tokenizer, &tokens), sample);
        assert!(tokens.iter().all(|token| !tokenizer.is_special(*token)), "{sample} became special");
        assert_eq!(tokenizer.token_env().tokenize_bytes(sample.as_bytes()), tokens);
    }
    assert_eq!(tokenizer.encode("hello", false)?, [256, 257, u32::from(b'o')]);
    assert_eq!(tokenizer.vocabulary(), 261);
    assert_eq!(tokenizer.warning(), None);
    Ok(())
}

#[test]
fn markers_are_special_only_in_markup() -> Result<(), Error> {
    let tokenizer = tokenizer(&recipe("llama", GgmlDType::Q8_0))?;
    let tokens = tokenizer.encode("<|im_start|>he<|im_end|>", true)?;
    assert_eq!(tokens, [258, 256, 259]);
    assert!(tokenizer.is_special(258) && !tokenizer.is_special(256));
    assert_eq!(tokenizer.marker("<|im_end|>"), Some(259));
    let segments = [
        Segment::Markup("<|im_start|>h".into()),
        Segment::Content("ello<|im_end|>".into()),
        Segment::Markup("<|im_end|>".into()),
    ];
    let tokens = tokenizer.encode_segments(&segments)?;
    assert_eq!(tokens[..4], [258, 256, 257, u32::from(b'o')], "text is joined across segments");
    assert_eq!(tokens.iter().filter(|token| **token == 259).count(), 1);
    assert_eq!(text(&tokenizer, &tokens), "<|im_start|>hello<|im_end|><|im_end|>");
    Ok(())
}

#[test]
fn marker_split_over_segments_stays_text() -> Result<(), Error> {
    let tokenizer = tokenizer(&recipe("llama", GgmlDType::Q8_0))?;
    let segments = [Segment::Markup("<|im_".into()), Segment::Content("end|>".into())];
    let tokens = tokenizer.encode_segments(&segments)?;
    assert!(tokens.iter().all(|token| !tokenizer.is_special(*token)));
    Ok(())
}

#[test]
fn end_tokens_come_from_metadata_and_known_markers() -> Result<(), Error> {
    let tokenizer = tokenizer(&recipe("llama", GgmlDType::Q8_0))?;
    assert_eq!(tokenizer.eos_tokens(), [259, 260]);
    assert_eq!((tokenizer.bos(), tokenizer.add_bos()), (Some(260), false));
    Ok(())
}

#[test]
fn sentence_piece_merges_by_score() -> Result<(), Error> {
    let tokenizer = tokenizer(&sentence_recipe())?;
    let find = |token: &str| (0..).find(|id| tokenizer.bytes(*id) == token.as_bytes() && *id > 258);
    let hello = find(" hello");
    assert!(hello.is_some());
    assert_eq!(tokenizer.encode("hello", false)?, hello.into_iter().collect::<Vec<_>>());
    let tokens = tokenizer.encode("wörld é", false)?;
    assert_eq!(text(&tokenizer, &tokens), " wörld é");
    assert!(tokens.contains(&(3 + 0xc3)), "unknown text is encoded in bytes");
    assert_eq!(tokenizer.encode("<s>hello</s>", true)?.first(), Some(&1));
    assert!(!tokenizer.encode("<s>", false)?.contains(&1));
    assert!(tokenizer.add_bos());
    Ok(())
}

#[test]
fn unknown_pre_tokenizer_gives_a_warning() -> Result<(), Error> {
    let odd = recipe("llama", GgmlDType::Q8_0).metadata("tokenizer.ggml.pre", Value::String("odd".into()));
    assert!(tokenizer(&odd)?.warning().is_some_and(|warning| warning.contains("`odd`")));
    for cut in ["llama-bpe", "qwen2", "gpt-2"] {
        let known =
            recipe("llama", GgmlDType::Q8_0).metadata("tokenizer.ggml.pre", Value::String(cut.into()));
        let tokenizer = tokenizer(&known)?;
        assert_eq!(tokenizer.warning(), None);
        let tokens = tokenizer.encode("I'm 1234  hello\n\n x", false)?;
        assert_eq!(text(&tokenizer, &tokens), "I'm 1234  hello\n\n x");
    }
    Ok(())
}

#[test]
fn unusable_vocabularies_are_refused() {
    let base = || recipe("llama", GgmlDType::Q8_0);
    let merge = Value::Array(vec![Value::String("hello".into())]);
    let stranger = Value::Array(vec![Value::String("he zz".into())]);
    for broken in [
        base().without("tokenizer.ggml.tokens"),
        base().without("tokenizer.ggml.merges"),
        base().metadata("tokenizer.ggml.merges", merge),
        base().metadata("tokenizer.ggml.merges", stranger),
        base().metadata("tokenizer.ggml.model", Value::String("t5".into())),
        sentence_recipe().without("tokenizer.ggml.scores"),
    ] {
        assert!(matches!(tokenizer(&broken), Err(Error::Tokenizer(_))));
    }
}

#[test]
fn unusual_vocabularies_do_not_panic() -> Result<(), Error> {
    let texts = |texts: Vec<String>| Value::Array(texts.into_iter().map(Value::String).collect());
    let odd = |tokens: Vec<String>| {
        recipe("llama", GgmlDType::Q8_0)
            .metadata("tokenizer.ggml.tokens", texts(tokens))
            .metadata("tokenizer.ggml.merges", texts(Vec::new()))
            .metadata("tokenizer.ggml.merges", texts(vec!["a b".into()]))
            .metadata("tokenizer.ggml.eos_token_id", Value::U32(1))
    };
    let base = || vec!["a".to_owned(), "b".into(), "ab".into(), "a".into(), String::new(), String::new()];
    let found = tokenizer(&odd(base()))?;
    assert_eq!(found.encode("ab", false)?, [2]);
    assert!(found.encode("unknown", true)?.len() <= 7);
    assert!(found.token_env().tokenize_bytes(b"a\xffb").len() <= 3);
    let mut long = base();
    long.push("x".repeat(1_000_000));
    assert_eq!(tokenizer(&odd(long))?.vocabulary(), 7);
    let many: Vec<String> = (0..6000).map(|token| format!("{token:0>900}")).collect();
    assert!(tokenizer(&odd([base(), many].concat())).is_err());
    Ok(())
}
