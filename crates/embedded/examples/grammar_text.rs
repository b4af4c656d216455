//! Prints the grammar of a schema read from a file, and what it does not enforce.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool")]

use std::sync::Arc;

use formwork_embedded::grammar::{Bounds, Compiler};
use toktrie::{ApproximateTokEnv, TokEnv};

fn main() {
    let path = std::env::args().nth(1).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let env: TokEnv = Arc::new(ApproximateTokEnv::single_byte());
    let grammar = Compiler::new(&env).unwrap().compile(&schema, &Bounds::default()).unwrap();
    println!("{}\nunenforced: {:?}", grammar.text, grammar.unenforced);
}
