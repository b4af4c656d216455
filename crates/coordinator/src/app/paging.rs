//! Checks the paging and time parameters of lists.

use slipform_api::{Code, Error};
use slipform_store::{Millis, Page};
use slipform_types::parse_timestamp;

/// Default page size.
const LIMIT: usize = 100;

/// Maximum page size.
const LIMIT_MAX: i64 = 1_000;

/// Checks the cursor and size of a page of runs or sessions.
pub(super) fn page(after: Option<String>, limit: Option<i64>) -> Result<Page, Error> {
    let is_cursor =
        |text: &String| (1..=18).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if after.as_ref().is_some_and(|after| !is_cursor(after)) {
        let message = "invalid `after`; send `next` of the previous page or omit it";
        return Err(Error::new(Code::InvalidRequest, message));
    }
    Ok(Page { after, limit: page_size(limit)? })
}

/// Checks a page size.
pub(super) fn page_size(limit: Option<i64>) -> Result<usize, Error> {
    match limit {
        None => Ok(LIMIT),
        Some(limit @ 1..=LIMIT_MAX) => Ok(usize::try_from(limit).unwrap_or(LIMIT)),
        Some(_) => Err(Error::new(Code::InvalidRequest, format!("`limit` must be from 1 to {LIMIT_MAX}"))),
    }
}

/// Checks the `seq` after which events are read.
pub(crate) fn event_number(after: i64) -> Result<i64, Error> {
    match after {
        0.. => Ok(after),
        _ => Err(Error::new(Code::InvalidRequest, "`after` must not be negative")),
    }
}

/// Checks a time of a filter.
pub(super) fn time(name: &str, text: Option<&str>) -> Result<Option<Millis>, Error> {
    let parse = |text: &str| {
        parse_timestamp(text).ok_or_else(|| {
            let message =
                format!("`{name}` must be a time since 1970 in RFC 3339, such as 2026-01-31T12:00:00Z");
            Error::new(Code::InvalidRequest, message)
        })
    };
    text.map(parse).transpose()
}
