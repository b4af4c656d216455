//! What every database has to do: one suite, run over each of them.
//!
//! PostgreSQL is tested where `SLIPFORM_TEST_POSTGRES` names a server on which databases may be made, such as
//! `postgres://postgres@127.0.0.1:5432/postgres`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::print_stdout, reason = "whoever reads the output learns what was left out")]

mod append;
mod callback;
mod claim;
mod events;
mod family;
mod figures;
mod finish;
mod interleaving;
mod keep;
mod listing;
mod migration;
mod park;
mod stop;
mod submit;
mod sweep;
mod test_store;

macro_rules! contract {
    ($($file:ident: $($case:ident)+;)+) => {
        mod sqlite {
            $($(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                crate::$file::$case(&crate::test_store::TestStore::sqlite().await).await;
            })+)+
        }

        mod memory {
            $($(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                crate::$file::$case(&crate::test_store::TestStore::memory().await).await;
            })+)+
        }

        mod postgres {
            $($(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                if let Some(test) = crate::test_store::TestStore::postgres().await {
                    crate::$file::$case(&test).await;
                    test.tear_down().await;
                }
            })+)+
        }
    };
}

contract! {
    submit:
        a_new_run_has_a_session_and_a_start
        a_busy_session_refuses_or_queues
        queued_runs_take_their_turns_in_order
        the_same_key_gives_the_same_run
        what_was_asked_for_under_a_key_is_found
        a_refusal_leaves_no_trace
        a_key_is_used_once_however_many_ask;
    family:
        the_same_call_gives_the_same_child
        the_child_of_a_call_is_found
        only_the_latest_attempt_starts_children
        an_agent_is_not_called_by_its_own_children
        agents_are_nested_only_so_deep
        a_run_starts_only_so_many_children
        a_task_leads_to_only_so_many_runs
        only_its_own_children_are_resumed
        a_child_needs_a_parent;
    claim:
        the_longest_waiting_is_claimed_first
        a_pinned_run_waits_for_its_runner
        what_is_kept_for_a_runner_that_is_gone_is_adopted
        what_was_adopted_is_not_kept_for_the_dead_any_more
        a_run_is_claimed_once_however_many_ask
        time_begins_with_the_first_claim
        a_child_has_no_more_time_than_its_parent
        a_claim_holds_the_journal;
    append:
        an_append_may_be_repeated
        only_the_latest_attempt_writes
        a_runner_that_wakes_up_too_late_writes_nothing
        numbers_have_no_gaps_however_many_write
        a_heartbeat_prolongs_and_tells;
    finish:
        an_end_is_kept_with_its_result
        an_end_may_be_repeated
        an_end_says_that_it_is_one
        an_ended_run_is_written_to_no_more;
    park:
        a_parked_run_goes_on_when_its_child_ends
        a_child_may_end_before_its_parent_parks
        a_run_that_is_worked_on_hears_when_it_parks
        parking_and_ending_at_once_lose_nothing
        a_released_run_is_no_lost_attempt
        a_stopping_run_does_not_wait;
    callback:
        a_child_calls_back
        children_call_back_together
        a_queued_run_goes_before_a_callback
        a_callback_goes_to_the_childs_runner
        a_callback_continues_the_run_that_started_the_child;
    stop:
        a_run_that_nobody_claimed_ends_at_once
        a_queued_run_ends_without_a_word_in_anothers_journal
        a_run_that_is_worked_on_is_told
        a_waiting_run_is_stopped_with_its_child
        a_run_that_is_to_stop_starts_nothing_more
        children_stop_when_nobody_waits_for_them_any_more
        a_released_run_is_ended_by_a_runner
        an_ended_run_stays_as_it_is;
    sweep:
        an_expired_lease_returns_the_run
        a_run_is_lost_after_three_runners
        losses_at_different_steps_do_not_count_together
        a_stopping_run_is_ended_where_nobody_does
        a_waiting_run_is_woken_when_its_time_is_up
        several_sweepers_count_a_loss_once
        silence_does_not_count_for_attempts_that_were_not_swept;
    keep:
        old_sessions_are_forgotten
        the_oldest_sessions_go_first
        a_family_is_kept_while_anyone_works
        a_session_is_deleted_with_its_children
        a_session_is_kept_until_its_end_is_heard_of
        shelves_keep_what_they_get
        tokens_are_kept_and_revoked
        runners_are_heard_of;
    events:
        all_events_are_read_in_order_and_once
        concurrent_writers_lose_no_event
        a_session_is_told_in_order_whoever_began_first
        news_comes_with_every_commit
        a_sound_database_has_no_findings;
    figures:
        figures_are_kept_for_each_agent_and_backend
        runs_that_nobody_accounts_for_are_counted
        what_a_lost_run_has_used_is_counted
        counts_that_nobody_believes_spoil_no_sum
        milestones_have_places_and_few_bodies;
    interleaving:
        whatever_happens_every_run_ends_once;
    listing:
        runs_are_listed_newest_first
        sessions_are_listed_with_their_children
        runs_are_counted
        starts_are_found
        a_text_with_a_nul_is_refused
        unknown_things_are_nowhere;
}
