//! The files for those who count, over each of the databases.
//!
//! PostgreSQL is tested where `SLIPFORM_TEST_POSTGRES` names a server on which databases may be made.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::print_stdout, reason = "whoever reads the output learns what was left out")]

mod interrupted;
mod shell;
mod test_store;

macro_rules! over_each_database {
    ($($file:ident: $($case:ident)+;)+) => {
        mod sqlite {
            $($(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                crate::$file::$case(&crate::test_store::TestStore::sqlite().await).await;
            })+)+
        }

        mod postgres {
            $($(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                if let Some(store_under_test) = crate::test_store::TestStore::postgres().await {
                    crate::$file::$case(&store_under_test).await;
                    store_under_test.tear_down().await;
                }
            })+)+
        }
    };
}

over_each_database! {
    shell:
        each_thing_has_a_line
        the_lines_of_the_decision_record_count_right
        prompts_and_replies_stay_out;
    interrupted:
        a_crash_before_the_position_is_kept_doubles_nothing
        a_position_that_is_lost_doubles_nothing
        a_torn_line_is_written_again
        a_folder_that_was_deleted_is_written_anew
        sessions_that_were_deleted_are_no_trouble
        two_that_write_at_once_write_once
        a_folder_that_cannot_be_written_hurts_nobody
        another_database_of_the_same_address_is_told_of
        what_happens_is_written_in_the_background;
}
