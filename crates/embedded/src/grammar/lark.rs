//! Writes forms as a Lark grammar.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::form::{ArrayForm, Form, ObjectForm, SubsetForm};
use super::rx::{Rx, literal};
use super::{ITEM_SEPARATOR, KEY_SEPARATOR};

/// Returns the grammar of `root`. `forms` are the shared forms that it references.
pub(super) fn grammar(forms: &[Form], root: &Form) -> String {
    let mut writer = LarkWriter {
        forms,
        rules: String::new(),
        terminals: HashMap::new(),
        listed: String::new(),
        shared: HashMap::new(),
        count: 0,
        pending: Vec::new(),
    };
    let start = writer.form(root);
    while let Some((name, index)) = writer.pending.pop() {
        if let Some(form) = forms.get(index) {
            let body = writer.body(form);
            writer.rule(&name, &body);
        }
    }
    format!("start: {start}\n{}{}", writer.rules, writer.listed)
}

struct LarkWriter<'f> {
    forms: &'f [Form],
    rules: String,
    /// The names of terminals, by expression.
    terminals: HashMap<String, String>,
    listed: String,
    shared: HashMap<usize, String>,
    count: usize,
    pending: Vec<(String, usize)>,
}

impl LarkWriter<'_> {
    fn new_rule_name(&mut self) -> String {
        self.count += 1;
        format!("r{}", self.count)
    }

    fn rule(&mut self, name: &str, body: &str) {
        let _ = writeln!(self.rules, "{name}: {body}");
    }

    fn terminal(&mut self, rx: &Rx) -> String {
        let expression = rx.lark();
        if let Some(name) = self.terminals.get(&expression) {
            return name.clone();
        }
        let name = format!("T{}", self.terminals.len());
        let _ = writeln!(self.listed, "{name}: {expression}");
        self.terminals.insert(expression, name.clone());
        name
    }

    /// Returns the name of the rule or terminal of a form.
    fn form(&mut self, form: &Form) -> String {
        match form {
            Form::Shared(index) => {
                if let Some(name) = self.shared.get(index) {
                    return name.clone();
                }
                // A form that only references another needs no rule.
                if let Some(inner @ (Form::Shared(_) | Form::Scalar(_))) = self.forms.get(*index) {
                    return self.form(inner);
                }
                let name = self.new_rule_name();
                self.shared.insert(*index, name.clone());
                self.pending.push((name.clone(), *index));
                name
            }
            Form::Scalar(scalar) => self.terminal(&scalar.rx),
            other => {
                let body = self.body(other);
                let name = self.new_rule_name();
                self.rule(&name, &body);
                name
            }
        }
    }

    /// Returns the right-hand side of a form's rule.
    fn body(&mut self, form: &Form) -> String {
        match form {
            Form::Never => "/[^\\x00-\\x{10ffff}]/".to_owned(),
            Form::Shared(_) | Form::Scalar(_) => self.form(form),
            Form::Union(options) => {
                let names: Vec<String> = options.iter().map(|option| self.form(option)).collect();
                names.join(" | ")
            }
            Form::Array(array) => self.array(array),
            Form::Subset(subset) => self.subset(subset),
            Form::Object(object) => self.object(object),
        }
    }

    fn array(&mut self, array: &ArrayForm) -> String {
        let separator = literal(ITEM_SEPARATOR);
        let rest = array.most - array.prefix.len();
        let mut tail = "\"]\"".to_owned();
        if rest > 0 {
            let item = self.form(&array.item);
            let demanded = array.least.saturating_sub(array.prefix.len());
            tail = match (array.prefix.is_empty(), demanded) {
                (true, 0) => format!("({item}{})? \"]\"", more(&item, 0, rest - 1)),
                (true, _) => format!("{item}{} \"]\"", more(&item, demanded - 1, rest - 1)),
                (false, _) => format!("{} \"]\"", more(&item, demanded, rest)),
            };
        }
        for (index, form) in array.prefix.iter().enumerate().rev() {
            let name = self.new_rule_name();
            self.rule(&name, &tail);
            let item = self.form(form);
            let before = if index > 0 { format!("{separator} ") } else { String::new() };
            tail = format!("{before}{item} {name}");
            if index >= array.least {
                tail = format!("{tail} | \"]\"");
            }
        }
        let name = self.new_rule_name();
        self.rule(&name, &tail);
        format!("\"[\" {name}")
    }

    fn subset(&mut self, subset: &SubsetForm) -> String {
        let entries: Vec<Entry> =
            subset.items.iter().map(|item| Entry { text: self.terminal(item), required: false }).collect();
        let end = End { closing: "\"]\"", free: None, free_most: 0 };
        let name = self.counted(&entries, &end, subset.least, Some(subset.most));
        format!("\"[\" {name}")
    }

    fn object(&mut self, object: &ObjectForm) -> String {
        let mut entries = Vec::new();
        for member in &object.members {
            let key = format!("{}{KEY_SEPARATOR}", serde_json::Value::from(member.name.as_str()));
            let value = self.form(&member.form);
            entries.push(Entry { text: format!("{} {value}", literal(&key)), required: member.required });
        }
        let mut free = Vec::new();
        for (key, form) in &object.free {
            let key = Rx::Concat(vec![key.clone(), Rx::Literal(KEY_SEPARATOR.to_owned())]);
            free.push(format!("{} {}", self.terminal(&key), self.form(form)));
        }
        let free = (!free.is_empty()).then(|| {
            let name = self.new_rule_name();
            self.rule(&name, &free.join(" | "));
            name
        });
        let end = End { closing: "\"}\"", free, free_most: object.free_most };
        let name = self.counted(&entries, &end, object.least, object.most);
        format!("\"{{\" {name}")
    }

    /// Writes rules for entries in a fixed order, with optional entries and a bounded count. Returns the name of
    /// the first rule.
    ///
    /// One rule exists per entry and count. Counts beyond the largest bound share a rule.
    fn counted(&mut self, entries: &[Entry], end: &End, least: usize, most: Option<usize>) -> String {
        let cap = least.max(most.unwrap_or(0)).max(1);
        let mut following: Vec<Option<String>> =
            (0..=cap).map(|count| self.end(end, count, least, most)).collect();
        for entry in entries.iter().rev() {
            let mut here = Vec::new();
            for count in 0..=cap {
                here.push(self.entry(entry, &following, count, cap, most));
            }
            following = here;
        }
        let first = following.into_iter().next().flatten();
        first.unwrap_or_else(|| self.form(&Form::Never))
    }

    fn entry(
        &mut self,
        entry: &Entry,
        following: &[Option<String>],
        count: usize,
        cap: usize,
        most: Option<usize>,
    ) -> Option<String> {
        let separator = if count > 0 { format!("{} ", literal(ITEM_SEPARATOR)) } else { String::new() };
        let with = following.get((count + 1).min(cap)).filter(|_| most.is_none_or(|most| count < most));
        let mut options = Vec::new();
        if let Some(Some(next)) = with {
            options.push(format!("{separator}{} {next}", entry.text));
        }
        if let (false, Some(Some(next))) = (entry.required, following.get(count)) {
            options.push(next.clone());
        }
        match options.as_slice() {
            [] => None,
            [single] if !single.contains(' ') => Some(single.clone()),
            _ => {
                let name = self.new_rule_name();
                self.rule(&name, &options.join(" | "));
                Some(name)
            }
        }
    }

    /// Writes the rule for the end after `count` entries: free members and the closing bracket. Returns `None`
    /// if the minimum cannot be reached.
    fn end(&mut self, end: &End, count: usize, least: usize, most: Option<usize>) -> Option<String> {
        let demanded = least.saturating_sub(count);
        let room = most.map_or(end.free_most, |most| most.saturating_sub(count).min(end.free_most));
        let closing = end.closing;
        let body = match &end.free {
            Some(free) if room > 0 && demanded <= room => match (count, demanded) {
                (0, 0) => format!("({free}{})? {closing}", more(free, 0, room - 1)),
                (0, _) => format!("{free}{} {closing}", more(free, demanded - 1, room - 1)),
                _ => format!("{} {closing}", more(free, demanded, room)),
            },
            _ if demanded > 0 => return None,
            _ => closing.to_owned(),
        };
        let name = self.new_rule_name();
        self.rule(&name, &body);
        Some(name)
    }
}

/// Returns `least` to `most` repetitions, each after a separator.
fn more(what: &str, least: usize, most: usize) -> String {
    match most {
        0 => String::new(),
        _ => format!(" ({} {what}){{{least},{most}}}", literal(ITEM_SEPARATOR)),
    }
}

struct Entry {
    text: String,
    required: bool,
}

struct End {
    closing: &'static str,
    free: Option<String>,
    free_most: usize,
}
