//! Formats the sections of a universal response.

use serde_json::{Map, Value, json};
use slipform_schema::universal;
use slipform_types::{
    AnswerData, Check, ClarityData, ErrorDetails, Finding, Level, PlanStep, PlanningData, ResearchData,
    VerificationData,
};

use super::outline;
use super::page::{Colour, Page, one_line};
use crate::output::counted;

/// The indentation of list items, in spaces.
const INDENT: usize = 2;

pub(super) fn plan(page: &mut Page, plan: &PlanningData) {
    page.gap();
    page.text(0, &plan.summary);
    page.gap();
    for step in &plan.steps {
        let minutes = step.estimated_minutes.map(|minutes| format!(" ({minutes} min)")).unwrap_or_default();
        let number = format!("{}.", step.step_number);
        page.item(INDENT, &number, None, &format!("{}{minutes}", one_line(&step.action)));
        let below = INDENT + number.chars().count() + 1;
        if !step.details.trim().is_empty() {
            page.text(below, &step.details);
        }
        outline::members(page, below, &step.more);
    }
    page.gap();
    if let Some(total) = minutes(&plan.steps) {
        page.text(0, &total);
    }
    list(page, "Depends on", plan.dependencies.as_deref());
    rest(page, &plan.more);
}

/// Returns the total of the known estimates, or `None` if no step has one.
fn minutes(steps: &[PlanStep]) -> Option<String> {
    let known: Vec<i64> = steps.iter().filter_map(|step| step.estimated_minutes).collect();
    let total = known.iter().fold(0_i64, |sum, minutes| sum.saturating_add(*minutes));
    let unknown = match steps.len() - known.len() {
        0 => String::new(),
        more => format!(", and {} without an estimate", counted(more, "step")),
    };
    (!known.is_empty()).then(|| format!("Total: {total} min{unknown}"))
}

pub(super) fn answer(page: &mut Page, answer: &AnswerData) {
    list(page, "Sources", answer.sources.as_deref());
    if let Some(is_needed) = answer.follow_up_needed {
        page.gap();
        page.text(0, if is_needed { "A follow-up is needed." } else { "No follow-up is needed." });
    }
    rest(page, &answer.more);
}

pub(super) fn verification(page: &mut Page, verification: &VerificationData) {
    page.gap();
    for check in &verification.checks {
        let (mark, colour) = if check.passed { ("✓", Colour::Green) } else { ("✗", Colour::Red) };
        let claim = if is_claim(check) { " (the model's word)" } else { "" };
        page.item(INDENT, mark, Some(colour), &format!("{}{claim}", one_line(&check.criterion)));
        if let Some(note) = check.note.as_deref().filter(|note| !note.trim().is_empty()) {
            page.text(INDENT + 2, note);
        }
        let mut more = check.more.clone();
        if is_claim(check) {
            more.shift_remove(DECIDED_BY);
        }
        outline::members(page, INDENT + 2, &more);
    }
    list(page, "Suggestions", verification.suggestions.as_deref());
    rest(page, &verification.more);
}

/// The member of a check that says who decided it.
const DECIDED_BY: &str = "decided_by";

/// Returns whether no check decided a criterion, so that its result is the claim of the model.
pub(super) fn is_claim(check: &Check) -> bool {
    check.more.get(DECIDED_BY).is_some_and(|by| by == "model")
}

pub(super) fn clarity(page: &mut Page, clarity: &ClarityData) {
    page.gap();
    let scores = [
        ("completeness", clarity.completeness_score),
        ("clarity", clarity.clarity_score),
        ("accuracy", clarity.accuracy_score),
    ];
    for (name, score) in scores {
        if let Some(score) = score {
            page.text(INDENT, &format!("{name:12}  {score:>3}"));
        }
    }
    if let Some((total, is_given)) = total(clarity) {
        let how = if is_given { "" } else { "  (weighted)" };
        page.text(INDENT, &format!("{:12}  {total:>3}{how}", "total"));
    }
    let questions = clarity.follow_up_questions.as_deref().unwrap_or_default();
    if !questions.is_empty() {
        page.title("Questions", None);
    }
    for (index, question) in questions.iter().enumerate() {
        page.item(INDENT, &format!("{}.", index + 1), None, question);
    }
    rest(page, &clarity.more);
}

/// Returns the total score and whether the response contains it. Otherwise the total is weighted from the three scores,
/// or `None` if one is missing.
pub(super) fn total(clarity: &ClarityData) -> Option<(u32, bool)> {
    let response = json!({"response_type": "clarity", "clarity_data": clarity});
    Some((universal::score(&response)?.into(), clarity.total_score.is_some()))
}

pub(super) fn research(page: &mut Page, research: &ResearchData) {
    let levels = [
        (Some(Level::High), "High relevance"),
        (Some(Level::Medium), "Medium relevance"),
        (Some(Level::Low), "Low relevance"),
        (None, "Unknown relevance"),
    ];
    for (relevance, title) in levels {
        let found = research.findings.iter().filter(|finding| finding.relevance == relevance);
        for (index, finding) in found.enumerate() {
            if index == 0 {
                page.title(title, None);
            }
            self::finding(page, finding);
        }
    }
    list(page, "Sources", research.sources.as_deref());
    rest(page, &research.more);
}

fn finding(page: &mut Page, finding: &Finding) {
    let source = finding.source_file.as_deref().map(|file| format!(" ({})", one_line(file)));
    let topic = format!("{}{}", one_line(&finding.topic), source.unwrap_or_default());
    page.item(INDENT, "-", None, &topic);
    page.text(INDENT + 2, &finding.description);
    outline::members(page, INDENT + 2, &finding.more);
}

pub(super) fn custom(page: &mut Page, fields: &Map<String, Value>) {
    rest(page, fields);
}

pub(super) fn error(page: &mut Page, details: &ErrorDetails, message: &str) {
    page.gap();
    if let Some(text) = details.error_message.as_deref().filter(|text| *text != message) {
        page.text(0, text);
    }
    if let Some(action) = &details.suggested_action {
        page.gap();
        page.item(0, "What to do:", None, action);
    }
    rest(page, &details.more);
}

/// Returns the name of a level.
pub(super) fn level(level: Level) -> &'static str {
    match level {
        Level::High => "high",
        Level::Medium => "medium",
        Level::Low => "low",
    }
}

fn list(page: &mut Page, title: &str, items: Option<&[String]>) {
    let items = items.unwrap_or_default();
    if !items.is_empty() {
        page.title(title, None);
    }
    for item in items {
        page.item(INDENT, "-", None, item);
    }
}

/// Adds the members that the schema does not define.
fn rest(page: &mut Page, members: &Map<String, Value>) {
    if !members.is_empty() {
        page.gap();
        outline::members(page, 0, members);
    }
}
