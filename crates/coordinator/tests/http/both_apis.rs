//! `CallerApi` and `RunnerApi` in process and over HTTP: the same calls have the same answers.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use slipform_api::{
    AppendRequest, CallerApi, CheckRequest, ClaimRequest, Client, Code, Connection, EncodedAssignment, Error,
    EventsQuery, Heartbeat, RegisterRequest, RunRequest, RunnerApi, RunsQuery, SchemaRequest, SessionsQuery,
    StatsQuery,
};
use slipform_coordinator::{Scope, TokenRequest};
use slipform_types::RunStatus;

use slipform_testkit::TestServer;

use crate::support::{completed, result, started};

/// The answers of an API, with ids and times replaced by stable ones.
#[derive(Default)]
struct Transcript {
    lines: Vec<String>,
    ids: Vec<String>,
}

impl Transcript {
    fn note(&mut self, call: &str, answer: Result<impl Serialize, Error>) {
        let answer = match answer {
            Ok(answer) => serde_json::to_value(answer).unwrap(),
            Err(error) => serde_json::to_value(error.body()).unwrap(),
        };
        let line = self.normalized(&format!("{call} {answer}"));
        self.lines.push(line);
    }

    /// Replaces ids by their order of appearance, and times by one.
    fn normalized(&mut self, text: &str) -> String {
        let mut words = Vec::new();
        for word in text.split('"') {
            let is_id = ["run_", "ses_"].iter().any(|prefix| word.starts_with(prefix)) && word.len() == 16;
            let is_time = word.len() == 24 && word.starts_with("20") && word.ends_with('Z');
            if is_id && !self.ids.iter().any(|id| id == word) {
                self.ids.push(word.to_owned());
            }
            words.push(if is_time { "TIME".to_owned() } else { word.to_owned() });
        }
        let text = words.join("\"");
        self.ids.iter().enumerate().fold(text, |text, (number, id)| text.replace(id, &format!("ID{number}")))
    }
}

fn start(agent: &str, prompt: &str) -> RunRequest {
    RunRequest { prompt: Some(prompt.to_owned()), ..RunRequest::start(agent.to_owned()) }
}

async fn claim(runners: &dyn RunnerApi) -> (String, EncodedAssignment) {
    let registration =
        RegisterRequest { runner_id: None, name: "typed".to_owned(), slots: 1, details: json!({}) };
    let runner_id = runners.register(&registration).await.unwrap().runner_id;
    let claim = ClaimRequest { runner_id: runner_id.clone(), slots: 1, wait_ms: 5_000 };
    let first = runners.claim(&claim).await.unwrap().claims.remove(0);
    runners.release(&first.attempt()).await.unwrap();
    assert_eq!(runners.park(&first.attempt()).await.unwrap_err().code, Code::StaleAttempt);
    (runner_id, runners.claim(&claim).await.unwrap().claims.remove(0))
}

/// Performs the only run in the queue.
async fn perform(runners: &dyn RunnerApi) {
    let (runner_id, assignment) = claim(runners).await;
    let beats = Heartbeat { runner_id, attempts: vec![assignment.attempt()] };
    assert!(!runners.heartbeat(&beats).await.unwrap().attempts[0].stale);
    let message = |number, events| AppendRequest {
        run_id: assignment.run_id.clone(),
        token: assignment.token,
        number,
        events: serde_json::from_value(events).unwrap(),
        progress: None,
    };
    runners.append(&message(1, json!([started()]))).await.unwrap();
    let end = json!([result(json!({"result_text": "Done."})), completed()]);
    runners.finish(&message(2, end)).await.unwrap();
}

/// Makes every call about schemas, and checks texts.
async fn schema_calls(callers: &dyn CallerApi, notes: &mut Transcript) {
    let schema = json!({"type": "object", "required": ["a"]});
    let request = SchemaRequest {
        name: "thing".to_owned(),
        description: Some("A thing.".to_owned()),
        schema: schema.clone(),
    };
    notes.note("add_schema", callers.add_schema(&request).await);
    notes.note("schema", callers.schema("thing").await);
    notes.note("schema unknown", callers.schema("a b?c").await);
    notes.note("schemas", callers.schemas().await);
    notes.note("validate_schema", callers.validate_schema(&json!({"type": 1})).await);
    let check = |text: &str| CheckRequest {
        text: text.to_owned(),
        schema: None,
        schema_name: Some("thing".to_owned()),
        options: None,
    };
    notes.note("check", callers.check(check("{'a': 1}")).await);
    notes.note("remove_schema", callers.remove_schema("thing").await);
    notes.note("check without schema", callers.check(check("{}")).await);
}

