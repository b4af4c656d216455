//! The API as its own description says, tried with requests that nobody thought of.
//!
//! Schemathesis is named by `SLIPFORM_SCHEMATHESIS`; `cargo xtask test` installs it. Without it the test says SKIPPED.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::support::Project;

/// Requests for each operation. The coverage phase adds those that are at the bounds of every field.
const EXAMPLES: &str = "15";

/// What is held against the description: every answer, and that nothing is a fault of ours.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_headers_conformance,response_schema_conformance,unsupported_method,allow_header_conformance";

/// Longer than the longest that anything waits: claims wait up to 10 s.
const REQUEST_TIMEOUT_SECONDS: &str = "60";

struct Server {
    process: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves a project, on a port that is free.
fn serve(project: &Project) -> Server {
    let mut process = Command::new(env!("CARGO_BIN_EXE_slipform"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .current_dir(&project.folder)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let line = lines.find(|line| line.as_ref().unwrap().contains("listening on")).unwrap().unwrap();
    // Somebody has to read what else it says.
    std::thread::spawn(move || lines.for_each(drop));
    let address = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    Server { process, address }
}

#[test]
fn every_answer_is_one_that_is_described_and_none_is_a_fault() {
    let Ok(schemathesis) = std::env::var("SLIPFORM_SCHEMATHESIS") else {
        println!("SKIPPED: SLIPFORM_SCHEMATHESIS names no schemathesis; `cargo xtask test` installs it");
        return;
    };
    let project = Project::new("schemathesis")
        .file("agents/echo.yaml", "name: echo\ntype: procedural\ncommand: [echo, '{\"a\": 1}']\n")
        .file("schemas/thing.json", r#"{"type": "object"}"#);
    let server = serve(&project);
    let output = Command::new(schemathesis)
        .current_dir(&project.folder)
        .args(["run", &format!("{}/openapi.json", server.address), "--no-color", "--seed", "20261116"])
        .args(["--phases", "examples,coverage,fuzzing,stateful", "--max-examples", EXAMPLES])
        .args(["--request-timeout", REQUEST_TIMEOUT_SECONDS, "--continue-on-failure"])
        // Streams do not end by themselves; they have tests of their own.
        .args(["--exclude-path-regex", "stream"])
        .args(["--checks", CHECKS])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("Tested: 3"), "it tests some thirty operations:\n{said}");
}
