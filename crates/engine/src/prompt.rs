//! The texts that models read: the sections that show the schema, and the messages of retries.

use serde_json::Value;
use slipform_schema::{compact, compact_within};
use slipform_types::SchemaForm;

use crate::output_mode::OutputMode;
use crate::patch::Parts;
use crate::tool_loop::Reminder;

/// The longest previous response that a retry repeats, in characters. Repeating a longer one does
/// not help the model.
const PREVIOUS_CHARACTERS_MAX: usize = 24_000;

/// The longest schema skeleton for a model under a grammar, in characters. The grammar enforces the
/// form, and the context of such a model is short.
const GRAMMAR_SKELETON_CHARACTERS_MAX: usize = 4_000;

/// The longest previous response that a retry repeats to a model under a grammar, in characters.
const GRAMMAR_PREVIOUS_CHARACTERS_MAX: usize = 1_500;

/// Instructions for a run without a contract on a server that forces the universal response.
pub(crate) const MESSAGE_ALONE: &str = "## Required Output Format\n\nYour response is a universal agent response. Set \
     `response_type` to \"custom\", `status` to \"success\" and `message` to your whole answer; nothing else is read.";

/// The form in which the schema is shown: [`SchemaForm`] with `auto` resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// JSON Schema.
    Json,
    /// A typed skeleton.
    Compact,
}

impl Form {
    pub(crate) fn of(wanted: SchemaForm, small: bool) -> Form {
        match wanted {
            SchemaForm::Json => Form::Json,
            SchemaForm::Compact => Form::Compact,
            SchemaForm::Auto if small => Form::Compact,
            SchemaForm::Auto => Form::Json,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Form::Json => "json",
            Form::Compact => "compact",
        }
    }

    /// Returns the schema in this form.
    pub(crate) fn show(self, mode: OutputMode, schema: &Value) -> String {
        match self {
            Form::Json => format!("```json\n{}\n```", pretty(schema)),
            Form::Compact if mode == OutputMode::Grammar => {
                compact_within(schema, GRAMMAR_SKELETON_CHARACTERS_MAX)
            }
            Form::Compact => compact(schema),
        }
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// Returns the system prompt, ending with the output section.
pub(crate) fn system(
    base: Option<&str>,
    (mode, tool): (OutputMode, &str),
    form: Form,
    schema: &Value,
    example: Option<&Value>,
) -> String {
    let mut text = base.unwrap_or_default().trim_end().to_owned();
    if mode == OutputMode::Tool {
        add(&mut text, &format!("# CRITICAL: You MUST call {tool}() to return your result!"));
    }
    if let Some(example) = example {
        add(&mut text, &format!("## Example Output\n\n```json\n{}\n```", pretty(example)));
    }
    let shown = form.show(mode, schema);
    let section = match (mode, form) {
        (OutputMode::Tool, _) => format!(
            "## Required Output Format\n\nCall the tool {tool} with arguments conforming to this schema:\n\n{shown}\n\n\
             The arguments MUST match this schema exactly. Text outside the call is not read."
        ),
        (OutputMode::Universal, _) => format!(
            "## Required Output Format\n\nYour response is a universal agent response. Its `custom_fields` MUST be an \
             object conforming to this schema:\n\n{shown}\n\nSet `response_type` to \"custom\", `status` to \"success\" \
             and `message` to a one-line summary. Output ONLY the JSON, no additional text."
        ),
        (_, Form::Json) => format!(
            "## Required Output Format\n\nYou MUST provide structured output as JSON conforming to this schema:\n\n\
             {shown}\n\nYour response MUST be valid JSON that matches this schema exactly. Output ONLY the JSON, no \
             additional text."
        ),
        (_, Form::Compact) => format!(
            "## Required Output Format\n\nAnswer with JSON of this form (? marks optional members):\n\n{shown}\n\n\
             Output ONLY the JSON, no additional text."
        ),
    };
    add(&mut text, &section);
    text
}

/// Returns the user message, ending with the output section (strategy `prompt`).
pub(crate) fn user(input: &str, form: Form, schema: &Value, example: Option<&Value>) -> String {
    let mut text = input.trim_end().to_owned();
    if let Some(example) = example {
        add(&mut text, &format!("## Example Output\n\n```json\n{}\n```", pretty(example)));
    }
    let lead = match form {
        Form::Json => "Your response MUST be valid JSON matching this schema:",
        Form::Compact => "Your response MUST be JSON of this form (? marks optional members):",
    };
    let shown = form.show(OutputMode::Prompt, schema);
    add(
        &mut text,
        &format!(
            "## Output Format (REQUIRED)\n\n{lead}\n\n{shown}\n\nOutput ONLY the JSON, no additional text."
        ),
    );
    text
}

/// Appends a section after an empty line.
/// Returns the section about the tool of the client whose arguments are the answer.
pub(crate) fn arguments_of(tool: &str, description: &str) -> String {
    format!("Your answer is the arguments of a call of `{tool}`: {}", description.trim())
}

pub(crate) fn add(text: &mut String, section: &str) {
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(section);
}

/// The reason for a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryReason {
    /// The reply violates the schema.
    Mismatch,
    /// The reply has no usable answer.
    NoAnswer,
    /// The reply was truncated.
    CutOff,
    /// The result holds placeholders.
    Placeholder,
    /// The reply does not follow the action protocol.
    Envelope,
    /// The result names files that do not exist or were not changed.
    Citation,
    /// The result omits changed files, or reports another action for them.
    Changes,
    /// The result contradicts decided criteria.
    Contradiction,
}

impl RetryReason {
    fn headline(self) -> &'static str {
        match self {
            RetryReason::Mismatch => "Your output did not match the required schema.",
            RetryReason::NoAnswer => "Your output could not be used.",
            RetryReason::CutOff => "Your output was cut off before it was complete. Answer more briefly.",
            RetryReason::Envelope => "Your response is not one valid action.",
            RetryReason::Citation => {
                "Your output names files that are not in the project, or that were not changed. Name only files that you have seen or changed."
            }
            RetryReason::Changes => {
                "Your output does not report the files as they were changed. Report every file that you created, modified or deleted, and no other."
            }
            RetryReason::Contradiction => {
                "Your output contradicts what was checked. Report every criterion as it was found, and conclude from that."
            }
            RetryReason::Placeholder => {
                "Your output matches the schema, but holds placeholders instead of content. Give the real content."
            }
        }
    }
}

