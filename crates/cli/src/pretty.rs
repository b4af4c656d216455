//! Formats results as text: a layout per type of universal response, and an outline for every other value.
//!
//! The functions are pure; a [`Style`] describes the terminal.

mod outline;
mod page;
mod sections;
#[cfg(test)]
mod tests;

use serde_json::Value;
use slipform_schema::universal;
use slipform_types::{ResponseStatus, ResponseType, UniversalResponse};

use crate::output;
use page::{Colour, Page};

/// The line width and colour support of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// The maximum number of characters per line.
    pub(crate) width: usize,
    /// Whether the output supports colours.
    pub(crate) is_coloured: bool,
}

/// Formats a result.
pub(crate) fn value(value: &Value, style: Style) -> String {
    if let Some(response) = response(value) {
        return render(&response, style);
    }
    let mut page = Page::new(style);
    outline::value(&mut page, 0, value);
    page.into_text()
}

/// Parses a value as a universal response, or returns `None` if it is not a valid one.
pub(crate) fn response(value: &Value) -> Option<UniversalResponse> {
    let schema = universal::schema().filter(|schema| schema.is_valid(value))?;
    let satisfies_rules = universal::extra_rules(schema, value, None).is_empty();
    satisfies_rules.then(|| serde_json::from_value(value.clone()).ok()).flatten()
}

/// Formats a universal response: title, message, the section of its type, then the other sections that are present.
pub(crate) fn render(response: &UniversalResponse, style: Style) -> String {
    let mut page = Page::new(style);
    let (title, colour) = title(response);
    let clarification = match response.status {
        ResponseStatus::NeedsClarification => " · needs clarification",
        _ => "",
    };
    page.title(&format!("{title}{clarification}"), colour);
    page.gap();
    page.text(0, &response.message);
    let own = response.response_type;
    let kinds = ALL.iter().filter(|kind| **kind != own);
    for kind in std::iter::once(&own).chain(kinds) {
        section(&mut page, response, *kind);
    }
    page.into_text()
}

/// All response types with a section, in the order of the schema.
const ALL: [ResponseType; 7] = [
    ResponseType::Planning,
    ResponseType::Verification,
    ResponseType::Clarity,
    ResponseType::Research,
    ResponseType::Answer,
    ResponseType::Custom,
    ResponseType::Error,
];

fn section(page: &mut Page, response: &UniversalResponse, kind: ResponseType) {
    match kind {
        ResponseType::Planning => response.planning_data.iter().for_each(|it| sections::plan(page, it)),
        ResponseType::Verification => {
            response.verification_data.iter().for_each(|it| sections::verification(page, it));
        }
        ResponseType::Clarity => response.clarity_data.iter().for_each(|it| sections::clarity(page, it)),
        ResponseType::Research => response.research_data.iter().for_each(|it| sections::research(page, it)),
        ResponseType::Answer => response.answer_data.iter().for_each(|it| sections::answer(page, it)),
        ResponseType::Custom => response.custom_fields.iter().for_each(|it| sections::custom(page, it)),
        ResponseType::Error => {
            response.error_details.iter().for_each(|it| sections::error(page, it, &response.message));
        }
    }
}

/// Returns the title of a response and its colour.
fn title(response: &UniversalResponse) -> (String, Option<Colour>) {
    let colour = match response.status {
        ResponseStatus::Pass => Some(Colour::Green),
        ResponseStatus::Fail | ResponseStatus::Error => Some(Colour::Red),
        ResponseStatus::Partial | ResponseStatus::NeedsClarification => Some(Colour::Yellow),
        ResponseStatus::Success => None,
    };
    let title = match response.response_type {
        ResponseType::Planning => "Plan".to_owned(),
        ResponseType::Answer => match &response.answer_data {
            Some(answer) => format!("Answer ({} confidence)", sections::level(answer.confidence)),
            None => "Answer".to_owned(),
        },
        ResponseType::Verification => verdict(response),
        ResponseType::Clarity => match response.clarity_data.as_ref().and_then(sections::total) {
            Some((total, _)) => format!("Clarity: {total} of 100"),
            None => "Clarity".to_owned(),
        },
        ResponseType::Research => match &response.research_data {
            Some(research) => format!("Research: {}", output::counted(research.findings.len(), "finding")),
            None => "Research".to_owned(),
        },
        ResponseType::Custom => "Response".to_owned(),
        ResponseType::Error => {
            match response.error_details.as_ref().and_then(|details| details.error_code.as_deref()) {
                Some(code) => format!("Error: {code}"),
                None => "Error".to_owned(),
            }
        }
    };
    (title, colour)
}

fn verdict(response: &UniversalResponse) -> String {
    let verdict = match response.status {
        ResponseStatus::Pass => "Verification: PASS",
        ResponseStatus::Fail => "Verification: FAIL",
        ResponseStatus::Partial => "Verification: PARTIAL",
        ResponseStatus::Success | ResponseStatus::NeedsClarification | ResponseStatus::Error => {
            "Verification"
        }
    };
    let Some(checked) = &response.verification_data else { return verdict.to_owned() };
    let passed = checked.checks.iter().filter(|check| check.passed).count();
    let claims = match checked.checks.iter().filter(|check| sections::is_claim(check)).count() {
        0 => String::new(),
        count => format!(", {count} by the model's word"),
    };
    format!("{verdict}, {passed} of {}{claims}", output::counted(checked.checks.len(), "check"))
}
