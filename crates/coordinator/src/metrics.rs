//! Metrics in Prometheus text format.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use slipform_store::{Counts, Millis, Swept};
use slipform_types::{EventBody, GatewayRequest, Receipt, RunStatus, UniversalResponse};

/// Upper bounds of the duration histogram's buckets, in seconds.
const BOUNDS: [f64; 10] = [0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0];

/// Counters since the coordinator started.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    submitted: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    stopped: AtomicU64,
    first_pass: AtomicU64,
    reported_errors: AtomicU64,
    retries: AtomicU64,
    repairs: AtomicU64,
    escalations: AtomicU64,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
    leases_lost: AtomicU64,
    runs_lost: AtomicU64,
    durations: Histogram,
    gateway: GatewayMetrics,
}

/// The labels and the value of each line of a metric.
type Rows = [(String, String)];

/// Returns the only line of a metric without labels.
fn one(value: u64) -> Vec<(String, String)> {
    vec![(String::new(), value.to_string())]
}

/// Writes a metric with its name, kind and description.
fn write_family(text: &mut String, (name, kind, help): (&str, &str, &str), rows: &Rows) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in rows {
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}

/// Counters of the gateway's requests that have no stored run.
#[derive(Debug, Default)]
struct GatewayMetrics {
    completed: AtomicU64,
    failed: AtomicU64,
    joined: AtomicU64,
    durations: Histogram,
}

impl GatewayMetrics {
    fn write(&self, text: &mut String, dropped: u64) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let ended = [("completed", &self.completed), ("failed", &self.failed)];
        let ended = ended.map(|(name, count)| (format!("{{status=\"{name}\"}}"), get(count).to_string()));
        let requests = ("slipform_gateway_requests_total", "counter", "Requests of the gateway by status.");
        write_family(text, requests, &ended);
        let joined = (
            "slipform_gateway_requests_joined_total",
            "counter",
            "Requests of the gateway that joined the one that they repeat.",
        );
        write_family(text, joined, &one(get(&self.joined)));
        let records = (
            "slipform_gateway_records_dropped_total",
            "counter",
            "Requests of the gateway whose summaries were not stored, because the database was unavailable.",
        );
        write_family(text, records, &one(dropped));
        let help = "Duration from a request of the gateway to the end of its response.";
        text.push_str(&self.durations.text("slipform_gateway_duration_seconds", help));
    }
}

/// Counts durations in buckets.
#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    ms_sum: AtomicU64,
}

impl Histogram {
    fn record(&self, milliseconds: u64) {
        let seconds = milliseconds as f64 / 1_000.0;
        let group = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        add(&self.buckets[group], 1);
        add(&self.ms_sum, milliseconds);
    }

