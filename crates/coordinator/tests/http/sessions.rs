//! Sessions and their journals.

use serde_json::json;

use crate::house::House;

#[tokio::test]
async fn a_session_is_shown_resumed_and_deleted() {
    let house = House::open().await;
    house.agent("writer", json!({})).await;
    let (run, session) = house.submit("writer").await;
    let path = format!("/sessions/{session}");
    let view = house.get(&path).send().await.ok(200);
    assert_eq!((&view["last_run_id"], &view["children"]), (&json!(run), &json!([])));
    let resume = json!({"type": "resume_session", "session_id": session, "prompt": "And?"});
    house.post("/runs", &resume).send().await.refused(409, "SessionBusy");
    house.ask("DELETE", &path).send().await.refused(409, "SessionBusy");
    house.work_off("One.").await;
    house.post("/runs", &resume).send().await.ok(201);
    house.work_off("Two.").await;
    let result = house.get(&format!("{path}/result")).send().await.ok(200);
    assert_eq!(result["result"], "Two.");
    let listed = house.get("/sessions?limit=1").send().await.ok(200);
    assert_eq!((&listed["sessions"][0]["session_id"], &listed["next"]), (&json!(session), &json!(null)));
    let gone = house.ask("DELETE", &path).send().await;
    assert_eq!((gone.status, gone.text.as_str()), (204, ""));
    house.get(&path).send().await.refused(404, "SessionNotFound");
}

#[tokio::test]
async fn a_journal_is_read_page_by_page() {
    let house = House::open().await;
    house.agent("writer", json!({})).await;
    let (run, session) = house.submit("writer").await;
    house.work_off("Done.").await;
    let path = format!("/sessions/{session}/events");
    let all = house.get(&path).send().await.ok(200);
    let events = all["events"].as_array().unwrap();
    let kinds: Vec<_> = events.iter().map(|event| event["event_type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["run_start", "attempt_started", "result", "run_completed"]);
    for (number, event) in (1..).zip(events) {
        assert_eq!((&event["seq"], &event["run_id"]), (&json!(number), &json!(run)));
        assert_eq!(event["session_id"], *session);
        assert!(event["timestamp"].as_str().unwrap().ends_with('Z'));
    }
    assert_eq!(events[2]["result_text"], "Done.");
    let page = house.get(&format!("{path}?after=1&limit=2")).send().await.ok(200);
    assert_eq!((&page["events"], &page["next"]), (&json!(events[1..3]), &json!(3)));
    let rest = house.get(&format!("{path}?after=3")).send().await.ok(200);
    assert_eq!((&rest["events"], &rest["next"]), (&json!(events[3..]), &json!(null)));
    let nothing = house.get(&format!("{path}?after=9")).send().await.ok(200);
    assert_eq!(nothing["events"], json!([]));
}
