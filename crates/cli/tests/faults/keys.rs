//! Provider keys stay on the runner: no coordinator, log or database contains them.

use std::fs;
use std::path::Path;

use serde_json::json;
use slipform_testkit::{ScriptedServer, Step};

use crate::support::cluster::{Cluster, ClusterPlan, Process, StoreKind};
use crate::support::load::submit;
use crate::support::model::Model;
use crate::support::random::Random;
use crate::support::records::Records;

const KEY: &str = "sk-test-fedcba9876543210";

#[test]
fn provider_key_stays_on_the_runner() {
    // The provider echoes the key, as an error page may do.
    let provider =
        ScriptedServer::respond(|request, _| Step::json(&json!({"task": request.header("authorization")})));
    let plan = ClusterPlan { name: "keys", store: StoreKind::Sqlite, coordinators: 1, runners: 0, slots: 1 };
    let mut cluster = Cluster::build(&plan, &Model::start(Random::new(1)));
    let runner_folder = cluster.folder.join("elsewhere");
    fs::create_dir_all(&runner_folder).unwrap();
    let settings = format!(
        "[backends.provider]\nkind = \"openai\"\nmodel = \"m\"\nbase_url = \"{}\"\napi_key_env = \"PROVIDER_KEY\"\n",
        provider.base_url()
    );
    fs::write(runner_folder.join("slipform.toml"), settings).unwrap();
    let url = format!("http://{}", cluster.address());
    let arguments = ["runner", "--coordinator", &url];
    cluster.runners.push(Process::start_with(
        &runner_folder,
        "runner",
        cluster.address(),
        &arguments,
        &[("PROVIDER_KEY", KEY), ("SLIPFORM_LOG", "trace")],
    ));
    submit(&cluster.addresses(), "plain-1");
    let records = Records::read(&cluster);
    cluster.kill_all();
    assert_eq!(records.runs[0]["status"], "completed", "{:?}", records.runs);
    let sent: Vec<_> = provider
        .requests()
        .iter()
        .map(|request| request.header("authorization").map(str::to_owned))
        .collect();
    assert_eq!(sent, [Some(format!("Bearer {KEY}"))]);
    assert_eq!(files_with_key(&cluster.folder), Vec::<String>::new());
}

/// Returns the files in a folder, and in its subfolders, that contain the key.
fn files_with_key(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with_key(&path));
        } else if fs::read(&path).unwrap().windows(KEY.len()).any(|bytes| bytes == KEY.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}
