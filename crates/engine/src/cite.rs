//! Citations: places of a result that have to name files or folders of the project.
//!
//! What the project's tools have shown is known to be there; about everything else the runner is asked.

use serde_json::{Map, Value, json};
use slipform_schema::{PatternStep as Step, Segment, json_path, parse_pattern};
use slipform_types::{BUILTIN_TOOL_PREFIXES, WRITING_TOOLS};

/// The most paths that a grammar offers: more would crowd out the model's context, and the newest matter most.
const OFFERED_MAX: usize = 24;

/// The most paths that one list may name under a grammar: small models fill lists as long as they may.
const LISTED_MAX: u64 = 4;

/// The most files that one result may name in these places. One that names more is refused: each is looked for.
pub(crate) const CITED_MAX: usize = 1_000;

/// A path that a result names, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cited {
    pub(crate) place: String,
    pub(crate) path: String,
}

/// The paths that a value names at these places.
pub(crate) fn cited(patterns: &[String], value: &Value) -> Vec<Cited> {
    let mut found = Vec::new();
    for steps in patterns.iter().filter_map(|pattern| parse_pattern(pattern)) {
        visit(value, &steps, &mut Vec::new(), &mut |place, there| {
            if let (Value::String(path), true) = (there, found.len() <= CITED_MAX) {
                found.push(Cited { place: json_path(place), path: path.clone() });
            }
        });
    }
    found
}

/// Shows what stands at the places of a pattern, each with its place.
pub(crate) fn visit(
    value: &Value,
    steps: &[Step],
    place: &mut Vec<Segment>,
    show: &mut impl FnMut(&[Segment], &Value),
) {
    match (steps.split_first(), value) {
        (None, there) => show(place, there),
        (Some((Step::Key(key), rest)), Value::Object(members)) => {
            if let Some(member) = members.get(key) {
                place.push(Segment::Key(key.clone()));
                visit(member, rest, place, show);
                place.pop();
            }
        }
        (Some((Step::Each, rest)), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                place.push(Segment::Index(index));
                visit(item, rest, place, show);
                place.pop();
            }
        }
        _ => {}
    }
}

/// Adds the paths that a tool of the project has shown to those that are known, the newest first.
pub(crate) fn see(known: &mut Vec<String>, tool: &str, output: &Value) {
    if !tool.split_once(':').is_some_and(|(before, _)| BUILTIN_TOOL_PREFIXES.contains(&before)) {
        return;
    }
    let mut shown = Vec::new();
    gather(output, &mut shown);
    known.retain(|path| !shown.contains(path));
    known.splice(0..0, shown);
}

fn gather(value: &Value, shown: &mut Vec<String>) {
    let mut add = |path: &Value| {
        if let Some(path) = path.as_str().filter(|path| !path.is_empty() && *path != ".")
            && !shown.iter().any(|known| known == path)
        {
            shown.push(path.to_owned());
        }
    };
    match value {
        Value::Object(members) => {
            members.get("path").into_iter().for_each(&mut add);
            members.get("files").and_then(Value::as_array).into_iter().flatten().for_each(&mut add);
            members.values().filter(|member| member.is_array() || member.is_object()).for_each(|member| {
                gather(member, shown);
            });
        }
        Value::Array(items) => {
            items.iter().filter(|item| item.is_object()).for_each(|item| gather(item, shown));
        }
        _ => {}
    }
}

/// Adds the path that a tool has written to.
pub(crate) fn write(written: &mut Vec<String>, tool: &str, output: &Value) {
    let path = output["path"].as_str().filter(|_| WRITING_TOOLS.contains(&tool));
    if let Some(path) = path.filter(|path| !written.iter().any(|known| known == path)) {
        written.insert(0, path.to_owned());
    }
}

/// A schema under which only known paths can be named, and none where none is known, as far as the contract allows that.
/// Where a place leads through a reference the schema stays as it is: the result is checked all the same.
pub(crate) fn offer(schema: &mut Value, contract: &Value, patterns: &[String], known: &[String]) {
    let paths: Vec<&String> = known.iter().take(OFFERED_MAX).collect();
    for steps in patterns.iter().filter_map(|pattern| parse_pattern(pattern)) {
        let last = steps.iter().rposition(|step| *step == Step::Each);
        if let Some(depth) = last
            && let Some(list) = place(schema, &steps[..depth])
        {
            few(list, depth + 1 == steps.len(), paths.len());
        }
        if let (true, [above @ .., Step::Key(name)]) = (paths.is_empty(), steps.as_slice()) {
            leave_out(schema, contract, above, name);
        } else if let (false, Some(keywords)) = (paths.is_empty(), place(schema, &steps)) {
            let mut only = Map::new();
            only.extend(keywords.get("description").map(|text| ("description".to_owned(), text.clone())));
            only.insert("type".to_owned(), json!("string"));
            only.insert("enum".to_owned(), json!(paths));
            *keywords = only;
        }
    }
}

/// Takes a member away that the contract does not need.
fn leave_out(schema: &mut Value, contract: &Value, above: &[Step], name: &str) {
    let mut contract = contract.clone();
    let is_needed = place(&mut contract, above).is_none_or(|keywords| requires(keywords, name));
    let Some(keywords) = place(schema, above).filter(|_| !is_needed) else { return };
    if let Some(members) = keywords.get_mut("properties").and_then(Value::as_object_mut) {
        members.remove(name);
    }
    if let Some(required) = keywords.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|needed| needed != name);
    }
    keywords.insert("additionalProperties".to_owned(), json!(false));
}

