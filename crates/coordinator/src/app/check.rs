//! Extraction and validation without a model.

use slipform_api::{CheckRequest, CheckView, Code, Error, ExtractionView};
use slipform_extract::{Mode, Outcome, extract};
use slipform_types::ContractOptions;

use super::{App, errors, extraction};

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
        let requested = request.options.unwrap_or_default().resolve(&ContractOptions::default());
        let options = extraction::options(&requested);
        let (app, text) = (self.clone(), request.text);
        let check = move || {
            let schema = source.map(|source| app.inner.schemas.compile(&source)).transpose();
            let schema = schema.map_err(|error| errors::invalid_schema(&error))?;
            let outcome = extract(&text, schema.as_ref(), &options).with_extra_rules(schema.as_ref());
            view(&text, outcome, options.mode)
        };
        self.inner.check_pool.run(check).await?
    }
}

fn view(text: &str, outcome: Outcome, mode: Mode) -> Result<CheckView, Error> {
    let (valid, found, errors) = match outcome {
        Outcome::Valid(found) => (true, Some(found), Vec::new()),
        Outcome::Invalid { candidate, violations } => (false, Some(candidate), violations.lines()),
        Outcome::NotFound { reason } => (false, None, vec![format!("$: {reason}")]),
        Outcome::TooLong { bytes, limit } => {
            let message = format!("the text has {bytes} bytes, more than the limit of {limit} bytes");
            return Err(Error::new(Code::PayloadTooLarge, message));
        }
    };
    let ExtractionView { found, value, document, repairs } = extraction::view(text, found, mode);
    Ok(CheckView { valid, found, value, errors, repairs, document })
}
