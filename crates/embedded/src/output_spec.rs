//! What a request wants: text, JSON of some form, a certain tool call, or a choice between a tool call and
//! the final result. A choice is made under one grammar, so that it works with any model.

use std::borrow::Cow;

use serde_json::{Value, json};
use slipform_schema::compact;
use slipform_types::{Format, Reply, Request, StopReason, Tool, ToolCall, ToolChoice};

use crate::error::Error;

/// What a request wants.
#[derive(Debug)]
pub(crate) enum Ask<'r> {
    /// Text.
    Text,
    /// JSON that satisfies a schema.
    Json(Cow<'r, Value>),
    /// A call of this tool.
    Call(&'r Tool),
    /// A call of one of these tools, or the final result: JSON of a schema, or text without one. Where a call is
    /// required there is no result yet.
    Choice { tools: &'r [Tool], result: Option<Cow<'r, Value>>, must_call: bool },
}

/// One form that an answer may take: a schema, and the member of an object in which its value stands.
#[derive(Debug)]
pub(crate) struct Branch<'r> {
    /// The tool that is called, if it is a call.
    pub(crate) tool: Option<&'r str>,
    pub(crate) schema: Cow<'r, Value>,
}

impl<'r> Ask<'r> {
    pub(crate) fn of(request: &'r Request) -> Result<Ask<'r>, Error> {
        if let ToolChoice::Named(name) = &request.tool_choice {
            let tool = request.tools.iter().find(|tool| tool.name == *name);
            return tool.map(Ask::Call).ok_or_else(|| Error::UnknownTool(name.clone()));
        }
        let schema = match &request.format {
            Format::Text => None,
            Format::JsonObject { schema: None } => Some(Cow::Owned(json!({"type": "object"}))),
            Format::JsonObject { schema: Some(schema) } | Format::JsonSchema { schema, .. } => {
                Some(Cow::Borrowed(schema))
            }
        };
        let must_call = request.tool_choice == ToolChoice::Required;
        let may_call = request.tool_choice != ToolChoice::None && !request.tools.is_empty();
        Ok(match schema {
            result if may_call => Ask::Choice { tools: &request.tools, result, must_call },
            Some(schema) => Ask::Json(schema),
            None => Ask::Text,
        })
    }

    /// The request as the chat template gets it: tools are shown in words that belong to the grammar.
    pub(crate) fn request(&self, request: &'r Request) -> Cow<'r, Request> {
        if request.tools.is_empty() {
            return Cow::Borrowed(request);
        }
        let mut shown = Request { tools: Vec::new(), ..request.clone() };
        if let Ask::Choice { tools, result, must_call } = self {
            let system = shown.system.get_or_insert_default();
            if !system.is_empty() {
                system.push_str("\n\n");
            }
            system.push_str(&section(tools, result.is_some(), *must_call));
        }
        Cow::Owned(shown)
    }

    /// The forms that the answer may take; none for text. A single one without a tool is the answer itself.
    pub(crate) fn branches(&self) -> Vec<Branch<'_>> {
        match self {
            Ask::Text => Vec::new(),
            Ask::Json(schema) => vec![Branch { tool: None, schema: Cow::Borrowed(schema) }],
            Ask::Call(tool) => vec![Branch { tool: None, schema: Cow::Borrowed(&tool.parameters) }],
            Ask::Choice { tools, result, must_call } => {
                let calls = tools
                    .iter()
                    .map(|tool| Branch { tool: Some(&tool.name), schema: Cow::Borrowed(&tool.parameters) });
                let schema = match result {
                    Some(schema) => Cow::Borrowed(schema.as_ref()),
                    None => Cow::Owned(json!({"type": "string", "minLength": 1})),
                };
                let result = (!must_call).then_some(Branch { tool: None, schema });
                calls.chain(result).collect()
            }
        }
    }

    /// What the answer's text means.
    pub(crate) fn reply(&self, text: String) -> Result<Reply, Error> {
        let call = |name: &str, arguments: String| Reply {
            tool_calls: vec![ToolCall { id: "call_1".to_owned(), name: name.to_owned(), arguments }],
            stop: StopReason::ToolCalls,
            ..Reply::default()
        };
        match self {
            Ask::Text | Ask::Json(_) => Ok(Reply { text, ..Reply::default() }),
            Ask::Call(tool) => Ok(call(&tool.name, text)),
            Ask::Choice { result, .. } => {
                let answer: Value = serde_json::from_str(&text).map_err(|_| Error::Unreadable)?;
                if let Some(tool) = answer["tool"].as_str() {
                    return Ok(call(tool, answer["arguments"].to_string()));
                }
                let text = match (&answer["result"], result) {
                    (Value::String(text), None) => text.clone(),
                    (value, _) => value.to_string(),
                };
                Ok(Reply { text, ..Reply::default() })
            }
        }
    }
}

/// The tools in words.
fn section(tools: &[Tool], structured: bool, must_call: bool) -> String {
    let mut text =
        "## Tools\n\nTo use a tool, answer {\"tool\": NAME, \"arguments\": ARGUMENTS}.\n".to_owned();
    for tool in tools {
        let arguments = compact(&tool.parameters);
        text.push_str(&format!("\n### {}\n{}\narguments: {arguments}\n", tool.name, tool.description.trim()));
    }
    if must_call {
        text.push_str("\nUse one of them now.");
        return text;
    }
    let form = if structured { "JSON" } else { "TEXT" };
    text.push_str(&format!("\nWhen you know the answer, answer {{\"result\": {form}}}."));
    text
}

#[cfg(test)]
mod tests {
    use slipform_types::Message;