/// Makes every call of the caller API, also those that are refused.
async fn scenario(callers: &dyn CallerApi, runners: &dyn RunnerApi) -> Vec<String> {
    let mut notes = Transcript::default();
    let writer = json!({"name": "writer", "description": "An agent.", "system_prompt": "Be brief."});
    notes.note("create_agent", callers.create_agent(&writer).await);
    notes.note("create_agent again", callers.create_agent(&writer).await);
    notes.note("change_agent", callers.change_agent("writer", &json!({"description": "Writes."})).await);
    notes.note("validate_agent", callers.validate_agent(&json!({"name": "a b"})).await);
    notes.note("agent", callers.agent("writer").await);
    notes.note("agent unknown", callers.agent("writter").await);
    notes.note("agents", callers.agents().await);
    schema_calls(callers, &mut notes).await;

    notes.note("submit to unknown", callers.submit(start("writter", "Hello."), None).await);
    let invalid = RunRequest { parameters: Some(json!({"depth": 1})), ..start("writer", "Hello.") };
    notes.note("submit invalid", callers.submit(invalid, None).await);
    let key = || Some("the key".to_owned());
    let created = callers.submit(start("writer", "Hello."), key()).await;
    notes.note("submit", created.clone());
    notes.note("submit again", callers.submit(start("writer", "Hello."), key()).await);
    notes.note("submit another", callers.submit(start("writer", "Bye."), key()).await);
    let created = created.unwrap();
    let (run, session) = (&created.run_id, &created.session_id);
    notes.note("session_result too early", callers.session_result(session).await);
    notes.note("wait too short", callers.wait(run, Duration::ZERO).await);
    perform(runners).await;
    notes.note("wait", callers.wait(run, Duration::from_secs(60)).await);
    notes.note("run", callers.run(run).await);
    notes.note("stop_run", callers.stop_run(run).await);
    let query = RunsQuery { status: Some(RunStatus::Completed), limit: Some(1), ..RunsQuery::default() };
    notes.note("runs", callers.runs(query).await);
    notes.note("runs invalid", callers.runs(RunsQuery { limit: Some(0), ..RunsQuery::default() }).await);
    notes.note("session", callers.session(session).await);
    notes.note("sessions", callers.sessions(SessionsQuery::default()).await);
    let after = SessionsQuery { after: Some("x".to_owned()), ..SessionsQuery::default() };
    notes.note("sessions invalid", callers.sessions(after).await);
    notes.note("session_result", callers.session_result(session).await);
    notes.note("stop_session", callers.stop_session(session).await);
    notes.note("events", callers.events(session, EventsQuery { after: Some(2), limit: Some(1) }).await);
    let mut feed = callers.follow(session, 3).await.unwrap();
    notes.note("follow", Ok(feed.next().await.unwrap()));
    notes.note("follow too far", callers.follow(session, 99).await.map(|_| ()));
    notes.note(
        "stats",
        callers
            .stats(StatsQuery { agent: Some("writer".to_owned()), ..StatsQuery::default() })
            .await
            .map(|rows| rows.len()),
    );
    notes.note("runners", callers.runners().await.map(|runners| runners.len()));
    notes.note("backends", callers.backends().await);
    notes.note("delete_session", callers.delete_session(session).await);
    notes.note("run gone", callers.run(run).await);
    notes.note("delete_agent", callers.delete_agent("writer").await);
    notes.note("delete_agent again", callers.delete_agent("writer").await);
    notes.lines
}

#[tokio::test]
async fn both_implementations_give_the_same_answers() {
    let server = TestServer::open().await;
    let local = scenario(&server.app, &server.app).await;
    let server = TestServer::with(|options| options.needs_token = true).await;
    let issued = server.app.create_token(&TokenRequest::new("a test", Scope::Admin)).await.unwrap();
    let token = Some(issued.token);
    let client = Client::new(&Connection { url: format!("http://{}", server.address), token }).unwrap();
    let remote = scenario(&client, &client).await;
    for (local, remote) in local.iter().zip(&remote) {
        // Only the remote caller has a token.
        assert_eq!(*local, remote.replace(&format!("\"{}\"", issued.token_id), "null"));
    }
    assert!(remote.iter().any(|line| line.contains(&issued.token_id)));
    assert_eq!(local.len(), remote.len());
    let refused = |line: &&String| line.contains("\"status_code\"");
    let refusals: Vec<Value> = local
        .iter()
        .filter(refused)
        .map(|line| {
            serde_json::from_str(line.split_once(" {").map(|(_, body)| format!("{{{body}")).unwrap().as_str())
        })
        .map(Result::unwrap)
        .collect();
    let codes: Vec<&str> = refusals.iter().map(|body| body["error"].as_str().unwrap()).collect();
    assert_eq!(
        codes,
        [
            "AgentExists",
            "AgentNotFound",
            "SchemaNotFound",
            "SchemaNotFound",
            "AgentNotFound",
            "InvalidParameters",
            "IdempotencyConflict",
            "NotFinished",
            "InvalidRequest",
            "InvalidRequest",
            "InvalidRequest",
            "RunNotFound",
            "AgentNotFound",
        ]
    );
}
