//! A server that forces the universal response schema on every reply.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use slipform_runner::LadderRung;
use slipform_schema::universal;
use slipform_testkit::{Recorded, ScriptedServer, Step};
use slipform_types::{BackendKind, RunErrorType, StructuredOutput};

use crate::runs::protocols::{FILES, review, reviewer};
use crate::support::contexts::{TestRun, rung, test_run};
use crate::support::folder::Folder;
use crate::support::model::ModelTurn;
use crate::support::outcome::{completed, failed, names, run};

const KINDS: [BackendKind; 3] = [BackendKind::OpenAi, BackendKind::Completions, BackendKind::Anthropic];

/// The server, and the replies that its schema does not allow.
struct ForcingServer {
    server: ScriptedServer,
    invalid_replies: Arc<Mutex<Vec<Value>>>,
}

impl ForcingServer {
    /// Starts a server whose model replies with these values. A value outside the schema is recorded and
    /// answered with status 500.
    fn respond(mut model: impl FnMut(&Recorded, usize) -> Value + Send + 'static) -> ForcingServer {
        let invalid_replies: Arc<Mutex<Vec<Value>>> = Arc::default();
        let rejected = invalid_replies.clone();
        let server = ScriptedServer::respond(move |request, index| {
            let reply = model(request, index);
            if !universal::schema().unwrap().is_valid(&reply) {
                rejected.lock().unwrap().push(reply.clone());
                return Step::status(500);
            }
            Step::json(&reply)
        });
        ForcingServer { server, invalid_replies }
    }

    /// Starts a server that replies with these values in order and then repeats the last one.
    fn replying(replies: &[Value]) -> ForcingServer {
        let replies = replies.to_vec();
        ForcingServer::respond(move |_, index| replies[index.min(replies.len() - 1)].clone())
    }

    fn ladder(&self, kind: BackendKind) -> Vec<LadderRung> {
        vec![rung("default", kind, &self.server, StructuredOutput::Universal)]
    }

    /// Returns all prompts, after asserting that every reply satisfied the schema.
    fn prompts(&self) -> Vec<String> {
        assert_eq!(
            *self.invalid_replies.lock().unwrap(),
            [json!(null); 0],
            "replies outside the forced schema"
        );
        self.server.requests().iter().map(|request| request.prompt()).collect()
    }
}

fn custom(fields: &Value) -> Value {
    json!({"response_type": "custom", "status": "success", "message": "Done.", "custom_fields": fields})
}

fn error() -> Value {
    json!({
        "response_type": "error", "status": "error", "message": "No.",
        "error_details": {"error_code": "NO_CONTEXT", "error_message": "There is nothing to look at."},
    })
}

fn plan() -> Value {
    json!({
        "response_type": "planning", "status": "success", "message": "A plan.",
        "planning_data": {"summary": "Log in", "steps": [{"step_number": 1, "action": "a", "details": "d"}]},
    })
}

fn planner(more: Value) -> Value {
    let mut agent = json!({
        "name": "planner", "system_prompt": "You plan.", "response_type": "planning",
        "output_schema": universal::schema().unwrap().source(),
    });
    agent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    agent
}

fn ager() -> Value {
    json!({
        "name": "ager", "system_prompt": "You guess ages.",
        "output_schema": {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]},
    })
}

