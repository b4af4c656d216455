//! Results for people: universal responses, each kind its own way, and an outline of everything else.
//!
//! Pure: what a terminal can do is told by a [`Look`].

mod outline;
mod page;
mod sections;
#[cfg(test)]
mod tests;

use serde_json::Value;
use slipform_schema::universal;
use slipform_types::{ResponseStatus, ResponseType, UniversalResponse};

use page::{Colour, Page};

/// How a text may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// Characters on a line, where words allow it.
    pub(crate) width: usize,
    /// Whether colours are understood.
    pub(crate) is_coloured: bool,
}

/// A result, readable.
pub(crate) fn value(value: &Value, look: Look) -> String {
    if let Some(response) = response(value) {
        return render(&response, look);
    }
    let mut page = Page::new(look);
    outline::value(&mut page, 0, value);
    page.into_text()
}

/// The universal response that a value is, if it is one.
pub(crate) fn response(value: &Value) -> Option<UniversalResponse> {
    let form = universal::schema().filter(|form| form.is_valid(value))?;
    let is_paired = universal::extra_rules(form, value, None).is_empty();
    is_paired.then(|| serde_json::from_value(value.clone()).ok()).flatten()
}

/// A universal response, readable: what it is, what it says, the section of its kind, and whatever else was filled in.
pub(crate) fn render(response: &UniversalResponse, look: Look) -> String {
    let mut page = Page::new(look);
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

/// The kinds that have a section, in the order of the form.
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

/// What a response is, in a few words.
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
            Some(research) => format!("Research: {}", sections::count(research.findings.len(), "finding")),
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
    format!("{verdict}, {passed} of {}", sections::count(checked.checks.len(), "check"))
}
