//! Reads the messages of a request.

use slipform_types::{Message, Part, Role, ToolCall};

use super::body::{CallBody, CalledFunction, MessageBody};
use super::forms::{ContentBody, ImageBody, PartBody};
use crate::error::ApiError;

/// The messages of a request.
#[derive(Debug)]
pub(crate) struct Messages {
    /// The instructions at the beginning, joined. Those of a named author stay messages of their own.
    pub(crate) system: Option<String>,
    /// The other messages.
    pub(crate) list: Vec<Message>,
    /// The text of the last message of the user.
    pub(crate) input: String,
}

impl Messages {
    /// Reads the messages of a request.
    ///
    /// # Errors
    /// Names the message or part that is invalid or not supported.
    pub(super) fn read(bodies: Vec<MessageBody>) -> Result<Messages, ApiError> {
        if bodies.is_empty() {
            return Err(ApiError::invalid("messages".to_owned(), "`messages` is empty"));
        }
        let (mut system, mut list): (Option<String>, Vec<Message>) = (None, Vec::with_capacity(bodies.len()));
        for (index, body) in bodies.into_iter().enumerate() {
            let message = message(index, body)?;
            let opens = list.is_empty() && message.name.is_none();
            match (&mut system, message.role) {
                (None, Role::System) if opens => system = Some(message.content),
                (Some(system), Role::System) if opens => {
                    system.push_str("\n\n");
                    system.push_str(&message.content);
                }
                _ => list.push(message),
            }
        }
        // Instructions alone are what the model has to answer.
        if list.is_empty() {
            list.extend(system.take().map(Message::user));
        }
        let last = list.iter().rfind(|message| message.role == Role::User);
        let input = last.map(|message| message.content.clone()).unwrap_or_default();
        Ok(Messages { system, list, input })
    }
}

fn message(index: usize, body: MessageBody) -> Result<Message, ApiError> {
    let param = |member: &str| format!("messages[{index}].{member}");
    let role = match body.role.as_str() {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        other => {
            let message = format!(
                "the role of message {index} must be system, developer, user, assistant or tool, not `{other}`"
            );
            return Err(ApiError::invalid(param("role"), message));
        }
    };
    if let Some(member) = body.unsupported() {
        let problem = format!("`{member}` of message {index} is not supported; send `tool_calls`");
        let problem =
            if member == "audio" { format!("message {index} has audio; send its text") } else { problem };
        return Err(ApiError { code: "unsupported_parameter", ..ApiError::invalid(param(member), problem) });
    }
    let (content, parts) = content(index, role, body.content)?;
    // A model reads its own refusal as what it said.
    let content = if content.is_empty() { body.refusal.unwrap_or_default() } else { content };
    let name = body.name.filter(|name| !name.is_empty() && role != Role::Tool);
    let mut message = Message { name, parts, ..Message::of(role, content) };
    match role {
        Role::Tool => {
            message.tool_call_id = Some(body.tool_call_id.filter(|id| !id.is_empty()).ok_or_else(|| {
                let problem = format!("message {index} answers a tool call and has no `tool_call_id`");
                ApiError::invalid(param("tool_call_id"), problem)
            })?);
        }
        Role::Assistant => {
            let calls = body.tool_calls.unwrap_or_default().0.into_iter();
            message.tool_calls = calls
                .enumerate()
                .map(|(call, body)| tool_call(index, call, body))
                .collect::<Result<_, _>>()?;
        }
        Role::System | Role::User => {}
    }
    Ok(message)
}

fn tool_call(message: usize, index: usize, body: CallBody) -> Result<ToolCall, ApiError> {
    let param = format!("messages[{message}].tool_calls[{index}].function");
    let CalledFunction { name, arguments } = body.function.ok_or_else(|| {
        let problem = format!("call {index} of message {message} has no `function`");
        ApiError::invalid(param, problem)
    })?;
    Ok(ToolCall { id: body.id.unwrap_or_default(), name, arguments: arguments.unwrap_or_default() })
}

impl MessageBody {
    /// Returns the name of a member that no backend understands.
    fn unsupported(&self) -> Option<&'static str> {
        let members = [("function_call", self.function_call.0), ("audio", self.audio.0)];
        members.into_iter().find_map(|(name, is_asked)| is_asked.then_some(name))
    }
}

/// Reads the content of a message: its text, and its parts if it has images.
fn content(index: usize, role: Role, content: ContentBody) -> Result<(String, Vec<Part>), ApiError> {
    let bodies = match content {
        ContentBody::Nothing => return Ok((String::new(), Vec::new())),
        ContentBody::Text(text) => return Ok((text, Vec::new())),
        ContentBody::Parts(parts) => parts,
    };
    let parts = bodies.into_iter().enumerate().map(|(position, body)| part(index, position, role, body));
    let parts = parts.collect::<Result<Vec<Part>, _>>()?;
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        Part::Image { .. } => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    let has_image = parts.iter().any(|part| matches!(part, Part::Image { .. }));
    Ok((text, if has_image { parts } else { Vec::new() }))
}

fn part(message: usize, position: usize, role: Role, body: PartBody) -> Result<Part, ApiError> {
    let kind = match body {
        PartBody::Text(text) | PartBody::Refusal(text) => return Ok(Part::Text { text }),
        PartBody::Image(image) if role == Role::User => {
            let ImageBody { url, detail } = *image;
            return Ok(Part::Image { url, detail });
        }
        PartBody::Image(_) => "image_url".to_owned(),
        PartBody::Other(kind) => kind,
    };
    let param = format!("messages[{message}].content[{position}]");
    let problem = format!(
        "part {position} of message {message} has the type `{kind}`; texts, and images of the user, are supported"
    );
    Err(ApiError { code: "unsupported_parameter", ..ApiError::invalid(param, problem) })
}
