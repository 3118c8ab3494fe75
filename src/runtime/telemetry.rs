//! Logs, on standard error: text for people, JSON for machines. The level can be changed while the process runs.

use std::fmt;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
use tracing::info;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::reload;

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

/// The level of the logs. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct LogLevel(Arc<Inner>);

struct Inner {
    /// What the process was started with.
    configured: String,
    current: Mutex<String>,
    use_filter: Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>,
}

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogLevel").field(&self.current()).finish()
    }
}

impl LogLevel {
    /// A level that the filter of `use_filter` follows.
    fn new(
        level: &str,
        use_filter: impl Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            configured: level.to_owned(),
            current: Mutex::new(level.to_owned()),
            use_filter: Box::new(use_filter),
        }))
    }

    /// The level as it is.
    pub fn current(&self) -> String {
        let current = self.0.current.lock();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on `level` is the level: a word or a list of directives.
    ///
    /// # Errors
    /// When it cannot be read; the level stays.
    pub fn set(&self, level: &str) -> Result<(), InvalidLevel> {
        let filter = read(level)?;
        let mut current = (self.0.current.lock()).unwrap_or_else(PoisonError::into_inner);
        // Only the end of the process takes the subscriber away.
        if (self.0.use_filter)(filter).is_ok() {
            info!(before = *current, now = level, "changed the log level");
            level.clone_into(&mut current);
        }
        Ok(())
    }

    /// From now on the level is that with which the process was started.
    pub fn reset(&self) {
        let configured = self.0.configured.clone();
        // It could be read at the start.
        _ = self.set(&configured);
    }
}

/// Starts logging. `level` is a level or a list of directives.
///
/// # Errors
/// When `level` cannot be read.
pub fn start(level: &str, format: LogFormat) -> Result<LogLevel, InvalidLevel> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(read(level)?)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // Who reads the log may go away, and to complain about that where nobody reads is a panic.
        .log_internal_errors(false);
    let (started, level) = match format {
        LogFormat::Text => {
            let builder = builder.with_filter_reloading();
            let handle = builder.reload_handle();
            let level = LogLevel::new(level, move |filter| handle.reload(filter));
            (builder.try_init(), level)
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            let handle = builder.reload_handle();
            let level = LogLevel::new(level, move |filter| handle.reload(filter));
            (builder.try_init(), level)
        }
    };
    // Only a second start in the same process fails, and the first one's choice stands then.
    drop(started);
    Ok(level)
}

/// What libraries log of failures that are told here with their object and what to do, unless a level names them: an
/// untrusted certificate, a watch that is not allowed, which may well be so on purpose, and an API server that is away, for
/// each request anew and without a cause.
const TOLD_BETTER: &str = "rustls_platform_verifier=off,kube_runtime::watcher=error,kube_client::client=error,\
     kube_client::client::builder=off";

fn read(level: &str) -> Result<EnvFilter, InvalidLevel> {
    // Of two directives for the same target the later one counts.
    EnvFilter::try_new(format!("{TOLD_BETTER},{level}")).map_err(|source| InvalidLevel {
        text: level.to_owned(),
        source,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// A level that nothing follows, starting at info.
    pub(crate) fn unused() -> LogLevel {
        LogLevel::new("info", |_filter| Ok(()))
    }

    #[test]
    fn libraries_are_silent_about_what_is_told_here_unless_they_are_named() {
        let logs = |level: &str, names_them: bool| {
            let subscriber = tracing_subscriber::registry().with(read(level).unwrap());
            tracing::subscriber::with_default(subscriber, || {
                assert!(tracing::enabled!(tracing::Level::ERROR), "{level}");
                let tls = tracing::enabled!(target: "rustls_platform_verifier::verification::others", tracing::Level::ERROR);
                assert_eq!(tls, names_them, "{level}");
                let watch =
                    tracing::enabled!(target: "kube_runtime::watcher", tracing::Level::WARN);
                assert_eq!(watch, names_them, "{level}");
                let request = tracing::enabled!(target: "kube_client::client::builder", tracing::Level::ERROR);
                assert_eq!(request, names_them, "{level}");
            });
        };
        logs("info", false);
        logs("error,oxolm=debug", false);
        logs(
            "info,kube_runtime::watcher=debug,rustls_platform_verifier=warn,kube_client::client::builder=error",
            true,
        );
    }

    #[test]
    fn the_level_changes_what_is_logged_and_a_wrong_one_changes_nothing() {
        let (filter, handle) = reload::Layer::new(read("info").unwrap());
        let subscriber = tracing_subscriber::registry().with(filter);
        let level = LogLevel::new("info", move |filter| handle.reload(filter));
        let logs_debug = || tracing::enabled!(tracing::Level::DEBUG);
        tracing::subscriber::with_default(subscriber, || {
            assert!(!logs_debug());
            level.set("debug").unwrap();
            assert!(logs_debug());
            assert_eq!(level.current(), "debug");
            let error = level.set("loud=very").unwrap_err().to_string();
            assert!(
                error.starts_with("cannot read log level \"loud=very\": expected"),
                "{error}"
            );
            assert!(logs_debug());
            level.reset();
            assert!(!logs_debug());
            assert_eq!(level.current(), "info");
        });
    }
}
