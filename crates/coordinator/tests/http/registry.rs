//! Agents and schemas.

use serde_json::{Value, json};
use slipform_testkit::{TestFolder, TestServer};

use crate::support::Requests as _;

#[tokio::test]
async fn agent_is_created_changed_and_deleted() {
    let server = TestServer::open().await;
    let agent = json!({"name": "writer", "system_prompt": "Write.", "description": "Writes."});
    let created = server.post("/agents", &agent).send().await.ok(201);
    assert_eq!((&created["name"], &created["source"]), (&json!("writer"), &json!("api")));
    server.post("/agents", &agent).send().await.refused(409, "AgentExists");
    server.post("/agents", &json!({"name": "a b"})).send().await.refused(422, "InvalidAgent");
    let reserved = server.post("/agents", &json!({"name": "validate"})).send().await;
    assert!(reserved.refused(422, "InvalidAgent").contains("use another name"));
    server.post("/agents", &json!([1])).send().await.refused(400, "InvalidRequest");
    let change = |body: serde_json::Value| server.request("PATCH", "/agents/writer").json(&body);
    let changed = change(json!({"description": "Writes well."})).send().await.ok(200);
    assert_eq!(changed["description"], "Writes well.");
    change(json!([1])).send().await.refused(400, "InvalidRequest");
    change(json!({"name": "other"})).send().await.refused(400, "InvalidRequest");
    change(json!({"limits": 7})).send().await.refused(422, "InvalidAgent");
    let missing = server.request("PATCH", "/agents/unknown").json(&json!({})).send().await;
    missing.refused(404, "AgentNotFound");
    let shown = server.get("/agents/writer").send().await.ok(200);
    assert_eq!(shown, changed);
    let listed = server.get("/agents").send().await.ok(200);
    assert!(listed.as_array().unwrap().contains(&shown));
    assert_eq!(server.request("DELETE", "/agents/writer").send().await.status, 204);
    server.get("/agents/writer").send().await.refused(404, "AgentNotFound");
}

#[tokio::test]
async fn agent_validation_saves_nothing() {
    let server = TestServer::open().await;
    let good =
        server.post("/agents/validate", &json!({"name": "x", "system_prompt": "y"})).send().await.ok(200);
    assert_eq!(good["valid"], true);
    let bad =
        server.post("/agents/validate", &json!({"name": "x", "systemprompt": "y"})).send().await.ok(200);
    assert_eq!(bad["valid"], false);
    assert!(!bad["errors"].as_array().unwrap().is_empty());
    server.get("/agents/x").send().await.refused(404, "AgentNotFound");
}

#[tokio::test]
async fn schema_is_registered_and_removed() {
    let server = TestServer::open().await;
    let schema =
        json!({"type": "object", "properties": {"b": {"type": "integer"}, "a": {}}, "required": ["b"]});
    let request = json!({"name": "numbers", "schema": schema});
    let added = server.post("/schemas", &request).send().await.ok(201);
    assert_eq!((&added["name"], &added["schema"]), (&json!("numbers"), &schema));
    server.post("/schemas", &request).send().await.refused(409, "SchemaExists");
    server
        .post("/schemas", &json!({"name": "../x", "schema": {}}))
        .send()
        .await
        .refused(400, "InvalidRequest");
    let reserved = server.post("/schemas", &json!({"name": "validate", "schema": {}})).send().await;
    reserved.refused(400, "InvalidRequest");
    let bad = json!({"name": "bad", "schema": {"type": "nothing"}});
    server.post("/schemas", &bad).send().await.refused(422, "InvalidSchema");
    assert_eq!(server.get("/schemas/numbers").send().await.ok(200), added);
    let listed = server.get("/schemas").send().await.ok(200);
    let mut summary = added.clone();
    for member in ["schema", "warnings"] {
        summary.as_object_mut().unwrap().remove(member);
    }
    assert!(listed.as_array().unwrap().contains(&summary), "{listed}");
    let verdict =
        server.post("/schemas/validate", &json!({"schema": {"type": "nothing"}})).send().await.ok(200);
    assert_eq!(verdict["valid"], false);
    let (path, message) = (&verdict["errors"][0]["path"], &verdict["errors"][0]["message"]);
    assert!(!message.as_str().unwrap().starts_with(path.as_str().unwrap()), "{verdict}");
    let check = json!({"text": "Here: {\"b\": \"x\"}", "schema_name": "numbers"});
    let checked = server.post("/check", &check).send().await.ok(200);
    assert_eq!((&checked["valid"], &checked["found"]), (&json!(false), &json!(true)));
    assert_eq!(server.request("DELETE", "/schemas/numbers").send().await.status, 204);
    server.post("/check", &check).send().await.refused(404, "SchemaNotFound");
}

