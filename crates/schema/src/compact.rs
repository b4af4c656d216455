//! Renders a schema as a typed skeleton, for models that repeat a JSON Schema instead of answering.

mod bounds;
mod names;

use serde_json::{Map, Value};

use crate::limits::check_depth;
use crate::refs::References;
use crate::shape::{Additional, Shape, Types};
use bounds::{item_bounds, number_bounds, string_bounds};
use names::Names;

/// The longest skeleton, in characters; the current line may exceed it. Small models read only a few thousand
/// tokens. The remaining parts become `any`.
const CHARACTERS_MAX: usize = 24_000;

/// The deepest nesting that is written, because writing recurses. Deeper parts become `any`.
const DEPTH_MAX: usize = 24;

/// The longest description, in characters. Longer ones are cut.
const COMMENT_CHARACTERS_MAX: usize = 160;

/// The most listed values at one location. Longer lists are cut, because a model does not follow them.
const VALUES_MAX: usize = 100;

/// The longest object that is written on one line, in characters.
const LINE_CHARACTERS_MAX: usize = 60;

/// Renders a schema as a skeleton of names, types, values and bounds, with descriptions as comments.
pub fn compact(schema: &Value) -> String {
    compact_within(schema, CHARACTERS_MAX)
}

/// Renders a schema in about `characters` characters at most; the remaining parts become `any`.
pub fn compact_within(schema: &Value, characters: usize) -> String {
    if check_depth(schema).is_err() {
        return "any".to_owned();
    }
    let references = References::collect(schema);
    let names = Names::choose(schema, &references);
    let mut writer = CompactWriter {
        root: schema,
        references: &references,
        names,
        limit: characters.min(CHARACTERS_MAX),
        written: 0,
        depth: 0,
        open: Vec::new(),
    };
    let root_name = writer.names.of("").map(str::to_owned);
    let body = writer.body("", schema);
    let mut text = String::new();
    // A definition may mention others. Each is written once, in the order of first mention.
    let mut done = Vec::new();
    while let Some(pointer) = writer.names.next_mentioned(&done) {
        if let (Some(name), Some(target)) =
            (writer.names.of(&pointer).map(str::to_owned), schema.pointer(&pointer))
            && !pointer.is_empty()
        {
            let body = writer.body(&pointer, target);
            text.push_str(&format!("{name} = {body}\n\n"));
        }
        done.push(pointer);
    }
    if let Some(name) = root_name {
        text.push_str(&format!("{name} = "));
    }
    text.push_str(&body);
    text
}

struct CompactWriter<'s> {
    root: &'s Value,
    references: &'s References,
    names: Names,
    limit: usize,
    written: usize,
    depth: usize,
    open: Vec<String>,
}

impl<'s> CompactWriter<'s> {
    /// Writes the body of a named type or of the root, where a reference would write only its name.
    fn body(&mut self, pointer: &str, schema: &'s Value) -> String {
        self.open.push(pointer.to_owned());
        let text = self.schema(schema, 0);
        self.open.pop();
        text
    }

