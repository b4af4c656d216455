//! Requests of the gateway.

use slipform_store::{EndedRequest, Page, RequestFilter, RequestRecord, StatsFilter};
use slipform_types::{GATEWAY, GatewayRequest, Tokens};

use crate::support::Fixture;

fn ended(number: usize, backend: &str, error: Option<&str>, age_ms: i64) -> EndedRequest {
    let request = GatewayRequest {
        request_id: format!("run_{number:012x}"),
        created_by: number.is_multiple_of(2).then(|| "tok_even".to_owned()),
        requested_model: "m\u{e9}".to_owned(),
        backend: Some(backend.to_owned()),
        model: Some("large".to_owned()),
        error_type: error.map(str::to_owned),
        error_message: error.map(|_| "it failed".to_owned()),
        strategy: Some("native".to_owned()),
        has_contract: true,
        is_streamed: number == 1,
        calls: 3,
        retry_count: 2,
        repairs: 1,
        escalations: 1,
        tokens: Tokens { input: 100, output: 20 },
        duration_ms: 1_500,
    };
    EndedRequest { request: request.into(), age_ms }
}

async fn listed(test: &Fixture, filter: RequestFilter) -> Vec<RequestRecord> {
    let mut page = Page { after: None, limit: 2 };
    let mut all = Vec::new();
    loop {
        let found = test.store.gateway_requests(filter.clone(), page.clone()).await.unwrap();
        all.extend(found.items);
        let Some(next) = found.next else { return all };
        page = Page { after: Some(next), limit: 2 };
    }
}

pub(crate) async fn requests_are_listed_newest_first_and_filtered(test: &Fixture) {
    let written = vec![
        ended(1, "a", None, 10),
        ended(2, "b", Some("timeout"), 5),
        ended(3, "a", None, 0),
        ended(4, "a", Some("timeout"), 0),
        ended(5, "b", None, 0),
    ];
    test.store.record_requests(written.clone()).await.unwrap();
    let all = listed(test, RequestFilter::default()).await;
    let requests: Vec<&GatewayRequest> = all.iter().rev().map(|record| &record.request).collect();
    assert_eq!(requests, written.iter().map(|ended| &*ended.request).collect::<Vec<_>>());
    assert!(all.iter().all(|record| record.finished_at - record.started_at == 1_500));
    let ids = async |filter: RequestFilter| -> Vec<String> {
        listed(test, filter).await.into_iter().map(|record| record.request.request_id).collect()
    };
    let of = |numbers: &[usize]| -> Vec<String> {
        numbers.iter().map(|number| format!("run_{number:012x}")).collect()
    };
    let backend = RequestFilter { backend: Some("a".to_owned()), ..RequestFilter::default() };
    assert_eq!(ids(backend).await, of(&[4, 3, 1]));
    let failed = RequestFilter { has_failed: Some(true), ..RequestFilter::default() };
    assert_eq!(ids(failed).await, of(&[4, 2]));
    let own = RequestFilter { owner: Some("tok_even".to_owned()), ..RequestFilter::default() };
    assert_eq!(ids(own).await, of(&[4, 2]));
}

pub(crate) async fn requests_count_in_statistics_of_their_sender(test: &Fixture) {
    test.store
        .record_requests(vec![ended(1, "a", None, 0), ended(2, "a", Some("timeout"), 0)])
        .await
        .unwrap();
    let rows = test.store.agent_stats(StatsFilter::default()).await.unwrap();
    let row = rows.iter().find(|row| row.agent_name == GATEWAY).unwrap();
    assert_eq!((row.runs, row.completed, row.retries), (2, 1, 4));
    let own = StatsFilter { owner: Some("tok_even".to_owned()), ..StatsFilter::default() };
    let rows = test.store.agent_stats(own).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.runs).collect::<Vec<_>>(), [1]);
}

pub(crate) async fn old_requests_are_deleted_by_age_and_by_count(test: &Fixture) {
    let written: Vec<EndedRequest> =
        (1..=6).map(|number| ended(number, "a", None, if number <= 2 { 60_000 } else { 0 })).collect();
    test.store.record_requests(written).await.unwrap();
    assert_eq!(test.store.retain_requests(Some(30_000), 100).await.unwrap(), 2);
    assert_eq!(test.store.retain_requests(Some(30_000), 3).await.unwrap(), 1);
    assert_eq!(test.store.retain_requests(None, 3).await.unwrap(), 0);
    let kept = listed(test, RequestFilter::default()).await;
    let ids: Vec<&str> = kept.iter().map(|record| record.request.request_id.as_str()).collect();
    assert_eq!(ids, ["run_000000000006", "run_000000000005", "run_000000000004"]);
}
