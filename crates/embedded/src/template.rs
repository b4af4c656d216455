//! A conversation as the prompt its model was trained on.
//!
//! Templates are programs that come with the weights. What users and tools wrote is kept from them: they see
//! a stand-in for each text, and the text takes its place only once the prompt has been cut into what the
//! template wrote, whose markers become special tokens, and what it did not, whose markers stay text.

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

/// What is used when the file has no template but the vocabulary has these markers.
const CHAT_ML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// What is used when there are no markers to go by.
const PLAIN: &str = "{% for message in messages %}{% if message['role'] == 'system' %}{{ message['content'] + '\\n\\n' }}{% elif message['role'] == 'user' %}{{ 'User: ' + message['content'] + '\\n' }}{% else %}{{ 'Assistant: ' + message['content'] + '\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}";

/// A template of prompts, and what it has words for.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    renderer: Renderer,
    notions: Notions,
}

/// What a template has words for, found by trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Notions {
    /// A system prompt.
    system: bool,
    /// The tools there are.
    tools: bool,
    /// Calls of tools and their results.
    calls: bool,
    /// Two messages of the same role in a row.
    repeats: bool,
}

impl ChatTemplate {
    /// The template of a file, or the usual one for its vocabulary.
    pub fn from_gguf(gguf: &Gguf, tokenizer: &Tokenizer) -> Result<ChatTemplate, Error> {
        match gguf.text("tokenizer.chat_template") {
            Some(source) => ChatTemplate::new(source, tokenizer),
            None if tokenizer.marker("<|im_start|>").is_some() => ChatTemplate::new(CHAT_ML, tokenizer),
            None => ChatTemplate::new(PLAIN, tokenizer),
        }
    }

    /// A template in Jinja.
    pub fn new(source: &str, tokenizer: &Tokenizer) -> Result<ChatTemplate, Error> {
        let text = |token: Option<u32>| {
            let bytes = token.map(|token| tokenizer.bytes(token)).unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        let eos = tokenizer.eos_tokens().first().copied();
        let renderer = Renderer::new(source.to_owned(), text(tokenizer.bos()), text(eos))?;
        let notions = Notions::of(&renderer)?;
        Ok(ChatTemplate { renderer, notions })
    }

    /// The tokens of a prompt after which the model answers the request.
    pub fn render(&self, tokenizer: &Tokenizer, request: &Request) -> Result<Vec<u32>, Error> {
        let mut tokens = tokenizer.encode_segments(&self.segments(request)?)?;
        if let (true, Some(bos)) = (tokenizer.add_bos(), tokenizer.bos())
            && tokens.first() != Some(&bos)
        {
            tokens.insert(0, bos);
        }
        Ok(tokens)
    }

    /// The prompt, cut into what the template wrote and what it did not.
    pub fn segments(&self, request: &Request) -> Result<Vec<Segment>, Error> {
        let conversation = self.conversation(request, self.notions);
        let first = match self.renderer.render(&conversation, Sentinels::new()) {
            Ok(segments) => return Ok(segments),
            Err(error) => error,
        };
        // What a template accepts can depend on the conversation; the plainest form is accepted by all.
        let plainest = Notions { system: false, tools: false, calls: false, repeats: false };
        let conversation = self.conversation(request, plainest);
        self.renderer.render(&conversation, Sentinels::new()).map_err(|_| first)
    }

    fn conversation(&self, request: &Request, notions: Notions) -> Conversation {
        let mut conversation = Conversation::of(request);
        if !notions.tools {
            conversation.describe_tools();
        }
        if !notions.calls {
            conversation.write_out_calls();
        }
        if !notions.system {
            conversation.fold_system();
        }
        if !notions.repeats {
            conversation.join_repeats();
        }
        conversation
    }
}

impl Notions {
    fn of(renderer: &Renderer) -> Result<Notions, Error> {
        const SYSTEM: &str = "the system prompt";
        const USER: &str = "the question";
        const TOOL: &str = "the tool";
        const RESULT: &str = "the result";
        let user = || Turn::new("user", USER);
        let plain = Conversation { turns: vec![user()], tools: Vec::new() };
        let rendered = renderer.render(&plain, Sentinels::new())?;
        if !contains(&rendered, USER) {
            return Err(Error::Template("it leaves out what the user wrote".into()));
        }
        let tried = |turns: Vec<Turn>, tools: Vec<serde_json::Value>, wanted: &[&str]| {
            let conversation = Conversation { turns, tools };
            renderer
                .render(&conversation, Sentinels::new())
                .is_ok_and(|segments| wanted.iter().all(|wanted| contains(&segments, wanted)))
        };
        let system = tried(vec![Turn::new("system", SYSTEM), user()], Vec::new(), &[SYSTEM, USER]);
        let tool =
            json!({"type": "function", "function": {"name": TOOL, "description": "d", "parameters": {}}});
        let mut call = Turn::new("assistant", "");
        call.calls =
            vec![json!({"id": "call12345", "type": "function", "function": {"name": TOOL, "arguments": {}}})];
        let mut result = Turn::new("tool", RESULT);
        result.call = Some("call12345".into());
        Ok(Notions {
            system,
            tools: tried(vec![user()], vec![tool], &[TOOL, USER]),
            calls: tried(vec![user(), call, result], Vec::new(), &[TOOL, RESULT]),
            repeats: tried(vec![user(), user()], Vec::new(), &[USER]),
        })
    }
}

fn contains(segments: &[Segment], wanted: &str) -> bool {
    segments.iter().any(|segment| match segment {
        Segment::Content(text) => text.contains(wanted),
        Segment::Markup(_) => false,
    })
}

#[cfg(test)]
mod tests;
