//! The scores of clarity responses, and the rules between scores, status and questions.

use serde_json::Value;

use super::{Found, Response, key};
use crate::path::Segment;
use crate::wording::show;

/// The lowest score, out of 100, of a clear reply. A lower score requires follow-up questions.
pub(super) const CLEAR_FROM: u8 = 85;

/// The total of a clarity response.
const TOTAL: &str = "total_score";

/// The scores of a clarity response, and their weights in percent if the response has no total.
const SCORES: [(&str, f64); 3] =
    [("completeness_score", 40.0), ("clarity_score", 35.0), ("accuracy_score", 25.0)];

/// Returns the clarity score, from 0 to 100, that a clarity response gives a reply: the total, else the
/// weighted scores. A fraction is dropped, so that a score just below a threshold does not reach it. Returns
/// `None` if the response has neither, or reports an error.
///
/// ```
/// use slipform_schema::universal;
/// use serde_json::json;
///
/// let data = json!({"completeness_score": 84, "clarity_score": 85, "accuracy_score": 85});
/// let response = json!({"response_type": "clarity", "status": "success", "message": "", "clarity_data": data});
/// // The weighted score is 84.6.
/// assert_eq!(universal::score(&response), Some(84));
/// ```
pub fn score(response: &Value) -> Option<u8> {
    let data = response.get("clarity_data").filter(|_| response["response_type"] == "clarity")?;
    exact_score(data).map(|score| score.floor() as u8)
}

/// Returns the total, else the weighted scores. Whole numbers are weighted without rounding errors.
fn exact_score(data: &Value) -> Option<f64> {
    let given = |name: &str| data[name].as_f64().filter(|score| (0.0..=100.0).contains(score));
    let weighted = || SCORES.iter().try_fold(0.0, |sum, (name, percent)| Some(sum + given(name)? * percent));
    given(TOTAL).or_else(|| weighted().map(|sum| sum / 100.0))
}

impl Response<'_> {
    /// Checks that a clarity section has a score.
    pub(super) fn missing_score(&self) -> Option<Found> {
        let data = self.clarity_data()?;
        let has_total = data.get(TOTAL).is_some() || SCORES.iter().all(|(name, _)| data.get(name).is_some());
        let reason = "; without it completeness_score, clarity_score and accuracy_score are needed";
        (!has_total).then(|| self.missing(vec![key("clarity_data"), key(TOTAL)], reason))?
    }

    /// Checks that a reply with a low score is not reported as clear.
    pub(super) fn wrong_clarity_status(&self) -> Option<Found> {
        let data = self.clarity_data().filter(|_| self.status == "success")?;
        let score = exact_score(data).filter(|score| *score < f64::from(CLEAR_FROM))?;
        let what = match data.get(TOTAL) {
            Some(total) => format!("{TOTAL} is {}", show(total)),
            None => format!("the weighted score is {score}"),
        };
        let message =
            format!("must be 'needs_clarification', not 'success', since {what}, below {CLEAR_FROM}");
        Some(self.violation(vec![key("status")], message))
    }

    /// Checks that a low clarity score comes with questions. The total decides; without a total, every score
    /// does.
    pub(super) fn missing_questions(&self) -> Option<Found> {
        let data = self.clarity_data()?;
        let is_low = |name: &&str| data[*name].as_f64().is_some_and(|score| score < f64::from(CLEAR_FROM));
        let low = match data.get(TOTAL) {
            Some(_) => Some(TOTAL).filter(is_low),
            None => SCORES.iter().map(|(name, _)| *name).find(is_low),
        }?;
        let reason = format!(", since {low} is {}, below {CLEAR_FROM}", show(&data[low]));
        match data["follow_up_questions"].as_array() {
            None => self.missing(questions(), &reason),
            Some(asked) if asked.is_empty() => {
                Some(self.violation(questions(), format!("has 0 items, at least 1 needed{reason}")))
            }
            Some(_) => None,
        }
    }

    /// Checks that every question asks something.
    pub(super) fn blank_questions(&self) -> Vec<Found> {
        let asked = self.clarity_data().and_then(|data| data["follow_up_questions"].as_array());
        let is_blank =
            |asked: &Value| asked.as_str().is_some_and(|text| !text.chars().any(char::is_alphanumeric));
        let blank = asked.into_iter().flatten().enumerate().filter(|(_, question)| is_blank(question));
        blank
            .map(|(index, _)| {
                let place = questions().into_iter().chain([Segment::Index(index)]).collect();
                self.violation(place, "must not be blank; ask a question, or leave it out".to_owned())
            })
            .collect()
    }

    fn clarity_data(&self) -> Option<&Value> {
        self.value.get("clarity_data").filter(|_| self.kind == "clarity")
    }
}

fn questions() -> Vec<Segment> {
    vec![key("clarity_data"), key("follow_up_questions")]
}
