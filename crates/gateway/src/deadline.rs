//! The time that a client waits for a response.

use std::time::Duration;

use axum::http::HeaderMap;

/// The time limit of requests that name none. It is the default of the SDKs.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// The longest time limit. Larger ones are as good as none.
const TIME_LIMIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The headers in which the SDKs name their time limit in seconds. The first one is the more exact.
const HEADERS: [&str; 2] = ["x-stainless-read-timeout", "x-stainless-timeout"];

/// The part of a client's time limit that is left for the response to arrive, within these bounds.
const MARGIN_DIVISOR: u32 = 10;
const MARGIN_MIN: Duration = Duration::from_millis(50);
const MARGIN_MAX: Duration = Duration::from_secs(2);

/// Returns the time within which a request has to be answered, so that the client gets the answer in time.
pub(crate) fn time_limit(headers: &HeaderMap, wanted: Option<Duration>) -> Duration {
    let named = HEADERS.iter().find_map(|name| headers.get(*name)?.to_str().ok()?.trim().parse::<f64>().ok());
    let named =
        named.filter(|seconds| *seconds > 0.0).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let limit = named.map_or(TIME_LIMIT, |limit| {
        let limit = limit.min(TIME_LIMIT_MAX);
        limit.saturating_sub((limit / MARGIN_DIVISOR).clamp(MARGIN_MIN, MARGIN_MAX)).max(limit / 2)
    });
    wanted.map_or(limit, |wanted| wanted.min(if named.is_some() { limit } else { TIME_LIMIT_MAX }))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn limit(name: &'static str, value: &'static str) -> Duration {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        time_limit(&headers, None)
    }

    #[test]
    fn answer_leaves_before_the_time_limit_of_the_client() {
        assert_eq!(limit("x-stainless-timeout", "600"), Duration::from_secs(598));
        assert_eq!(limit("x-stainless-read-timeout", "10"), Duration::from_secs(9));
        assert_eq!(limit("x-stainless-read-timeout", "0.08"), Duration::from_millis(40));
        assert_eq!(limit("x-stainless-read-timeout", "1e19"), TIME_LIMIT_MAX - MARGIN_MAX);
    }

    #[test]
    fn missing_or_invalid_limit_is_the_default() {
        for value in ["", "NaN", "-1", "soon", "1e300"] {
            assert_eq!(limit("x-stainless-timeout", value), TIME_LIMIT, "{value}");
        }
        assert_eq!(time_limit(&HeaderMap::new(), Some(Duration::from_secs(5))), Duration::from_secs(5));
        assert_eq!(time_limit(&HeaderMap::new(), Some(Duration::from_secs(900))), Duration::from_secs(900));
    }
}
