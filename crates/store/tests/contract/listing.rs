//! Runs and sessions as others see them.

use slipform_store::{Error, NewRun, Page, RegistryKind, RunFilter, SessionTarget};
use slipform_types::{ExecutionMode, RunStatus};

use crate::world::{World, body, child, follow_up, kind, message, new_run, new_session, task};

fn page(after: Option<String>, limit: usize) -> Page {
    Page { after, limit }
}

pub(crate) async fn runs_are_listed_newest_first(world: &World) {
    let mut expected = Vec::new();
    for agent in ["a", "b", "a", "b", "a"] {
        expected.push(world.submit(agent).await.run_id);
    }
    expected.reverse();
    let (mut found, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let listed = world.store.runs(RunFilter::default(), page(after, 2)).await.unwrap();
        pages += 1;
        found.extend(listed.items.into_iter().map(|run| run.run_id));
        after = listed.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((found, pages), (expected.clone(), 3));
    world.complete_next("done").await;
    let count =
        async |filter: RunFilter| world.store.runs(filter, page(None, 500)).await.unwrap().items.len();
    let agent = |name: &str| RunFilter { agent_name: Some(name.to_owned()), ..RunFilter::default() };
    assert_eq!(count(agent("a")).await, 3);
    assert_eq!(count(agent("c")).await, 0);
    let status = RunFilter { status: Some(RunStatus::Completed), ..RunFilter::default() };
    assert_eq!(count(status.clone()).await, 1);
    assert_eq!(count(RunFilter { agent_name: Some("b".to_owned()), ..status }).await, 0);
    let session_id = Some(world.run(&expected[0]).await.session_id);
    assert_eq!(count(RunFilter { session_id, ..RunFilter::default() }).await, 1);
    let one = world.store.runs(RunFilter::default(), page(None, 0)).await.unwrap();
    assert_eq!(one.items.len(), 1, "a page has at least one");
}

pub(crate) async fn sessions_are_listed_with_their_children(world: &World) {
    let first = world.submit("writer").await;
    let parent = world.claim().await;
    let mut children = Vec::new();
    for agent in ["reader", "counter"] {
        children.push(world.delegate(&parent, agent, ExecutionMode::Sync).await.session_id);
    }
    let listed = world.store.sessions(page(None, 2)).await.unwrap();
    let ids: Vec<_> = listed.items.iter().map(|session| &session.session_id).collect();
    assert_eq!(ids, [&children[1], &children[0]]);
    let rest = world.store.sessions(page(listed.next, 2)).await.unwrap();
    assert_eq!((rest.items.len(), rest.next), (1, None));
    assert_eq!((&rest.items[0].session_id, &rest.items[0].children), (&first.session_id, &children));
    assert_eq!(rest.items[0].status, RunStatus::Claimed);
}

pub(crate) async fn runs_are_counted(world: &World) {
    assert_eq!(world.store.counts().await.unwrap().oldest_wait_ms, None);
    for _ in 0..3 {
        world.submit("writer").await;
    }
    world.complete_next("done").await;
    let counts = world.store.counts().await.unwrap();
    assert_eq!(counts.by_status, [(RunStatus::Completed, 1), (RunStatus::Pending, 2)]);
    assert_eq!(counts.queue_depth, 2);
    assert!(counts.oldest_wait_ms.is_some_and(|wait| wait >= 0));
}

pub(crate) async fn starts_are_found(world: &World) {
    let first = world.submit("writer").await;
    world.claim().await;
    let queued = world.store.submit(follow_up("writer", &first.session_id, true)).await.unwrap().unwrap();
    let opening = world.store.opening(&first.session_id).await.unwrap().unwrap();
    assert_eq!((kind(&opening), opening.seq, &opening.run_id), ("run_start".to_owned(), 1, &first.run_id));
    assert_eq!(world.store.start_of(&first.run_id).await.unwrap(), Some(opening));
    let start = world.store.start_of(&queued.run_id).await.unwrap().unwrap();
    assert_eq!((kind(&start), start.seq), ("run_start".to_owned(), 0));
    let listed = RunFilter { session_id: Some(first.session_id), ..RunFilter::default() };
    assert_eq!(world.store.runs(listed, page(None, 10)).await.unwrap().items.len(), 2);
}

pub(crate) async fn a_text_with_a_nul_is_refused(world: &World) {
    let refused = |answer: Result<(), Error>| assert!(matches!(answer, Err(Error::Invalid(_))), "{answer:?}");
    let nul = || "a\0b".to_owned();
    let filter = RunFilter { agent_name: Some(nul()), ..RunFilter::default() };
    refused(world.store.runs(filter, Page { after: None, limit: 10 }).await.map(drop));
    let place = SessionTarget::New { session_id: new_session(), project_dir: Some(nul()) };
    refused(world.store.submit(NewRun { session: place, ..task("writer") }).await.map(drop));
    refused(world.store.submit(task(&nul())).await.map(drop));
    refused(world.store.add(RegistryKind::Agents, &nul(), "{}").await.map(drop));
    let submitted = world.submit("writer").await;
    let parent = world.claim().await;
    let call = child(&parent, "reader", &nul(), ExecutionMode::Sync);
    refused(world.store.submit(call).await.map(drop));
    // In a journal it is escaped, and stays what it was.
    world.append(&parent.fence, 1, vec![message("a\0b")]).await.unwrap();
    let journal = world.journal(&submitted.session_id).await;
    assert_eq!(body(&journal[1])["content"], "a\0b");
}

pub(crate) async fn unknown_things_are_nowhere(world: &World) {
    assert!(world.store.run(&new_run()).await.unwrap().is_none());
    assert!(world.store.start_of(&new_run()).await.unwrap().is_none());
    assert!(world.store.session(&new_session()).await.unwrap().is_none());
    assert!(world.store.opening(&new_session()).await.unwrap().is_none());
    assert!(world.store.finished(&new_session()).await.unwrap().is_none());
    assert!(world.store.events(&new_session(), 0, 10).await.unwrap().is_empty());
    let listed =
        world.store.runs(RunFilter::default(), page(Some("no cursor".to_owned()), 10)).await.unwrap();
    assert!(listed.items.is_empty() && listed.next.is_none());
}
