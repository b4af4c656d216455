//! Walks the grammars of real schemas at random, without a model, and validates what comes out.
//!
//! `grammar_walk [--walks N] [--gguf FILE] [--show] [--only TEXT] FILE.jsonl…`: each line has a `schema`. Every walk takes random
//! tokens that the grammar allows, is cut at a random point and closed. Prints a row per file.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a tool"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use formwork_embedded::grammar::{Bounds, Compiler, Grammar, close};
use formwork_schema::Schema;
use serde_json::Value;
use toktrie::{ApproximateTokEnv, SimpleVob, TokEnv, TokRxInfo, TokTrie};

fn main() {
    let mut files = Vec::new();
    let (mut walks, mut gguf, mut show, mut only) = (5, None, false, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--walks" => walks = arguments.next().unwrap().parse().unwrap(),
            "--gguf" => gguf = arguments.next(),
            "--only" => only = arguments.next(),
            "--show" => show = true,
            _ => files.push(argument),
        }
    }
    let env = vocabulary(gguf.as_deref());
    let compiler = Compiler::new(&env).unwrap();
    println!(
        "| file | schemas | refused | valid | share % | unfinished | enforced | admits % | compile ms p50 p99 max | mask µs p50 p99 max | close µs p50 p99 |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut tally = Tally::default();
        for line in text.lines() {
            let Ok(row) = serde_json::from_str::<Value>(line) else { continue };
            let id = row.get("id").and_then(Value::as_str).unwrap_or_default();
            if only.as_deref().is_none_or(|only| id.contains(only)) {
                tally.schema(&compiler, &env, &row, id, walks, show);
            }
        }
        tally.print(file.rsplit('/').next().unwrap_or(&file));
    }
}

#[derive(Default)]
struct Tally {
    schemas: usize,
    refused: usize,
    valid: usize,
    unfinished: usize,
    enforced: usize,
    instances: usize,
    admitted: usize,
    reasons: BTreeMap<String, usize>,
    compiles: Vec<Duration>,
    masks: Vec<Duration>,
    closings: Vec<Duration>,
}

impl Tally {
    fn schema(&mut self, compiler: &Compiler, env: &TokEnv, row: &Value, id: &str, walks: u64, show: bool) {
        let source = &row["schema"];
        let Ok(schema) = Schema::compile(source) else {
            if show {
                println!("{id}: our own validator refuses it");
            }
            return;
        };
        self.schemas += 1;
        let start = Instant::now();
        let grammar = compiler.compile(source, &Bounds::default());
        self.compiles.push(start.elapsed());
        if std::env::var("SLOW").is_ok() && start.elapsed() > Duration::from_millis(300) {
            println!("slow compile {id} {:?}", start.elapsed());
        }
        let grammar = match grammar {
            Ok(grammar) => grammar,
            Err(error) => {
                self.refused += 1;
                if show {
                    println!("{id}: refused: {error}");
                }
                return;
            }
        };
        for test in row.get("tests").and_then(Value::as_array).into_iter().flatten() {
            if test["valid"] == true && schema.is_valid(&test["data"]) {
                self.instances += 1;
                if grammar.admits(&test["data"]) {
                    self.admitted += 1;
                } else if show && std::env::var("ADMIT").is_ok() {
                    println!(
                        "{id}: not admitted: {}",
                        test["data"].to_string().chars().take(600).collect::<String>()
                    );
                }
            }
        }
        self.enforced += usize::from(grammar.unenforced.is_empty());
        let mut good = true;
        for seed in 0..walks {
            match self.walk(&grammar, env, seed) {
                None => {
                    self.unfinished += 1;

                    good = false;
                    if show {
                        println!("{id}: walk {seed} found no end");
                    }
                }
                Some(text) => match serde_json::from_str::<Value>(&text) {
                    Err(error) => {
                        good = false;
                        println!("{id}: not JSON: {error}: {text}");
                    }
                    Ok(value) if schema.is_valid(&value) => {
                        let _ = grammar.touches_bound(&value);
                    }
                    Ok(value) => {
                        good = false;
                        self.note(&schema, &value, &grammar, id, show);
                    }
                },
            }
        }
        self.valid += usize::from(good);
    }

    fn note(&mut self, schema: &Schema, value: &Value, grammar: &Grammar, id: &str, show: bool) {
        let violations = schema.violations(value);
        let Some(first) = violations.list.first() else { return };
        let keyword =
            first.schema_path.rsplit('/').find(|part| part.parse::<usize>().is_err()).unwrap_or_default();
        *self.reasons.entry(keyword.to_owned()).or_default() += 1;
        if show {
            let text: String = value.to_string().chars().take(300).collect();
            println!("{id}: {} [{}] unenforced {:?}: {text}", first, first.schema_path, grammar.unenforced);
        }
    }

