//! Tests of the waits.

use std::time::{Duration, Instant};

use slipform_testkit::{elapse, wait_for, wait_until_async};

#[test]
fn wait_returns_the_first_value() {
    let mut polls = 0;
    let value = wait_for("the third poll", || {
        polls += 1;
        (polls >= 3).then_some(polls)
    });
    assert_eq!(value, 3);
}

#[tokio::test]
async fn wait_checks_its_condition_until_it_holds() {
    let mut polls = 0;
    wait_until_async("the third poll", async || {
        polls += 1;
        polls == 3
    })
    .await;
    assert_eq!(polls, 3);
}

#[tokio::test(start_paused = true)]
async fn elapse_passes_virtual_time_and_fires_timers_on_the_way() {
    let (began, began_virtual) = (Instant::now(), tokio::time::Instant::now());
    let timer = tokio::spawn(async move {
        tokio::time::timeout(Duration::from_secs(60), std::future::pending::<()>()).await.unwrap_err();
        began_virtual.elapsed()
    });
    elapse(Duration::from_secs(3600)).await;
    assert_eq!(began_virtual.elapsed(), Duration::from_secs(3600));
    assert_eq!(timer.await.unwrap(), Duration::from_secs(60));
    assert!(began.elapsed() < Duration::from_secs(600), "no real time passes");
}

#[tokio::test]
#[should_panic(expected = "time is not frozen")]
async fn elapse_on_a_running_clock_panics() {
    elapse(Duration::from_secs(1)).await;
}
