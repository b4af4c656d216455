//! Budgets of API tokens: requests and tokens per minute.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slipform_api::RequestSender;
use tokio::time::Instant;

use crate::error::ApiError;

/// The time in which a budget is refilled.
const WINDOW: Duration = Duration::from_secs(60);

/// The most windows that a response can use up in advance.
const WINDOWS_OF_DEBT_MAX: u32 = 10;

/// The most API tokens with counters. Full budgets are forgotten beyond it.
const SENDERS_MAX: usize = 10_000;

/// The budgets of all API tokens that have one. Each server has its own.
#[derive(Debug, Default)]
pub(crate) struct Budgets(Mutex<HashMap<String, Budget>>);

/// The budget of an API token.
#[derive(Debug)]
struct Budget {
    requests: Bucket,
    tokens: Bucket,
}

/// A token bucket: it holds at most what one minute allows, and is refilled continuously.
#[derive(Debug)]
struct Bucket {
    per_minute: f64,
    /// What is left. Less than zero if a response used more than was left.
    left: f64,
    at: Instant,
}

impl Bucket {
    fn new(per_minute: f64, now: Instant) -> Bucket {
        Bucket { per_minute, left: per_minute, at: now }
    }

    fn refill(&mut self, per_minute: f64, now: Instant) {
        self.per_minute = per_minute;
        let share = now.saturating_duration_since(self.at).as_secs_f64() / WINDOW.as_secs_f64();
        self.left = (self.left + share * per_minute).min(per_minute);
        self.at = now;
    }

    /// Returns the time until `needed` is left; zero if it is.
    fn wait_for(&self, needed: f64) -> Duration {
        let missing = needed - self.left;
        if missing <= 0.0 || self.per_minute <= 0.0 {
            return Duration::ZERO;
        }
        let seconds = missing / self.per_minute * WINDOW.as_secs_f64();
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

impl Budgets {
    /// Takes a request from the sender's budget.
    ///
    /// # Errors
    /// Says which limit is reached and when the next request is accepted.
    pub(crate) fn take(&self, sender: &RequestSender) -> Result<(), ApiError> {
        let Some(token_id) = limited(sender) else { return Ok(()) };
        let (requests, tokens) = (sender.requests_per_minute, sender.tokens_per_minute);
        let now = Instant::now();
        let mut budgets = self.lock();
        if budgets.len() >= SENDERS_MAX {
            budgets.retain(|_, budget| now.saturating_duration_since(budget.requests.at) < WINDOW);
        }
        let budget = budgets.entry(token_id.to_owned()).or_insert_with(|| Budget {
            requests: Bucket::new(limit(requests), now),
            tokens: Bucket::new(limit(tokens), now),
        });
        budget.requests.refill(limit(requests), now);
        budget.tokens.refill(limit(tokens), now);
        if let Some(most) = requests {
            let wait = budget.requests.wait_for(1.0);
            if !wait.is_zero() {
                return Err(spent(&format!("{most} requests per minute"), wait));
            }
        }
        if let Some(most) = tokens {
            // A request is admitted while anything is left; its response is subtracted when it is known.
            let wait = budget.tokens.wait_for(1.0);
            if !wait.is_zero() {
                return Err(spent(&format!("{most} tokens per minute"), wait));
            }
        }
        budget.requests.left -= 1.0;
        Ok(())
    }

    /// Subtracts the tokens of a response from the sender's budget.
    pub(crate) fn spend(&self, sender: &RequestSender, tokens: u64) {
        let Some(token_id) = limited(sender).filter(|_| sender.tokens_per_minute.is_some()) else { return };
        if let Some(budget) = self.lock().get_mut(token_id) {
            // Whatever a server reports, the budget is refilled within ten minutes.
            let debt_max = f64::from(WINDOWS_OF_DEBT_MAX) * budget.tokens.per_minute;
            budget.tokens.left = (budget.tokens.left - tokens as f64).max(-debt_max);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Budget>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the id of a token that has a budget.
fn limited(sender: &RequestSender) -> Option<&str> {
    let has_limit = sender.requests_per_minute.is_some() || sender.tokens_per_minute.is_some();
    sender.token_id.as_deref().filter(|_| has_limit)
}

fn limit(per_minute: Option<u32>) -> f64 {
    per_minute.map_or(f64::MAX, f64::from)
}

fn spent(limit: &str, wait: Duration) -> ApiError {
    let seconds = wait.as_secs_f64().ceil() as u64;
    let message = format!("the budget of the API token is spent ({limit}); retry in {} s", seconds.max(1));
    ApiError::new(429, "rate_limit_error", "rate_limit_exceeded", message).retry_after(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(requests: Option<u32>, tokens: Option<u32>) -> RequestSender {
        RequestSender {
            token_id: Some("tok_1".to_owned()),
            requests_per_minute: requests,
            tokens_per_minute: tokens,
            ..RequestSender::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_limit_are_refused_until_the_budget_is_refilled() {
        let (budgets, sender) = (Budgets::default(), sender(Some(2), None));
        assert_eq!((budgets.take(&sender), budgets.take(&sender)), (Ok(()), Ok(())));
        let refused = budgets.take(&sender).map_err(|error| (error.status, error.retry_after));
        assert_eq!(refused, Err((429, Some(30))));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(budgets.take(&sender), Ok(()));
        assert!(budgets.take(&sender).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_of_a_response_delay_later_requests() {
        let (budgets, sender) = (Budgets::default(), sender(None, Some(600)));
        assert_eq!(budgets.take(&sender), Ok(()));
        budgets.spend(&sender, 1_200);
        let refused = budgets.take(&sender).map_err(|error| error.retry_after);
        assert_eq!(refused, Err(Some(61)));
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(budgets.take(&sender), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn sender_without_limits_has_no_budget() {
        let budgets = Budgets::default();
        for _ in 0..100 {
            assert_eq!(budgets.take(&sender(None, None)), Ok(()));
        }
        assert!(budgets.lock().is_empty());
    }
}
