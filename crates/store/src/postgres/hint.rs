//! Telling other processes that something was committed, and hearing of it.
//!
//! A hint and no more: it is sent after the commit, since a `NOTIFY` inside a transaction makes all commits wait for
//! each other, and whoever waits for something asks every second all the same.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use slipform_types::with_hex;
use tokio::sync::{Notify, watch};
use tokio::time::{interval, sleep, timeout};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

use super::pool::CONNECT_WAIT;
use crate::error::Error;

/// What many commits have to tell is told once.
const TELL_EVERY: Duration = Duration::from_millis(20);

/// How often there is news whatever was heard: hints can be lost.
const TICK: Duration = Duration::from_secs(1);

/// How long it takes before a lost connection is made again, at first and at most.
const BACK_OFF: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(5);

/// A name for this store, by which it knows its own hints.
pub(crate) fn name() -> Result<String, Error> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::Unavailable(format!("the system has no random numbers: {error}")))?;
    Ok(with_hex("", &bytes))
}

/// Listens for hints of others, for ever.
pub(crate) async fn listen(config: Config, name: String, news: Arc<watch::Sender<u64>>) {
    let tick = || news.send_modify(|number| *number += 1);
    let ticking = async {
        let mut interval = interval(TICK);
        loop {
            interval.tick().await;
            tick();
        }
    };
    let listening = async {
        let mut back_off = BACK_OFF;
        loop {
            if hear(&config, &name, &tick).await {
                back_off = BACK_OFF;
            }
            sleep(back_off).await;
            back_off = (back_off * 2).min(BACK_OFF_MAX);
        }
    };
    tokio::join!(ticking, listening);
}

/// Listens until the connection is lost; whether there was one.
async fn hear(config: &Config, name: &str, tick: &impl Fn()) -> bool {
    let Ok(Ok((client, mut connection))) = timeout(CONNECT_WAIT, config.connect(NoTls)).await else {
        return false;
    };
    let heard = async {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(hint) = message
                && hint.payload() != name
            {
                tick();
            }
        }
    };
    let (asked, ()) = tokio::join!(client.batch_execute("LISTEN slipform"), heard);
    asked.is_ok()
}

/// Tells others whenever there is something to tell, for ever.
pub(crate) async fn tell(config: Config, name: String, told: Arc<Notify>) {
    let sql = format!("NOTIFY slipform, '{name}'");
    let mut client: Option<Client> = None;
    loop {
        told.notified().await;
        sleep(TELL_EVERY).await;
        let current = match client.take().filter(|client| !client.is_closed()) {
            Some(client) => Some(client),
            None => connect(&config).await,
        };
        if let Some(current) = current
            && let Ok(Ok(())) = timeout(CONNECT_WAIT, current.batch_execute(&sql)).await
        {
            client = Some(current);
        }
    }
}

async fn connect(config: &Config) -> Option<Client> {
    let (client, connection) = timeout(CONNECT_WAIT, config.connect(NoTls)).await.ok()?.ok()?;
    tokio::spawn(connection);
    Some(client)
}