#[tokio::test]
async fn shipped_schema_cannot_be_replaced_or_removed() {
    let server = TestServer::open().await;
    let name = "universal-agent-response";
    let shown = server.get(&format!("/schemas/{name}")).send().await.ok(200);
    assert_eq!((&shown["source"], &shown["problems"]), (&json!("shipped"), &json!([])));
    assert_eq!(shown["schema"]["required"], json!(["response_type", "status", "message"]));
    let listed = server.get("/schemas").send().await.ok(200);
    let mut envelope = server.get("/schemas/action-envelope").send().await.ok(200);
    let mut summary = shown.clone();
    for schema in [&mut envelope, &mut summary] {
        for member in ["schema", "warnings"] {
            schema.as_object_mut().unwrap().remove(member);
        }
    }
    assert_eq!(listed, json!([envelope, summary]));
    for schema in [json!({"type": "object"}), shown["schema"].clone()] {
        let taken = server.post("/schemas", &json!({"name": name, "schema": schema})).send().await;
        assert!(taken.refused(409, "SchemaExists").contains("comes with the program"));
    }
    let gone = server.request("DELETE", &format!("/schemas/{name}")).send().await;
    assert!(gone.refused(409, "ManagedByFile").contains("comes with the program"));
    let check = json!({"text": "{\"status\": \"success\"}", "schema_name": name});
    let checked = server.post("/check", &check).send().await.ok(200);
    assert_eq!(checked["errors"][0], "$.response_type: required property is missing");
}

#[tokio::test]
async fn schema_file_overrides_shipped_schema_with_a_warning() {
    let (project, file) = (TestFolder::new("project"), "schemas/universal-agent-response.json");
    let shipped = TestServer::open().await.get("/schemas/universal-agent-response").send().await.ok(200);
    project.write(file, &shipped["schema"].to_string());
    let server = TestServer::with_project(project.path(), |_| {}).await;
    let same = server.get("/schemas/universal-agent-response").send().await.ok(200);
    assert_eq!((&same["source"], &same["problems"]), (&json!("file"), &json!([])));
    project.write(file, "{\"type\": \"object\"}");
    let server = TestServer::with_project(project.path(), |_| {}).await;
    let other = server.get("/schemas/universal-agent-response").send().await.ok(200);
    assert_eq!((&other["source"], &other["schema"]), (&json!("file"), &json!({"type": "object"})));
    assert!(other["problems"][0]["message"].as_str().unwrap().contains("comes with the program"), "{other}");
    let ready = server.get("/readyz").send().await.ok(200);
    assert_eq!(ready["files"][0]["name"], "universal-agent-response");
    let listed = server.get("/schemas").send().await.ok(200);
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
}

#[tokio::test]
async fn check_extracts_and_validates_json() {
    let server = TestServer::open().await;
    let check = async |body| server.post("/check", &body).send().await;
    let schema = json!({"type": "object", "required": ["b"]});
    let good = check(json!({"text": "```json\n{\"b\": 1}\n```", "schema": schema})).await.ok(200);
    assert_eq!((&good["valid"], &good["value"]), (&json!(true), &json!({"b": 1})));
    let nothing = check(json!({"text": "no JSON", "schema": schema})).await.ok(200);
    assert_eq!((&nothing["found"], &nothing["value"]), (&json!(false), &json!(null)));
    check(json!({"text": "1", "schema": {"type": 7}})).await.refused(422, "InvalidSchema");
    check(json!({"text": "1", "schema": {}, "schema_name": "x"})).await.refused(400, "InvalidRequest");
}

