//! The older `/v1/completions`: one text in, one text out.

use formwork_types::{Format, Request, Role};
use serde_json::{Map, Value, json};

use crate::config::BackendConfig;
use crate::error::Error;
use crate::http::Http;
use crate::openai::{Defaults, ask, bearer, merged};
use crate::secret::Secret;
use crate::{Backend, Call, CallFuture};

/// Where the model's own part begins. Written before it, and a sign to stop when the model writes it.
const USER: &str = "### User:";
const ASSISTANT: &str = "### Assistant:";

/// A completions server.
#[derive(Debug)]
pub(crate) struct Completions {
    http: Http,
    url: String,
    defaults: Defaults,
}

impl Completions {
    pub(crate) fn new(config: &BackendConfig, secret: Secret) -> Result<Completions, Error> {
        let url = format!("{}/completions", config.url()?);
        let headers = bearer(&secret)?;
        Ok(Completions { http: Http::new(config, secret, headers)?, url, defaults: Defaults::new(config) })
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        let mut body = Map::new();
        self.defaults.apply(request, &mut body);
        body.insert("prompt".to_owned(), json!(prompt(request)));
        body.insert("stop".to_owned(), json!([format!("\n{USER}")]));
        // llama.cpp and vLLM take a schema here too; without one of them it has no effect.
        if let Format::JsonSchema { name, schema, strict } = &request.format {
            let json_schema = json!({"name": name, "strict": strict, "schema": schema});
            body.insert(
                "response_format".to_owned(),
                json!({"type": "json_schema", "json_schema": json_schema}),
            );
        }
        Value::Object(body).to_string().into_bytes()
    }
}

/// The conversation as one text.
fn prompt(request: &Request) -> String {
    let mut text = String::new();
    if let Some(system) = &request.system {
        text.push_str(system);
        text.push_str("\n\n");
    }
    for message in merged(&request.messages) {
        let title = if message.role == Role::Assistant { ASSISTANT } else { USER };
        text.push_str(&format!("{title}\n{}\n\n", message.content));
    }
    text.push_str(ASSISTANT);
    text.push('\n');
    text
}

impl Backend for Completions {
    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        Box::pin(ask(&self.http, &self.url, &self.defaults, call, |request| self.body(request)))
    }
}
