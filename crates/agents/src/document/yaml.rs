//! Converts YAML 1.2 events to one JSON value, with a line for every part.
//!
//! Values that JSON cannot represent are refused: keys that are not text, duplicate keys, custom
//! tags, several documents and infinities. Aliases are copied, within a size limit.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};
use serde_json::{Map, Value};
use slipform_schema::{Segment, json_path};

use super::{Lines, scalar};
use crate::Problem;

/// The maximum nesting depth of a file, including aliases. Walking a value is recursive, so this
/// bounds the stack; a deeper file is refused.
const DEPTH_MAX: usize = 128;

/// The maximum size of a parsed file: [`NODE_COST`] plus its text for each node and each copy of an
/// alias. Ordinary files stay far below; a larger one is refused.
const COST_MAX: usize = 16 * 1024 * 1024;

/// The fixed cost of a node, in addition to its text.
const NODE_COST: usize = 32;

pub(super) fn read(text: &str) -> Result<(Value, Lines), Problem> {
    let mut composer = Composer::default();
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => composer.handle_event(event, span.start)?,
            Err(error) => {
                let message = format!("not valid YAML: {}", error.info());
                return Err(composer.problem(*error.marker(), &message));
            }
        }
    }
    match composer.root {
        Some(node) => Ok((node.value, node.lines)),
        None => {
            Err(Problem::new("$", "the file is empty; an agent needs at least one key, such as description"))
        }
    }
}

/// A node that was read completely.
#[derive(Debug, Clone)]
struct Node {
    value: Value,
    lines: Lines,
    cost: usize,
    depth: usize,
}

/// A list or mapping whose end has not been read.
#[derive(Debug)]
struct OpenNode {
    kind: Kind,
    anchor: usize,
    line: usize,
    children: Vec<Lines>,
    cost: usize,
    depth: usize,
}

#[derive(Debug)]
enum Kind {
    List(Vec<Value>),
    Mapping { entries: Map<String, Value>, key: Option<(String, usize)> },
}

#[derive(Debug, Default)]
struct Composer {
    open: Vec<OpenNode>,
    anchors: HashMap<usize, Node>,
    root: Option<Node>,
    documents: usize,
    cost: usize,
}