/// Returns the full form of a retry: errors, previous response and schema.
pub(crate) fn full_retry(
    retry_reason: RetryReason,
    errors: &[String],
    previous: &str,
    shown: (OutputMode, Form),
    schema: &Value,
) -> String {
    let please = match shown.0 {
        OutputMode::Universal => {
            "Please provide a corrected universal agent response, whose `custom_fields` match the schema exactly."
        }
        _ => "Please provide a corrected response that matches the schema exactly.",
    };
    retry(opening(retry_reason, errors), previous, shown, schema, please)
}

/// Returns the retry of a result inside an action.
pub(crate) fn answer_retry(
    retry_reason: RetryReason,
    errors: &[String],
    previous: &str,
    shown: (OutputMode, Form),
    schema: &Value,
) -> String {
    let please = "Please answer again with the action NORMAL_RESPONSE; its `parameters` hold the corrected result as an \
                  object that matches the schema exactly.";
    retry(opening(retry_reason, errors), previous, shown, schema, please)
}

fn retry(
    mut text: String,
    previous: &str,
    (mode, form): (OutputMode, Form),
    schema: &Value,
    please: &str,
) -> String {
    if !previous.trim().is_empty() {
        let previous = shortened(previous.trim(), previous_characters(mode));
        text.push_str(&format!("\n\n## Your Previous Response\n{previous}"));
    }
    // Under a grammar the system prompt already shows the schema and fills most of the context.
    if mode != OutputMode::Grammar {
        text.push_str(&format!("\n\n## Required Schema\n{}", form.show(mode, schema)));
    }
    text.push_str(&format!(
        "\n\n{please}\nOutput ONLY the valid JSON, no additional text.\n</output-validation-error>"
    ));
    text
}

/// Returns the reminder of how many steps are left.
pub(crate) fn steps_left(reminder: Reminder, how: &str) -> String {
    match reminder {
        Reminder::Half { used, of } => format!(
            "<reminder>\nYou have used {used} of {of} steps. Give your result {how} as soon as you can.\n</reminder>"
        ),
        Reminder::Last => format!(
            "<reminder>\nThis is your last step: no tool is called any more. Give your result now, {how}.\n</reminder>"
        ),
    }
}