    fn text(&self, name: &str, help: &str) -> String {
        let mut text = format!("# HELP {name} {help}\n# TYPE {name} histogram\n");
        let mut total = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            total += count.load(Ordering::Relaxed);
            let bound = BOUNDS.get(index).map_or_else(|| "+Inf".to_owned(), ToString::to_string);
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {total}");
        }
        let sum = self.ms_sum.load(Ordering::Relaxed) as f64 / 1_000.0;
        let _ = writeln!(text, "{name}_sum {sum}\n{name}_count {total}");
        text
    }
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl Metrics {
    pub(crate) fn submitted(&self) {
        add(&self.submitted, 1);
    }

    pub(crate) fn swept(&self, swept: &Swept) {
        add(&self.leases_lost, (swept.returned + swept.lost) as u64);
        add(&self.runs_lost, swept.lost as u64);
        add(&self.failed, swept.lost as u64);
        add(&self.stopped, swept.stopped as u64);
    }

    /// Counts a run that ended with these events.
    pub(crate) fn finished(&self, status: RunStatus, events: &[EventBody]) {
        match status {
            RunStatus::Completed => add(&self.completed, 1),
            RunStatus::Stopped => add(&self.stopped, 1),
            _ => add(&self.failed, 1),
        }
        for body in events {
            match body {
                EventBody::Result { receipt, result_data, .. } => {
                    let is_error = result_data.as_ref().is_some_and(UniversalResponse::reports_error);
                    add(&self.reported_errors, is_error.into());
                    self.receipt(receipt, is_error);
                }
                EventBody::RunCompleted { error: Some(error), .. } => {
                    add(&self.retries, error.retry_count.into())
                }
                _ => {}
            }
        }
    }

    /// Adds a run's duration to the histogram, from `since` until now.
    pub(crate) fn record_duration(&self, since: Millis) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let milliseconds = u64::try_from(i64::try_from(now).unwrap_or(since) - since).unwrap_or_default();
        self.durations.record(milliseconds);
    }

    /// Counts a request of the gateway that joined the one that it repeats.
    pub(crate) fn gateway_joined(&self) {
        add(&self.gateway.joined, 1);
    }

    /// Counts a request of the gateway that has no stored run.
    pub(crate) fn gateway_request(&self, request: &GatewayRequest) {
        let has_failed = request.error_type.is_some();
        add(if has_failed { &self.gateway.failed } else { &self.gateway.completed }, 1);
        self.gateway.durations.record(request.duration_ms);
        add(&self.retries, request.retry_count.into());
        add(&self.repairs, request.repairs.into());
        add(&self.escalations, request.escalations.into());
        add(&self.input_tokens, request.tokens.input);
        add(&self.output_tokens, request.tokens.output);
    }

    fn receipt(&self, receipt: &Receipt, is_error: bool) {
        if !is_error && receipt.retries == 0 && receipt.rungs.len() <= 1 {
            add(&self.first_pass, 1);
        }
        add(&self.retries, receipt.retries.into());
        add(&self.repairs, receipt.repairs.len() as u64);
        add(&self.escalations, receipt.rungs.len().saturating_sub(1) as u64);
        add(&self.input_tokens, receipt.tokens.input);
        add(&self.output_tokens, receipt.tokens.output);
    }

    /// Returns the counters without labels: name, help and value.
    fn simple_counters(&self) -> [(&'static str, &'static str, &AtomicU64); 9] {
        [
            (
                "slipform_first_pass_total",
                "Completed runs without retries, escalations or a reported error.",
                &self.first_pass,
            ),
            (
                "slipform_reported_errors_total",
                "Completed runs whose universal response reports an error.",
                &self.reported_errors,
            ),
            (
                "slipform_retries_total",
                "Model calls repeated because a reply did not satisfy its contract.",
                &self.retries,
            ),
            ("slipform_repairs_total", "Repairs made to replies.", &self.repairs),
            (
                "slipform_escalations_total",
                "Moves to the next tier of an escalation ladder.",
                &self.escalations,
            ),
            ("slipform_input_tokens_total", "Input tokens.", &self.input_tokens),
            ("slipform_output_tokens_total", "Output tokens.", &self.output_tokens),
            ("slipform_leases_lost_total", "Attempts whose lease expired.", &self.leases_lost),
            (
                "slipform_runs_lost_total",
                "Runs failed because too many of their attempts were lost.",
                &self.runs_lost,
            ),
        ]
    }

    /// Returns all metrics as text.
    pub(crate) fn text(&self, counts: &Counts, commits: u64, dropped_requests: u64) -> String {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, rows: &Rows| {
            write_family(&mut text, (name, kind, help), rows)
        };
        family("slipform_runs_submitted_total", "counter", "Submitted runs.", &one(get(&self.submitted)));
        let ended = [("completed", &self.completed), ("failed", &self.failed), ("stopped", &self.stopped)];
        let ended: Vec<_> = ended
            .iter()
            .map(|(name, count)| (format!("{{status=\"{name}\"}}"), get(count).to_string()))
            .collect();
        family("slipform_runs_total", "counter", "Ended runs by status.", &ended);
        for (name, help, counter) in self.simple_counters() {
            family(name, "counter", help, &one(get(counter)));
        }
        let completed = get(&self.completed).saturating_sub(get(&self.reported_errors));
        let rate = if completed == 0 { 0.0 } else { get(&self.first_pass) as f64 / completed as f64 };
        let rate = vec![(String::new(), format!("{rate:.4}"))];
        family(
            "slipform_first_pass_rate",
            "gauge",
            "Share of completed runs without a reported error that had no retries or escalations.",
            &rate,
        );
        let by_status: Vec<_> = counts
            .by_status
            .iter()
            .map(|(status, count)| (format!("{{status=\"{}\"}}", status.name()), count.to_string()))
            .collect();
        family("slipform_runs", "gauge", "Runs in the database by status.", &by_status);
        let depth = vec![(String::new(), counts.queue_depth.to_string())];
        family("slipform_queue_depth", "gauge", "Runs waiting for a runner.", &depth);
        family("slipform_commits_total", "counter", "Commits to the database.", &one(commits));
        let wait = counts.oldest_wait_ms.unwrap_or_default() as f64 / 1_000.0;
        family(
            "slipform_queue_oldest_seconds",
            "gauge",
            "Waiting time of the oldest queued run.",
            &[(String::new(), wait.to_string())],
        );
        let durations = &self.durations;
        text.push_str(
            &durations.text("slipform_run_duration_seconds", "Duration from a run's start to its end."),
        );
        self.gateway.write(&mut text, dropped_requests);
        text
    }
}
