//! The contract of a store, tested on each database, and the behaviour that is specific to one.
//!
//! The PostgreSQL tests run when `SLIPFORM_TEST_POSTGRES` names a server that allows creating databases, such
//! as `postgres://postgres@127.0.0.1:5432/postgres`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::print_stdout, reason = "a child process reports what it has written")]

mod append;
mod callback;
mod claim;
mod clock;
mod delegation;
mod events;
mod finish;
mod gateway;
mod interleaving;
mod listing;
mod migration;
mod park;
mod postgres_server;
mod postgres_tls;
mod records;
mod sqlite_backup;
mod sqlite_faults;
mod sqlite_files;
mod stats;
mod stop;
mod submit;
mod support;
mod sweep;

slipform_testkit::on_each_database!(crate::support::Fixture, [sqlite, memory, postgres], {
    submit:
        new_run_has_session_and_run_start
        busy_session_refuses_or_queues_run
        queued_runs_are_activated_in_order
        repeated_idempotency_key_returns_same_run
        run_is_found_by_idempotency_key
        refused_submission_releases_its_key
        concurrent_submissions_with_one_key_create_one_run;
    delegation:
        repeated_call_returns_same_child
        child_is_found_by_call
        child_of_stale_attempt_is_refused
        delegation_to_an_ancestor_is_refused
        delegation_beyond_depth_limit_is_refused
        children_beyond_limit_are_refused
        runs_of_a_tree_beyond_limit_are_refused
        resuming_another_agents_session_is_refused
        child_of_unknown_session_is_refused;
    claim:
        longest_waiting_run_is_claimed_first
        pinned_run_waits_for_its_runner
        run_pinned_to_dead_runner_is_adopted
        run_of_dead_runner_is_adopted_when_its_lease_ends
        adopted_run_is_released_from_dead_runner
        concurrent_claims_take_each_run_once
        time_limit_starts_at_first_claim
        child_deadline_never_exceeds_parents
        claim_returns_journal
        long_journal_is_claimed_and_read_in_pages;
    append:
        progress_of_run_is_shown_and_survives_its_runner
        repeated_append_has_no_effect
        write_of_stale_attempt_is_refused
        write_after_lease_expiry_is_refused
        concurrent_appends_leave_no_gaps
        heartbeat_renews_lease_and_reports_stop;
    finish:
        finished_run_has_result_and_end
        repeated_finish_has_no_effect
        finish_without_run_completed_is_refused
        write_to_ended_run_is_refused;
    gateway:
        requests_are_listed_newest_first_and_filtered
        requests_count_in_statistics_of_their_sender
        old_requests_are_deleted_by_age_and_by_count;
    park:
        parked_run_is_queued_when_child_ends
        parking_after_child_ended_delivers_results
        active_parent_receives_result_when_it_parks
        concurrent_park_and_child_end_lose_no_result
        released_run_counts_no_loss
        parking_a_stopping_run_queues_it;
    callback:
        ended_child_starts_callback_run
        ended_children_share_one_callback_run
        queued_run_precedes_callback_run
        callback_run_is_pinned_to_the_childs_runner
        callback_run_uses_contract_of_run_that_started_child;
    stop:
        stopping_an_unclaimed_run_ends_it
        stopping_a_queued_run_journals_its_end_in_turn
        stopping_an_active_run_is_reported_to_its_runner
        stopping_a_waiting_run_stops_its_children
        stopping_run_cannot_start_children
        children_stop_when_their_parent_ends
        stopping_a_released_run_leaves_it_to_a_runner
        stopping_an_ended_run_has_no_effect;
    sweep:
        run_with_expired_lease_returns_to_queue
        run_fails_after_three_lost_attempts
        progress_resets_loss_count
        stopping_run_without_runner_is_ended
        waiting_run_past_deadline_returns_to_queue
        concurrent_sweepers_count_a_loss_once
        outage_extends_leases_that_were_not_swept;
    records:
        sessions_beyond_age_limit_are_deleted
        oldest_sessions_beyond_count_limit_are_deleted
        old_sessions_are_deleted_in_few_transactions
        session_tree_with_active_run_is_retained
        deleting_a_session_deletes_its_children
        session_with_undelivered_result_is_not_deleted
        registry_adds_replaces_and_removes_entries
        tokens_are_stored_and_revoked
        runners_are_registered_and_seen;
    events:
        all_events_are_read_in_order_and_once
        concurrent_writers_lose_no_event
        session_events_stay_in_order_across_transactions
        commit_notifies_subscribers
        check_of_intact_database_finds_nothing;
    stats:
        stats_are_grouped_by_agent_and_backend
        reported_errors_are_not_counted_as_results
        runs_without_receipt_are_counted
        tokens_of_lost_run_are_counted
        implausible_token_counts_are_capped
        milestones_have_positions_and_selected_bodies;
    interleaving:
        random_concurrent_operations_end_every_run_once;
    listing:
        runs_are_listed_newest_first
        lists_can_be_limited_to_sessions_of_one_token
        list_has_shortened_errors
        sessions_are_listed_with_their_children
        runs_are_counted
        run_start_is_found_for_active_and_queued_runs
        text_with_nul_is_refused
        unknown_ids_return_nothing;
});
