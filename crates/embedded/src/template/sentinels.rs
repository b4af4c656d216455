//! Random placeholders for texts that a template must not interpret.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use crate::tokenizer::Segment;

/// The last character of a placeholder, after its number.
const END: char = 'z';

/// Unguessable placeholders and the texts that they replace.
#[derive(Debug)]
pub(super) struct Sentinels {
    prefix: String,
    texts: Vec<String>,
}

impl Sentinels {
    pub(super) fn new() -> Sentinels {
        let random = || RandomState::new().hash_one(0_u8);
        Sentinels { prefix: format!("x{:016x}{:016x}n", random(), random()), texts: Vec::new() }
    }

    /// Returns a placeholder for a text. Surrounding whitespace is kept, so that the template can trim it.
    pub(super) fn hide(&mut self, text: &str) -> String {
        let core = text.trim();
        if core.is_empty() {
            return text.to_owned();
        }
        let before = &text[..text.len() - text.trim_start().len()];
        let after = &text[text.trim_end().len()..];
        let placeholder = format!("{before}{}{}{END}{after}", self.prefix, self.texts.len());
        self.texts.push(core.to_owned());
        placeholder
    }

    /// Replaces every string within a value by a placeholder.
    pub(super) fn hide_within(&mut self, value: &serde_json::Value) -> serde_json::Value {
        use serde_json::Value;
        match value {
            Value::String(text) => Value::String(self.hide_word(text)),
            Value::Array(items) => items.iter().map(|item| self.hide_within(item)).collect(),
            Value::Object(fields) => Value::Object(
                fields.iter().map(|(name, value)| (self.hide_word(name), self.hide_within(value))).collect(),
            ),
            other => other.clone(),
        }
    }

    /// Replaces a string unless it is a plain word, which cannot contain a marker. Templates look up fields by
    /// name and compare words such as `function`.
    fn hide_word(&mut self, name: &str) -> String {
        let is_word_character =
            |character: char| character.is_alphanumeric() || matches!(character, '_' | '-' | '$' | '.');
        if name.chars().all(is_word_character) { name.to_owned() } else { self.hide(name) }
    }

    /// Restores the original texts within a value.
    pub(super) fn reveal_within(&self, value: &serde_json::Value) -> serde_json::Value {
        use serde_json::Value;
        match value {
            Value::String(text) => Value::String(self.reveal(text)),
            Value::Array(items) => items.iter().map(|item| self.reveal_within(item)).collect(),
            Value::Object(fields) => Value::Object(
                fields.iter().map(|(name, value)| (self.reveal(name), self.reveal_within(value))).collect(),
            ),
            other => other.clone(),
        }
    }

    /// Restores the original texts within a string.
    pub(super) fn reveal(&self, text: &str) -> String {
        let reveal = |segment: Segment| match segment {
            Segment::Markup(text) | Segment::Content(text) => text,
        };
        self.split(text).into_iter().map(reveal).collect()
    }

    /// Splits the output of a template at the placeholders.
    pub(super) fn split(&self, rendered: &str) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut rest = rendered;
        let mut markup = String::new();
        while let Some((before, after)) = rest.split_once(&self.prefix) {
            markup.push_str(before);
            let found = after.split_once(END).and_then(|(number, after)| {
                let text = self.texts.get(number.parse::<usize>().ok()?)?;
                Some((text, after))
            });
            rest = after;
            if let Some((text, after)) = found {
                if !markup.is_empty() {
                    segments.push(Segment::Markup(std::mem::take(&mut markup)));
                }
                segments.push(Segment::Content(text.clone()));
                rest = after;
            }
        }
        markup.push_str(rest);
        if !markup.is_empty() {
            segments.push(Segment::Markup(markup));
        }
        segments
    }
}