fn requires(keywords: &Map<String, Value>, name: &str) -> bool {
    keywords.get("required").and_then(Value::as_array).into_iter().flatten().any(|needed| needed == name)
}

/// Keeps a list short, and empty where there is nothing to name. A list of paths names each once, and at least one:
/// a finding that shows nothing is none.
fn few(list: &mut Map<String, Value>, is_of_paths: bool, known: usize) {
    let bound = |name: &str| list.get(name).and_then(Value::as_u64);
    let (least, stated) = (bound("minItems").unwrap_or(0), bound("maxItems"));
    let most = stated.unwrap_or(LISTED_MAX).min(LISTED_MAX).max(least);
    match known {
        0 if least == 0 => {
            list.insert("maxItems".to_owned(), json!(0));
        }
        0 => {}
        _ => {
            list.insert("maxItems".to_owned(), json!(most));
            if is_of_paths && most > 0 {
                list.insert("minItems".to_owned(), json!(least.max(1)));
            }
            if is_of_paths && most <= known as u64 {
                list.insert("uniqueItems".to_owned(), json!(true));
            }
        }
    }
}

/// The keywords at a place of a schema.
fn place<'s>(schema: &'s mut Value, steps: &[Step]) -> Option<&'s mut Map<String, Value>> {
    let place = steps.iter().try_fold(schema, |place, step| match step {
        Step::Key(key) => place.get_mut("properties")?.get_mut(key),
        Step::Each => place.get_mut("items"),
    });
    place?.as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns() -> Vec<String> {
        vec!["$.findings[*].files[*]".to_owned(), "$.main".to_owned()]
    }

    #[test]
    fn places_are_found_wherever_they_are_and_named() {
        let value =
            json!({"findings": [{"files": ["a", 1]}, {}, {"files": ["b"]}], "main": "c", "files": ["d"]});
        let found: Vec<_> = cited(&patterns(), &value).into_iter().map(|it| (it.place, it.path)).collect();
        let expected = [("$.findings[0].files[0]", "a"), ("$.findings[2].files[0]", "b"), ("$.main", "c")];
        assert_eq!(found, expected.map(|(place, path)| (place.to_owned(), path.to_owned())));
        assert_eq!(cited(&["findings".to_owned(), "$.a[0]".to_owned()], &value), []);
    }

    #[test]
    fn what_the_projects_tools_have_shown_is_known_newest_first() {
        let mut known = Vec::new();
        see(&mut known, "fs:list", &json!({"path": ".", "entries": [{"path": "a"}, {"path": "b/c"}]}));
        see(&mut known, "wiki:page", &json!({"path": "elsewhere"}));
        see(&mut known, "code:search", &json!({"results": [{"path": "d"}, {"path": "a"}]}));
        see(&mut known, "fs:glob", &json!({"files": ["e"]}));
        assert_eq!(known, ["e", "d", "a", "b/c"]);
    }

    #[test]
    fn what_was_written_is_known_by_the_path_that_the_tool_gave() {
        let mut written = Vec::new();
        write(&mut written, "fs:edit", &json!({"path": "a", "replacements": 1}));
        write(&mut written, "fs:write", &json!({"path": "a"}));
        write(&mut written, "fs:read", &json!({"path": "b"}));
        write(&mut written, "fs:write", &Value::Null);
        assert_eq!(written, ["a"]);
    }

    #[test]
    fn only_what_is_known_is_offered() {
        let schema = json!({
            "properties": {
                "findings": {"items": {"properties": {"files": {"items": {"type": "string", "minLength": 1}}}}},
                "main": {"type": "string", "description": "d"},
            },
        });
        let offered = |known: &[String]| {
            let mut narrowed = schema.clone();
            offer(&mut narrowed, &schema, &patterns(), known);
            narrowed
        };
        let nothing = offered(&[]);
        assert_eq!(nothing["properties"]["findings"]["items"]["properties"]["files"]["maxItems"], json!(0));
        assert_eq!(nothing["properties"].get("main"), None);
        assert_eq!(nothing["additionalProperties"], json!(false));
        // What the contract needs stays, whatever is known.
        let mut needed = schema.clone();
        needed["required"] = json!(["main"]);
        let contract = needed.clone();
        offer(&mut needed, &contract, &patterns(), &[]);
        assert_eq!(needed["properties"]["main"], schema["properties"]["main"]);
        let narrowed = offered(&["a".to_owned()]);
        let files = &narrowed["properties"]["findings"]["items"]["properties"]["files"];
        assert_eq!((&files["minItems"], &files["maxItems"]), (&json!(1), &json!(4)));
        assert_eq!(narrowed["properties"]["findings"].get("minItems"), None);
        let place = "/properties/findings/items/properties/files/items";
        assert_eq!(narrowed.pointer(place), Some(&json!({"type": "string", "enum": ["a"]})));
        assert_eq!(narrowed["properties"]["main"]["enum"], json!(["a"]));
    }
}
