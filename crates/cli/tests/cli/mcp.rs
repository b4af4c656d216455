//! The MCP server, message by message.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use slipform_testkit::{Gate, PostgresServer, ScriptedServer, Step, wait_until};

use crate::support::{Project, REVIEWER, request, serve};

/// Agents whose results are fixed: valid ones, one that breaks its contract, one that takes as long as it is told.
pub(crate) fn example_project(name: &str) -> Project {
    let program = |name: &str, script: &str, more: &str| {
        format!(
            "name: {name}\ntype: procedural\nparameters_as: stdin\ncommand: [sh, -c, {}]\n{more}",
            json!(script)
        )
    };
    let greeter = "title: Greeter\ndescription: Greets a person.\n\
        parameters_schema: {type: object, properties: {name: {type: string}}, required: [name], additionalProperties: false}\n\
        output_schema: {type: object, properties: {greeting: {type: string}}, required: [greeting]}\n";
    let pair = "description: Returns a pair.\nparameters_schema: {type: object}\n\
        output_schema: {$schema: 'http://json-schema.org/draft-07/schema#', type: array, items: [{type: string}, \
        {$ref: '#/definitions/Count'}], additionalItems: false, definitions: {Count: {type: integer}}}\n";
    let broken = "description: Breaks its contract.\nparameters_schema: {type: object}\n\
        output_schema: {type: object, properties: {severity: {enum: [low, high]}}, required: [severity]}\n";
    let patient = "description: Takes its time.\n\
        parameters_schema: {type: object, properties: {seconds: {type: integer}}, required: [seconds]}\n\
        output_schema: {type: object, properties: {done: {type: boolean}}, required: [done]}\n";
    let wait = "seconds=$(tr -dc 0-9); sleep $seconds; echo '{\"done\": true}'";
    Project::new(name)
        .file(
            "agents/greeter.yaml",
            &program("greeter", "cat >/dev/null; echo '{\"greeting\": \"Hello\"}'", greeter),
        )
        .file("agents/pair.yaml", &program("pair", "cat >/dev/null; echo '[\"a\", 1]'", pair))
        .file(
            "agents/broken.yaml",
            &program("broken", "cat >/dev/null; echo '{\"severity\": \"critical\"}'", broken),
        )
        .file("agents/patient.yaml", &program("patient", wait, patient))
        .file("agents/writer.yaml", "name: writer\ndescription: Writes a text.\nsystem_prompt: You write.\n")
}

/// Returns the status of a run.
pub(crate) fn run_status(project: &Project, run: &str) -> String {
    let shown = project.run(&["runs", "show", run, "--json"]).json();
    shown["status"].as_str().unwrap_or_else(|| panic!("{shown}")).to_owned()
}

/// A client on standard input and output.
struct StdioClient {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next_id: u64,
    /// The messages without an id that arrived so far.
    notifications: Vec<Value>,
}

impl StdioClient {
    /// Starts the server and opens a connection of the older era.
    fn start(project: &Project, more: &[&str]) -> StdioClient {
        let mut client = StdioClient::start_modern(project, more);
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        client.request("initialize", &params);
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    /// Starts the server. Requests bring their own version.
    fn start_modern(project: &Project, more: &[&str]) -> StdioClient {
        let mut command = project.command(&["mcp"]);
        let mut process = command.args(more).stderr(Stdio::inherit()).spawn().unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        StdioClient { process, input, output, next_id: 1, notifications: Vec::new() }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Reads one message. Everything on standard output is one.
    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// Sends a request and returns its answer.
    fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.start_request(method, params);
        self.answer(id)
    }

    fn start_request(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.receive();
            if message["id"] == id {
                return message;
            }
            self.notifications.push(message);
        }
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))["result"].clone()
    }

    /// Closes the input and waits for the end of the server.
    fn close(mut self) {
        drop(self.input.take());
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for StdioClient {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The metadata of a request of 2026-07-28 that knows tasks.
fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    })
}

