//! The analytics files, tested on each database.
//!
//! The PostgreSQL tests run when `SLIPFORM_TEST_POSTGRES` names a server that allows creating databases.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::print_stdout, reason = "reports skipped tests")]

mod interrupted;
mod shell;
mod support;

slipform_testkit::on_each_database!(crate::support::Fixture, [sqlite, postgres], {
    shell:
        each_failure_and_end_has_a_line
        monitoring_commands_count_correctly
        lines_contain_no_prompts_or_replies;
    interrupted:
        crash_before_cursor_is_stored_duplicates_nothing
        lost_cursor_duplicates_nothing
        incomplete_line_is_rewritten
        deleted_folder_is_rebuilt
        deleted_sessions_do_not_break_the_cursor
        concurrent_writers_write_each_line_once
        unwritable_folder_is_retried
        new_database_at_same_address_is_written
        run_writes_lines_in_background;
});