    fn schema(&mut self, schema: &'s Value, indent: usize) -> String {
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(false) => return "never".to_owned(),
            _ => return "any".to_owned(),
        };
        self.written += 4;
        if self.written > self.limit || self.depth >= DEPTH_MAX {
            return "any".to_owned();
        }
        self.depth += 1;
        let text = if let Some(reference) = lone_reference(keywords) {
            self.reference(reference, indent)
        } else if let Some(branches) = plain_union(keywords) {
            let choices = branches.iter().map(|branch| self.schema(branch, indent)).collect();
            join_choices(choices)
        } else {
            let shape = Shape::of(self.root, self.references, schema);
            self.composed(keywords, &shape, indent)
        };
        self.depth -= 1;
        text
    }

    /// Writes a schema together with its references and `allOf` members; a schema that contains itself
    /// becomes a name.
    fn composed(&mut self, keywords: &Map<String, Value>, shape: &Shape<'s>, indent: usize) -> String {
        let members = keywords.get("allOf").and_then(Value::as_array).into_iter().flatten();
        let references = members.filter_map(|member| member.get("$ref")).chain(keywords.get("$ref"));
        let pointers: Vec<String> = references
            .filter_map(|reference| self.references.pointer(self.root, reference.as_str()?))
            .collect();
        if let Some(within) = pointers.iter().find(|pointer| self.open.contains(pointer)) {
            return self.names.mention(within).unwrap_or_else(|| "any".to_owned());
        }
        let outer = self.open.len();
        self.open.extend(pointers);
        let text = self.shape(shape, indent);
        self.open.truncate(outer);
        text
    }

    fn reference(&mut self, reference: &str, indent: usize) -> String {
        let Some(pointer) = self.references.pointer(self.root, reference) else { return "any".to_owned() };
        if let Some(name) = self.names.mention(&pointer) {
            self.written += name.len();
            return name;
        }
        let Some(target) = self.root.pointer(&pointer).filter(|_| !self.open.contains(&pointer)) else {
            return "any".to_owned();
        };
        self.open.push(pointer);
        let text = self.schema(target, indent);
        self.open.pop();
        text
    }

    fn shape(&mut self, shape: &Shape<'s>, indent: usize) -> String {
        if let Some(values) = shape.values() {
            let mut literals: Vec<String> = values.iter().take(VALUES_MAX).map(ToString::to_string).collect();
            if values.len() > VALUES_MAX {
                literals.push("…".to_owned());
            }
            let text = literals.join(" | ");
            self.written += text.len();
            return text;
        }
        let named = shape.property_names().len();
        if let Some(branches) = shape.alternatives()
            && branches.iter().any(|branch| branch.property_names().len() != named || named == 0)
        {
            let mut choices = Vec::new();
            for branch in &branches {
                self.written += 4;
                if self.written > self.limit || self.depth >= DEPTH_MAX {
                    return "any".to_owned();
                }
                self.depth += 1;
                choices.push(self.shape(branch, indent));
                self.depth -= 1;
            }
            return join_choices(choices);
        }
        let types = shape.types();
        if types == Types::ALL {
            return "any".to_owned();
        }
        let mut choices = Vec::new();
        let mut add = |one: Types, text: &dyn Fn() -> String| {
            if types.contains(one) {
                choices.push(text());
            }
        };
        add(Types::STRING, &|| format!("string{}", string_bounds(shape)));
        if types.contains(Types::NUMBER) {
            add(Types::NUMBER, &|| format!("number{}", number_bounds(shape)));
        } else {
            add(Types::INTEGER, &|| format!("integer{}", number_bounds(shape)));
        }
        add(Types::BOOLEAN, &|| "boolean".to_owned());
        if types.contains(Types::ARRAY) {
            choices.push(self.array(shape, indent));
        }
        if types.contains(Types::OBJECT) {
            choices.push(self.object(shape, indent));
        }
        if types.contains(Types::NULL) {
            choices.push("null".to_owned());
        }
        let text = join_choices(choices);
        self.written += text.len().min(LINE_CHARACTERS_MAX);
        text
    }

    fn array(&mut self, shape: &Shape<'s>, indent: usize) -> String {
        let bounds = item_bounds(shape);
        if let Some(tuple) = shape.tuple() {
            let items: Vec<String> = tuple.iter().map(|item| self.schema(item, indent + 2)).collect();
            return format!("[{}]{bounds}", items.join(", "));
        }
        let item = match shape.item(0) {
            Some(item) => self.part(&item, indent + 2),
            None => "any".to_owned(),
        };
        if item.contains('\n') {
            let (outer, inner) = (" ".repeat(indent), " ".repeat(indent + 2));
            return format!("[\n{inner}{item}\n{outer}]{bounds}");
        }
        format!("[{item}]{bounds}")
    }

    /// Writes a property or item; a reference with nothing beside it becomes a name.
    fn part(&mut self, shape: &Shape<'s>, indent: usize) -> String {
        if let [single] = shape.stated() {
            return self.schema(single, indent);
        }
        self.written += 4;
        if self.written > self.limit || self.depth >= DEPTH_MAX {
            return "any".to_owned();
        }
        self.depth += 1;
        let text = self.shape(shape, indent);
        self.depth -= 1;
        text
    }

    fn object(&mut self, shape: &Shape<'s>, indent: usize) -> String {
        let mut names = shape.property_names();
        for required in shape.required() {
            if !names.contains(&required) {
                names.push(required);
            }
        }
        let mut lines: Vec<(String, String)> = Vec::new();
        for name in names {
            if self.written > self.limit {
                lines.push(("[name]: any".to_owned(), String::new()));
                break;
            }
            let mark = if shape.is_required(name) { "" } else { "?" };
            let key = Value::from(name).to_string();
            let property = shape.property(name);
            let text = property.as_ref().map_or_else(|| "any".to_owned(), |part| self.part(part, indent + 2));
            let comment = property.as_ref().and_then(Shape::description).map(comment).unwrap_or_default();
            self.written += key.len() + comment.len() + 6;
            lines.push((format!("{key}{mark}: {text}"), comment));
        }
        match shape.additional() {
            Additional::Shaped(rest) => {
                let text = self.part(&rest, indent + 2);
                lines.push((format!("[name]: {text}"), String::new()));
            }
            Additional::Any if lines.is_empty() => {
                let pattern = shape.pattern_property();
                let text =
                    pattern.map_or_else(|| "any".to_owned(), |pattern| self.schema(pattern, indent + 2));
                lines.push((format!("[name]: {text}"), String::new()));
            }
            _ => {}
        }
        layout(&lines, indent)
    }
}

