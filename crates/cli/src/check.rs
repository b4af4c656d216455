//! `slipform check`: extracts JSON from one text, validates it and prints it.

use anyhow::{Result, bail};
use serde_json::json;
use slipform_extract::{Extraction, Outcome, extract_bytes};
use slipform_schema::Schema;
use slipform_types::{Receipt, Repair};

use crate::arguments::Check;
use crate::exit::Exit;
use crate::{output, source};

pub(crate) fn run(arguments: &Check) -> Result<Exit> {
    let schema = arguments.schema.as_deref().map(source::load_schema).transpose()?;
    let options = arguments.options();
    let text = source::read_bytes(arguments.file.as_deref(), options.text_bytes_max)?;
    match extract_bytes(&text, schema.as_ref(), &options).with_extra_rules(schema.as_ref()) {
        Outcome::Valid(extraction) if arguments.receipt => {
            let receipt = receipt(&extraction, schema.as_ref());
            output::data(&json!({"result": extraction.value, "receipt": receipt}))?;
            Ok(Exit::Valid)
        }
        Outcome::Valid(extraction) => {
            output::data(&extraction.value)?;
            Ok(Exit::Valid)
        }
        Outcome::Invalid { violations, .. } => {
            output::lines(violations.lines());
            Ok(Exit::Invalid)
        }
        Outcome::NotFound { reason } => {
            output::lines([format!("slipform: no JSON found: {reason}")]);
            Ok(Exit::NotFound)
        }
        Outcome::TooLong { limit, .. } => {
            let name = arguments
                .file
                .as_ref()
                .map_or("standard input".to_owned(), |file| file.display().to_string());
            bail!("{name} is longer than {limit} bytes; shorten it or raise `--max-bytes`")
        }
    }
}

/// Builds the receipt of a result that was extracted without a model call.
fn receipt(extraction: &Extraction, schema: Option<&Schema>) -> Receipt {
    let repairs = extraction.repairs.iter().map(|repair| Repair {
        kind: repair.kind.name().to_owned(),
        pointer: repair.pointer.clone(),
        from: repair.from.clone(),
        to: repair.to.clone(),
    });
    Receipt {
        repairs: repairs.collect(),
        schema_hash: schema.map(|schema| schema.hash().to_owned()),
        ..Receipt::default()
    }
}