#[test]
fn session_tools_start_read_and_stop_sessions() {
    let project = example_project("mcp-sessions");
    let mut client = StdioClient::start(&project, &[]);
    let schema =
        json!({"type": "object", "properties": {"greeting": {"const": "Hello"}}, "required": ["greeting"]});
    let started = client.call(
        "start_agent_session",
        &json!({"agent_name": "greeter", "parameters": {"name": "A"}, "output_schema": schema}),
    );
    // The agent has an output schema of its own.
    assert_eq!(started["isError"], true, "{started}");
    assert!(started["content"][0]["text"].as_str().unwrap().starts_with("OutputSchemaConflict"), "{started}");
    let arguments = json!({"agent_name": "greeter", "parameters": {"name": "A"}});
    let started = client.call("start_agent_session", &arguments)["structuredContent"].clone();
    assert_eq!(
        (&started["status"], &started["result"]),
        (&json!("completed"), &json!({"greeting": "Hello"})),
        "{started}"
    );

    let arguments = json!({"agent_name": "patient", "parameters": {"seconds": 600}, "mode": "async_poll"});
    let waiting = client.call("start_agent_session", &arguments)["structuredContent"].clone();
    let session = json!({"session_id": waiting["session_id"]});
    let status = client.call("get_agent_session_status", &session)["structuredContent"].clone();
    assert!(["pending", "claimed", "running"].contains(&status["status"].as_str().unwrap()), "{status}");
    client.call("stop_agent_session", &session);
    let waited = json!({"session_id": waiting["session_id"], "wait": 50});
    let stopped = client.call("get_agent_session_result", &waited);
    assert_eq!(stopped["isError"], true, "{stopped}");
    assert!(stopped["content"][0]["text"].as_str().unwrap().contains("stopped"), "{stopped}");

    let sessions = client.call("list_agent_sessions", &json!({}))["structuredContent"]["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 2, "{sessions}");
    let unknown = client.call("list_agent_sessions", &json!({"limits": 1}));
    assert!(unknown["content"][0]["text"].as_str().unwrap().contains("unknown field `limits`"), "{unknown}");
    let checked = client
        .call("check", &json!({"text": "It is ```json\n{\"a\": 1,}\n```", "schema": {"type": "object"}}));
    assert_eq!(checked["structuredContent"]["value"], json!({"a": 1}), "{checked}");
    client.close();
}

#[test]
fn agents_can_be_filtered_and_long_lists_are_paged() {
    let mut project = example_project("mcp-filter");
    for number in 0..200 {
        let name = format!("agent{number:055}");
        let text = format!("name: {name}\ndescription: Agent {number}.\nsystem_prompt: You answer.\n");
        project = project.file(&format!("agents/{name}.yaml"), &text);
    }
    let mut client = StdioClient::start(&project, &[]);
    let (mut names, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let page = client.request("tools/list", &params)["result"].clone();
        names.extend(
            page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()),
        );
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert!(names.len() > 208 && names[0] == "check", "{names:?}");
    assert!(names[8..].is_sorted() && names.contains(&format!("agent{:055}", 199)));
    let refused = client.request("tools/list", &json!({"cursor": "7"}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    client.close();

    let mut client = StdioClient::start(&project, &["--agents", "greeter,pair"]);
    let listed = client.request("tools/list", &json!({}))["result"]["tools"].clone();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names[8..], ["greeter", "pair"]);
    let hidden = client.request("tools/call", &json!({"name": "broken", "arguments": {}}));
    assert_eq!(hidden["error"]["code"], -32602, "{hidden}");
    let hidden = client.call("start_agent_session", &json!({"agent_name": "broken"}));
    assert!(hidden["content"][0]["text"].as_str().unwrap().starts_with("AgentNotFound"), "{hidden}");
    let read = client.request("resources/read", &json!({"uri": "slipform://agents/broken"}));
    assert!(read["error"]["code"].is_number(), "{read}");
    client.close();
}

#[test]
fn large_result_is_returned_and_journal_is_readable() {
    let large = "name: large\ntype: procedural\nparameters_as: stdin\ndescription: Large.\nparameters_schema: {type: object}\n\
        command: [sh, -c, 'cat >/dev/null; printf %s \"{\\\"text\\\": \\\"\"; head -c 3000000 /dev/zero | tr \"\\0\" a; echo \"\\\"}\"']\n\
        output_schema: {type: object, properties: {text: {type: string}}, required: [text]}\n";
    let project = example_project("mcp-large").file("agents/large.yaml", large);
    let is_whole =
        |called: &Value| called["structuredContent"]["text"].as_str().map(str::len) == Some(3_000_000);
    let (server, address) = serve(&project, &[]);
    let called = post(&address, None, "tools/call", json!({"name": "large", "arguments": {}}));
    assert!(is_whole(&called["result"]), "{}", called["result"]["_meta"]);
    server.shut_down();
    let mut client = StdioClient::start(&project, &[]);
    let called = client.call("large", &json!({}));
    assert!(is_whole(&called), "{}", called["_meta"]);
    let session = called["_meta"]["slipform/session_id"].as_str().unwrap();
    let uri = format!("slipform://sessions/{session}/journal");
    let read = client.request("resources/read", &json!({"uri": uri}));
    let journal: Value =
        serde_json::from_str(read["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(journal["events"][0]["event_type"], "run_start");
    client.close();
}

#[test]
fn program_without_a_contract_returns_text_or_json() {
    let program = |name: &str, output: &str| {
        let agent = json!({"name": name, "description": "Prints.", "type": "procedural", "command": ["echo", output], "parameters_as": "stdin", "parameters_schema": {"type": "object"}});
        agent.to_string()
    };
    let project = example_project("mcp-without-contract")
        .file("agents/says.json", &program("says", "\"Hello\""))
        .file("agents/counts.json", &program("counts", "{\"count\": 1}"));
    let mut client = StdioClient::start(&project, &[]);
    let said = client.call("says", &json!({}));
    assert_eq!(
        (&said["content"][0]["text"], &said["structuredContent"]),
        (&json!("Hello"), &Value::Null),
        "{said}"
    );
    let counted = client.call("counts", &json!({}));
    assert_eq!(counted["structuredContent"], json!({"count": 1}), "{counted}");
    let started = client.call("start_agent_session", &json!({"agent_name": "says", "parameters": {}}));
    assert_eq!(started["structuredContent"]["result"], "Hello", "{started}");
    client.close();
}

#[test]
fn end_of_input_stops_no_run() {
    let project = example_project("mcp-end");
    let mut client = StdioClient::start(&project, &[]);
    client.start_request(
        "tools/call",
        &json!({"name": "patient", "arguments": {"seconds": 2}, "_meta": {"progressToken": 1}}),
    );
    let progress = client.receive();
    assert_eq!(progress["method"], "notifications/progress", "{progress}");
    client.close();
    let runs = project.run(&["runs", "list", "--json"]).json();
    let run = runs["runs"].as_array().or(runs.as_array()).unwrap()[0].clone();
    assert!(["pending", "running", "claimed"].contains(&run["status"].as_str().unwrap()), "{run}");
    // Another process continues it.
    let client = StdioClient::start(&project, &[]);
    let id = run["run_id"].as_str().unwrap().to_owned();
    wait_until("the run has ended", || run_status(&project, &id) == "completed");
    client.close();
}

#[test]
fn task_survives_a_killed_server() {
    let project = example_project("mcp-task");
    let mut client = StdioClient::start_modern(&project, &[]);
    let params = json!({"name": "patient", "arguments": {"seconds": 1}, "_meta": modern_meta()});
    let created = client.request("tools/call", &params)["result"].clone();
    assert_eq!(created["resultType"], "task", "{created}");
    drop(client);
    let mut client = StdioClient::start_modern(&project, &[]);
    let params = json!({"taskId": created["taskId"], "_meta": modern_meta()});
    let mut task = Value::Null;
    wait_until("the task has ended", || {
        task = client.request("tasks/get", &params)["result"].clone();
        task["status"] != "working"
    });
    assert_eq!(task["result"]["structuredContent"], json!({"done": true}), "{task}");
    // A client that does not see the agent does not see its tasks.
    let mut limited = StdioClient::start_modern(&project, &["--agents", "greeter"]);
    let hidden = limited.request("tasks/get", &params);
    assert_eq!(hidden["error"]["code"], -32602, "{hidden}");
    let unknown = client.request("tasks/get", &json!({"taskId": "run_000000000000", "_meta": modern_meta()}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[test]
fn client_of_the_older_era_gets_no_task() {
    let project = example_project("mcp-older-task");
    let mut client = StdioClient::start_modern(&project, &[]);
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"}});
    client.request("initialize", &params);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let called = client.call("greeter", &json!({"name": "A"}));
    assert_eq!(called["structuredContent"], json!({"greeting": "Hello"}), "{called}");
    client.close();
}

#[test]
fn many_calls_take_no_more_memory() {
    let project = example_project("mcp-many");
    let mut client = StdioClient::start(&project, &[]);
    let resident = |client: &StdioClient| -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", client.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let call = |client: &mut StdioClient, count: usize| {
        for _ in 0..count {
            let called = client.call("greeter", &json!({"name": "A"}));
            assert_eq!(called["structuredContent"]["greeting"], "Hello", "{called}");
        }
    };
    call(&mut client, 300);
    let before = resident(&client);
    call(&mut client, 700);
    let after = resident(&client);
    assert!(after < before + 16 * 1_024, "{before} KiB before, {after} KiB after");
    client.close();
}

#[test]
fn limited_token_sees_its_agents_only_and_foreign_origins_are_refused() {
    let project = example_project("mcp-token").file("slipform.toml", "[server]\nbehind_proxy = true\n");
    let token = |more: &[&str]| {
        let created = project.run(&[&["token", "create", "mcp", "--scope", "caller"], more].concat());
        created.stdout.split_whitespace().find(|word| word.starts_with("sf_")).unwrap().to_owned()
    };
    let limited = token(&["--agents", "greeter"]);
    let (server, address) = serve(&project, &[]);
    let (status, body) = request(&address, "POST", "/mcp", None, &json!({}));
    assert_eq!((status, &body["jsonrpc"]), (401, &json!("2.0")), "{body}");
    let answer = |method: &str, params: Value| post(&address, Some(&limited), method, params);
    let listed = answer("tools/list", json!({}))["result"]["tools"].clone();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names[8..], ["greeter"]);
    let called = answer("tools/call", json!({"name": "greeter", "arguments": {"name": "A"}}));
    assert_eq!(called["result"]["structuredContent"], json!({"greeting": "Hello"}), "{called}");
    let refused = answer("tools/call", json!({"name": "pair", "arguments": {}}));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    server.shut_down();
}

#[test]
fn revoked_token_ends_the_stream_of_changes() {
    let project = example_project("mcp-revoked").file("slipform.toml", "[server]\nbehind_proxy = true\n");
    let created = project.run(&["token", "create", "mcp", "--scope", "caller", "--json"]).json();
    let token = created["token"].as_str().unwrap().to_owned();
    let (server, address) = serve(&project, &[]);
    let subscribe = json!({
        "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
        "params": {"notifications": {"toolsListChanged": true}, "_meta": modern_meta()},
    });
    let mut stream = open_stream(&address, &token, &subscribe);
    let mut line = String::new();
    while !line.contains("notifications/subscriptions/acknowledged") {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended before it began");
    }
    let revoked = project.run(&["token", "revoke", created["id"].as_str().unwrap()]);
    assert_eq!(revoked.status, 0, "{}", revoked.all());
    // Ends within the connection's time limit, or the test does not end.
    std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    let (status, _) = request(&address, "POST", "/mcp", Some(&token), &json!({}));
    assert_eq!(status, 401);
    server.shut_down();
}

/// Posts a request of 2026-07-28 and returns its stream of events.
fn open_stream(address: &str, token: &str, message: &Value) -> BufReader<std::net::TcpStream> {
    let host = address.trim_start_matches("http://");
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    let (method, body) = (message["method"].as_str().unwrap(), message.to_string());
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    BufReader::new(stream)
}

#[test]
fn settings_choose_the_agents_and_tools_of_clients() {
    let settings = "[mcp]\nagents = [\"pair\"]\nsession_tools = false\n";
    let project = example_project("mcp-shown")
        .file("slipform.toml", settings)
        .file("agents/unusable.yaml", "name: unusable\ntier: [1\n");
    let names = |listed: &Value| -> Vec<String> {
        let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let (server, address) = serve(&project, &[]);
    assert_eq!(names(&post(&address, None, "tools/list", json!({}))), ["pair"]);
    server.shut_down();
    let mut client = StdioClient::start(&project, &[]);
    assert_eq!(names(&client.request("tools/list", &json!({}))), ["pair"]);
    client.close();
    // The command line takes precedence, and agents that cannot be offered are reported.
    let mut command = project.command(&["mcp", "--agents", "greeter,unusable"]);
    let mut process = command.spawn().unwrap();
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": modern_meta()}});
    writeln!(process.stdin.as_mut().unwrap(), "{list}").unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(names(&serde_json::from_str(&line).unwrap()), ["greeter"]);
    let output = process.wait_with_output().unwrap();
    let reported = String::from_utf8(output.stderr).unwrap();
    let warning =
        "agent `unusable` is not offered as an MCP tool: its file is invalid; run `slipform agents validate`";
    assert_eq!(reported.matches(warning).count(), 1, "{reported}");
}

/// Posts a request of the older era and returns the answer.
fn post(address: &str, token: Option<&str>, method: &str, params: Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let body = post_in(address, None, token, &message);
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// Posts a message of the older era, in a session of the client, and returns the body of the response.
fn post_in(address: &str, session: Option<&str>, token: Option<&str>, message: &Value) -> String {
    use std::io::Read as _;
    let host = address.trim_start_matches("http://");
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let session = session.map(|session| format!("Mcp-Session-Id: {session}\r\n")).unwrap_or_default();
    let body = message.to_string();
    write!(
        stream,
        "POST /mcp HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2025-06-18\r\n{token}{session}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn progress_names_the_violation_of_a_retry() {
    let gate = Gate::new();
    let model = ScriptedServer::start([
        Step::json(&json!({"summary": "A change.", "severity": "critical"})),
        Step::json(&json!({"summary": "A change.", "severity": "high"})).gate(&gate),
    ]);
    let project =
        Project::new("mcp-progress").backend(&model.base_url()).file("agents/reviewer.yaml", REVIEWER);
    let mut client = StdioClient::start(&project, &[]);
    let params =
        json!({"name": "reviewer", "arguments": {"prompt": "Review."}, "_meta": {"progressToken": 7}});
    let id = client.start_request("tools/call", &params);
    loop {
        let message = client.receive();
        assert_eq!(message["params"]["progressToken"], 7, "{message}");
        if message["params"]["message"].as_str().unwrap().starts_with("retry 1 of 1: $.severity: 'critical'")
        {
            break;
        }
    }
    gate.open();
    let answer = client.answer(id);
    assert_eq!(answer["result"]["structuredContent"]["severity"], "high", "{answer}");
    assert_eq!(answer["result"]["_meta"]["slipform/retry_count"], 1, "{answer}");
    client.close();
}

/// A cancellation of the older era is a request of its own, and may reach another coordinator.
#[test]
fn cancelled_call_is_stopped_by_another_coordinator() {
    let Some(database) = PostgresServer::start() else { return };
    let url = database.create_database("mcp");
    let (one, other) = (example_project("mcp-one"), example_project("mcp-other"));
    let (server, address) = serve(&one, &["--db", &url]);
    let (second, second_address) = serve(&other, &["--db", &url, "--no-runner"]);
    let session = "session-of-a-client";
    let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "patient", "arguments": {"seconds": 600}}});
    let caller = std::thread::spawn({
        let address = address.clone();
        move || post_in(&address, Some(session), None, &call)
    });
    let runs = || request(&address, "GET", "/runs", None, &Value::Null).1["runs"].clone();
    wait_until("the run works", || runs()[0]["status"] == "running");
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
    post_in(&second_address, Some(session), None, &cancelled);
    wait_until("the run is stopped", || runs()[0]["status"] == "stopped");
    let answer: Value = serde_json::from_str(&caller.join().unwrap()).unwrap();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    second.shut_down();
    server.shut_down();
}

/// Slipform's own MCP client, over HTTP and with a program that connects to the coordinator.
#[test]
fn agents_of_another_project_are_tools() {
    let inner = example_project("mcp-inner");
    let (server, address) = serve(&inner, &[]);
    let slipform = inner.command(&[]).get_program().to_str().unwrap().to_owned();
    let servers = [
        json!({"url": format!("{address}/mcp")}),
        json!({"command": [slipform, "mcp", "--server", address]}),
    ];
    for (number, inner) in servers.iter().enumerate() {
        let model = ScriptedServer::start([
            Step::tool("inner_greeter", json!({"name": "Ada"})),
            Step::tool("submit_result", json!({"said": "Hello"})),
        ]);
        let agent = json!({
            "name": "asker",
            "description": "Asks.",
            "system_prompt": "You ask.",
            "mcp_servers": {"inner": inner},
            "tools": ["inner:greeter"],
            "output_schema": {"type": "object", "properties": {"said": {"type": "string"}}, "required": ["said"]},
        });
        let outer = Project::new(&format!("mcp-outer-{number}"))
            .backend(&model.base_url())
            .file("agents/asker.json", &agent.to_string());
        let ran = outer.run(&["run", "asker", "-p", "Ask."]);
        assert_eq!((ran.status, ran.json()), (0, json!({"said": "Hello"})), "{}", ran.stderr);
        let asked = model.requests()[1].body["messages"].to_string();
        assert!(asked.contains("greeting"), "{asked}");
    }
    server.shut_down();
}

#[test]
fn settings_of_clients_are_printed() {
    let project = example_project("mcp-settings");
    let printed = project.run(&["mcp", "--print-config", "claude", "--agents", "greeter"]).json();
    let words = printed["mcpServers"]["slipform"]["args"].as_array().unwrap();
    assert_eq!(words[..2], [json!("mcp"), json!("--project")]);
    assert_eq!(words[3..], [json!("--agents"), json!("greeter")]);
    let printed =
        project.run(&["mcp", "--print-config", "vscode", "--server", "https://agents.example.com"]).json();
    let expected =
        json!({"servers": {"slipform": {"type": "http", "url": "https://agents.example.com/mcp"}}});
    assert_eq!(printed, expected);
    let project =
        project.variable("SLIPFORM_URL", "https://agents.example.com").variable("SLIPFORM_TOKEN", "sf_x");
    let printed = project.run(&["mcp", "--print-config", "cursor"]).json();
    let headers = json!({"Authorization": "Bearer ${env:SLIPFORM_TOKEN}"});
    let expected = json!({"url": "https://agents.example.com/mcp", "headers": headers});
    assert_eq!(printed["mcpServers"]["slipform"], expected);
    let printed = project.run(&["mcp", "--print-config", "cursor", "--agents", "greeter"]).json();
    let printed = &printed["mcpServers"]["slipform"];
    let words = ["mcp", "--server", "https://agents.example.com", "--agents", "greeter"];
    let variables = json!({"SLIPFORM_TOKEN": "${env:SLIPFORM_TOKEN}"});
    assert_eq!((&printed["args"], &printed["env"]), (&json!(words), &variables));
    let project = project.variable("SLIPFORM_URL", "").variable("SLIPFORM_TOKEN", "");
    let printed = project.run(&["mcp", "--print-config", "claude", "--backend", "embedded"]).json();
    let words = printed["mcpServers"]["slipform"]["args"].as_array().unwrap();
    assert_eq!(words[3..], [json!("--backend"), json!("embedded")]);
    let printed = project.run(&["mcp", "--print-config", "goose"]).stdout;
    assert!(printed.starts_with("extensions:\n  slipform:\n    enabled: true\n"), "{printed}");
}
