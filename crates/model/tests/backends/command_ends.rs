//! A call to a program leaves no process behind, however it ends.

use slipform_model::connect;
use slipform_testkit::Grandchild;

use crate::command::{config, environment, run};
use crate::support::{ask, shown};

#[tokio::test]
async fn timeout_kills_the_process_group() {
    let mut grandchild = Grandchild::new();
    let mut config = config(&["sh", "-c", &grandchild.script("wait")]);
    config.timeout_seconds = 2.0;
    let outcome = ask(connect(&config, &environment).unwrap().as_ref()).await;
    let expected =
        "Timeout: the program took longer than 2 s; raise timeout_seconds in slipform.toml if that is normal";
    assert_eq!(shown(&outcome), expected);
    grandchild.wait_for_start().await;
    grandchild.wait_for_exit().await;
}

#[tokio::test]
async fn dropped_call_kills_the_process_group() {
    let mut grandchild = Grandchild::new();
    let script = grandchild.script("wait");
    tokio::select! {
        outcome = run(&script) => panic!("{outcome:?}"),
        () = grandchild.wait_for_start() => {}
    }
    grandchild.wait_for_exit().await;
}

#[tokio::test]
async fn reply_does_not_wait_for_processes_left_behind() {
    let mut grandchild = Grandchild::new();
    assert_eq!(run(&grandchild.script_after_start("echo green")).await.unwrap().text, "green");
    grandchild.wait_for_exit().await;
}

#[tokio::test]
async fn program_that_writes_too_much_is_killed_with_its_group() {
    let mut grandchild = Grandchild::new();
    let outcome = run(&grandchild.script_after_start("exec yes")).await;
    assert_eq!(shown(&outcome), "TooLarge: the reply is larger than 16777216 bytes");
    grandchild.wait_for_exit().await;
}
