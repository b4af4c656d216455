//! Notifies other processes of commits with `LISTEN` and `NOTIFY`.
//!
//! Notifications are hints: they are sent after the commit, because `NOTIFY` inside a transaction serializes
//! all commits. Subscribers poll every second as well, so a lost notification only delays them.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use slipform_types::with_hex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, interval, sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};

use super::pool::{CONNECT_TIMEOUT, Pool};
use super::target::Target;
use crate::error::Error;

/// Collects the notifications of several commits into one.
const SEND_INTERVAL: Duration = Duration::from_millis(20);

/// Interval of unconditional notifications, because hints can be lost.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// First and maximum delay before reconnecting.
const BACK_OFF: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(5);

/// Delay before listening again after the server has reached its connection limit. Subscribers poll meanwhile.
const LIMIT_PAUSE: Duration = Duration::from_secs(30);

/// Returns a random id, by which this store recognizes its own notifications.
pub(crate) fn sender_id() -> Result<String, Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::Unavailable(format!("the system's random number generator failed: {error}"))
    })?;
    Ok(with_hex("", &bytes))
}

/// Forwards notifications of other processes to subscribers, forever.
pub(crate) async fn listen(
    target: Target,
    sender_id: String,
    notifications: Arc<watch::Sender<u64>>,
    refusals: watch::Receiver<u64>,
) {
    let notify_subscribers = || notifications.send_modify(|number| *number += 1);
    let ticking = async {
        let mut interval = interval(POLL_INTERVAL);
        loop {
            interval.tick().await;
            notify_subscribers();
        }
    };
    let listening = async {
        let mut back_off = BACK_OFF;
        loop {
            let mut refusals = refusals.clone();
            refusals.mark_unchanged();
            tokio::select! {
                has_listened = listen_once(&target, &sender_id, &notify_subscribers) => {
                    if has_listened {
                        back_off = BACK_OFF;
                    }
                    sleep(back_off).await;
                    back_off = (back_off * 2).min(BACK_OFF_MAX);
                }
                // Transactions need the connection more. Dropping it lets one of them connect.
                Ok(()) = refusals.changed() => sleep(LIMIT_PAUSE).await,
            }
        }
    };
    tokio::join!(ticking, listening);
}

/// Listens until the connection is lost. Returns whether it had been established.
async fn listen_once(target: &Target, sender_id: &str, notify_subscribers: &impl Fn()) -> bool {
    let Ok(Ok((client, mut connection))) = timeout(CONNECT_TIMEOUT, target.connect()).await else {
        return false;
    };
    let forward = async {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(hint) = message
                && hint.payload() != sender_id
            {
                notify_subscribers();
            }
        }
    };
    let (asked, ()) = tokio::join!(client.batch_execute("LISTEN slipform"), forward);
    asked.is_ok()
}

/// Sends a notification after each wake-up, forever. It has a connection of its own, because a busy pool would delay
/// notifications. It uses one of the pool while the server has reached its connection limit.
pub(crate) async fn send(target: Target, pool: Arc<Pool>, sender_id: String, wake: Arc<Notify>) {
    let sql = format!("NOTIFY slipform, '{sender_id}'");
    let mut refusals = pool.refusals();
    let mut client: Option<Client> = None;
    let mut limited_until = Instant::now();
    loop {
        tokio::select! {
            () = wake.notified() => {}
            Ok(()) = refusals.changed() => {
                client = None;
                limited_until = Instant::now() + LIMIT_PAUSE;
                continue;
            }
        }
        sleep(SEND_INTERVAL).await;
        let current = match client.take().filter(|client| !client.is_closed()) {
            Some(client) => Some(client),
            None if Instant::now() < limited_until => None,
            None => connect(&target).await,
        };
        if let Some(current) = current {
            if let Ok(Ok(())) = timeout(CONNECT_TIMEOUT, current.batch_execute(&sql)).await {
                client = Some(current);
            }
        } else if let Ok((mut connection, permit)) = pool.acquire().await
            && let Ok(Ok(())) = timeout(CONNECT_TIMEOUT, connection.run(&sql)).await
        {
            pool.release(connection, permit);
        }
    }
}

async fn connect(target: &Target) -> Option<Client> {
    let (client, connection) = timeout(CONNECT_TIMEOUT, target.connect()).await.ok()?.ok()?;
    tokio::spawn(connection);
    Some(client)
}
