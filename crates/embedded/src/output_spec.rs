//! Derives the allowed outputs of a request: text, JSON, a specific tool call, or a tool call or a final result.
//!
//! The last case is decoded under one grammar, so that it works with models that are not trained on tools.

use std::borrow::Cow;

use serde_json::{Value, json};
use slipform_schema::compact;
use slipform_types::{Format, Reply, Request, StopReason, Tool, ToolCall, ToolChoice};

use crate::error::Error;

/// The allowed outputs of a request.
#[derive(Debug)]
pub(crate) enum OutputSpec<'r> {
    /// Unconstrained text.
    Text,
    /// JSON that satisfies a schema.
    Json(Cow<'r, Value>),
    /// A call of this tool.
    Call(&'r Tool),
    /// A call of one of these tools, or the final result. The result is JSON if it has a schema, else text.
    /// `must_call` excludes the result.
    Choice { tools: &'r [Tool], result: Option<Cow<'r, Value>>, must_call: bool },
}

/// One allowed output: a tool call or the result, and the schema of its value.
#[derive(Debug)]
pub(crate) struct Branch<'r> {
    /// The name of the tool; `None` for the result.
    pub(crate) tool: Option<&'r str>,
    pub(crate) schema: Cow<'r, Value>,
}

impl<'r> OutputSpec<'r> {
    pub(crate) fn of(request: &'r Request) -> Result<OutputSpec<'r>, Error> {
        if let ToolChoice::Named(name) = &request.tool_choice {
            let tool = request.tools.iter().find(|tool| tool.name == *name);
            return tool.map(OutputSpec::Call).ok_or_else(|| Error::UnknownTool(name.clone()));
        }
        let schema = match &request.format {
            Format::Text => None,
            Format::JsonObject { schema: None } => Some(Cow::Owned(json!({"type": "object"}))),
            Format::JsonObject { schema: Some(schema) } | Format::JsonSchema { schema, .. } => {
                Some(Cow::Borrowed(&**schema))
            }
        };
        let must_call = request.tool_choice == ToolChoice::Required;
        let may_call = request.tool_choice != ToolChoice::None && !request.tools.is_empty();
        Ok(match schema {
            result if may_call => OutputSpec::Choice { tools: &request.tools, result, must_call },
            Some(schema) => OutputSpec::Json(schema),
            None => OutputSpec::Text,
        })
    }

    /// Returns the request for the chat template, with tools described in the system prompt.
    ///
    /// The description matches the grammar. Formats that a chat template has for tools would not.
    pub(crate) fn request(&self, request: &'r Request) -> Cow<'r, Request> {
        if request.tools.is_empty() {
            return Cow::Borrowed(request);
        }
        let mut rendered = Request { tools: Vec::new(), ..request.clone() };
        if let OutputSpec::Choice { tools, result, must_call } = self {
            let system = rendered.system.get_or_insert_default();
            if !system.is_empty() {
                system.push_str("\n\n");
            }
            system.push_str(&describe_tools(tools, result.is_some(), *must_call));
        }
        Cow::Owned(rendered)
    }

    /// Returns the allowed outputs; empty for text. A single branch without a tool is not wrapped in an object.
    pub(crate) fn branches(&self) -> Vec<Branch<'_>> {
        match self {
            OutputSpec::Text => Vec::new(),
            OutputSpec::Json(schema) => vec![Branch { tool: None, schema: Cow::Borrowed(schema) }],
            OutputSpec::Call(tool) => vec![Branch { tool: None, schema: Cow::Borrowed(&tool.parameters) }],
            OutputSpec::Choice { tools, result, must_call } => {
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

    /// Parses the decoded text into a reply.
    pub(crate) fn reply(&self, text: String) -> Result<Reply, Error> {
        let call = |name: &str, arguments: String| Reply {
            tool_calls: vec![ToolCall { id: "call_1".to_owned(), name: name.to_owned(), arguments }],
            stop: StopReason::ToolCalls,
            ..Reply::default()
        };
        match self {
            OutputSpec::Text | OutputSpec::Json(_) => Ok(Reply { text, ..Reply::default() }),
            OutputSpec::Call(tool) => Ok(call(&tool.name, text)),
            OutputSpec::Choice { result, .. } => {
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

/// Describes the tools, and the JSON with which the model calls them, for the system prompt.
fn describe_tools(tools: &[Tool], has_schema: bool, must_call: bool) -> String {
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
    let form = if has_schema { "JSON" } else { "TEXT" };
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
    fn tools_with_schema_give_a_choice_that_parses_back() {
        let schema = json!({"type": "object"});
        let format = Format::JsonSchema { name: "r".into(), schema: schema.into(), strict: true };
        let request = request(format, &["search", "read"], ToolChoice::Auto);
        let spec = OutputSpec::of(&request).unwrap();
        let tools: Vec<_> = spec.branches().iter().map(|branch| branch.tool.map(str::to_owned)).collect();
        assert_eq!(tools, [Some("search".to_owned()), Some("read".to_owned()), None]);
        let rendered = spec.request(&request).into_owned();
        assert!(rendered.tools.is_empty());
        let system = rendered.system.unwrap();
        assert!(
            system.contains("### search\nDoes search.\narguments: {\n  \"query\"?: string\n}"),
            "{system}"
        );
        let called = spec.reply(r#"{"tool": "read", "arguments": {"query": "x"}}"#.to_owned()).unwrap();
        assert_eq!(called.stop, StopReason::ToolCalls);
        assert_eq!(called.tool_calls[0].name, "read");
        assert_eq!(called.tool_calls[0].arguments, r#"{"query":"x"}"#);
        let ended = spec.reply(r#"{"result": {"a": 1}}"#.to_owned()).unwrap();
        assert_eq!((ended.text.as_str(), ended.tool_calls.len()), (r#"{"a":1}"#, 0));
    }

    #[test]
    fn text_result_with_tools_is_unquoted() {
        let request = request(Format::Text, &["search"], ToolChoice::Auto);
        let reply = OutputSpec::of(&request).unwrap().reply(r#"{"result": "Done.\n"}"#.to_owned()).unwrap();
        assert_eq!(reply.text, "Done.\n");
    }

    #[test]
    fn tool_choice_required_excludes_result_and_none_excludes_calls() {
        let schema = json!({"type": "object"});
        let format = Format::JsonSchema { name: "r".into(), schema: schema.into(), strict: true };
        let required = request(format.clone(), &["search"], ToolChoice::Required);
        let spec = OutputSpec::of(&required).unwrap();
        let tools: Vec<_> = spec.branches().iter().map(|branch| branch.tool.map(str::to_owned)).collect();
        assert_eq!(tools, [Some("search".to_owned())]);
        let system = spec.request(&required).into_owned().system.unwrap();
        assert!(system.ends_with("Use one of them now."), "{system}");
        let none = request(format, &["search"], ToolChoice::None);
        let spec = OutputSpec::of(&none).unwrap();
        assert!(matches!(spec, OutputSpec::Json(_)));
        assert!(spec.request(&none).system.is_none());
    }

    #[test]
    fn unknown_named_tool_is_refused() {
        let named = |name: &str| request(Format::Text, &["submit"], ToolChoice::Named(name.to_owned()));
        let reply = OutputSpec::of(&named("submit")).unwrap().reply("{}".to_owned()).unwrap();
        assert_eq!(reply.tool_calls[0].name, "submit");
        assert!(matches!(OutputSpec::of(&named("other")), Err(Error::UnknownTool(name)) if name == "other"));
    }
}