fn previous_characters(mode: OutputMode) -> usize {
    if mode == OutputMode::Grammar { GRAMMAR_PREVIOUS_CHARACTERS_MAX } else { PREVIOUS_CHARACTERS_MAX }
}

/// Returns the patch form of a retry: only the invalid parts.
pub(crate) fn patch_retry(
    retry_reason: RetryReason,
    errors: &[String],
    parts: &Parts,
    form: Form,
    (mode, tool): (OutputMode, &str),
) -> String {
    let mut text = opening(retry_reason, errors);
    let now: Vec<String> = parts
        .list
        .iter()
        .filter_map(|part| {
            let current = shortened(&part.current.as_ref()?.to_string(), previous_characters(mode));
            Some(format!("- {}: {current}", part.pointer))
        })
        .collect();
    if !now.is_empty() && retry_reason != RetryReason::CutOff {
        text.push_str(&format!("\n\n## Current Values\n{}", now.join("\n")));
    }
    if let Some(rest) = &parts.context {
        let rest = shortened(&rest.to_string(), previous_characters(mode));
        text.push_str(&format!("\n\n## The Rest Of Your Response\n{rest}"));
    }
    // In tool mode only a call is read, so the retry must not ask for bare JSON.
    let last = match mode {
        OutputMode::Tool => format!("Please call {tool} with that object as its arguments."),
        _ => "Output ONLY the valid JSON, no additional text.".to_owned(),
    };
    text.push_str(&format!(
        "\n\n## Parts To Correct\nEverything else is right. Give ONLY the corrected parts, as a JSON object whose keys \
         are their paths:\n{}\n\n{last}\n</output-validation-error>",
        form.show(mode, parts.schema.source())
    ));
    text
}

/// Returns the answer to a tool call with invalid arguments.
pub(crate) fn tool_retry(retry_reason: RetryReason, errors: &[String], tool: &str) -> String {
    format!(
        "{}\n\nPlease call {tool} again with arguments that match its schema exactly.\n</output-validation-error>",
        opening(retry_reason, errors)
    )
}

/// Returns the reminder for a model that did not call the tool.
pub(crate) fn reminder(tool: &str) -> String {
    format!(
        "<output-validation-error>\nYou did not call {tool}.\n\n## Validation Errors\n- $: no result was submitted\n\n\
         Your result is only taken from the tool call: call {tool} now.\n</output-validation-error>"
    )
}

/// Returns the retry for a model whose call was truncated.
pub(crate) fn call_again() -> String {
    "<output-validation-error>\nYour tool call was cut off by the token limit and was not made. Make it again, with less \
     at once: several short calls instead of a long one.\n</output-validation-error>"
        .to_owned()
}

/// Returns the retry for a model that gave no text.
pub(crate) fn plain_retry(reason: &str) -> String {
    format!(
        "<output-validation-error>\nYour output could not be used: {reason}. Please answer.\n</output-validation-error>"
    )
}

/// Returns the follow-up questions about an unclear answer.
pub(crate) fn clarify(questions: &[String]) -> String {
    let asked: Vec<String> = questions.iter().map(|question| format!("- {question}")).collect();
    let asked = if asked.is_empty() {
        "- Can you make it more complete, clearer and more exact?".to_owned()
    } else {
        asked.join("\n")
    };
    format!(
        "<clarification-needed>\nYour answer is not clear enough yet.\n\n## Questions\n{asked}\n\n\
         Please give your whole answer again, in the same form, with these questions answered in it.\n</clarification-needed>"
    )
}

fn opening(retry_reason: RetryReason, errors: &[String]) -> String {
    let lines: Vec<String> = errors.iter().map(|error| format!("- {error}")).collect();
    format!(
        "<output-validation-error>\n{}\n\n## Validation Errors\n{}",
        retry_reason.headline(),
        lines.join("\n")
    )
}

fn shortened(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some((cut, _)) => {
            let rest = text[cut..].chars().count();
            format!("{}\n… ({rest} more characters)", &text[..cut])
        }
    }
}
