//! Lists in pages.

use rmcp::ErrorData;
use rmcp::model::PaginatedRequestParams;

/// The most entries of a page.
const PAGE_MAX: usize = 100;

/// The time for which a client may keep a list, in milliseconds. Changes are announced as well.
pub(crate) const LIST_TTL_MS: u64 = 5_000;

/// What a cursor begins with, so that other texts are recognized as no cursors.
const PREFIX: &str = "after:";

/// A page of a list, and the cursor of the next one.
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<String>,
}

/// Returns the page after the entry that the cursor names. Names are unique, and the order stays when entries are added
/// or removed, so a client that reads all pages misses nothing.
pub(crate) fn page<T>(
    items: Vec<T>,
    request: Option<PaginatedRequestParams>,
    key: impl Fn(&T) -> (bool, &str),
) -> Result<Page<T>, ErrorData> {
    let cursor = request.and_then(|request| request.cursor);
    let mut items = match &cursor {
        None => items,
        Some(cursor) => {
            let Some((group, name)) = parse(cursor) else {
                let message =
                    format!("`{cursor}` is not a cursor of this server; use `nextCursor` of a page");
                return Err(ErrorData::invalid_params(message, None));
            };
            items.into_iter().filter(|item| key(item) > (group, name)).collect()
        }
    };
    let next = match items.get(PAGE_MAX - 1) {
        Some(last) if items.len() > PAGE_MAX => {
            let (group, name) = key(last);
            Some(format!("{PREFIX}{}:{name}", u8::from(group)))
        }
        _ => None,
    };
    items.truncate(PAGE_MAX);
    Ok(Page { items, next })
}

fn parse(cursor: &str) -> Option<(bool, &str)> {
    let (group, name) = cursor.strip_prefix(PREFIX)?.split_once(':')?;
    match group {
        "0" => Some((false, name)),
        "1" => Some((true, name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn pages_cover_the_list_and_survive_changes() {
        let names: Vec<String> = (0..250).map(|number| format!("agent{number:03}")).collect();
        let (mut seen, mut request) = (Vec::new(), None);
        loop {
            let Page { items, next } = page(names.clone(), request, |name| (true, name)).unwrap();
            seen.extend(items);
            let Some(next) = next else { break };
            request = Some(PaginatedRequestParams::default().with_cursor(Some(next)));
        }
        assert_eq!(seen, names);
        let request = PaginatedRequestParams::default().with_cursor(Some("5".to_owned()));
        assert!(page(names, Some(request), |name| (true, name)).is_err());
    }
}