#[tokio::test]
async fn contract_in_custom_fields_is_corrected_under_every_strategy() {
    for kind in KINDS {
        for strategy in ["auto", "prompt", "system_prompt", "tool", "native"] {
            let what = format!("{} by {strategy}", kind.name());
            // The second reply is valid only if the prompt contains the error.
            let forcing = ForcingServer::respond(|request, _| {
                let has_error = request.prompt().contains("$.age: must be an integer");
                custom(&if has_error { json!({"age": 7}) } else { json!({"age": "seven"}) })
            });
            let options = json!({"strategy": strategy, "correction": "patch"});
            let context = test_run(&ager(), "How old?", options, forcing.ladder(kind));
            let success = completed(run(&context).await.0);
            assert_eq!(success.result_data, Some(json!({"age": 7})), "{what}");
            assert_eq!(success.receipt.flags, ["universal_response"], "{what}");
            let prompts = forcing.prompts();
            assert_eq!(prompts.len(), 2, "{what}");
            assert!(prompts.iter().all(|prompt| prompt.contains("Its `custom_fields` MUST be")), "{what}");
            for request in forcing.server.requests() {
                let asked = ["response_format", "tools", "output_config"];
                assert!(asked.iter().all(|name| request.body.get(*name).is_none()), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn universal_contract_is_the_reply_itself() {
    for kind in KINDS {
        let mut bare = plan();
        bare.as_object_mut().unwrap().shift_remove("planning_data");
        let forcing = ForcingServer::replying(&[bare, plan()]);
        let context = test_run(&planner(json!({})), "Plan a login.", json!({}), forcing.ladder(kind));
        let success = completed(run(&context).await.0);
        assert_eq!(success.result_data, Some(plan()), "{}", kind.name());
        assert_eq!((success.receipt.calls, &success.receipt.flags[..]), (2, &[][..]), "{}", kind.name());
        let prompts = forcing.prompts();
        assert!(prompts.iter().all(|prompt| !prompt.contains("Its `custom_fields` MUST be")));
        assert!(prompts[1].contains("$.planning_data: required property is missing"), "{}", prompts[1]);
    }
}

#[tokio::test]
async fn tools_are_called_through_custom_fields() {
    for kind in KINDS {
        for protocol in ["tools", "actions"] {
            let what = format!("{} by {protocol}", kind.name());
            let folder = Folder::with(&format!("universal-{}-{protocol}", kind.name()), &FILES);
            let forcing = ForcingServer::respond(|request, _| custom(&review(request).action()));
            let context =
                test_run(&reviewer(protocol), "What is left to do?", json!({}), forcing.ladder(kind));
            let (outcome, journal) = run(&TestRun { project_dir: folder.path(), ..context }).await;
            let success = completed(outcome);
            assert_eq!(success.result_data.unwrap()["text"], "// TODO: everything", "{what}");
            assert_eq!((success.receipt.calls, success.receipt.retries), (4, 0), "{what}");
            let happened = names(&journal.events());
            assert_eq!(happened.iter().filter(|name| name.starts_with("post_tool fs:")).count(), 3, "{what}");
            // The prompt contains the output schema.
            assert!(forcing.prompts()[0].contains("\"line\""), "{what}");
        }
    }
}

#[tokio::test]
async fn agent_with_tools_may_end_with_the_universal_response() {
    let folder = Folder::with("universal-outright", &FILES);
    let forcing = ForcingServer::respond(|_, index| match index {
        0 => custom(&ModelTurn::call("fs:read", json!({"path": "README.md"})).action()),
        _ => plan(),
    });
    let agent = planner(json!({"tools": ["fs:read"]}));
    let context = test_run(&agent, "Plan a login.", json!({}), forcing.ladder(BackendKind::OpenAi));
    let (outcome, journal) = run(&TestRun { project_dir: folder.path(), ..context }).await;
    let success = completed(outcome);
    assert_eq!((success.result_data, success.receipt.retries), (Some(plan()), 0));
    assert!(names(&journal.events()).contains(&"post_tool fs:read".to_owned()));
    forcing.prompts();
}

#[tokio::test]
async fn without_a_contract_the_message_is_the_text() {
    for kind in KINDS {
        let mut reply = custom(&json!({}));
        reply["message"] = json!("About seven.");
        let forcing = ForcingServer::replying(&[error(), reply]);
        let agent = json!({"name": "ager", "system_prompt": "You guess ages."});
        let success = completed(run(&test_run(&agent, "How old?", json!({}), forcing.ladder(kind))).await.0);
        assert_eq!(success.result_text.as_deref(), Some("About seven."), "{}", kind.name());
        assert_eq!((success.receipt.calls, success.receipt.retries), (2, 1), "{}", kind.name());
        let prompts = forcing.prompts();
        assert!(prompts[0].contains("`message` to your whole answer"), "{}", prompts[0]);
        assert!(prompts[1].contains("There is nothing to look at."), "{}", prompts[1]);
    }
}

#[tokio::test]
async fn error_response_is_a_typed_failure() {
    let plain = json!({"name": "ager"});
    let tools = json!({"tools": ["fs:read"], "name": "ager", "output_schema": ager()["output_schema"]});
    let anything = json!({"name": "ager", "output_schema": {"type": "object"}});
    for kind in KINDS {
        for agent in [&plain, &tools, &anything, &ager()] {
            let forcing = ForcingServer::replying(&[error()]);
            let failure = failed(run(&test_run(agent, "How old?", json!({}), forcing.ladder(kind))).await.0);
            let what = format!("{agent} on {}", kind.name());
            assert_eq!(failure.error.kind, RunErrorType::OutputSchemaValidationFailed, "{what}");
            let message = "$: the model reported an error: There is nothing to look at.";
            assert_eq!(failure.error.validation_errors, [message], "{what}");
            assert_eq!(failure.salvage.replies, [error().to_string(), error().to_string()], "{what}");
            forcing.prompts();
        }
    }
}

#[tokio::test]
async fn failure_of_a_universal_contract_is_a_universal_response() {
    let mut bare = plan();
    bare.as_object_mut().unwrap().shift_remove("planning_data");
    let forcing = ForcingServer::replying(&[bare]);
    let invalid = test_run(&planner(json!({})), "Plan.", json!({}), forcing.ladder(BackendKind::OpenAi));
    let closed = ScriptedServer::start([Step::close()]);
    let ladder = vec![rung("default", BackendKind::OpenAi, &closed, StructuredOutput::Universal)];
    let unreachable = test_run(&planner(json!({})), "Plan.", json!({}), ladder);
    for (context, code) in
        [(invalid, "output_schema_validation_failed"), (unreachable, "backend_unavailable")]
    {
        let response = failed(run(&context).await.0).error.response.unwrap();
        let form = universal::schema().unwrap();
        assert_eq!(form.violations(&response).lines(), [""; 0], "{response}");
        assert_eq!(universal::pairing_violations(&response, Some("planning")).lines(), [""; 0], "{response}");
        assert_eq!(response["error_details"]["error_code"], code);
    }
}
