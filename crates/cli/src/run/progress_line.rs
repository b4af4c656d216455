//! The progress line: strategy, call, tokens, last error; above it, the subtasks of an orchestration.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use slipform_model::{Error, Watch};
use slipform_runner::{ModelCall, Progress, RunContext};
use slipform_types::EventBody;

use super::tree::Tree;
use crate::output;

/// The line is drawn at most this often; more would only flicker.
const REDRAW: Duration = Duration::from_millis(100);

/// The longest error that fits beside the rest.
const ERROR_CHARACTERS_MAX: usize = 70;

/// Draws what a run is doing on a terminal; elsewhere it says only what is worth a line in a log.
pub(super) struct ProgressLine {
    terminal: bool,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    agent: String,
    call: String,
    tokens: u64,
    error: String,
    drawn: Option<Instant>,
    tree: Tree,
    /// The agent whose subtasks they are.
    leader: String,
    /// Lines that stand below the first on the terminal.
    below: usize,
}

impl ProgressLine {
    pub(super) fn new(terminal: bool) -> ProgressLine {
        ProgressLine { terminal, now: Mutex::default() }
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        if self.terminal {
            let mut now = self.now();
            now.below = output::redraw(&[String::new()], now.below);
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, now: &mut Now, always: bool) {
        let due = now.drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW);
        if !self.terminal || !(always || due) {
            return;
        }
        now.drawn = Some(Instant::now());
        let error = if now.error.is_empty() { String::new() } else { format!(" · {}", now.error) };
        let line = format!("{} · {} · {} tokens{error}", now.agent, now.call, now.tokens);
        if now.tree.is_empty() {
            return output::progress(&line);
        }
        let (width, height) = output::size();
        let mut lines = now.tree.lines(&now.leader, (width, height.saturating_sub(2)));
        lines.push(line.chars().take(width.saturating_sub(1)).collect());
        now.below = output::redraw(&lines, now.below);
    }

    fn say(&self, agent: &str, text: &str) {
        if !self.terminal {
            output::lines([format!("{agent}: {text}")]);
        }
    }

    /// Shows what happened to an agent's run.
    pub(super) fn event(&self, agent: &str, body: &EventBody) {
        if let Some(text) = self.subtasks(agent, body) {
            return self.say(agent, &text);
        }
        let text = match body {
            EventBody::ValidationFailed { errors, consequence, .. } => {
                let more = errors.len().saturating_sub(1);
                let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
                format!("{}{more}; {consequence}", errors.first().map(String::as_str).unwrap_or_default())
            }
            EventBody::Escalated { from, to, reason, .. } => {
                format!("{reason}; escalating from {from} to {to}")
            }
            EventBody::PreTool { tool_name, tool_input, .. } => {
                let words = tool_input["argv"].as_array();
                let text = match words.map(|words| words.iter().filter_map(|word| word.as_str())) {
                    Some(words) => short(&words.collect::<Vec<_>>().join(" ")),
                    None => format!("{tool_name} {}", short(&tool_input.to_string())),
                };
                self.say(agent, &text);
                let mut now = self.now();
                agent.clone_into(&mut now.agent);
                now.call = text;
                now.tokens = 0;
                return self.draw(&mut now, true);
            }
            EventBody::PostTool { tool_name, error: Some(error), .. } => format!("{tool_name}: {error}"),
            EventBody::ChildStarted { agent_name, child_session_id, .. } => {
                format!("{agent_name} starts to work for it ({child_session_id})")
            }
            EventBody::ChildCompleted(end) => match &end.error {
                None => format!("{} has ended", end.agent_name),
                Some(error) => format!("{} has failed: {}", end.agent_name, error.message),
            },
            EventBody::ClarityScored { score, threshold, consequence, .. } => {
                format!("clarity {score} of {threshold}; {consequence}")
            }
            _ => return,
        };
        self.say(agent, &text);
        self.now().error = short(&text);
    }

    /// Shows what happened to an orchestration; nothing where it is about something else.
    fn subtasks(&self, agent: &str, body: &EventBody) -> Option<String> {
        let mut now = self.now();
        if matches!(body, EventBody::PlanCreated { .. }) && now.leader.is_empty() {
            agent.clone_into(&mut now.leader);
        }
        if now.leader != agent {
            return None;
        }
        let text = now.tree.happened(body)?;
        self.draw(&mut now, true);
        Some(text)
    }
}

fn short(text: &str) -> String {
    let mut short: String = text.chars().take(ERROR_CHARACTERS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

impl Watch for ProgressLine {
    fn tokens(&self, total: u64) {
        let mut now = self.now();
        now.tokens = total;
        self.draw(&mut now, false);
    }

    fn waiting(&self, wait: Duration, error: &Error) {
        let mut now = self.now();
        self.say(&now.agent, &format!("{error}; asking again in {:.1} s", wait.as_secs_f64()));
        now.error = short(&format!("asking again in {:.1} s: {error}", wait.as_secs_f64()));
        self.draw(&mut now, true);
    }
}

impl Progress for ProgressLine {
    fn calling(&self, context: &RunContext, call: &ModelCall) {
        let mut now = self.now();
        let what = if context.has_tools() { "step" } else { "call" };
        now.agent.clone_from(&context.blueprint.name);
        now.call = format!("{} · {what} {} of {} · {}", call.backend, call.number, call.of, call.asked);
        now.tokens = 0;
        now.tree.doing(&context.session_id, &format!("{what} {} of {}", call.number, call.of));
        self.draw(&mut now, true);
    }

    fn happened(&self, context: &RunContext, body: &EventBody) {
        if let EventBody::PreTool { tool_name, tool_input, .. } = body {
            let what = short(&format!("{tool_name} {tool_input}"));
            self.now().tree.doing(&context.session_id, &what);
        }
        self.event(&context.blueprint.name, body);
    }
}
