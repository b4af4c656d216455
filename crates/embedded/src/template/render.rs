//! The Jinja environment of chat templates, with limits on time and size.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::value::Kwargs;
use minijinja::{Environment, ErrorKind, Value};
use serde::Serialize;
use serde_json::json;

use super::conversation::Conversation;
use super::sentinels::Sentinels;
use crate::Error;
use crate::tokenizer::Segment;

/// The most steps of a template: a thousand times those of real templates, and at most one second.
const FUEL: u64 = 10_000_000;

/// The deepest nesting of macros and includes.
const RECURSION_MAX: usize = 50;

/// The largest template. The largest real ones have a fifth of this size.
const SOURCE_BYTES_MAX: usize = 128 * 1024;

/// The largest output of a template with placeholders, far above any model's context.
const PROMPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A compiled template.
#[derive(Debug, Clone)]
pub(super) struct Renderer {
    source: String,
    bos: String,
    eos: String,
}

type Shared = Arc<Mutex<Sentinels>>;

impl Renderer {
    pub(super) fn new(source: String, bos: String, eos: String) -> Result<Renderer, Error> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(Error::Template(format!(
                "it has {} bytes, more than {SOURCE_BYTES_MAX}",
                source.len()
            )));
        }
        environment(&Shared::new(Mutex::new(Sentinels::new()))).template_from_str(&source).map_err(failed)?;
        Ok(Renderer { source, bos, eos })
    }

    pub(super) fn render(
        &self,
        conversation: &Conversation,
        mut sentinels: Sentinels,
    ) -> Result<Vec<Segment>, Error> {
        let messages: Vec<serde_json::Value> = conversation
            .turns
            .iter()
            .map(|turn| {
                let mut message = json!({"role": turn.role, "content": sentinels.hide(&turn.content)});
                if !turn.calls.is_empty() {
                    message["tool_calls"] = sentinels.hide_within(&turn.calls.clone().into());
                }
                if let Some(call) = &turn.call {
                    message["tool_call_id"] = sentinels.hide(call).into();
                }
                message
            })
            .collect();
        let mut context = json!({
            "messages": messages,
            "add_generation_prompt": true,
            "bos_token": self.bos,
            "eos_token": self.eos,
        });
        if !conversation.tools.is_empty() {
            context["tools"] = sentinels.hide_within(&conversation.tools.clone().into());
        }
        let shared = Arc::new(Mutex::new(sentinels));
        let environment = environment(&shared);
        let template = environment.template_from_str(&self.source).map_err(failed)?;
        let mut written = Bounded(Vec::new());
        template.render_captured_to(Value::from_serialize(&context), &mut written).map_err(failed)?;
        let rendered =
            String::from_utf8(written.0).map_err(|_| Error::Template("its output is not UTF-8".into()))?;
        Ok(shared.lock().unwrap_or_else(PoisonError::into_inner).split(&rendered))
    }
}

fn failed(error: minijinja::Error) -> Error {
    Error::Template(error.to_string())
}

/// A writer that fails beyond [`PROMPT_BYTES_MAX`].
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > PROMPT_BYTES_MAX {
            return Err(std::io::Error::other("the prompt is too long"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn environment(shared: &Shared) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION_MAX);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |message: String| -> Result<Value, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", |format: String| strftime(&format, SystemTime::now()));
    let shared = Arc::clone(shared);
    environment.add_filter(
        "tojson",
        move |value: Value, options: Kwargs| -> Result<Value, minijinja::Error> {
            let indent: Option<usize> = options.get("indent")?;
            options.assert_all_used().ok();
            let broken = |error: serde_json::Error| {
                minijinja::Error::new(ErrorKind::BadSerialization, error.to_string())
            };
            let value = serde_json::to_value(&value).map_err(broken)?;
            let mut sentinels = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let json = python_json(&sentinels.reveal_within(&value), indent).map_err(broken)?;
            Ok(Value::from(sentinels.hide(&json)))
        },
    );
    environment
}

/// Formats JSON with the spaces of Python's `json.dumps`, on which models are trained.
fn python_json(value: &serde_json::Value, indent: Option<usize>) -> Result<String, serde_json::Error> {
    let mut written = Vec::new();
    match indent {
        Some(indent) => {
            let indent = " ".repeat(indent.min(16));
            let pretty = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut written, pretty))?;
        }
        None => value.serialize(&mut serde_json::Serializer::with_formatter(&mut written, Spaced))?,
    }
    Ok(String::from_utf8_lossy(&written).into_owned())
}

struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: std::io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: std::io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: std::io::Write + ?Sized>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// Formats a time in UTC with the directives that templates use.
fn strftime(format: &str, time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let month_name = MONTHS[(month as usize + 11) % 12];
    let day_name = DAYS[(days % 7) as usize];
    let mut text = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        match characters.next() {
            Some('Y') => text.push_str(&year.to_string()),
            Some('y') => text.push_str(&format!("{:02}", year % 100)),
            Some('m') => text.push_str(&format!("{month:02}")),
            Some('d') => text.push_str(&format!("{day:02}")),
            Some('B') => text.push_str(month_name),
            Some('b') => text.push_str(&month_name[..3]),
            Some('A') => text.push_str(day_name),
            Some('a') => text.push_str(&day_name[..3]),
            Some('H') => text.push_str(&format!("{:02}", rest / 3600)),
            Some('M') => text.push_str(&format!("{:02}", rest / 60 % 60)),
            Some('S') => text.push_str(&format!("{:02}", rest % 60)),
            Some('%') => text.push('%'),
            Some(other) => text.extend(['%', other]),
            None => text.push('%'),
        }
    }
    text
}

/// Converts days since 1970-01-01 to year, month and day. The algorithm counts years from March.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn strftime_formats_known_dates() {
        let at = |seconds| {
            strftime("%A %d %B %Y, %d %b %y %H:%M:%S %%", UNIX_EPOCH + Duration::from_secs(seconds))
        };
        assert_eq!(at(0), "Thursday 01 January 1970, 01 Jan 70 00:00:00 %");
        assert_eq!(at(1_709_210_096), "Thursday 29 February 2024, 29 Feb 24 12:34:56 %");
        assert_eq!(at(1_735_689_599), "Tuesday 31 December 2024, 31 Dec 24 23:59:59 %");
    }

    #[test]
    fn python_json_has_spaces_like_json_dumps() -> Result<(), serde_json::Error> {
        let value = json!({"a": [1, {"b": "<c>"}], "d": {}});
        assert_eq!(python_json(&value, None)?, r#"{"a": [1, {"b": "<c>"}], "d": {}}"#);
        Ok(())
    }
}
