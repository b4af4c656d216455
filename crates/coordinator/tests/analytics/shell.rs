//! What is in the files, and what the shell makes of it.

use std::process::Command;

use serde_json::{Value, json};

use crate::test_store::{CONFIDENTIAL, TestStore};

/// The lines by which the decision record watches its agents.
const SUCCESS_RATE: &str = r#"
grep "orchestrator.specialist.completed" .kb/analytics/buffer/*.jsonl | \
  jq -s 'group_by(.payload.specialist_id) |
         map({specialist: .[0].payload.specialist_id,
              total: length,
              success: map(select(.payload.success)) | length})'
"#;
const NOT_SUBMITTED: &str = r#"grep "did not call submit_result" .kb/analytics/buffer/*.jsonl | wc -l"#;
const NOT_VERIFIED: &str = r#"grep "Verification failed" .kb/analytics/buffer/*.jsonl | wc -l"#;

pub(crate) async fn each_thing_has_a_line(store_under_test: &TestStore) {
    store_under_test.troubles().await;
    store_under_test.completed("writer").await;
    store_under_test.written(4).await;
    let expected = [
        ("agent.escalated", 1),
        ("agent.submit.missing", 3),
        ("agent.validation.failed", 1),
        ("orchestrator.specialist.completed", 4),
    ];
    let expected = expected.map(|(kind, count)| (kind.to_owned(), count));
    assert_eq!(store_under_test.counts(), expected.into());
    let failed =
        store_under_test.lines().into_iter().find(|line| line["payload"]["success"] == false).unwrap();
    assert_eq!(failed["payload"]["error_code"], "result_not_submitted");
    assert_eq!(failed["payload"]["specialist_id"], "tester");
    assert_eq!(failed["payload"]["backend"], "lmstudio");
    assert_eq!(failed["payload"]["tokens"], 40);
    assert!(failed["payload"]["duration_ms"].is_i64(), "{failed}");
    // One file: with several, `grep` would put their names before the lines.
    assert_eq!(store_under_test.file().file_name().unwrap(), "events.jsonl");
}

pub(crate) async fn the_lines_of_the_decision_record_count_right(store_under_test: &TestStore) {
    store_under_test.troubles().await;
    store_under_test.completed("writer").await;
    store_under_test.written(4).await;
    assert_eq!(shell(store_under_test, NOT_SUBMITTED).trim(), "3");
    assert_eq!(shell(store_under_test, NOT_VERIFIED).trim(), "1");
    let expected = json!([
        {"specialist": "tester", "total": 1, "success": 0},
        {"specialist": "writer", "total": 3, "success": 3},
    ]);
    if Command::new("jq").arg("--version").output().is_err() {
        println!("SKIPPED: there is no `jq`; the same is counted without it");
        assert_eq!(counted(store_under_test), expected);
        return;
    }
    assert_eq!(serde_json::from_str::<Value>(&shell(store_under_test, SUCCESS_RATE)).unwrap(), expected);
    assert_eq!(counted(store_under_test), expected);
}

/// Runs a line with another directory.
fn shell(store_under_test: &TestStore, line: &str) -> String {
    let line = line.replace(".kb/analytics/buffer", &store_under_test.folder().display().to_string());
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What the first of the lines counts.
fn counted(store_under_test: &TestStore) -> Value {
    let mut counts = std::collections::BTreeMap::<String, (usize, usize)>::new();
    for line in store_under_test.lines() {
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

pub(crate) async fn prompts_and_replies_stay_out(store_under_test: &TestStore) {
    store_under_test.troubles().await;
    store_under_test.written(3).await;
    let text = std::fs::read_to_string(store_under_test.file()).unwrap();
    assert!(!text.contains(CONFIDENTIAL), "{text}");
}
