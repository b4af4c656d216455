//! Loading folders: every file gives an agent or its problems, and an invalid file does not affect
//! the others.

use std::fs;
use std::path::Path;

use expect_test::expect;
use slipform_agents::{Error, FILE_BYTES_MAX, Format, Loaded, PROBLEMS_MAX, load, load_one, parse};
use slipform_testkit::TestFolder;

fn rendered(loaded: &[Loaded]) -> String {
    let line = |agent: &Loaded| {
        let path = agent.path.display();
        match &agent.result {
            Ok(checked) => format!("{} ({path}): {:?}\n", agent.name, checked.blueprint.system_prompt),
            Err(problems) => format!("{} ({path}) is refused:\n{problems}\n", agent.name),
        }
    };
    // Windows uses backslashes in paths.
    loaded.iter().map(line).collect::<String>().replace('\\', "/")
}

#[test]
fn load_returns_every_agent_or_its_problems() {
    expect![[r#"
        doubled (tests/folder/doubled/agent.json) is refused:
        $.system_prompt: the system prompt is defined in both tests/folder/doubled/agent.json and tests/folder/doubled/system-prompt.md; keep one of them
        latin (tests/folder/latin.yaml) is refused:
        $: tests/folder/latin.yaml is not UTF-8 text (byte 9); save it as UTF-8
        librarian (tests/folder/kb/agent.yml): Some("Keep `$${this}` as it is.")
        prompted (tests/folder/prompted/agent.yml) is refused:
        $.system_prompt: in tests/folder/prompted/system-prompt.md: ${env.SECRET} is not allowed: list SECRET under env
        researcher (tests/folder/researcher/agent.yaml): Some("You are ${params.prompt}, a researcher.")
        same (tests/folder/same-1.json) is refused:
        $.name: tests/folder/same-1.json and tests/folder/same-2.yml have the same name, 'same'; rename one
        same (tests/folder/same-2.yml) is refused:
        $.name: tests/folder/same-2.yml and tests/folder/same-1.json have the same name, 'same'; rename one
        two-files (tests/folder/two-files) is refused:
        $: tests/folder/two-files/agent.yaml and tests/folder/two-files/agent.json describe the same agent; keep one
        typo (tests/folder/typo.yaml) is refused:
        line 1: $.nmae: unknown key 'nmae'; did you mean 'name'?
        zebra (tests/folder/zebra.yaml): None
    "#]].assert_eq(&rendered(&load(Path::new("tests/folder")).unwrap()));
}

#[test]
fn load_one_accepts_file_or_folder() {
    let by_folder = load_one(Path::new("tests/folder/researcher"));
    assert_eq!(by_folder, load_one(Path::new("tests/folder/researcher/agent.yaml")));
    assert_eq!(by_folder.name, "researcher");
    let loaded =
        ["notes", "README.md", "missing.yaml"].map(|name| load_one(&Path::new("tests/folder").join(name)));
    expect![[r#"
        notes (tests/folder/notes) is refused:
        $: tests/folder/notes has none of agent.yaml, agent.yml, agent.json
        README (tests/folder/README.md) is refused:
        $: agents are .yaml, .yml or .json files
        missing (tests/folder/missing.yaml) is refused:
        $: tests/folder/missing.yaml cannot be read: No such file or directory (os error 2)
    "#]]
    .assert_eq(&rendered(&loaded));
}

#[test]
fn missing_folder_has_no_agents() {
    assert_eq!(load(Path::new("tests/no-such-folder")).unwrap(), []);
    assert!(matches!(load(Path::new("Cargo.toml")), Err(Error::Folder { .. })));
}

#[test]
fn file_over_size_limit_is_refused() {
    let folder = TestFolder::new("agents");
    folder.write("large.yaml", &format!("description: {}", "x".repeat(FILE_BYTES_MAX as usize)));
    let problems = load_one(&folder.join("large.yaml")).result.unwrap_err().to_string();
    assert!(
        problems.ends_with("large.yaml is larger than the 1048576 bytes that an agent may have"),
        "{problems}"
    );
}

#[test]
fn problems_beyond_the_maximum_are_counted() {
    let text: String = (0..2_000).map(|index| format!("key{index}: 1\n")).collect();
    let problems = parse(&text, Format::Yaml, Some("a")).unwrap_err();
    assert_eq!(problems.list.len(), PROBLEMS_MAX);
    assert_eq!(problems.more, 2_000 - PROBLEMS_MAX);
    assert_eq!(problems.list.last().unwrap().line, Some(PROBLEMS_MAX));
}

#[cfg(unix)]
#[test]
fn pipe_or_dangling_link_is_refused_without_opening() {
    let folder = TestFolder::new("agents");
    fs::create_dir_all(folder.join("lost")).unwrap();
    folder.named_pipe("pipe.yaml");
    std::os::unix::fs::symlink("nowhere", folder.join("dangling.yaml")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.join("lost/agent.yaml")).unwrap();
    folder.write("good.yaml", "system_prompt: Be brief.\n");
    std::os::unix::fs::symlink("good.yaml", folder.join("linked.yaml")).unwrap();
    let output =
        rendered(&load(folder.path()).unwrap()).replace(&folder.path().display().to_string(), "agents");
    expect![[r#"
        dangling (agents/dangling.yaml) is refused:
        $: agents/dangling.yaml cannot be read: No such file or directory (os error 2)
        good (agents/good.yaml): Some("Be brief.")
        linked (agents/linked.yaml): Some("Be brief.")
        lost (agents/lost/agent.yaml) is refused:
        $: agents/lost/agent.yaml cannot be read: No such file or directory (os error 2)
        pipe (agents/pipe.yaml) is refused:
        $: agents/pipe.yaml is not a regular file; replace it with a file or a link to one
    "#]]
    .assert_eq(&output);
}
