//! Renders a conversation with the chat template of the weights.
//!
//! Templates are Jinja programs from the model file. User text cannot inject control tokens: the template
//! receives a random placeholder (`sentinels`) for each text. After rendering, the output is split into template
//! markup, whose markers become special tokens, and the original texts, whose markers stay text.
//!
//! - `conversation`: the messages of a request, with fallbacks for templates without tools or a system prompt.
//! - `render`: the Jinja environment and its limits.

mod conversation;
mod render;
mod sentinels;

use serde_json::json;
use slipform_types::Request;

use crate::Error;
use crate::gguf::Gguf;
use crate::tokenizer::{Segment, Tokenizer};
use conversation::{Conversation, Turn};
use render::Renderer;
use sentinels::Sentinels;

/// The template for files without one whose vocabulary has ChatML markers.
const CHAT_ML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// The template for files without one and without ChatML markers.
const PLAIN: &str = "{% for message in messages %}{% if message['role'] == 'system' %}{{ message['content'] + '\\n\\n' }}{% elif message['role'] == 'user' %}{{ 'User: ' + message['content'] + '\\n' }}{% else %}{{ 'Assistant: ' + message['content'] + '\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}";

/// A chat template and its capabilities.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    renderer: Renderer,
    support: Support,
}

/// The message types that a template renders, determined by test renderings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Support {
    /// System prompts.
    system: bool,
    /// Definitions of tools.
    tools: bool,
    /// Tool calls and their results.
    calls: bool,
    /// Consecutive messages of the same role.
    repeats: bool,
}

impl ChatTemplate {
    /// Creates the template of a file, or a default one that fits its vocabulary.
    pub fn from_gguf(gguf: &Gguf, tokenizer: &Tokenizer) -> Result<ChatTemplate, Error> {
        match gguf.text("tokenizer.chat_template") {
            Some(source) => ChatTemplate::new(source, tokenizer),
            None if tokenizer.marker("<|im_start|>").is_some() => ChatTemplate::new(CHAT_ML, tokenizer),
            None => ChatTemplate::new(PLAIN, tokenizer),
        }
    }

    /// Compiles a Jinja template and determines its capabilities.
    ///
    /// # Errors
    /// Fails if the template is invalid, exceeds a limit, or does not render the user's message.
    pub fn new(source: &str, tokenizer: &Tokenizer) -> Result<ChatTemplate, Error> {
        let text = |token: Option<u32>| {
            let bytes = token.map(|token| tokenizer.bytes(token)).unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        let eos = tokenizer.eos_tokens().first().copied();
        let renderer = Renderer::new(source.to_owned(), text(tokenizer.bos()), text(eos))?;
        let support = Support::of(&renderer)?;
        Ok(ChatTemplate { renderer, support })
    }

    /// Renders and tokenizes the prompt of a request, up to the start of the model's answer.
    pub fn render(&self, tokenizer: &Tokenizer, request: &Request) -> Result<Vec<u32>, Error> {
        let mut tokens = tokenizer.encode_segments(&self.segments(request)?)?;
        if let (true, Some(bos)) = (tokenizer.add_bos(), tokenizer.bos())
            && tokens.first() != Some(&bos)
        {
            tokens.insert(0, bos);
        }
        Ok(tokens)
    }

    /// Renders the prompt of a request and splits it into template markup and content.
    pub fn segments(&self, request: &Request) -> Result<Vec<Segment>, Error> {
        let conversation = self.conversation(request, self.support);
        let first = match self.renderer.render(&conversation, Sentinels::new()) {
            Ok(segments) => return Ok(segments),
            Err(error) => error,
        };
        // A template may reject this conversation although the test renderings succeeded. All templates accept
        // alternating user and assistant messages.
        let minimal = Support { system: false, tools: false, calls: false, repeats: false };
        let conversation = self.conversation(request, minimal);
        self.renderer.render(&conversation, Sentinels::new()).map_err(|_| first)
    }

    fn conversation(&self, request: &Request, support: Support) -> Conversation {
        let mut conversation = Conversation::of(request);
        if !support.tools {
            conversation.describe_tools();
        }
        if !support.calls {
            conversation.write_out_calls();
        }
        if !support.system {
            conversation.fold_system();
        }
        if !support.repeats {
            conversation.join_repeats();
        }
        conversation
    }
}

impl Support {
    fn of(renderer: &Renderer) -> Result<Support, Error> {
        const SYSTEM: &str = "the system prompt";
        const USER: &str = "the question";
        const TOOL: &str = "the tool";
        const RESULT: &str = "the result";
        let user = || Turn::new("user", USER);
        let plain = Conversation { turns: vec![user()], tools: Vec::new() };
        let rendered = renderer.render(&plain, Sentinels::new())?;
        if !contains(&rendered, USER) {
            return Err(Error::Template("it does not render the user's message".into()));
        }
        let renders = |turns: Vec<Turn>, tools: Vec<serde_json::Value>, expected: &[&str]| {
            let conversation = Conversation { turns, tools };
            renderer
                .render(&conversation, Sentinels::new())
                .is_ok_and(|segments| expected.iter().all(|text| contains(&segments, text)))
        };
        let system = renders(vec![Turn::new("system", SYSTEM), user()], Vec::new(), &[SYSTEM, USER]);
        let tool =
            json!({"type": "function", "function": {"name": TOOL, "description": "d", "parameters": {}}});
        let mut call = Turn::new("assistant", "");
        call.calls =
            vec![json!({"id": "call12345", "type": "function", "function": {"name": TOOL, "arguments": {}}})];
        let mut result = Turn::new("tool", RESULT);
        result.call = Some("call12345".into());
        Ok(Support {
            system,
            tools: renders(vec![user()], vec![tool], &[TOOL, USER]),
            calls: renders(vec![user(), call, result], Vec::new(), &[TOOL, RESULT]),
            repeats: renders(vec![user(), user()], Vec::new(), &[USER]),
        })
    }
}

fn contains(segments: &[Segment], expected: &str) -> bool {
    segments.iter().any(|segment| match segment {
        Segment::Content(text) => text.contains(expected),
        Segment::Markup(_) => false,
    })
}

#[cfg(test)]
mod tests;
