//! Citations: paths of a result that must name files or folders of the project.
//!
//! Paths that the tools of the project have shown are known to exist. The runner checks all others.

use serde_json::{Map, Value, json};
use slipform_schema::{PatternStep as Step, Segment, json_path, parse_pattern};
use slipform_types::{BUILTIN_TOOL_PREFIXES, WRITING_TOOLS};

/// The maximum number of paths that a grammar offers. More would use up the context of the model,
/// and the newest matter most.
const OFFERED_MAX: usize = 24;

/// The maximum length of a list of paths under a grammar. Small models fill lists up to their
/// limit.
const LISTED_MAX: u64 = 4;

/// The maximum number of files that a result may cite. The runner checks each one, so a result with
/// more is rejected.
pub(crate) const CITED_MAX: usize = 1_000;

/// A path that a result cites, with its JSONPath in the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CitedPath {
    pub(crate) place: String,
    pub(crate) path: String,
}

/// Returns the paths that a value cites at these patterns.
pub(crate) fn cited_paths(patterns: &[String], value: &Value) -> Vec<CitedPath> {
    let mut found = Vec::new();
    for steps in patterns.iter().filter_map(|pattern| parse_pattern(pattern)) {
        visit(value, &steps, &mut Vec::new(), &mut |place, there| {
            if let (Value::String(path), true) = (there, found.len() <= CITED_MAX) {
                found.push(CitedPath { place: json_path(place), path: path.clone() });
            }
        });
    }
    found
}

/// Calls `on_match` for every value that a pattern matches.
pub(crate) fn visit(
    value: &Value,
    steps: &[Step],
    place: &mut Vec<Segment>,
    on_match: &mut impl FnMut(&[Segment], &Value),
) {
    match (steps.split_first(), value) {
        (None, there) => on_match(place, there),
        (Some((Step::Key(key), rest)), Value::Object(members)) => {
            if let Some(member) = members.get(key) {
                place.push(Segment::Key(key.clone()));
                visit(member, rest, place, on_match);
                place.pop();
            }
        }
        (Some((Step::Each, rest)), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                place.push(Segment::Index(index));
                visit(item, rest, place, on_match);
                place.pop();
            }
        }
        _ => {}
    }
}

/// Adds the paths that a tool of the project has shown, newest first.
pub(crate) fn record_seen_paths(known: &mut Vec<String>, tool: &str, output: &Value) {
    if !tool.split_once(':').is_some_and(|(before, _)| BUILTIN_TOOL_PREFIXES.contains(&before)) {
        return;
    }
    let mut shown = Vec::new();
    collect_paths(output, &mut shown);
    known.retain(|path| !shown.contains(path));
    known.splice(0..0, shown);
}

fn collect_paths(value: &Value, shown: &mut Vec<String>) {
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
                collect_paths(member, shown);
            });
        }
        Value::Array(items) => {
            items.iter().filter(|item| item.is_object()).for_each(|item| collect_paths(item, shown));
        }
        _ => {}
    }
}

/// Adds the path that a tool has written to.
pub(crate) fn record_written_path(written: &mut Vec<String>, tool: &str, output: &Value) {
    let path = output["path"].as_str().filter(|_| WRITING_TOOLS.contains(&tool));
    if let Some(path) = path.filter(|path| !written.iter().any(|known| known == path)) {
        written.insert(0, path.to_owned());
    }
}

/// Restricts a schema to known paths, or to none if none is known, as far as the contract allows
/// it. Patterns that lead through a reference are not restricted; the result is checked afterwards.
pub(crate) fn restrict_to_known_paths(
    schema: &mut Value,
    contract: &Value,
    patterns: &[String],
    known: &[String],
) {
    let paths: Vec<&String> = known.iter().take(OFFERED_MAX).collect();
    for steps in patterns.iter().filter_map(|pattern| parse_pattern(pattern)) {
        let last = steps.iter().rposition(|step| *step == Step::Each);
        if let Some(depth) = last
            && let Some(list) = keywords_at(schema, &steps[..depth])
        {
            limit_list(list, depth + 1 == steps.len(), paths.len());
        }
        if let (true, [above @ .., Step::Key(name)]) = (paths.is_empty(), steps.as_slice()) {
            remove_optional_member(schema, contract, above, name);
        } else if let (false, Some(keywords)) = (paths.is_empty(), keywords_at(schema, &steps)) {
            let mut only = Map::new();
            only.extend(keywords.get("description").map(|text| ("description".to_owned(), text.clone())));
            only.insert("type".to_owned(), json!("string"));
            only.insert("enum".to_owned(), json!(paths));
            *keywords = only;
        }
    }
}

