//! Shows the progress of a run: agent, call, tokens and last error. An orchestration also shows its subtasks.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use slipform_model::{Error, Watch};
use slipform_runner::{ModelCall, Progress, RunContext};
use slipform_types::{EventBody, RUN_FAILS};

use super::tree::Tree;
use crate::{backends, output};

/// The minimum time between two redraws, to avoid flicker.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// The maximum length of an error on the progress line, in characters.
const ERROR_CHARACTERS_MAX: usize = 70;

/// The notice about a run on the built-in model.
const BUILT_IN_NOTICE: &str = "slipform: built-in 135M model: the form is guaranteed, the content is not";

/// Draws the progress of a run on a terminal. Otherwise it prints a line per event.
pub(super) struct ProgressLine {
    is_terminal: bool,
    state: Mutex<State>,
}

/// The displayed values.
#[derive(Default)]
struct State {
    agent: String,
    call: String,
    tokens: u64,
    error: String,
    drawn: Option<Instant>,
    tree: Tree,
    /// The orchestrator that owns the subtasks in `tree`.
    orchestrator: String,
    /// The number of drawn lines below the first one.
    lines_below: usize,
    /// Whether the notice about the built-in model was shown.
    shown_built_in: bool,
}

impl ProgressLine {
    pub(super) fn new(is_terminal: bool) -> ProgressLine {
        ProgressLine { is_terminal, state: Mutex::default() }
    }

    /// Erases the progress line.
    pub(super) fn clear(&self) {
        if self.is_terminal {
            let mut state = self.state();
            state.lines_below = output::redraw(&[String::new()], state.lines_below);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, state: &mut State, is_forced: bool) {
        let is_due = state.drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW_INTERVAL);
        if !self.is_terminal || !(is_forced || is_due) {
            return;
        }
        state.drawn = Some(Instant::now());
        let error = if state.error.is_empty() { String::new() } else { format!(" · {}", state.error) };
        let line = format!("{} · {} · {} tokens{error}", state.agent, state.call, state.tokens);
        if state.tree.is_empty() {
            return output::progress(&line);
        }
        let (width, height) = output::size();
        let mut lines = state.tree.lines(&state.orchestrator, (width, height.saturating_sub(2)));
        lines.push(line.chars().take(width.saturating_sub(1)).collect());
        state.lines_below = output::redraw(&lines, state.lines_below);
    }

    /// Prints a line, unless a terminal shows the progress line instead.
    fn log(&self, agent: &str, text: &str) {
        if !self.is_terminal {
            output::lines([format!("{agent}: {text}")]);
        }
    }

    /// Shows an event of an agent's run.
    pub(super) fn event(&self, agent: &str, body: &EventBody) {
        if let Some(text) = self.apply_to_tree(agent, body) {
            return self.log(agent, &text);
        }
        let text = match body {
            // The error of the run follows and has the same violations.
            EventBody::ValidationFailed { consequence, .. } if consequence == RUN_FAILS => return,
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
                self.log(agent, &text);
                let mut state = self.state();
                agent.clone_into(&mut state.agent);
                state.call = text;
                state.tokens = 0;
                return self.draw(&mut state, true);
            }
            EventBody::PostTool { tool_name, error: Some(error), .. } => format!("{tool_name}: {error}"),
            EventBody::ChildStarted { agent_name, child_session_id, .. } => {
                format!("child `{agent_name}` started ({child_session_id})")
            }
            EventBody::ChildCompleted(end) => match &end.error {
                None => format!("child `{}` completed", end.agent_name),
                Some(error) => format!("child `{}` failed: {}", end.agent_name, error.message),
            },
            EventBody::ClarityScored { score, threshold, consequence, .. } => {
                format!("clarity {score} of {threshold}; {consequence}")
            }
            EventBody::AttemptStarted { ladder, .. } => {
                let is_built_in = ladder.first().is_some_and(|rung| backends::is_built_in(&rung.backend));
                let was_shown = is_built_in && std::mem::replace(&mut self.state().shown_built_in, true);
                if is_built_in && !was_shown {
                    self.clear();
                    output::lines([BUILT_IN_NOTICE.to_owned()]);
                }
                return;
            }
            _ => return,
        };
        self.log(agent, &text);
        self.state().error = short(&text);
    }

    /// Applies an event of the orchestrator to the tree and returns a line for the log, or `None` for other events.
    fn apply_to_tree(&self, agent: &str, body: &EventBody) -> Option<String> {
        let mut state = self.state();
        if matches!(body, EventBody::PlanCreated { .. }) && state.orchestrator.is_empty() {
            agent.clone_into(&mut state.orchestrator);
        }
        if state.orchestrator != agent {
            return None;
        }
        let text = state.tree.apply(body)?;
        self.draw(&mut state, true);
        Some(text)
    }
}

/// Shortens a text to [`ERROR_CHARACTERS_MAX`] characters.
fn short(text: &str) -> String {
    let mut short: String = text.chars().take(ERROR_CHARACTERS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

impl Watch for ProgressLine {
    fn tokens(&self, total: u64) {
        let mut state = self.state();
        state.tokens = total;
        self.draw(&mut state, false);
    }

    fn waiting(&self, wait: Duration, error: &Error) {
        let mut state = self.state();
        self.log(&state.agent, &format!("{error}; retrying in {:.1} s", wait.as_secs_f64()));
        state.error = short(&format!("retrying in {:.1} s: {error}", wait.as_secs_f64()));
        self.draw(&mut state, true);
    }
}

impl Progress for ProgressLine {
    fn calling(&self, context: &RunContext, call: &ModelCall) {
        let mut state = self.state();
        let what = if context.has_tools() { "step" } else { "call" };
        state.agent.clone_from(&context.blueprint().name);
        let model = context.model(&call.backend).unwrap_or_default();
        let model = if model.is_empty() { String::new() } else { format!(" ({model})") };
        state.call =
            format!("{}{model} · {what} {} of {} · {}", call.backend, call.number, call.of, call.asked);
        state.tokens = 0;
        state.tree.set_activity(context.session_id(), &format!("{what} {} of {}", call.number, call.of));
        self.draw(&mut state, true);
    }

    fn happened(&self, context: &RunContext, body: &EventBody) {
        if let EventBody::PreTool { tool_name, tool_input, .. } = body {
            let what = short(&format!("{tool_name} {tool_input}"));
            self.state().tree.set_activity(context.session_id(), &what);
        }
        self.event(&context.blueprint().name, body);
    }
}
