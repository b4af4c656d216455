//! Sets up logging: log lines on stderr, and spans for an OpenTelemetry collector.

use anyhow::{Result, bail};
use slipform_types::env;
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, Targets, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

use crate::backends::environment;
use crate::output;
use crate::secrets::RedactedStderr;

/// The variable with the log level: `off`, `error`, `warn`, `info`, `debug` or `trace`.
const VARIABLE: &str = env::SLIPFORM_LOG;

/// Flushes pending spans when dropped.
pub(crate) struct Logging {
    #[cfg(feature = "otel")]
    _spans: Option<spans::Spans>,
}

/// Starts logging at the level of `SLIPFORM_LOG`, or at `level` if the variable is not set. Call it before the async
/// runtime starts: the span exporter has its own thread.
pub(crate) fn start(level: LevelFilter) -> Result<Logging> {
    let level = match environment(VARIABLE).filter(|level| !level.is_empty()) {
        None => level,
        Some(level) => match level.parse() {
            Ok(level) => level,
            Err(_) => bail!("{VARIABLE} is `{level}`; set it to off, error, warn, info, debug or trace"),
        },
    };
    let lines = fmt::layer().with_writer(RedactedStderr).with_target(false).with_ansi(output::is_terminal());
    // The library logs every message of the protocol.
    let of_library = if level >= LevelFilter::DEBUG { level } else { level.min(LevelFilter::ERROR) };
    let levels = Targets::new().with_default(level).with_target("rmcp", of_library);
    // Log lines name the run that they are about, so its spans would only repeat it. Formatting them costs 4 % of a request of
    // the gateway.
    let shows_spans = level >= LevelFilter::DEBUG;
    let levels = levels.and(filter_fn(move |metadata| shows_spans || !metadata.is_span()));
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(levels));
    #[cfg(feature = "otel")]
    {
        let spans = spans::Spans::start()?;
        // An error means that a subscriber is already set; it stays in place.
        let _ = subscriber.with(spans.as_ref().map(spans::Spans::layer)).try_init();
        Ok(Logging { _spans: spans })
    }
    #[cfg(not(feature = "otel"))]
    {
        let _ = subscriber.try_init();
        Ok(Logging {})
    }
}

#[cfg(feature = "otel")]
mod spans {
    use std::collections::HashMap;

    use anyhow::{Context as _, Result};
    use opentelemetry::propagation::TextMapPropagator as _;
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::Resource;
    use opentelemetry_sdk::propagation::TraceContextPropagator;
    use opentelemetry_sdk::trace::{SdkTracerProvider, Tracer};
    use slipform_runner::TraceLinks;
    use slipform_types::{TraceParent, env};
    use tracing::{Span, Subscriber};
    use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt as _};
    use tracing_subscriber::Layer as _;
    use tracing_subscriber::filter::{Filtered, LevelFilter};
    use tracing_subscriber::registry::LookupSpan;

    use crate::backends::environment;

    /// The standard OpenTelemetry variables with the collector's URL.
    const VARIABLES: [&str; 2] = [env::OTEL_EXPORTER_OTLP_ENDPOINT, env::OTEL_EXPORTER_OTLP_TRACES_ENDPOINT];

    /// Exports spans to a collector.
    pub(super) struct Spans(SdkTracerProvider);

    impl Spans {
        /// Starts the exporter, or returns `None` if the environment configures no collector.
        pub(super) fn start() -> Result<Option<Spans>> {
            if !VARIABLES.iter().any(|name| environment(name).is_some_and(|value| !value.is_empty())) {
                return Ok(None);
            }
            // An error means that a provider is already installed, which works as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let exporter = opentelemetry_otlp::SpanExporter::builder().with_http().build();
            let exporter = exporter.with_context(|| {
                format!("cannot export spans to the collector in {}", VARIABLES.join(" or "))
            })?;
            let resource = Resource::builder().with_service_name("slipform").build();
            let provider =
                SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
            slipform_runner::set_trace_links(Box::new(Links(TraceContextPropagator::new())));
            Ok(Some(Spans(provider)))
        }

        pub(super) fn layer<S>(&self) -> Filtered<OpenTelemetryLayer<S, Tracer>, LevelFilter, S>
        where
            S: Subscriber + for<'span> LookupSpan<'span>,
        {
            let tracer = self.0.tracer("slipform");
            tracing_opentelemetry::layer().with_tracer(tracer).with_filter(LevelFilter::INFO)
        }
    }

    /// The name of the header that carries a position in a trace.
    const TRACE_PARENT: &str = "traceparent";

    /// Reads and writes positions in traces.
    struct Links(TraceContextPropagator);

    impl TraceLinks for Links {
        fn set_parent(&self, span: &Span, parent: &TraceParent) {
            let carrier = HashMap::from([(TRACE_PARENT.to_owned(), parent.to_string())]);
            // An error means that no collector gets the span.
            let _ = span.set_parent(self.0.extract(&carrier));
        }

        fn position(&self, span: &Span) -> Option<TraceParent> {
            let mut carrier = HashMap::new();
            self.0.inject_context(&span.context(), &mut carrier);
            carrier.get(TRACE_PARENT)?.parse().ok()
        }
    }

    impl Drop for Spans {
        fn drop(&mut self) {
            // An unreachable collector loses its spans; the command itself must not fail.
            let _ = self.0.shutdown();
        }
    }
}
