//! Log lines: one JSON object (or one readable line) per event, with fields from a closed list.
//!
//! A field that is not in [`ALLOWED`] is dropped, whoever recorded it, libraries included. `Authorization`, cookies,
//! query strings, bodies and state contents have no field here and must never get one. Text is escaped, so no value
//! can start a line of its own.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::time::SystemTime;

use anyhow::Context as _;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber, span};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// The fields a log line may carry. None of them holds a secret, a document, or anything about a person but ids.
pub const ALLOWED: &[&str] = &[
    "address",
    "attempt",
    "bytes",
    "code",
    "count",
    "duration_ms",
    "ending",
    "environment.id",
    "error",
    "job.id",
    "key",
    "lane",
    "lock.id",
    "message",
    "method",
    "principal.id",
    "reason",
    "request.id",
    "reservation.id",
    "route",
    "schema.version",
    "seconds",
    "seq",
    "serial",
    "signal",
    "state.id",
    "status",
    "task",
    "token.id",
    "version",
    "version.id",
    "workspace.id",
];

/// The longest value; the rest is cut. A runaway error text must not fill the disk.
const MAX_VALUE_CHARS: usize = 2000;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One JSON object a line, for machines.
    #[default]
    Json,
    /// One readable line, for people.
    Text,
}

/// Starts logging to standard error. `filter` is a level or a list of `target=level`.
///
/// # Errors
///
/// When the filter cannot be read, or the process logs already.
pub fn init(format: LogFormat, filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter)
        .context("the log filter cannot be read")?
        // Postgres notes each rollback that came too late to be needed, as after a client went away during a commit.
        .add_directive("sqlx::postgres::notice=error".parse()?);
    tracing_subscriber::registry()
        .with(LineLayer::new(format, io::stderr).with_filter(filter))
        .try_init()
        .context("logging was started before")
}

/// Prints an error with the errors it came from.
pub struct Chain<'a>(pub &'a (dyn Error + 'a));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// Writes each event, with the fields of the spans around it, as one line.
pub struct LineLayer<W> {
    format: LogFormat,
    writer: W,
}

impl<W> LineLayer<W> {
    /// A layer that writes to what `writer` makes for each line.
    pub const fn new(format: LogFormat, writer: W) -> Self {
        Self { format, writer }
    }
}

impl<S, W, O> Layer<S> for LineLayer<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Fn() -> O + 'static,
    O: Write,
{
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, ctx: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = ctx.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, ctx: Context<'_, S>) {
        if let Some(span) = ctx.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in ctx
            .event_scope(event)
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .iter()
            .rev()
        {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.0.extend(outer.0.clone());
            }
        }
        event.record(&mut fields);
        let line = match self.format {
            LogFormat::Json => json_line(event, fields),
            LogFormat::Text => text_line(event, fields),
        };
        // A full disk or a closed pipe must not stop the service, and there is nowhere else to tell.
        let _ = (self.writer)().write_all(line.as_bytes());
    }
}

fn now() -> String {
    // The one place here that reads the wall clock.
    chrono::DateTime::<chrono::Utc>::from(SystemTime::now())
        .to_rfc3339_opts(chrono::SecondsFormat::Micros, true)
}

fn json_line(event: &Event<'_>, fields: Fields) -> String {
    let mut line = Map::new();
    line.insert("time".into(), now().into());
    line.insert("level".into(), event.metadata().level().as_str().into());
    line.insert("target".into(), event.metadata().target().into());
    line.extend(fields.0);
    format!("{}\n", Value::Object(line))
}

fn text_line(event: &Event<'_>, mut fields: Fields) -> String {
    let message = match fields.0.remove("message") {
        Some(Value::String(text)) => text.escape_debug().to_string(),
        _ => String::new(),
    };
    let mut line = format!(
        "{} {:5} {message}",
        now(),
        event.metadata().level().as_str()
    );
    for (name, value) in fields.0 {
        line.push_str(&format!(" {name}={value}"));
    }
    line.push('\n');
    line
}

/// The allowed fields of a span or an event.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn insert(&mut self, field: &Field, value: impl FnOnce() -> Value) {
        if ALLOWED.contains(&field.name()) {
            self.0.insert(field.name().to_owned(), value());
        }
    }
}

fn cut(text: &str) -> Value {
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field, || cut(&format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, || cut(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.insert(field, || cut(&Chain(value).to_string()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, || value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, || value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, || value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, || value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, emit: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber =
            tracing_subscriber::registry().with(LineLayer::new(format, move || writer.clone()));
        tracing::subscriber::with_default(subscriber, emit);
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    fn emit() {
        let span = tracing::info_span!("request", request.id = "req-1", authorization = "Bearer x");
        let _entered = span.enter();
        tracing::info!(
            token = "klp_secret",
            token.id = "AAAA",
            count = 3,
            "one\ntwo"
        );
    }

    #[test]
    fn only_allowed_fields_are_written() {
        let line = logged(LogFormat::Json, emit);
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["request.id"], "req-1");
        assert_eq!(value["token.id"], "AAAA");
        assert_eq!(value["count"], 3);
        assert_eq!(value["message"], "one\ntwo");
        assert!(
            !line.contains("secret") && !line.contains("Bearer"),
            "{line}"
        );
    }

    #[test]
    fn a_value_cannot_start_a_line() {
        for format in [LogFormat::Json, LogFormat::Text] {
            assert_eq!(logged(format, emit).lines().count(), 1);
        }
    }

    #[test]
    fn errors_are_written_with_their_causes_and_cut_when_long() {
        let cause = io::Error::other("x".repeat(5000));
        let error = anyhow::Error::new(cause).context("outer");
        let error: &(dyn Error + 'static) = error.as_ref();
        let line = logged(LogFormat::Json, || tracing::error!(error, "failed"));
        assert!(line.contains("outer: xxx"), "{line}");
        assert!(line.len() < 2500);
    }
}
