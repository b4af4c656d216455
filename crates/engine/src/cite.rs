//! Citations: paths of a result that must name files or folders of the project.
//!
//! Paths that the tools of the project have shown are known to exist. The runner checks all others.

use serde_json::{Map, Value, json};
use slipform_schema::{PatternStep as Step, Segment, json_path, parse_pattern};
use slipform_types::BUILTIN_TOOL_PREFIXES;

use crate::changes::{ACTION, Change, FileChanges};

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
    segments: Vec<Segment>,
}

impl CitedPath {
    /// Returns the member with this name beside the path.
    pub(crate) fn sibling<'v>(&self, value: &'v Value, name: &str) -> Option<&'v Value> {
        let (Segment::Key(_), above) = self.segments.split_last()? else { return None };
        let object = above.iter().try_fold(value, |value, segment| match segment {
            Segment::Key(key) => value.get(key),
            Segment::Index(index) => value.get(index),
        });
        object?.get(name)
    }

    /// Returns the JSONPath of the member with this name beside the path.
    pub(crate) fn sibling_place(&self, name: &str) -> String {
        let above = self.segments.split_last().map_or(&[][..], |(_, above)| above);
        json_path(&[above, &[Segment::Key(name.to_owned())]].concat())
    }
}

/// Returns the paths that a value cites at these patterns, up to `count_max`.
pub(crate) fn cited_paths(patterns: &[String], value: &Value, count_max: usize) -> Vec<CitedPath> {
    let mut found = Vec::new();
    for steps in patterns.iter().filter_map(|pattern| parse_pattern(pattern)) {
        visit(value, &steps, &mut Vec::new(), &mut |place, there| {
            if let (Value::String(path), true) = (there, found.len() < count_max) {
                found.push(CitedPath {
                    place: json_path(place),
                    path: path.clone(),
                    segments: place.to_vec(),
                });
            }
        });
    }
    found
}

/// Returns the JSONPath of the list that these patterns lead to: the first one in the value, or else the
/// one that the first pattern names.
pub(crate) fn list_path(patterns: &[String], value: &Value) -> Option<String> {
    let (mut found, mut named) = (None, None);
    for steps in patterns.iter().filter_map(|pattern| parse_pattern(pattern)) {
        let depth = steps.iter().rposition(|step| *step == Step::Each).unwrap_or(steps.len());
        named.get_or_insert_with(|| pattern_text(&steps[..depth]));
        visit(value, &steps[..depth], &mut Vec::new(), &mut |place, _| {
            found.get_or_insert_with(|| json_path(place));
        });
    }
    found.or(named)
}

