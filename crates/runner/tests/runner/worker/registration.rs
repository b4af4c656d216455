//! How a worker introduces itself, and again.

use slipform_api::Code;
use slipform_runner::Error;

use crate::support::fake_api::FakeApi;
use crate::support::worker::{FakeResources, agent, start};

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_is_not_there_yet_is_waited_for() {
    let door = FakeApi::new();
    for code in [Code::Unavailable, Code::Internal, Code::Unavailable] {
        door.fail("register", code, false);
    }
    door.submit(1, agent(), None);
    let working = start(&door, FakeResources::answering(), 3);
    door.ended(1).await;
    working.go_home().await;
    assert_eq!(door.said("register").len(), 4);
    let hello = door.book().hellos[0].clone();
    assert_eq!((hello.runner_id, hello.name.as_str(), hello.slots), (None, "test", 3));
    assert_eq!(hello.details["version"], "0");
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_does_not_want_it_ends_it() {
    let door = FakeApi::new();
    door.fail("register", Code::Unauthorized, false);
    let error = start(&door, FakeResources::answering(), 1).end().await.unwrap_err();
    assert!(matches!(&error, Error::Coordinator(refusal) if refusal.code == Code::Unauthorized), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn it_introduces_itself_again_under_its_id_after_an_outage_and_when_it_is_unknown() {
    for (verb, code) in
        [("claim", Code::Unavailable), ("claim", Code::NotFound), ("heartbeat", Code::NotFound)]
    {
        let door = FakeApi::new();
        door.fail(verb, code, false);
        door.submit(1, agent(), None);
        let working = start(&door, FakeResources::silent(), 1);
        door.until("it registers again", |book| book.hellos.len() == 2).await;
        door.until("it works", |book| book.beats.len() > 3).await;
        working.go_home().await;
        assert_eq!(door.book().hellos[1].runner_id.as_deref(), Some("rnr_1"), "{verb}");
        assert_eq!(door.said("register").len(), 2, "{verb}");
    }
}
