//! The lines and the shell commands that evaluate them.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{CONFIDENTIAL, Fixture};

/// The monitoring commands from the decision record.
const SUCCESS_RATE: &str = r#"
grep "orchestrator.specialist.completed" .kb/analytics/buffer/*.jsonl | \
  jq -s 'group_by(.payload.specialist_id) |
         map({specialist: .[0].payload.specialist_id,
              total: length,
              success: map(select(.payload.success)) | length})'
"#;
const NOT_SUBMITTED: &str = r#"grep "did not call submit_result" .kb/analytics/buffer/*.jsonl | wc -l"#;
const NOT_VERIFIED: &str = r#"grep "Verification failed" .kb/analytics/buffer/*.jsonl | wc -l"#;

pub(crate) async fn each_failure_and_end_has_a_line(test: &Fixture) {
    test.run_with_failures().await;
    test.completed("writer").await;
    test.write_until(4).await;
    let expected = [
        ("agent.escalated", 1),
        ("agent.submit.missing", 3),
        ("agent.validation.failed", 1),
        ("orchestrator.specialist.completed", 4),
    ];
    let expected = expected.map(|(kind, count)| (kind.to_owned(), count));
    assert_eq!(test.counts(), expected.into());
    let failed = test.lines().into_iter().find(|line| line["payload"]["success"] == false).unwrap();
    assert_eq!(failed["payload"]["error_code"], "result_not_submitted");
    assert_eq!(failed["payload"]["specialist_id"], "tester");
    assert_eq!(failed["payload"]["backend"], "lmstudio");
    assert_eq!(failed["payload"]["tokens"], 40);
    assert!(failed["payload"]["duration_ms"].is_i64(), "{failed}");
    // A single file, because `grep` over several prints file names.
    assert_eq!(test.file().file_name().unwrap(), "events.jsonl");
}

pub(crate) async fn monitoring_commands_count_correctly(test: &Fixture) {
    test.run_with_failures().await;
    test.completed("writer").await;
    test.write_until(4).await;
    assert_eq!(shell(test, NOT_SUBMITTED).trim(), "3");
    assert_eq!(shell(test, NOT_VERIFIED).trim(), "1");
    let expected = json!([
        {"specialist": "tester", "total": 1, "success": 0},
        {"specialist": "writer", "total": 3, "success": 3},
    ]);
    if Command::new("jq").arg("--version").output().is_err() {
        println!("SKIPPED: `jq` not found; counting without it");
        assert_eq!(counted(test), expected);
        return;
    }
    assert_eq!(serde_json::from_str::<Value>(&shell(test, SUCCESS_RATE)).unwrap(), expected);
    assert_eq!(counted(test), expected);
}

/// Runs a command on the test's folder.
fn shell(test: &Fixture, line: &str) -> String {
    let line = line.replace(".kb/analytics/buffer", &test.folder().display().to_string());
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Computes the result of `SUCCESS_RATE` without `jq`.
fn counted(test: &Fixture) -> Value {
    let mut counts = std::collections::BTreeMap::<String, (usize, usize)>::new();
    for line in test.lines() {
        if line["type"] == "orchestrator.specialist.completed" {
            let (total, success) =
                counts.entry(line["payload"]["specialist_id"].as_str().unwrap().into()).or_default();
            *total += 1;
            *success += usize::from(line["payload"]["success"] == true);
        }
    }
    let row = |(specialist, (total, success))| json!({"specialist": specialist, "total": total, "success": success});
    counts.into_iter().map(row).collect()
}

pub(crate) async fn lines_contain_no_prompts_or_replies(test: &Fixture) {
    test.run_with_failures().await;
    test.write_until(3).await;
    let text = std::fs::read_to_string(test.file()).unwrap();
    assert!(!text.contains(CONFIDENTIAL), "{text}");
}