    fn walk(&mut self, grammar: &Grammar, env: &TokEnv, seed: u64) -> Option<String> {
        let trie = env.tok_trie();
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let length = [0, 20, 60, 150, 400][(seed % 5) as usize];
        let length = if length == 0 { 0 } else { random.below(length) };
        let structural = [0, 90, 50, 80, 95][(seed % 5) as usize];
        let marks: Vec<u32> = ["\"", "}", "]", ",", ", ", "0", "1", "a"]
            .iter()
            .filter_map(|text| trie.token_id(text.as_bytes()))
            .collect();
        let mut matcher = grammar.matcher();
        let mut tokens = Vec::new();
        for _ in 0..length {
            if matcher.is_stopped() {
                break;
            }
            let start = Instant::now();
            let mask = matcher.compute_mask();
            if let (Err(error), Ok(_)) = (&mask, std::env::var("SLOW")) {
                println!("mask {error}");
            }
            let mask = mask.ok()?;
            self.masks.push(start.elapsed());
            if std::env::var("SLOW").is_ok() && start.elapsed() > Duration::from_millis(2) {
                let text = trie.decode_str(&tokens);
                let tail: String =
                    text.chars().rev().take(60).collect::<Vec<_>>().into_iter().rev().collect();
                println!("slow {:?} after {} tokens: {tail}", start.elapsed(), tokens.len());
            }
            let allowed: Vec<u32> = marks.iter().copied().filter(|token| mask.is_allowed(*token)).collect();
            let token = if !allowed.is_empty() && random.below(100) < structural {
                allowed[random.below(allowed.len() as u64) as usize]
            } else {
                pick(&mask, &mut random)?
            };
            if token == trie.eos_token() {
                break;
            }
            matcher.consume_token(token).ok()?;
            tokens.push(token);
        }
        let start = Instant::now();
        let closing = close(&matcher);
        self.closings.push(start.elapsed());
        if std::env::var("SLOW").is_ok() && start.elapsed() > Duration::from_millis(20) {
            println!(
                "slow close {:?} {:?} tokens: {}",
                start.elapsed(),
                closing.as_ref().map(Vec::len),
                trie.decode_str(closing.as_deref().unwrap_or_default()).chars().take(200).collect::<String>()
            );
        }
        if closing.is_none() && std::env::var("SLOW").is_ok() {
            println!(
                "no end after {} {:?} {:?}",
                trie.decode_str(&tokens),
                matcher.compute_mask().map(|mask| mask.num_set()),
                matcher.get_error()
            );
        }
        tokens.extend(closing?);
        String::from_utf8(trie.decode(&tokens)).ok()
    }

    fn print(&mut self, file: &str) {
        let (compile, mask, close) = (&mut self.compiles, &mut self.masks, &mut self.closings);
        for times in [&mut *compile, &mut *mask, &mut *close] {
            times.sort();
        }
        let at = |times: &[Duration], share: f64| {
            times
                .get(((times.len() as f64 - 1.0) * share) as usize)
                .copied()
                .unwrap_or_default()
                .as_secs_f64()
                * 1e6
        };
        println!(
            "| {file} | {} | {} | {} | {:.1} | {} | {} | {:.1} | {:.1} {:.1} {:.1} | {:.0} {:.0} {:.0} | {:.0} {:.0} | {:?}",
            self.schemas,
            self.refused,
            self.valid,
            100.0 * self.valid as f64 / self.schemas.max(1) as f64,
            self.unfinished,
            self.enforced,
            100.0 * self.admitted as f64 / self.instances.max(1) as f64,
            at(compile, 0.5) / 1e3,
            at(compile, 0.99) / 1e3,
            at(compile, 1.0) / 1e3,
            at(mask, 0.5),
            at(mask, 0.99),
            at(mask, 1.0),
            at(close, 0.5),
            at(close, 0.99),
            self.reasons
        );
    }
}

fn pick(mask: &SimpleVob, random: &mut Random) -> Option<u32> {
    let mut allowed = Vec::new();
    mask.iter_set_entries(|token| allowed.push(token as u32));
    (!allowed.is_empty()).then(|| allowed[random.below(allowed.len() as u64) as usize])
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit.max(1)
    }
}

/// The vocabulary of a model, or one of bytes and a few longer tokens.
fn vocabulary(gguf: Option<&str>) -> TokEnv {
    let mut words: Vec<Vec<u8>> = match gguf {
        Some(path) => real_words(path),
        None => {
            let mut words: Vec<Vec<u8>> = (0..=255_u8).map(|byte| vec![byte]).collect();
            let longer = [
                "\", \"", "\": \"", "\": ", ", ", "\"}", "\"]", "the", " and", "true", "false", "null", "20",
                "10",
            ];
            words.extend(longer.iter().map(|text| text.as_bytes().to_vec()));
            words
        }
    };
    words.push(b"\xFF<|end|>".to_vec());
    let info = TokRxInfo::new(words.len() as u32, words.len() as u32 - 1);
    Arc::new(ApproximateTokEnv::new(TokTrie::from(&info, &words)))
}

fn real_words(path: &str) -> Vec<Vec<u8>> {
    let mut file = std::fs::File::open(path).unwrap();
    let content = candle_core::quantized::gguf_file::Content::read(&mut file).unwrap();
    let tokens = content.metadata["tokenizer.ggml.tokens"].to_vec().unwrap();
    let mut table: BTreeMap<char, u8> = BTreeMap::new();
    let mut extra = 256;
    for byte in 0..=255_u8 {
        let is_plain = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        let shown = if is_plain {
            char::from(byte)
        } else {
            extra += 1;
            char::from_u32(extra - 1).unwrap()
        };
        table.insert(shown, byte);
    }
    tokens
        .iter()
        .map(|token| {
            let text = token.to_string().unwrap();
            if text.starts_with("<|") || text.starts_with('<') && text.ends_with('>') && text.len() > 4 {
                return [b"\xFF", text.as_bytes()].concat();
            }
            text.chars().filter_map(|shown| table.get(&shown).copied()).collect()
        })
        .collect()
}