impl Composer {
    fn handle_event(&mut self, event: Event<'_>, mark: Marker) -> Result<(), Problem> {
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(self.problem(mark, "a second document ('---') begins here; a file has one"));
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), mark)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(Kind::List(Vec::new()), "seq", anchor, tag.as_deref(), mark)
            }
            Event::MappingStart(anchor, tag) => {
                let kind = Kind::Mapping { entries: Map::new(), key: None };
                self.begin(kind, "map", anchor, tag.as_deref(), mark)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(mark),
            Event::Alias(anchor) => self.alias(anchor, mark),
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        mark: Marker,
    ) -> Result<(), Problem> {
        let is_plain = style == ScalarStyle::Plain;
        if is_plain && text == "<<" && self.expects_key() {
            return Err(self.problem(
                mark,
                "merge keys ('<<') are YAML 1.1; write the keys out, or use an alias for the whole value",
            ));
        }
        let value = self.scalar_value(text, is_plain, tag, mark)?;
        let lines = Lines { line: mark.line(), children: Vec::new() };
        self.add(Node { value, lines, cost: NODE_COST + text.len(), depth: 0 }, anchor, mark)
    }

    fn scalar_value(
        &self,
        text: &str,
        is_plain: bool,
        tag: Option<&Tag>,
        mark: Marker,
    ) -> Result<Value, Problem> {
        let plain = || scalar::plain(text).map_err(|message| self.problem(mark, &message));
        let Some(tag) = tag else {
            return if is_plain { plain() } else { Ok(Value::String(text.to_owned())) };
        };
        if tag.handle.is_empty() && tag.suffix == "!" || is_core(tag, "str") {
            return Ok(Value::String(text.to_owned()));
        }
        let value = plain()?;
        let fits = match &value {
            Value::Null => is_core(tag, "null"),
            Value::Bool(_) => is_core(tag, "bool"),
            Value::Number(number) => is_core(tag, "float") || is_core(tag, "int") && !number.is_f64(),
            _ => false,
        };
        if fits { Ok(value) } else { Err(self.refused_tag(tag, mark)) }
    }

    fn refused_tag(&self, tag: &Tag, mark: Marker) -> Problem {
        self.problem(mark, &format!("the tag '{tag}' does not belong here; remove it"))
    }

    fn begin(
        &mut self,
        kind: Kind,
        core: &str,
        anchor: usize,
        tag: Option<&Tag>,
        mark: Marker,
    ) -> Result<(), Problem> {
        if let Some(tag) = tag.filter(|tag| !is_core(tag, core)) {
            return Err(self.refused_tag(tag, mark));
        }
        if self.expects_key() {
            return Err(self.problem(mark, "a key must be text, not a list or a mapping"));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(self.too_deep(mark));
        }
        // The line of a value is the line of its key, where users look for it.
        let line = self.key_line().unwrap_or(mark.line());
        self.open.push(OpenNode { kind, anchor, line, children: Vec::new(), cost: NODE_COST, depth: 0 });
        self.add_cost(NODE_COST, mark)
    }

    fn end(&mut self, mark: Marker) -> Result<(), Problem> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let value = match open.kind {
            Kind::List(items) => Value::Array(items),
            Kind::Mapping { entries, .. } => Value::Object(entries),
        };
        let lines = Lines { line: open.line, children: open.children };
        let node = Node { value, lines, cost: open.cost, depth: open.depth + 1 };
        self.insert_node(node, open.anchor, mark)
    }

    fn alias(&mut self, anchor: usize, mark: Marker) -> Result<(), Problem> {
        if self.expects_key() {
            return Err(self.problem(mark, "a key must be text; write the key out instead of an alias"));
        }
        let Some(node) = self.anchors.get(&anchor) else {
            return Err(self.problem(mark, "this alias refers to a value that contains it"));
        };
        let cost = node.cost;
        if self.open.len() + node.depth > DEPTH_MAX {
            return Err(self.too_deep(mark));
        }
        // The cost is added before copying, because the copy itself is what an alias bomb exploits.
        self.add_cost(cost, mark)?;
        match self.anchors.get(&anchor).cloned() {
            Some(node) => self.insert_node(node, 0, mark),
            None => Ok(()),
        }
    }

    fn add(&mut self, node: Node, anchor: usize, mark: Marker) -> Result<(), Problem> {
        self.add_cost(node.cost, mark)?;
        self.insert_node(node, anchor, mark)
    }

    /// Inserts a node whose cost was already added.
    fn insert_node(&mut self, node: Node, anchor: usize, mark: Marker) -> Result<(), Problem> {
        if anchor != 0 {
            self.add_cost(node.cost, mark)?;
            self.anchors.insert(anchor, node.clone());
        }
        if self.expects_key() {
            return self.insert_key(node, mark);
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.cost += node.cost;
        open.depth = open.depth.max(node.depth);
        let mut lines = node.lines;
        match &mut open.kind {
            Kind::List(items) => items.push(node.value),
            Kind::Mapping { entries, key } => {
                if let Some((key, line)) = key.take() {
                    lines.line = line;
                    entries.insert(key, node.value);
                }
            }
        }
        open.children.push(lines);
        Ok(())
    }

    fn insert_key(&mut self, node: Node, mark: Marker) -> Result<(), Problem> {
        let Value::String(text) = node.value else {
            let message = format!("a key must be text; write '{}' in quotes", node.value);
            return Err(self.problem(mark, &message));
        };
        let Some(OpenNode { kind: Kind::Mapping { entries, key }, cost, .. }) = self.open.last_mut() else {
            return Ok(());
        };
        if entries.contains_key(&text) {
            let message = format!("duplicate key '{text}'; remove one of them");
            return Err(self.problem(mark, &message));
        }
        *cost += node.cost;
        *key = Some((text, mark.line()));
        Ok(())
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(OpenNode { kind: Kind::Mapping { key: None, .. }, .. }))
    }

    fn key_line(&self) -> Option<usize> {
        match &self.open.last()?.kind {
            Kind::Mapping { key, .. } => key.as_ref().map(|(_, line)| *line),
            Kind::List(_) => None,
        }
    }

    fn add_cost(&mut self, cost: usize, mark: Marker) -> Result<(), Problem> {
        self.cost += cost;
        if self.cost > COST_MAX {
            let message = "the file grows too large when its aliases are followed; write it without them";
            return Err(self.problem(mark, message));
        }
        Ok(())
    }

    fn too_deep(&self, mark: Marker) -> Problem {
        let message = format!("nested deeper than the {DEPTH_MAX} levels allowed; flatten it");
        Problem { path: "$".to_owned(), ..self.problem(mark, &message) }
    }

    /// Returns a problem at a position, with the path of the current value.
    fn problem(&self, mark: Marker, message: &str) -> Problem {
        let steps: Vec<Segment> = self
            .open
            .iter()
            .filter_map(|open| match &open.kind {
                Kind::List(items) => Some(Segment::Index(items.len())),
                Kind::Mapping { key, .. } => key.as_ref().map(|(key, _)| Segment::Key(key.clone())),
            })
            .collect();
        let message = format!("{message} (column {})", mark.col() + 1);
        Problem { line: Some(mark.line()), ..Problem::new(json_path(&steps), message) }
    }
}