/// Writes a pattern as a path.
fn pattern_text(steps: &[Step]) -> String {
    steps.iter().fold("$".to_owned(), |path, step| match step {
        Step::Key(key) => format!("{path}.{key}"),
        Step::Each => format!("{path}[*]"),
    })
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
    let gone = match tool {
        "fs:delete" => output["path"].as_str(),
        "fs:move" => output["from"].as_str(),
        _ => None,
    };
    if let Some(gone) = gone {
        known.retain(|path| path != gone);
    }
    if tool == "fs:delete" {
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

/// Restricts a schema to the files that tools changed. Where one list reports them, its items are those
/// files with their actions; elsewhere the schema allows their paths.
pub(crate) fn restrict_to_changes(
    schema: &mut Value,
    contract: &Value,
    patterns: &[String],
    changes: &FileChanges,
) {
    let changed: Vec<(&str, Change)> = changes.changed().collect();
    if exact_list(schema, patterns, &changed).is_none() {
        let paths: Vec<String> = changed.iter().map(|(path, _)| (*path).to_owned()).collect();
        restrict_to_known_paths(schema, contract, patterns, &paths);
    }
}

/// Restricts the list of a single pattern to exactly these files. Returns `None` and changes nothing if
/// the schema has no such list, or not for this many files.
fn exact_list(schema: &mut Value, patterns: &[String], changed: &[(&str, Change)]) -> Option<()> {
    let [pattern] = patterns else { return None };
    let steps = parse_pattern(pattern)?;
    let depth = steps.iter().position(|step| *step == Step::Each)?;
    let (above, member) = (&steps[..depth], &steps[depth + 1..]);
    let list = keywords_at(schema, above)?;
    let bound = |name: &str| list.get(name).and_then(Value::as_u64);
    let (least, most) = (bound("minItems").unwrap_or(0), bound("maxItems").unwrap_or(OFFERED_MAX as u64));
    let count = changed.len() as u64;
    if changed.is_empty() || count < least || count > most.min(OFFERED_MAX as u64) {
        return None;
    }
    let item = list.get("items").filter(|item| item.is_object())?;
    let exact: Option<Vec<Value>> =
        changed.iter().map(|(path, change)| exact_item(item, member, path, *change)).collect();
    list.insert("items".to_owned(), json!(exact?));
    list.insert("additionalItems".to_owned(), json!(false));
    list.insert("minItems".to_owned(), json!(count));
    list.insert("maxItems".to_owned(), json!(count));
    Some(())
}

/// Returns the schema of the list item that reports a file.
fn exact_item(item: &Value, member: &[Step], path: &str, change: Change) -> Option<Value> {
    let name = match member {
        [] => return Some(json!({"const": path})),
        [Step::Key(name)] => name,
        _ => return None,
    };
    let mut item = item.clone();
    let members = item.get_mut("properties")?.as_object_mut()?;
    *members.get_mut(name)? = json!({"const": path});
    let names_actions = |action: &Value| {
        action["enum"].as_array().is_some_and(|names| names.iter().any(|name| name == change.name()))
    };
    if let Some(action) = members.get_mut(ACTION).filter(|action| names_actions(action)) {
        *action = json!({"const": change.name()});
    }
    let required = item.as_object_mut()?.entry("required").or_insert_with(|| json!([])).as_array_mut()?;
    if !required.iter().any(|needed| needed == name) {
        required.push(json!(name));
    }
    Some(item)
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
            cited_paths(&patterns(), &value, 9).into_iter().map(|it| (it.place, it.path)).collect();
        let expected = [("$.findings[0].files[0]", "a"), ("$.findings[2].files[0]", "b"), ("$.main", "c")];
        assert_eq!(found, expected.map(|(place, path)| (place.to_owned(), path.to_owned())));
        assert_eq!(cited_paths(&["findings".to_owned(), "$.a[0]".to_owned()], &value, 9), []);
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
    fn deleted_and_moved_paths_are_not_known_any_more() {
        let mut known = vec!["a".to_owned(), "b".to_owned()];
        record_seen_paths(&mut known, "fs:delete", &json!({"path": "a", "deleted": true}));
        record_seen_paths(&mut known, "fs:move", &json!({"from": "b", "path": "c"}));
        assert_eq!(known, ["c"]);
    }

    #[test]
    fn list_of_changes_is_restricted_to_exactly_the_changed_files() {
        let item = json!({
            "type": "object", "required": ["path", "changes"],
            "properties": {"path": {"type": "string"}, "action": {"enum": ["created", "deleted"]}, "changes": {"type": "string"}},
        });
        let schema = json!({"properties": {"files": {"type": "array", "items": item}}});
        let mut changes = FileChanges::default();
        changes.record("fs:move", &json!({"from": "a", "path": "b"}));
        let mut narrowed = schema.clone();
        restrict_to_changes(&mut narrowed, &schema, &["$.files[*].path".to_owned()], &changes);
        let list = &narrowed["properties"]["files"];
        assert_eq!((&list["minItems"], &list["maxItems"]), (&json!(2), &json!(2)));
        assert_eq!(list["items"][0]["properties"]["path"], json!({"const": "b"}));
        assert_eq!(list["items"][1]["properties"]["action"], json!({"const": "deleted"}));
        let mut limited = schema.clone();
        limited["properties"]["files"]["maxItems"] = json!(1);
        restrict_to_changes(&mut limited, &schema, &["$.files[*].path".to_owned()], &changes);
        let path = "/properties/files/items/properties/path/enum";
        assert_eq!(limited.pointer(path), Some(&json!(["b", "a"])));
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
