//! Logs, on standard error: text for people, JSON for machines.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// The shape of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    /// One readable line per event.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// A filter that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot read log level {text:?}: expected error, warn, info, debug, trace, or directives such as oxolm=debug,kube=warn"
)]
pub struct InvalidLevel {
    text: String,
    #[source]
    source: tracing_subscriber::filter::ParseError,
}

/// Starts logging. `level` is a level or a list of directives.
///
/// # Errors
/// When `level` cannot be read.
pub fn start(level: &str, format: LogFormat) -> Result<(), InvalidLevel> {
    let filter = EnvFilter::try_new(level).map_err(|source| InvalidLevel {
        text: level.to_owned(),
        source,
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let started = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    // Only a second start in the same process fails, and the first one's choice stands then.
    drop(started);
    Ok(())
}