/// Removes a member that the contract does not require.
fn remove_optional_member(schema: &mut Value, contract: &Value, above: &[Step], name: &str) {
    let mut contract = contract.clone();
    let is_needed = keywords_at(&mut contract, above).is_none_or(|keywords| requires(keywords, name));
    let Some(keywords) = keywords_at(schema, above).filter(|_| !is_needed) else { return };
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

/// Limits the length of a list, to zero if no path is known. A list of paths must be unique and not
/// empty: a finding without a file proves nothing.
fn limit_list(list: &mut Map<String, Value>, is_of_paths: bool, known: usize) {
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

/// Returns the keywords of a schema at a pattern.
fn keywords_at<'s>(schema: &'s mut Value, steps: &[Step]) -> Option<&'s mut Map<String, Value>> {
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
    fn cited_paths_are_found_with_their_json_paths() {
        let value =
            json!({"findings": [{"files": ["a", 1]}, {}, {"files": ["b"]}], "main": "c", "files": ["d"]});
        let found: Vec<_> =
            cited_paths(&patterns(), &value).into_iter().map(|it| (it.place, it.path)).collect();
        let expected = [("$.findings[0].files[0]", "a"), ("$.findings[2].files[0]", "b"), ("$.main", "c")];
        assert_eq!(found, expected.map(|(place, path)| (place.to_owned(), path.to_owned())));
        assert_eq!(cited_paths(&["findings".to_owned(), "$.a[0]".to_owned()], &value), []);
    }

    #[test]
    fn paths_shown_by_project_tools_are_recorded_newest_first() {
        let mut known = Vec::new();
        record_seen_paths(
            &mut known,
            "fs:list",
            &json!({"path": ".", "entries": [{"path": "a"}, {"path": "b/c"}]}),
        );
        record_seen_paths(&mut known, "wiki:page", &json!({"path": "elsewhere"}));
        record_seen_paths(&mut known, "code:search", &json!({"results": [{"path": "d"}, {"path": "a"}]}));
        record_seen_paths(&mut known, "fs:glob", &json!({"files": ["e"]}));
        assert_eq!(known, ["e", "d", "a", "b/c"]);
    }

    #[test]
    fn written_paths_are_recorded_once_per_path() {
        let mut written = Vec::new();
        record_written_path(&mut written, "fs:edit", &json!({"path": "a", "replacements": 1}));
        record_written_path(&mut written, "fs:write", &json!({"path": "a"}));
        record_written_path(&mut written, "fs:read", &json!({"path": "b"}));
        record_written_path(&mut written, "fs:write", &Value::Null);
        assert_eq!(written, ["a"]);
    }

    #[test]
    fn schema_is_restricted_to_known_paths() {
        let schema = json!({
            "properties": {
                "findings": {"items": {"properties": {"files": {"items": {"type": "string", "minLength": 1}}}}},
                "main": {"type": "string", "description": "d"},
            },
        });
        let restricted_schema = |known: &[String]| {
            let mut narrowed = schema.clone();
            restrict_to_known_paths(&mut narrowed, &schema, &patterns(), known);
            narrowed
        };
        let nothing = restricted_schema(&[]);
        assert_eq!(nothing["properties"]["findings"]["items"]["properties"]["files"]["maxItems"], json!(0));
        assert_eq!(nothing["properties"].get("main"), None);
        assert_eq!(nothing["additionalProperties"], json!(false));
        // Required members stay, even if no path is known.
        let mut needed = schema.clone();
        needed["required"] = json!(["main"]);
        let contract = needed.clone();
        restrict_to_known_paths(&mut needed, &contract, &patterns(), &[]);
        assert_eq!(needed["properties"]["main"], schema["properties"]["main"]);
        let narrowed = restricted_schema(&["a".to_owned()]);
        let files = &narrowed["properties"]["findings"]["items"]["properties"]["files"];
        assert_eq!((&files["minItems"], &files["maxItems"]), (&json!(1), &json!(4)));
        assert_eq!(narrowed["properties"]["findings"].get("minItems"), None);
        let place = "/properties/findings/items/properties/files/items";
        assert_eq!(narrowed.pointer(place), Some(&json!({"type": "string", "enum": ["a"]})));
        assert_eq!(narrowed["properties"]["main"]["enum"], json!(["a"]));
    }
}
