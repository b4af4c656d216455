//! Backend for the legacy `/v1/completions` API: one text in, one text out.

use serde_json::{Map, Value, json};
use slipform_types::{Message, Request, Role};

use crate::config::BackendConfig;
use crate::error::Error;
use crate::openai::{Defaults, Endpoint, merged};
use crate::secret::Secret;
use crate::{Backend, Call, CallFuture};

/// Headings that separate the turns of a conversation. The user heading is also the stop sequence.
const USER: &str = "### User:";
const ASSISTANT: &str = "### Assistant:";

/// A server that implements the completions API.
#[derive(Debug)]
pub(crate) struct Completions {
    endpoint: Endpoint,
    defaults: Defaults,
}

impl Completions {
    pub(crate) fn new(config: &BackendConfig, secret: Secret) -> Result<Completions, Error> {
        let url = format!("{}/completions", config.url()?);
        Ok(Completions { endpoint: Endpoint::new(config, secret, url)?, defaults: Defaults::new(config) })
    }

    fn body(&self, request: &Request) -> Map<String, Value> {
        let mut body = Map::new();
        self.defaults.apply(request, &mut body);
        body.insert("prompt".to_owned(), json!(prompt(request)));
        body.insert("stop".to_owned(), json!([format!("\n{USER}")]));
        body
    }
}

/// Formats system prompt and conversation as one text that ends where the model's answer begins.
fn prompt(request: &Request) -> String {
    let mut text = String::new();
    if let Some(system) = &request.system {
        text.push_str(system);
        text.push_str("\n\n");
    }
    text.push_str(&conversation(&request.messages));
    text.push_str(ASSISTANT);
    text.push('\n');
    text
}

/// Formats messages as text, each below the heading of its role.
pub(crate) fn conversation(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in merged(messages) {
        let title = if message.role == Role::Assistant { ASSISTANT } else { USER };
        text.push_str(&format!("{title}\n{}\n\n", message.content));
    }
    text
}

impl Backend for Completions {
    fn features(&self) -> &'static [&'static str] {
        &["json_schema"]
    }

    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        let body = self.body(call.request);
        Box::pin(self.endpoint.send(call, body))
    }
}