#[tokio::test]
async fn agents_and_schemas_from_files_are_read_only() {
    let files = [
        ("agents/filed.yaml", "name: filed\nsystem_prompt: Be brief.\n"),
        ("agents/broken.yaml", "name: broken\nsystem_promt: Be brief.\n"),
        ("schemas/filed.json", "{\"type\": \"object\"}"),
    ];
    let project = TestFolder::with_files("project", &files);
    let server = TestServer::with_project(project.path(), |_| {}).await;
    assert_eq!(server.get("/agents/filed").send().await.ok(200)["source"], "file");
    server.request("DELETE", "/agents/filed").send().await.refused(409, "ManagedByFile");
    server.request("PATCH", "/agents/filed").json(&json!({})).send().await.refused(409, "ManagedByFile");
    server.request("DELETE", "/schemas/filed").send().await.refused(409, "ManagedByFile");
    let request = json!({"name": "filed", "schema": {}});
    server.post("/schemas", &request).send().await.refused(409, "ManagedByFile");
    let start = json!({"type": "start_session", "agent_name": "broken", "prompt": "x"});
    server.post("/runs", &start).send().await.refused(422, "InvalidAgent");
    let ready = server.get("/readyz").send().await.ok(200);
    assert_eq!(ready["files"][0]["name"], "broken");
}

/// The blueprint of the schema enforcement document, as it is written there.
const SECURITY_SCANNER: &str = r#"{
  "name": "security-scanner",
  "description": "Scans code for security vulnerabilities",
  "system_prompt": "...",
  "default_output_schema": {
    "type": "object",
    "required": ["scan_complete", "vulnerabilities"],
    "properties": {
      "scan_complete": { "type": "boolean" },
      "vulnerabilities": { "type": "array" }
    }
  },
  "default_output_schema_options": {
    "max_retries": 3,
    "extract_json": true
  }
}"#;

#[tokio::test]
async fn agent_can_be_sent_back_as_it_was_read() {
    let server = TestServer::open().await;
    let scanner: Value = serde_json::from_str(SECURITY_SCANNER).unwrap();
    let created = server.post("/agents", &scanner).send().await.ok(201);
    for (key, value) in scanner.as_object().unwrap() {
        assert_eq!(&created[key], value, "{key}");
    }
    let mut read = server.get("/agents/security-scanner").send().await.ok(200);
    assert_eq!(read, created);
    assert_eq!(server.request("DELETE", "/agents/security-scanner").send().await.status, 204);
    let again = server.post("/agents", &read).send().await.ok(201);
    for member in ["created_at", "modified_at"] {
        assert!(again[member].is_string(), "{again}");
        read[member] = again[member].clone();
    }
    assert_eq!(again, read);
    assert_eq!(server.post("/agents/validate", &read).send().await.ok(200)["valid"], true);
    // Shipped agents can be copied under another name.
    let mut copy = server.get("/agents/reviewer").send().await.ok(200);
    copy["name"] = json!("second-reviewer");
    server.post("/agents", &copy).send().await.ok(201);
}

#[tokio::test]
async fn patch_is_a_merge_patch_of_the_version_that_the_caller_has_seen() {
    let server = TestServer::open().await;
    let scanner: Value = serde_json::from_str(SECURITY_SCANNER).unwrap();
    let created = server.post("/agents", &scanner).send().await;
    let version = created.header("etag").unwrap().to_owned();
    let patch = |body: &Value| {
        server
            .request("PATCH", "/agents/security-scanner")
            .text(&body.to_string())
            .header("Content-Type", "application/merge-patch+json")
    };
    let changes = json!({"default_output_schema_options": {"max_retries": 1, "extract_json": null}, "title": "Scanner"});
    let changed = patch(&changes).header("If-Match", &version).send().await;
    let agent = changed.ok(200);
    assert_eq!(agent["default_output_schema_options"], json!({"max_retries": 1}));
    assert_eq!((&agent["title"], &agent["description"]), (&json!("Scanner"), &scanner["description"]));
    assert_ne!(changed.header("etag"), Some(version.as_str()));

    let late = patch(&json!({"title": "Late"})).header("If-Match", &version).send().await;
    assert!(late.refused(412, "PreconditionFailed").contains("read it again"));
    let current = server.get("/agents/security-scanner").send().await;
    assert_eq!(current.ok(200), agent);
    let version = current.header("etag").unwrap().to_owned();
    patch(&json!({"title": null})).header("If-Match", &version).send().await.ok(200);
    let any = patch(&json!({"title": "Any"})).header("If-Match", "*").send().await.ok(200);
    assert_eq!(any["title"], "Any");
    // What GET answers can be sent as a patch too, and changes nothing.
    assert_eq!(patch(&any).send().await.ok(200)["title"], "Any");
}