/// Joins the lines of an object, on one line if they are few and short.
fn layout(lines: &[(String, String)], indent: usize) -> String {
    if lines.is_empty() {
        return "{}".to_owned();
    }
    let is_plain = |(text, comment): &(String, String)| comment.is_empty() && !text.contains('\n');
    let length: usize = lines.iter().map(|(text, _)| text.len() + 2).sum();
    if indent > 0 && length <= LINE_CHARACTERS_MAX && lines.iter().all(is_plain) {
        let texts: Vec<&str> = lines.iter().map(|(text, _)| text.as_str()).collect();
        return format!("{{ {} }}", texts.join(", "));
    }
    let inner = " ".repeat(indent + 2);
    let mut text = String::from("{\n");
    for (index, (line, comment)) in lines.iter().enumerate() {
        let comma = if index + 1 < lines.len() { "," } else { "" };
        // The comment goes on the first line of a property.
        match line.split_once('\n') {
            Some((first, rest)) => text.push_str(&format!("{inner}{first}{comment}\n{rest}{comma}\n")),
            None => text.push_str(&format!("{inner}{line}{comma}{comment}\n")),
        }
    }
    text.push_str(&" ".repeat(indent));
    text.push('}');
    text
}

/// Renders a description as a comment on one line.
fn comment(description: &str) -> String {
    let words = description.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.is_empty() {
        return String::new();
    }
    let cut: String = words.chars().take(COMMENT_CHARACTERS_MAX).collect();
    let ellipsis = if cut.len() < words.len() { "…" } else { "" };
    format!(" // {cut}{ellipsis}")
}

/// Joins alternatives without duplicates, `null` last.
fn join_choices(choices: Vec<String>) -> String {
    let mut unique: Vec<String> = Vec::new();
    for choice in choices.into_iter().filter(|choice| choice != "never") {
        if choice == "any" {
            return choice;
        }
        if !unique.contains(&choice) {
            unique.push(choice);
        }
    }
    unique.sort_by_key(|choice| choice == "null");
    if unique.is_empty() { "never".to_owned() } else { unique.join(" | ") }
}

fn lone_reference(keywords: &Map<String, Value>) -> Option<&str> {
    let is_significant = |name: &&String| !INSIGNIFICANT.contains(&name.as_str());
    let is_alone = keywords.keys().filter(is_significant).count() == 1;
    keywords.get("$ref").filter(|_| is_alone)?.as_str()
}

/// Returns the branches of a union with nothing beside it.
fn plain_union(keywords: &Map<String, Value>) -> Option<&Vec<Value>> {
    let is_significant = |name: &&String| !INSIGNIFICANT.contains(&name.as_str());
    let is_alone = keywords.keys().filter(is_significant).count() == 1;
    let union = keywords.get("anyOf").or_else(|| keywords.get("oneOf")).filter(|_| is_alone)?;
    union.as_array().filter(|branches| !branches.is_empty())
}

/// Keywords that do not change a skeleton.
const INSIGNIFICANT: [&str; 15] = [
    "title",
    "description",
    "default",
    "examples",
    "$comment",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$schema",
    "$id",
    "id",
    "$defs",
    "definitions",
    "discriminator",
    "$anchor",
];
