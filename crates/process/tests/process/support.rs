//! Programs with limits, and the text of their outcomes.

use std::path::Path;

use expect_test::Expect;
use slipform_process::{Error, Limits, Output, Program};
use slipform_testkit::WAIT_MAX;

pub(crate) const LIMITS: Limits =
    Limits { timeout: Some(WAIT_MAX), stdout_bytes_max: 100_000, stderr_bytes_max: 1_000 };

pub(crate) fn program(argv: &[&str], folder: &Path) -> Program {
    Program {
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        folder: folder.to_owned(),
        environment: vec![("PATH".to_owned(), std::env::var("PATH").unwrap())],
        access: None,
    }
}

pub(crate) fn shell(script: &str) -> Program {
    program(&["sh", "-c", script], Path::new("."))
}

pub(crate) fn shown(outcome: &Result<Output, Error>) -> String {
    match outcome {
        Ok(output) => format!(
            "{}; stdout {:?}; stderr {:?}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(Error::Timeout { stderr, .. } | Error::TooLarge { stderr, .. }) => {
            format!("{}; stderr {:?}", outcome.as_ref().unwrap_err(), String::from_utf8_lossy(stderr))
        }
        Err(error) => error.to_string(),
    }
}

pub(crate) async fn check(script: &str, expect: Expect) {
    expect.assert_eq(&shown(&shell(script).run(b"input", &LIMITS).await));
}
