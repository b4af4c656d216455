//! Extraction and validation without a model.

use serde_json::json;
use slipform_api::{CheckRequest, CheckView, Code, Error};
use slipform_extract::{Mode, Options, Outcome, extract};
use slipform_types::ValidationMode;

use super::{App, errors};

impl App {
    /// Extracts JSON from a text and validates it.
    ///
    /// # Errors
    /// Fails if the schema is unknown or invalid, or if the text is too long.
    pub async fn check(&self, request: CheckRequest) -> Result<CheckView, Error> {
        let source = match (request.schema, request.schema_name) {
            (Some(_), Some(_)) => {
                return Err(Error::new(
                    Code::InvalidRequest,
                    "both `schema` and `schema_name` are set; send one of them",
                ));
            }
            (Some(schema), None) => Some(schema),
            (None, Some(name)) => Some(self.registered_schema(&name).await?),
            (None, None) => None,
        };
        let requested = request.options.unwrap_or_default();
        let mut options = Options { mode: Mode::Strict, ..Options::default() };
        if requested.validation_mode == Some(ValidationMode::Lenient) {
            options.mode = Mode::Lenient;
        }
        options.extract_json = requested.extract_json.unwrap_or(options.extract_json);
        options.strict_json_only = requested.strict_json_only.unwrap_or(options.strict_json_only);
        let (app, text) = (self.clone(), request.text);
        let check = move || {
            let schema = source.map(|source| app.inner.schemas.compile(&source)).transpose();
            let schema = schema.map_err(|error| errors::invalid_schema(&error))?;
            Ok::<Outcome, Error>(extract(&text, schema.as_ref(), &options).with_extra_rules(schema.as_ref()))
        };
        let outcome = self.inner.check_pool.run(check).await??;
        Ok(match outcome {
            Outcome::Valid(found) => CheckView {
                valid: true,
                found: true,
                value: Some(found.value),
                errors: Vec::new(),
                repairs: found.repairs.iter().map(|repair| json!(repair)).collect(),
            },
            Outcome::Invalid { candidate, violations } => CheckView {
                valid: false,
                found: true,
                value: Some(candidate.value),
                errors: violations.lines(),
                repairs: candidate.repairs.iter().map(|repair| json!(repair)).collect(),
            },
            Outcome::NotFound { reason } => CheckView {
                valid: false,
                found: false,
                value: None,
                errors: vec![format!("$: {reason}")],
                repairs: Vec::new(),
            },
            Outcome::TooLong { bytes, limit } => {
                let message = format!("the text has {bytes} bytes, more than the limit of {limit} bytes");
                return Err(Error::new(Code::PayloadTooLarge, message));
            }
        })
    }
}
