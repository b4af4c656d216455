//! Backend for the legacy `/v1/completions` API: one text in, one text out.

use serde_json::{Map, Value, json};
use slipform_types::{Message, Request, Role, ToolCall};

use crate::config::BackendConfig;
use crate::error::Error;
use crate::openai::{Defaults, Endpoint, merged};
use crate::secret::Secret;
use crate::{Backend, Call, CallFuture, refused_images};

/// Headings that separate the turns of a conversation. The user heading is also the stop sequence.
const USER: &str = "### User:";
const ASSISTANT: &str = "### Assistant:";

/// The sampling parameters of the API.
const SAMPLING: [&str; 6] = ["temperature", "top_p", "frequency_penalty", "presence_penalty", "seed", "stop"];

/// The most stop sequences of OpenAI's API.
const STOPS_MAX: usize = 4;

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
        let mut stop = request.sampling.stop.clone();
        // Those of the client come first: without its own one the prompt still says whose turn it is.
        if stop.len() < STOPS_MAX {
            stop.push(format!("\n{USER}"));
        }
        body.insert("stop".to_owned(), json!(stop));
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
        text.push_str(&format!("{title}\n{}\n", message.content));
        for ToolCall { name, arguments, .. } in &message.tool_calls {
            text.push_str(&format!("(called {name} with {arguments})\n"));
        }
        text.push('\n');
    }
    text
}

impl Backend for Completions {
    fn features(&self) -> &'static [&'static str] {
        &["json_schema"]
    }

    fn sampling(&self) -> &'static [&'static str] {
        &SAMPLING
    }

    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        if let Some(error) = refused_images(call.request, "kind `completions`") {
            return Box::pin(std::future::ready(Err(error)));
        }
        let body = self.body(&call.request.with_names_in_text());
        Box::pin(self.endpoint.send(call, body))
    }
}
