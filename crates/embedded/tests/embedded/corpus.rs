//! Random walks through the grammars of real schemas, without a model.
//!
//! Every walk is stopped at a random position and closed. The result satisfies the schema, or the grammar lists
//! an unenforced keyword.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use slipform_embedded::grammar::{Bounds, Compiler, Grammar, close};
use slipform_schema::Schema;
use slipform_testkit::corpus;
use toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};

/// The walks per schema. The first is closed immediately.
const WALKS: u64 = 3;

/// The longest walk before it is closed, in tokens.
const STEPS_MAX: u64 = 80;

/// The lowest share of valid schemas, in percent. The documentation promises less.
const SHARE_MIN: f64 = 97.0;

/// A set of adversarial schemas: endless recursion, contradictions and exponential patterns.
const HANDWRITTEN: (&str, f64) = ("Handwritten", 55.0);

#[test]
fn random_walks_through_real_grammars_end_in_valid_answers() {
    let Some(files) = files() else { return };
    let env = vocabulary();
    let compiler = Compiler::new(&env).unwrap();
    let mut unreported = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let (mut schemas, mut valid) = (0, 0);
        for line in fs::read_to_string(&file).unwrap().lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            schemas += 1;
            let schema = Schema::compile(&row["schema"]).unwrap();
            let Ok(grammar) = compiler.compile(&row["schema"], &Bounds::default()) else { continue };
            let walks: Vec<Walked> = (0..WALKS).map(|seed| walk(&env, &grammar, &schema, seed)).collect();
            valid += usize::from(walks.iter().all(|walked| matches!(walked, Walked::Valid)));
            for walked in walks {
                if let Walked::Invalid(text) = walked
                    && grammar.unenforced.is_empty()
                {
                    unreported.push(format!("{}: {text}", row["id"]));
                }
            }
        }
        let share = 100.0 * f64::from(valid as u32) / f64::from(schemas);
        println!("{name}: {valid} of {schemas} ({share:.1} %)");
        let least = if name == HANDWRITTEN.0 { HANDWRITTEN.1 } else { SHARE_MIN };
        assert!(share >= least, "{name}: {share:.1} %");
    }
    assert_eq!(unreported, Vec::<String>::new(), "invalid without an unenforced keyword");
}

fn files() -> Option<Vec<PathBuf>> {
    let entries = fs::read_dir(corpus("jsonschemabench")?).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    Some(files)
}

enum Walked {
    Valid,
    Invalid(String),
    /// The grammar failed, which a run reports as an error.
    Unfinished,
}

/// Takes random tokens, preferring those that open or close something, and closes the answer.
fn walk(env: &TokEnv, grammar: &Grammar, schema: &Schema, seed: u64) -> Walked {
    let trie = env.tok_trie();
    let marks: Vec<u32> = "\"}],01a".bytes().filter_map(|mark| trie.token_id(&[mark])).collect();
    let mut random = Random(seed + 1);
    let mut matcher = grammar.matcher();
    let mut tokens = Vec::new();
    for _ in 0..random.below(seed * STEPS_MAX / WALKS + 1) {
        if matcher.is_stopped() {
            break;
        }
        let Ok(mask) = matcher.compute_mask() else { return Walked::Unfinished };
        let mut allowed: Vec<u32> = marks.iter().copied().filter(|mark| mask.is_allowed(*mark)).collect();
        if allowed.is_empty() || random.below(4) == 0 {
            allowed = mask.to_list();
        }
        let token = allowed[random.below(allowed.len() as u64) as usize];
        if token == trie.eos_token() {
            break;
        }
        matcher.consume_token(token).unwrap();
        tokens.push(token);
    }
    let Some(closing) = close(&matcher) else { return Walked::Unfinished };
    tokens.extend(closing);
    let text = String::from_utf8(trie.decode(&tokens)).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    if schema.is_valid(&value) { Walked::Valid } else { Walked::Invalid(text) }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }
}

/// A vocabulary of all bytes and a few longer tokens.
fn vocabulary() -> TokEnv {
    let mut words: Vec<Vec<u8>> = (0..=255_u8).map(|byte| vec![byte]).collect();
    let longer =
        ["\", \"", "\": \"", "\": ", ", ", "\"}", "\"]", "the", " and", "true", "false", "null", "20"];
    words.extend(longer.iter().map(|text| text.as_bytes().to_vec()));
    words.push(b"\xFF<|end|>".to_vec());
    let info = TokRxInfo::new(words.len() as u32, words.len() as u32 - 1);
    Arc::new(ApproximateTokEnv::new(TokTrie::from(&info, &words)))
}
