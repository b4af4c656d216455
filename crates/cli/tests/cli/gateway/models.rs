//! What model names mean: backends, routes, tiers and agents; and which tokens may use them.

use serde_json::{Value, json};
use slipform_testkit::{Script, ScriptedServer, Step};

use super::support::{
    chat, gateway, open, open_with_key, post, read, read_until, streamed, two_backends, with_schema,
    with_tool,
};
use crate::support::{Project, request, serve};

#[test]
fn routes_change_the_backend_after_an_outage_and_not_after_an_invalid_answer() {
    let first = ScriptedServer::start([Step::status(503), Step::text("no JSON"), Step::text("no JSON")]);
    let second = ScriptedServer::start([Step::text(r#"{"name": "Ada", "age": 36}"#)]);
    let settings = two_backends(
        ("first", &first),
        ("second", &second),
        "[gateway]\nfallback_backend = \"second\"\nroutes = { \"gpt-4o\" = [\"first\", \"second/other\"] }\n",
    );
    let project = Project::new("gateway-routes").file("slipform.toml", &settings);
    let (_server, address) = serve(&project, &[]);
    let mut body = chat("gpt-4o", &with_schema());
    body["slipform"] = json!({"max_retries": 0});
    let answered = post(&address, &body);
    assert_eq!(answered.status, 200, "{}", answered.text);
    assert_eq!(second.requests()[0].body["model"], "other");
    let answered = post(&address, &body);
    assert_eq!(answered.status, 422, "{}", answered.text);
    assert_eq!((first.requests().len(), second.requests().len()), (2, 1));
    // A name that is not known goes to the configured backend.
    assert_ne!(post(&address, &chat("anything", &json!({}))).status, 404);
    assert_eq!(second.requests().len(), 2);

    let broken = settings.replace("second/other", "third");
    let refused = Project::new("gateway-routes-broken")
        .file("slipform.toml", &broken)
        .run(&["run", "answer", "-p", "x"]);
    assert_eq!(refused.status, 2, "{}", refused.all());
    assert!(
        refused.stderr.contains("gateway.routes.gpt-4o") && refused.stderr.contains("third"),
        "{}",
        refused.stderr
    );
}

#[test]
fn unmet_contract_escalates_to_the_named_tier() {
    let small = ScriptedServer::start(Script::new([Step::text("no JSON")]).repeat_last());
    let large = ScriptedServer::start([Step::text(r#"{"name": "Ada", "age": 36}"#)]);
    let settings = two_backends(("first", &small), ("second", &large), "[tiers]\nlarge = \"second\"\n");
    let (_server, address) = serve(&Project::new("gateway-tiers").file("slipform.toml", &settings), &[]);
    let mut body = chat("first", &with_schema());
    body["slipform"] = json!({"max_retries": 0, "escalation": ["large"]});
    let answer = post(&address, &body).json();
    assert_eq!(answer["slipform"]["receipt"]["rungs"][1]["tier"], "large", "{answer}");
    body["slipform"] = json!({"tier": "huge"});
    assert_eq!(post(&address, &body).json()["error"]["param"], "slipform.tier");
}

/// The agent of the tests of agents.
const CLERK: &str = "name: clerk\nparameters_schema: {type: object, required: [prompt], properties: {prompt: {type: string}, lang: {type: string}}}\noutput_schema: {type: object, properties: {name: {type: string}, age: {type: integer}}, required: [name, age]}\n";

#[test]
fn agents_are_models_with_durable_runs_and_sessions() {
    let answer = || Step::text(r#"{"name": "Ada", "age": 36}"#);
    let upstream = ScriptedServer::start(Script::new([answer()]).repeat_last());
    let project =
        Project::new("gateway-agents").backend(&upstream.base_url()).file("agents/clerk.yaml", CLERK);
    let (_server, address) = serve(&project, &[]);
    let (_, models) = request(&address, "GET", "/v1/models", None, &Value::Null);
    let ids: Vec<&str> =
        models["data"].as_array().unwrap().iter().filter_map(|model| model["id"].as_str()).collect();
    for id in ["scripted", "scripted/m", "embedded", "agent/clerk"] {
        assert!(ids.contains(&id), "{ids:?}");
    }
    for name in ["agent/clerk", "agent.clerk", "agent%2Fclerk"] {
        let answered = post(&address, &chat(name, &json!({"slipform": {"parameters": {"lang": "en"}}})));
        assert_eq!(answered.status, 200, "{}", answered.text);
        let answer = answered.json();
        assert_eq!(answer["choices"][0]["message"]["content"], r#"{"name": "Ada", "age": 36}"#);
        let run_id = answer["slipform"]["run_id"].as_str().unwrap();
        let (_, run) = request(&address, "GET", &format!("/runs/{run_id}"), None, &Value::Null);
        assert_eq!((&run["status"], &run["agent_name"]), (&json!("completed"), &json!("clerk")));
        let (status, found) = request(&address, "GET", &format!("/v1/models/{name}"), None, &Value::Null);
        assert_eq!((status, &found["id"]), (200, &json!("agent/clerk")));
        if name == "agent.clerk" {
            let metadata = json!({"session_id": answer["slipform"]["session_id"]});
            let resumed = post(&address, &chat(name, &json!({"metadata": metadata}))).json();
            assert_eq!(resumed["slipform"]["session_id"], answer["slipform"]["session_id"], "{resumed}");
        }
    }
    let with_tools = post(&address, &chat("agent/clerk", &with_tool(&json!("auto"))));
    assert_eq!((with_tools.status, &with_tools.json()["error"]["param"]), (400, &json!("tools")));
    let other_schema =
        post(&address, &chat("agent/clerk", &json!({"response_format": {"type": "json_object"}})));
    assert_eq!(other_schema.status, 400, "{}", other_schema.text);
    let unknown = post(&address, &chat("agent/missing", &json!({})));
    assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (404, &json!("model_not_found")));
}

#[test]
fn tokens_limit_the_gateway_as_they_limit_the_api() {
    let upstream =
        ScriptedServer::start(Script::new([Step::text(r#"{"name": "A", "age": 1}"#)]).repeat_last());
    let settings = format!(
        "[backends.scripted]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\n[server]\nbehind_proxy = true\n",
        upstream.base_url()
    );
    let project =
        Project::new("gateway-tokens").file("slipform.toml", &settings).file("agents/clerk.yaml", CLERK);
    let token = |arguments: &[&str]| {
        let created = project.run(&[&["token", "create"], arguments].concat());
        assert_eq!(created.status, 0, "{}", created.all());
        created.stdout.split_whitespace().find(|word| word.starts_with("sf_")).unwrap().to_owned()
    };
    let (free, limited) = (token(&["free"]), token(&["limited", "--agents", "clerk"]));
    let (_server, address) = serve(&project, &[]);
    let body = chat("scripted", &with_schema());
    let unknown = post(&address, &body);
    assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (401, &json!("invalid_api_key")));
    let with =
        |token: &str, body: &Value| request(&address, "POST", "/v1/chat/completions", Some(token), body).0;
    assert_eq!((with(&free, &body), with(&limited, &body)), (200, 403));
    assert_eq!(with(&limited, &chat("agent/clerk", &json!({}))), 200);
    let (_, models) = request(&address, "GET", "/v1/models", Some(&limited), &Value::Null);
    assert!(!models.to_string().contains("scripted"), "{models}");
    let keyed = open(&address, &body, &format!("x-api-key: {free}\r\n"));
    // A bearer token takes precedence over the other header.
    assert_eq!(read(keyed).status, 401);
}

#[test]
fn server_without_a_runner_answers_for_agents_only() {
    let project = Project::new("gateway-no-runner").backend("http://127.0.0.1:9/v1");
    let (_server, address) = serve(&project, &["--no-runner"]);
    let answered = post(&address, &chat("scripted", &with_schema()));
    assert_eq!((answered.status, &answered.json()["error"]["code"]), (503, &json!("backend_unavailable")));
    assert!(answered.text.contains("--no-runner"), "{}", answered.text);
}

#[test]
fn unknown_paths_have_errors_in_the_form_of_the_gateway() {
    let (_server, address, _upstream) = gateway("gateway-paths", Vec::<Step>::new());
    let (status, body) = request(&address, "POST", "/v1/embeddings", None, &json!({}));
    assert_eq!((status, &body["error"]["code"]), (404, &json!("not_found")));
    for path in ["/v1/", "/v1/models/%FF"] {
        let (status, body) = request(&address, "GET", path, None, &Value::Null);
        assert!((400..500).contains(&status) && body["error"]["code"].is_string(), "{path}: {status} {body}");
    }
    let (status, body) = request(&address, "GET", "/v1/chat/completions", None, &Value::Null);
    assert_eq!(status, 405, "{body}");
}

#[test]
fn session_of_another_agent_is_refused() {
    let upstream =
        ScriptedServer::start(Script::new([Step::text(r#"{"name": "A", "age": 1}"#)]).repeat_last());
    let other = CLERK.replace("name: clerk", "name: other");
    let project = Project::new("gateway-sessions")
        .backend(&upstream.base_url())
        .file("agents/clerk.yaml", CLERK)
        .file("agents/other.yaml", &other);
    let (_server, address) = serve(&project, &[]);
    let first = post(&address, &chat("agent/clerk", &json!({}))).json();
    let metadata = json!({"metadata": {"session_id": first["slipform"]["session_id"]}});
    let refused = post(&address, &chat("agent/other", &metadata));
    assert_eq!(refused.status, 400, "{}", refused.text);
    let tiers = post(&address, &chat("agent/clerk", &json!({"slipform": {"tier": "small"}})));
    assert_eq!((tiers.status, &tiers.json()["error"]["param"]), (400, &json!("slipform.tier")));
    // A time limit beyond all bounds is as good as none.
    let patient = read(open(&address, &chat("agent/clerk", &json!({})), "x-stainless-timeout: 1e19\r\n"));
    assert_eq!(patient.status, 200, "{}", patient.text);
}

#[test]
fn sampling_parameters_of_an_agents_client_reach_the_backend() {
    let upstream = ScriptedServer::start([Step::text(r#"{"name": "A", "age": 1}"#)]);
    let project =
        Project::new("gateway-agent-sampling").backend(&upstream.base_url()).file("agents/clerk.yaml", CLERK);
    let (_server, address) = serve(&project, &[]);
    assert_eq!(post(&address, &chat("agent/clerk", &json!({"temperature": 0.25}))).status, 200);
    assert_eq!(upstream.requests()[0].body["temperature"], json!(0.25));
}

#[test]
fn sampling_parameters_that_the_backend_of_an_agent_lacks_are_refused_by_name() {
    let upstream = ScriptedServer::start([Step::text(r#"{"name": "A", "age": 1}"#)]);
    let settings = format!(
        "[backends.claude]\nkind = \"anthropic\"\nbase_url = \"{}\"\nmodel = \"m\"\napi_key_env = \"KEY\"\n",
        upstream.base_url()
    );
    let project = Project::new("gateway-agent-lacks").file("slipform.toml", &settings).variable("KEY", "k");
    let (_server, address) = serve(&project.file("agents/clerk.yaml", CLERK), &[]);
    for (more, param) in [(json!({"seed": 7}), "seed"), (json!({"logit_bias": {"1": 2}}), "logit_bias")] {
        let answered = post(&address, &chat("agent/clerk", &more));
        let error = &answered.json()["error"];
        assert_eq!(
            (answered.status, &error["code"], &error["param"]),
            (400, &json!("unsupported_parameter"), &json!(param)),
            "{error}"
        );
        assert!(error["message"].as_str().unwrap().contains("`claude`"), "{error}");
    }
    assert!(upstream.requests().is_empty());
}

#[test]
fn ends_of_an_agents_run_are_those_of_its_backend() {
    let limited = Step::status(429).header("Retry-After", "7");
    let filtered = Step::text("Once upon").finish("content_filter");
    let upstream = ScriptedServer::start([limited, filtered]);
    let settings = format!(
        "[backends.scripted]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\nretries = 0\n",
        upstream.base_url()
    );
    let project = Project::new("gateway-agent-ends").file("slipform.toml", &settings);
    let (_server, address) = serve(&project.file("agents/free.yaml", "name: free\n"), &[]);
    let busy = post(&address, &chat("agent/free", &json!({})));
    assert_eq!(
        (busy.status, &busy.json()["error"]["code"]),
        (429, &json!("rate_limit_exceeded")),
        "{}",
        busy.text
    );
    assert!(busy.head.contains("retry-after: 7"), "{}", busy.head);
    let choice = &post(&address, &chat("agent/free", &json!({}))).json()["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"], &choice["message"]["refusal"]),
        (&json!("Once upon"), &json!("content_filter"), &Value::Null)
    );
}

#[test]
fn name_with_an_empty_model_is_unknown() {
    let (_server, address, _upstream) = gateway("gateway-empty-model", Vec::<Step>::new());
    let answered = post(&address, &chat("scripted/", &json!({})));
    assert_eq!((answered.status, &answered.json()["error"]["code"]), (404, &json!("model_not_found")));
}

#[test]
fn tier_to_escalate_to_does_not_answer_for_a_backend_that_lacks_a_parameter() {
    let claude = ScriptedServer::start(Script::new([Step::text("Hello.")]).repeat_last());
    let large = ScriptedServer::start(Script::new([Step::text("Hello.")]).repeat_last());
    let settings = format!(
        "default_backend = \"claude\"\n\
         [backends.claude]\nkind = \"anthropic\"\nbase_url = \"{}\"\nmodel = \"m\"\napi_key_env = \"KEY\"\n\
         [backends.hosted]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\n[tiers]\nlarge = \"hosted\"\n",
        claude.base_url(),
        large.base_url()
    );
    let project =
        Project::new("gateway-escalation-lacks").file("slipform.toml", &settings).variable("KEY", "k");
    let (_server, address) = serve(&project, &[]);
    let body = chat("claude", &json!({"seed": 7, "slipform": {"escalation": ["large"]}}));
    let answered = post(&address, &body);
    assert_eq!((answered.status, &answered.json()["error"]["param"]), (400, &json!("seed")));
    assert!(claude.requests().is_empty() && large.requests().is_empty());
}

#[test]
fn fallback_that_does_not_answer_is_not_asked_for_every_request() {
    let first = ScriptedServer::start(Script::new([Step::text("Hello.")]).repeat_last());
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = format!(
        "default_backend = \"first\"\n\
         [backends.first]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\n\
         [backends.spare]\nkind = \"openai\"\nbase_url = \"http://{}/v1\"\n\
         [gateway.routes]\nboth = [\"first\", \"spare\"]\n",
        first.base_url(),
        silent.local_addr().unwrap()
    );
    let (_server, address) =
        serve(&Project::new("gateway-silent-spare").file("slipform.toml", &settings), &[]);
    for _ in 0..3 {
        let answered = post(&address, &chat("both", &json!({})));
        assert_eq!(answered.status, 200, "{}", answered.text);
    }
    // The first request has connected, and the others have not waited for it.
    silent.set_nonblocking(true).unwrap();
    assert_eq!(std::iter::from_fn(|| silent.accept().ok()).count(), 1);
}

#[test]
fn position_in_a_trace_is_passed_on_to_the_backend() {
    let answer = || Step::text(r#"{"name": "A", "age": 1}"#);
    let upstream = ScriptedServer::start(Script::new([answer()]).repeat_last());
    let project =
        Project::new("gateway-trace").backend(&upstream.base_url()).file("agents/clerk.yaml", CLERK);
    let (_server, address) = serve(&project, &[]);
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for model in ["scripted", "agent/clerk"] {
        let body = chat(model, &with_schema());
        let body = if model == "scripted" { body } else { chat(model, &json!({})) };
        assert_eq!(read(open(&address, &body, &format!("traceparent: {parent}\r\n"))).status, 200);
    }
    assert_eq!(
        read(open(&address, &chat("scripted", &with_schema()), "traceparent: nonsense\r\n")).status,
        200
    );
    let sent: Vec<Option<String>> =
        upstream.requests().iter().map(|request| request.header("traceparent").map(str::to_owned)).collect();
    assert_eq!(sent, [Some(parent.to_owned()), Some(parent.to_owned()), None]);
}

#[test]
fn requests_are_listed_and_counted_with_their_ends() {
    let upstream = ScriptedServer::start([
        Step::text(r#"{"name": "Ada", "age": 36}"#),
        Step::text("no JSON"),
        Step::status(503),
        Step::text("no JSON"),
    ]);
    let spare = ScriptedServer::start([Step::text(r#"{"name": "Ada", "age": 36}"#)]);
    let settings = two_backends(
        ("first", &upstream),
        ("spare", &spare),
        "[gateway]\nroutes = { wanted = [\"first\", \"spare\"] }\n",
    );
    let (_server, address) = serve(&Project::new("gateway-list").file("slipform.toml", &settings), &[]);
    let mut body = chat("wanted", &with_schema());
    body["slipform"] = json!({"max_retries": 0});
    let statuses = [0; 3].map(|_| post(&address, &body).status);
    assert_eq!(statuses, [200, 422, 200]);
    let list =
        |query: &str| request(&address, "GET", &format!("/gateway/requests{query}"), None, &Value::Null).1;
    slipform_testkit::wait_until("the summaries are stored", || {
        list("")["requests"].as_array().is_some_and(|requests| requests.len() == 3)
    });
    let listed = list("");
    let [fallback, failed, first] = listed["requests"].as_array().unwrap().as_slice() else {
        panic!("{listed}")
    };
    assert_eq!((&first["verdict"], &first["backend"]), (&json!("first_pass"), &json!("first")));
    assert_eq!(
        (&failed["status"], &failed["error_type"]),
        (&json!("failed"), &json!("output_schema_validation_failed"))
    );
    // A backend that replaced another after an outage is no escalation.
    assert_eq!(
        (&fallback["verdict"], &fallback["backend"]),
        (&json!("first_pass"), &json!("spare")),
        "{fallback}"
    );
    assert_eq!(first["tokens"], json!({"input": 10, "output": 5}));
    assert_eq!(list("?status=failed")["requests"].as_array().unwrap().len(), 1);
    assert_eq!(list("?backend=spare")["requests"].as_array().unwrap().len(), 1);
    let (_, stats) = request(&address, "GET", "/stats?agent=%28gateway%29", None, &Value::Null);
    let runs: u64 = stats.as_array().unwrap().iter().map(|row| row["runs"].as_u64().unwrap()).sum();
    assert_eq!(runs, 3, "{stats}");
}

#[test]
fn budget_of_a_token_is_spent_by_cancelled_requests_too() {
    let gate = slipform_testkit::Gate::new();
    let text = "a long text that goes on and on ".repeat(40);
    let first = Step::text(text).chunk_bytes(64).gate_after(15, &gate);
    let upstream = ScriptedServer::start(Script::new([first, Step::text("Hello.")]).repeat_last());
    let project = Project::new("gateway-budget").backend(&upstream.base_url());
    let created = project.run(&["token", "create", "small", "--tpm", "10"]);
    let token = created.stdout.split_whitespace().find(|word| word.starts_with("sf_")).unwrap().to_owned();
    let (_server, address) = serve(&project, &[]);
    let body = streamed(chat("scripted", &json!({})));
    let mut stream = open_with_key(&address, &body, &token, "");
    read_until(&mut stream, |received| received.matches("\"content\":").count() >= 14);
    drop(stream);
    upstream.wait_for_abandoned(1);
    let refused = slipform_testkit::wait_for("the budget is spent", || {
        let asked = chat("scripted", &json!({}));
        let (status, body) = request(&address, "POST", "/v1/chat/completions", Some(&token), &asked);
        (status == 429).then_some(body)
    });
    assert_eq!(refused["error"]["code"], "rate_limit_exceeded");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("10 tokens per minute"), "{message}");
}

#[test]
fn text_of_a_backend_without_tools_is_an_answer_where_no_call_is_required() {
    let upstream = ScriptedServer::start(Script::new([Step::text("Hello! How can I help?")]).repeat_last());
    let settings = format!(
        "[backends.plain]\nkind = \"completions\"\nbase_url = \"{}\"\nmodel = \"m\"\n",
        upstream.base_url()
    );
    let (_server, address) = serve(&Project::new("gateway-plain").file("slipform.toml", &settings), &[]);
    let answered = post(&address, &chat("plain", &with_tool(&json!("auto")))).json();
    assert_eq!(answered["choices"][0]["message"]["content"], "Hello! How can I help?", "{answered}");
    assert_eq!(upstream.requests().len(), 1);
    let required = post(&address, &chat("plain", &with_tool(&json!("required"))));
    assert_eq!(required.status, 422, "{}", required.text);
}

#[test]
fn fallback_that_lacks_a_parameter_is_left_out_and_hides_no_wrong_key() {
    let first = ScriptedServer::start([Step::text("Hello."), Step::status(503), Step::status(401)]);
    let spare = ScriptedServer::start(Script::new([Step::text("Spare.")]).repeat_last());
    let settings = format!(
        "default_backend = \"first\"\n\
         [backends.first]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\nretries = 0\n\
         [backends.spare]\nkind = \"anthropic\"\nbase_url = \"{}\"\nmodel = \"m\"\napi_key_env = \"KEY\"\n\
         [gateway.routes]\nboth = [\"first\", \"spare\"]\nspared = [\"spare\"]\n",
        first.base_url(),
        spare.base_url()
    );
    let project = Project::new("gateway-lacks").file("slipform.toml", &settings).variable("KEY", "k");
    let (_server, address) = serve(&project, &[]);
    let seeded = json!({"seed": 7});
    let answered = post(&address, &chat("both", &seeded));
    assert_eq!(answered.json()["choices"][0]["message"]["content"], "Hello.", "{}", answered.text);
    // Without the parameter the other backend could answer; with it, none is left.
    assert_eq!(post(&address, &chat("both", &seeded)).status, 503);
    let refused = post(&address, &chat("spared", &seeded));
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("seed")));
    // A wrong key is no outage.
    let rejected = post(&address, &chat("both", &json!({})));
    assert_eq!(rejected.json()["error"]["code"], "backend_rejected", "{}", rejected.text);
    assert!(spare.requests().is_empty());
}

#[test]
fn cut_text_of_an_agent_is_returned_with_its_reason() {
    let upstream =
        ScriptedServer::start(Script::new([Step::text("Once upon a").finish("length")]).repeat_last());
    let project = Project::new("gateway-cut-agent")
        .backend(&upstream.base_url())
        .file("agents/teller.yaml", "name: teller\nlimits: {max_tokens: 5}\n");
    let (_server, address) = serve(&project, &[]);
    let answered = post(&address, &chat("agent/teller", &json!({}))).json();
    assert_eq!(answered["choices"][0]["finish_reason"], "length", "{answered}");
    assert_eq!(answered["choices"][0]["message"]["content"], "Once upon a", "{answered}");
}