fn is_core(tag: &Tag, suffix: &str) -> bool {
    tag.is_yaml_core_schema() && tag.suffix == suffix
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn yaml_converts_to_json_with_lines() {
        let text =
            "b: &x {k: [1, 0x10, 2.5, no, ~]}\na: *x\n'7': |\n  two\n  lines\nq: \"\\u00e9\"\nt: !!str 5\n";
        let (value, lines) = read(text).unwrap();
        let list = json!({"k": [1, 16, 2.5, "no", null]});
        assert_eq!(value, json!({"b": list, "a": list, "7": "two\nlines\n", "q": "é", "t": "5"}));
        assert_eq!(value.to_string().find("\"b\""), Some(1), "key order is kept");
        assert_eq!(lines.children.iter().map(|lines| lines.line).collect::<Vec<_>>(), [1, 2, 3, 6, 7]);
    }

    #[test]
    fn yaml_without_json_equivalent_is_refused() {
        for (text, expected) in [
            ("a: 1\na: 2", "line 2: $: duplicate key 'a'; remove one of them (column 1)"),
            ("x:\n  1: a", "line 2: $.x: a key must be text; write '1' in quotes (column 3)"),
            ("x:\n  true: a", "line 2: $.x: a key must be text; write 'true' in quotes (column 3)"),
            ("? [a]\n: b", "line 1: $: a key must be text, not a list or a mapping (column 3)"),
            ("a: !mine 5", "line 1: $.a: the tag '!mine' does not belong here; remove it (column 4)"),
            (
                "a: .inf",
                "line 1: $.a: JSON has no number for .inf; write a finite number, or text in quotes (column 4)",
            ),
            (
                "a: 1\n---\nb: 2",
                "line 2: $: a second document ('---') begins here; a file has one (column 1)",
            ),
            ("a: &x [*x]", "line 1: $.a[0]: this alias refers to a value that contains it (column 8)"),
            (
                "b: &x {k: 1}\na:\n  <<: *x",
                "line 3: $.a: merge keys ('<<') are YAML 1.1; write the keys out, or use an alias for the whole value (column 3)",
            ),
            ("", "$: the file is empty; an agent needs at least one key, such as description"),
            ("# nothing", "$: the file is empty; an agent needs at least one key, such as description"),
        ] {
            assert_eq!(refused(text), expected, "{text}");
        }
        assert!(refused("a: [1, 2").contains(": $.a[2]: not valid YAML: "), "{}", refused("a: [1, 2"));
        assert!(refused("a:\n\t- b").starts_with("line 2: "), "{}", refused("a:\n\t- b"));
    }

    #[test]
    fn alias_bomb_is_refused() {
        let mut text = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
        for level in 1..30 {
            let before = level - 1;
            text.push_str(&format!("a{level}: &a{level} [*a{before}, *a{before}, *a{before}, *a{before}]\n"));
        }
        assert!(refused(&text).contains("grows too large"), "{}", refused(&text));

        let mut text = format!("big: &big {}\nall: [", "x".repeat(500_000));
        text.push_str(&"*big, ".repeat(50_000));
        text.push(']');
        assert!(refused(&text).contains("grows too large"));

        let mut text = String::from("a0: &a0 [1]\n");
        for level in 1..300 {
            text.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
        }
        assert!(refused(&text).contains("nested deeper"), "{}", refused(&text));
        assert!(read(&"[".repeat(10_000)).is_err());
        assert!(refused(&"[".repeat(200)).contains("nested deeper"));
        assert!(refused(&"- ".repeat(10_000)).contains("nested deeper"));
    }
}