#[tokio::test]
async fn problems_have_one_shape_and_saving_returns_warnings() {
    let project = TestFolder::new("project");
    project.write("agents/broken.yaml", "name: broken\nsystem_promt: Be brief.\ntier: 7\n");
    project.write("schemas/broken.json", "{\"type\": \"nothing\"}");
    let server = TestServer::with_project(project.path(), |_| {}).await;
    let is_problem = |problem: &Value| problem["path"].is_string() && problem["message"].is_string();
    let all_problems = |list: &Value| {
        let list = list.as_array().unwrap();
        assert!(!list.is_empty() && list.iter().all(is_problem), "{list:?}");
    };
    let agent = server.get("/agents/broken").send().await.ok(200);
    all_problems(&agent["problems"]);
    assert_eq!(agent["problems"].as_array().unwrap().len(), 2, "{agent}");
    all_problems(&server.get("/schemas/broken").send().await.ok(200)["problems"]);
    for file in server.get("/readyz").send().await.json()["files"].as_array().unwrap() {
        all_problems(&file["problems"]);
    }
    let invalid = server.post("/agents", &json!({"name": "x", "limits": 7, "tool": []})).send().await;
    invalid.refused(422, "InvalidAgent");
    all_problems(&invalid.json()["details"]["problems"]);
    let verdict = server.post("/agents/validate", &json!({"name": "x", "limits": 7})).send().await.ok(200);
    all_problems(&verdict["errors"]);

    let doubtful = json!({"name": "doubtful", "output_example": 1});
    let saved = server.post("/agents", &doubtful).send().await.ok(201);
    all_problems(&saved["warnings"]);
    assert_eq!(saved["warnings"][0]["path"], "$.output_example");
    assert_eq!(server.get("/agents/doubtful").send().await.ok(200), saved);
}

#[tokio::test]
async fn blueprint_names_registered_schema() {
    let project = TestFolder::new("project");
    project.write("schemas/filed.json", "{\"type\": \"object\", \"required\": [\"filed\"]}");
    project.write("agents/clerk.yaml", "name: clerk\noutput_schema: filed\n");
    let server = TestServer::with_project(project.path(), |_| {}).await;
    let scan = json!({"name": "security-scan-result", "description": "Output format for security scanning agents",
        "schema": {"type": "object", "required": ["vulnerabilities"]}});
    let unknown = json!({"name": "scanner", "output_schema": "security-scan-result"});
    let refused = server.post("/agents", &unknown).send().await;
    refused.refused(422, "InvalidAgent");
    assert_eq!(refused.json()["details"]["problems"][0]["path"], "$.output_schema_name");
    server.post("/schemas", &scan).send().await.ok(201);
    let scanner = json!({"name": "scanner", "default_output_schema_name": "security-scan-result"});
    server.post("/agents", &scanner).send().await.ok(201);

    for (agent, name, schema, source) in [
        ("clerk", "filed", json!({"type": "object", "required": ["filed"]}), "blueprint"),
        ("scanner", "security-scan-result", scan["schema"].clone(), "default"),
    ] {
        let start = json!({"agent_name": agent, "prompt": "Go."});
        let created = server.post("/runs", &start).send().await.ok(201);
        let run = server.get(&format!("/runs/{}", created["run_id"].as_str().unwrap())).send().await.ok(200);
        assert_eq!((&run["contract"]["schema"], &run["contract"]["schema_name"]), (&schema, &json!(name)));
        assert_eq!(run["contract"]["source"], source, "{run}");
    }
    let conflict = json!({"agent_name": "clerk", "prompt": "Go.", "output_schema": {"type": "array"}});
    server.post("/runs", &conflict).send().await.refused(409, "OutputSchemaConflict");
    server.request("DELETE", "/schemas/security-scan-result").send().await;
    let gone = json!({"agent_name": "scanner", "prompt": "Go."});
    server.post("/runs", &gone).send().await.refused(404, "SchemaNotFound");
}