    use super::*;

    fn request(format: Format, tools: &[&str], choice: ToolChoice) -> Request {
        let tools = tools.iter().map(|name| Tool {
            name: (*name).to_owned(),
            description: format!("Does {name}."),
            parameters: json!({"type": "object", "properties": {"query": {"type": "string"}}}),
            strict: false,
        });
        Request {
            messages: vec![Message::user("Hello")],
            tools: tools.collect(),
            tool_choice: choice,
            format,
            ..Request::default()
        }
    }

    #[test]
    fn tools_beside_a_schema_are_a_choice_and_read_back_as_one() {
        let schema = json!({"type": "object"});
        let format = Format::JsonSchema { name: "r".into(), schema, strict: true };
        let request = request(format, &["search", "read"], ToolChoice::Auto);
        let ask = Ask::of(&request).unwrap();
        let tools: Vec<_> = ask.branches().iter().map(|branch| branch.tool.map(str::to_owned)).collect();
        assert_eq!(tools, [Some("search".to_owned()), Some("read".to_owned()), None]);
        let shown = ask.request(&request).into_owned();
        assert!(shown.tools.is_empty());
        let system = shown.system.unwrap();
        assert!(
            system.contains("### search\nDoes search.\narguments: {\n  \"query\"?: string\n}"),
            "{system}"
        );
        let called = ask.reply(r#"{"tool": "read", "arguments": {"query": "x"}}"#.to_owned()).unwrap();
        assert_eq!(called.stop, StopReason::ToolCalls);
        assert_eq!(called.tool_calls[0].name, "read");
        assert_eq!(called.tool_calls[0].arguments, r#"{"query":"x"}"#);
        let ended = ask.reply(r#"{"result": {"a": 1}}"#.to_owned()).unwrap();
        assert_eq!((ended.text.as_str(), ended.tool_calls.len()), (r#"{"a":1}"#, 0));
    }

    #[test]
    fn text_beside_tools_is_read_out_of_its_string() {
        let request = request(Format::Text, &["search"], ToolChoice::Auto);
        let reply = Ask::of(&request).unwrap().reply(r#"{"result": "Done.\n"}"#.to_owned()).unwrap();
        assert_eq!(reply.text, "Done.\n");
    }

    #[test]
    fn where_a_call_is_required_there_is_no_result_and_where_none_is_allowed_no_call() {
        let schema = json!({"type": "object"});
        let format = Format::JsonSchema { name: "r".into(), schema, strict: true };
        let required = request(format.clone(), &["search"], ToolChoice::Required);
        let ask = Ask::of(&required).unwrap();
        let tools: Vec<_> = ask.branches().iter().map(|branch| branch.tool.map(str::to_owned)).collect();
        assert_eq!(tools, [Some("search".to_owned())]);
        let system = ask.request(&required).into_owned().system.unwrap();
        assert!(system.ends_with("Use one of them now."), "{system}");
        let none = request(format, &["search"], ToolChoice::None);
        let ask = Ask::of(&none).unwrap();
        assert!(matches!(ask, Ask::Json(_)));
        assert!(ask.request(&none).system.is_none());
    }

    #[test]
    fn a_named_tool_has_to_be_there() {
        let named = |name: &str| request(Format::Text, &["submit"], ToolChoice::Named(name.to_owned()));
        let reply = Ask::of(&named("submit")).unwrap().reply("{}".to_owned()).unwrap();
        assert_eq!(reply.tool_calls[0].name, "submit");
        assert!(matches!(Ask::of(&named("other")), Err(Error::UnknownTool(name)) if name == "other"));
    }
}
