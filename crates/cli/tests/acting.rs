//! Agents that act, from the command line: others that work for them, and programs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod support;

use formwork_testkit::{ScriptedServer, Step};
use serde_json::json;
use support::Project;

/// More agents above one another than there are slots: if a run kept its slot while it waits, nobody could go on.
#[test]
fn a_parked_run_holds_no_slot() {
    let names = ["a", "b", "c", "d", "e"];
    let starts = names[1..].iter().map(|name| {
        Step::tool("start_agent_session", json!({"agent_name": name, "prompt": format!("go on, {name}")}))
    });
    let answers = names.iter().rev().map(|name| Step::text(format!("said by {name}")));
    let server = ScriptedServer::start(starts.chain(answers).collect::<Vec<_>>());
    let project =
        names.windows(2).fold(Project::new("parked").backend(&server.base_url()), |project, pair| {
            project.file(
                &format!("agents/{}.yaml", pair[0]),
                &format!("name: {}\nagents: [{}]\n", pair[0], pair[1]),
            )
        });
    let project = project.file("agents/e.yaml", "name: e\n");
    let ran = project.run(&["run", "a", "-p", "go on"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "said by a\n"), "{}", ran.stderr);
    // Each parent read what its child had said.
    for (parent, request) in server.requests()[5..].iter().enumerate() {
        let child = names[names.len() - 1 - parent];
        let messages = request.body["messages"].as_array().unwrap();
        assert_eq!(messages.last().unwrap()["content"], format!("said by {child}"));
    }
}

/// What a program is given is what its agent's file names, as it was given.
#[test]
fn a_program_gets_no_shell_and_no_environment_but_what_is_named() {
    let program = r#"printf '{"named": "%s", "other": "%s", "home": "%s", "given": "%s"}' "$NAMED" "$OTHER" "$HOME" "$2""#;
    let agent = format!(
        "name: sees\ntype: procedural\nenv: [NAMED]\ncommand: [sh, -c, '{}', sh]\n",
        program.replace('\'', "''")
    );
    let project = Project::new("program")
        .file("agents/sees.yaml", &agent)
        .variable("NAMED", "this")
        .variable("OTHER", "not this");
    let given = "$(id); `id` && rm x | cat > y";
    let ran = project.run(&["run", "sees", "-p", given]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(ran.json(), json!({"named": "this", "other": "", "home": "", "given": given}));
}
