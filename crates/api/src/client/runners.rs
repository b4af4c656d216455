//! The runner API over HTTP.

use std::time::Duration;

use serde_json::Value;

use super::Client;
use crate::runner::{
    Answer, AppendRequest, Appended, AttemptRef, ChildAnswer, ChildRequest, ClaimRequest, Claims, Heartbeat,
    HeartbeatAnswer, JournalPage, JournalRequest, LeaveRequest, RegisterRequest, Registered, RunnerApi,
};

impl RunnerApi for Client {
    fn register<'a>(&'a self, request: &'a RegisterRequest) -> Answer<'a, Registered> {
        Box::pin(self.post("runner/register", request))
    }

    fn claim<'a>(&'a self, request: &'a ClaimRequest) -> Answer<'a, Claims> {
        let wait = Duration::from_millis(request.wait_ms);
        Box::pin(self.post_and_wait("runner/claim", request, wait))
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> Answer<'a, HeartbeatAnswer> {
        Box::pin(self.post("runner/heartbeat", heartbeat))
    }

    fn append<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended> {
        Box::pin(self.post("runner/append", request))
    }

    fn finish<'a>(&'a self, request: &'a AppendRequest) -> Answer<'a, Appended> {
        Box::pin(self.post("runner/finish", request))
    }

    fn park<'a>(&'a self, attempt: &'a AttemptRef) -> Answer<'a, ()> {
        Box::pin(async move { self.post::<Value>("runner/park", attempt).await.map(|_| ()) })
    }

    fn release<'a>(&'a self, attempt: &'a AttemptRef) -> Answer<'a, ()> {
        Box::pin(async move { self.post::<Value>("runner/release", attempt).await.map(|_| ()) })
    }

    fn delegate<'a>(&'a self, request: &'a ChildRequest) -> Answer<'a, ChildAnswer> {
        Box::pin(self.post("runner/delegate", request))
    }

    fn journal<'a>(&'a self, request: &'a JournalRequest) -> Answer<'a, JournalPage> {
        Box::pin(self.post("runner/journal", request))
    }

    fn leave<'a>(&'a self, request: &'a LeaveRequest) -> Answer<'a, ()> {
        Box::pin(async move { self.post::<Value>("runner/leave", request).await.map(|_| ()) })
    }
}
