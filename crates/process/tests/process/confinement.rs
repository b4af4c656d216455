//! Confined programs reach only the files that they may use. Without Landlock they run as the user does.

use slipform_process::{FileAccess, is_confinement_available};
use slipform_testkit::TestFolder;

use crate::support::{LIMITS, program};

/// A project whose `agents` folder must not be written and whose `.env` must not be read.
struct Confined {
    folder: TestFolder,
    access: FileAccess,
}

fn confined(name: &str) -> Confined {
    let files = [("agents/a.yaml", "name: a\n"), ("src/main.rs", "fn main() {}\n"), (".env", "KEY=secret\n")];
    let folder = TestFolder::with_files(name, &files);
    let path = folder.path().canonicalize().unwrap();
    let access = FileAccess {
        writable: vec![path.clone()],
        read_only: vec![path.join("agents"), path.join("schemas")],
        hidden: vec![path.join(".env")],
    };
    Confined { folder, access }
}

impl Confined {
    /// Runs a shell script in the project and returns its standard output and whether it succeeded.
    async fn shell(&self, script: &str) -> (String, bool) {
        let mut shell = program(&["sh", "-c", script], self.folder.path());
        shell.access = Some(self.access.clone());
        let output = shell.run(b"", &LIMITS).await.unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.success())
    }

    fn exists(&self, path: &str) -> bool {
        self.folder.join(path).exists()
    }
}

/// Returns true, and says so, if the kernel cannot confine programs.
fn has_no_landlock() -> bool {
    let is_missing = !is_confinement_available();
    if is_missing {
        println!("SKIPPED: this kernel has no Landlock");
    }
    is_missing
}

#[tokio::test]
async fn confined_program_writes_its_project_but_no_protected_path() {
    let project = confined("confined-writing");
    assert!(
        project.shell("echo 1 > src/new; mkdir src/deep; echo 2 > src/deep/x; mv src/new src/deep/y").await.1
    );
    assert!(project.exists("src/deep/y"));
    if has_no_landlock() {
        return;
    }
    let absolute = project.folder.join("agents/evil.yaml").to_string_lossy().into_owned();
    for script in [
        "echo evil > agents/evil.yaml".to_owned(),
        format!("echo evil > {absolute}"),
        format!("cd / && sh -c 'echo evil > {absolute}'"),
        "cd src && echo evil > ../agents/evil.yaml".to_owned(),
        "ln -s ../agents src/link; echo evil > src/link/evil.yaml".to_owned(),
        "echo evil > src/evil.yaml && mv src/evil.yaml agents/evil.yaml".to_owned(),
        "ln src/main.rs agents/evil.yaml".to_owned(),
        "mkdir schemas".to_owned(),
        "mv agents src/agents".to_owned(),
        "echo evil >> agents/a.yaml".to_owned(),
        ": > agents/a.yaml".to_owned(),
        "rm agents/a.yaml".to_owned(),
        "echo evil > /proc/self/cwd/agents/evil.yaml".to_owned(),
        "mknod src/disk b 7 0".to_owned(),
    ] {
        let (_, succeeded) = project.shell(&script).await;
        assert!(!succeeded, "{script}");
        assert!(!project.exists("agents/evil.yaml") && !project.exists("schemas"), "{script}");
    }
    assert_eq!(std::fs::read_to_string(project.folder.join("agents/a.yaml")).unwrap(), "name: a\n");
}

#[tokio::test]
async fn confined_program_writes_nothing_outside_its_project() {
    let (project, other) = (confined("confined-outside"), TestFolder::new("confined-other"));
    let script = format!("echo x > {}", other.join("file").display());
    let (_, succeeded) = project.shell(&script).await;
    assert_eq!(succeeded, !is_confinement_available(), "{script}");
    assert!(project.shell("echo x > /dev/null").await.1);
}

#[tokio::test]
async fn confined_program_reads_all_but_hidden_files() {
    let project = confined("confined-reading");
    assert_eq!(
        project.shell("cat agents/a.yaml; head -c 0 /etc/passwd; ls src").await.0,
        "name: a\nmain.rs\n"
    );
    if has_no_landlock() {
        return;
    }
    for script in ["cat .env", "cat src/../.env", "cp .env src/copy", "ln .env src/copy", "mv .env src/copy"]
    {
        let (text, succeeded) = project.shell(script).await;
        assert!(!succeeded && text.is_empty(), "{script}: {text}");
    }
    assert!(project.exists(".env") && !project.exists("src/copy"));
}

#[tokio::test]
async fn confined_program_sees_no_environment_of_the_process_that_started_it() {
    if has_no_landlock() {
        return;
    }
    let project = confined("confined-environment");
    let (text, succeeded) = project.shell("cat /proc/$PPID/environ").await;
    assert!(!succeeded && text.is_empty(), "{text}");
    assert!(!project.shell("kill -CONT $PPID").await.1);
    assert_eq!(project.shell("env | sed 's/=.*//' | grep -v -e PWD -e SHLVL -e '^_$'").await.0, "PATH\n");
}
