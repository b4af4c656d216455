//! `slipform check --jsonl`: checks many texts and prints one verdict per line.

use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal as _, Read, Write};
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use slipform_extract::{Options, Outcome, extract};
use slipform_schema::{Cache, Schema};

use crate::arguments::Check;
use crate::exit::Exit;
use crate::{output, source};

/// The maximum length of an input line in bytes: a text of maximum length with every byte escaped, plus its schema. A
/// longer line produces an error line.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The number of lines between two progress updates.
const PROGRESS_LINES: usize = 500;

pub(crate) fn run(arguments: &Check) -> Result<Exit> {
    let default = arguments.schema.as_deref().map(source::load_schema).transpose()?;
    let path = arguments.jsonl.as_deref().unwrap_or(Path::new("-"));
    let input: Box<dyn Read> =
        if path == Path::new("-") { Box::new(io::stdin().lock()) } else { Box::new(source::open(path)?) };
    let mut lines = Lines { reader: BufReader::with_capacity(1 << 20, input), number: 0 };
    let mut writer = BufWriter::new(io::stdout().lock());
    let checker = Checker { options: arguments.options(), default, cache: Cache::default() };
    let shows_progress = io::stderr().is_terminal() && !io::stdout().is_terminal();
    while let Some(line) = lines.next().with_context(|| format!("cannot read {}", path.display()))? {
        let verdict = match line {
            Ok(bytes) if bytes.trim_ascii().is_empty() => continue,
            Ok(bytes) => checker.check(source::strip_bom(&bytes)),
            Err(problem) => Err((Value::Null, problem)),
        };
        let verdict =
            verdict.unwrap_or_else(|(id, problem)| json!({"id": id, "line": lines.number, "error": problem}));
        let line = verdict.to_string();
        writeln!(writer, "{}", output::shown_json(&line)).context("cannot write to standard output")?;
        // A caller that sends one line at a time waits for its verdict.
        if !lines.reader.buffer().contains(&b'\n') {
            writer.flush().context("cannot write to standard output")?;
        }
        if shows_progress && lines.number % PROGRESS_LINES == 0 {
            output::progress(&format!("{} checked", output::counted(lines.number, "line")));
        }
    }
    writer.flush().context("cannot write to standard output")?;
    if shows_progress {
        output::progress(&format!("{} checked\n", output::counted(lines.number, "line")));
    }
    Ok(Exit::Valid)
}

/// Reads lines of bounded length.
struct Lines<R> {
    reader: BufReader<R>,
    number: usize,
}

impl<R: Read> Lines<R> {
    fn next(&mut self) -> io::Result<Option<Result<Vec<u8>, String>>> {
        let mut line = Vec::new();
        let read = (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if read as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
            self.skip_line()?;
            return Ok(Some(Err(format!("the line is longer than {LINE_BYTES_MAX} bytes"))));
        }
        Ok(Some(Ok(line)))
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(());
            }
            let end = buffer.iter().position(|&byte| byte == b'\n');
            let length = end.map_or(buffer.len(), |end| end + 1);
            self.reader.consume(length);
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

struct Checker {
    options: Options,
    default: Option<Schema>,
    cache: Cache,
}

impl Checker {
    /// Returns the verdict on one line, or the line's id and an error message.
    fn check(&self, line: &[u8]) -> Result<Value, (Value, String)> {
        let row: Value =
            serde_json::from_slice(line).map_err(|error| (Value::Null, format!("not JSON: {error}")))?;
        let Value::Object(row) = row else {
            return Err((Value::Null, "not an object; a line is {\"id\", \"text\", \"schema\"?}".to_owned()));
        };
        let id = row.get("id").cloned().unwrap_or(Value::Null);
        let text = match row.get("text") {
            Some(Value::String(text)) => text,
            Some(_) => return Err((id, "\"text\" must be a string".to_owned())),
            None => return Err((id, "no \"text\"; a line is {\"id\", \"text\", \"schema\"?}".to_owned())),
        };
        let own = match row.get("schema").filter(|schema| !schema.is_null()) {
            Some(schema) => Some(
                self.cache
                    .compile(schema)
                    .map_err(|error| (id.clone(), format!("the schema cannot be used: {error}")))?,
            ),
            None => None,
        };
        let schema = own.as_ref().or(self.default.as_ref());
        match extract(text, schema, &self.options).with_extra_rules(schema) {
            Outcome::Valid(extraction) => Ok(json!({
                "id": id, "valid": true, "value": extraction.value, "errors": [], "repairs": extraction.repairs,
            })),
            Outcome::Invalid { candidate, violations } => Ok(json!({
                "id": id, "valid": false, "value": candidate.value, "errors": violations.lines(),
                "repairs": candidate.repairs,
            })),
            Outcome::NotFound { reason } => Ok(json!({
                "id": id, "valid": false, "value": null, "found": false, "errors": [format!("$: {reason}")], "repairs": [],
            })),
            Outcome::TooLong { bytes, limit } => Err((
                id,
                format!(
                    "the text has {bytes} bytes, more than the limit of {limit} bytes; raise `--max-bytes`"
                ),
            )),
        }
    }
}
