//! What is sent: `OpenMetrics` for who takes it, else Prometheus' older text, in pieces.
//!
//! A scrape of a thousand extensions has more than a megabyte, which is never in memory as a whole: a piece is made when
//! the one before was taken.

use std::fmt;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

/// How large a piece is, in bytes.
const PIECE_BYTES: usize = 32 << 10;

/// The formats that Prometheus asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    OpenMetrics,
    Text,
}

impl Format {
    /// The one that the client takes: Prometheus names `OpenMetrics` if it does; people and scripts get the text.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let accepted = headers.get_all(ACCEPT).iter();
        let takes = accepted
            .filter_map(|value| value.to_str().ok())
            .any(|value| {
                value.split(',').any(|range| {
                    let mut parts = range.split(';').map(str::trim);
                    let media_type = parts.next().unwrap_or_default();
                    media_type.eq_ignore_ascii_case("application/openmetrics-text")
                        && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
                })
            });
        if takes { Self::OpenMetrics } else { Self::Text }
    }

    pub(super) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        })
    }
}

/// Sends what `registry` tells. Waits where the receiver does: not for an async task.
pub(super) fn send(registry: &Registry, format: Format, pieces: &mpsc::Sender<Bytes>) {
    let mut writer = Writer {
        format,
        line: String::new(),
        help: String::new(),
        piece: Vec::with_capacity(PIECE_BYTES),
        send: |piece| pieces.blocking_send(piece).is_ok(),
    };
    // Somebody who goes away before the end is not interested in the rest.
    _ = text::encode(&mut writer, registry).and_then(|()| writer.flush());
}

/// Takes the encoder's text line by line, and passes it on in pieces.
struct Writer<S> {
    format: Format,
    /// What was written of a line that is not complete.
    line: String,
    /// The line that describes a metric, until its type is known.
    help: String,
    piece: Vec<u8>,
    /// Passes a piece on; whether anybody takes it.
    send: S,
}

impl<S: FnMut(Bytes) -> bool> Writer<S> {
    /// Takes a line, with its end.
    fn take(&mut self) -> fmt::Result {
        let line = std::mem::take(&mut self.line);
        match self.format {
            Format::OpenMetrics => self.piece.extend_from_slice(line.as_bytes()),
            Format::Text => self.take_as_text(&line),
        }
        // Its room is used again.
        self.line = line;
        self.line.clear();
        if self.piece.len() >= PIECE_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// The older text: a counter is described under the name that its series have, and there are no units and no end.
    fn take_as_text(&mut self, line: &str) {
        if let Some(help) = line.strip_prefix("# HELP ") {
            help.clone_into(&mut self.help);
        } else if let Some(described) = line.strip_prefix("# TYPE ") {
            let (name, kind) = described.split_once(' ').unwrap_or((described, ""));
            let suffix = if kind.trim_end() == "counter" {
                "_total"
            } else {
                ""
            };
            let about = self.help.strip_prefix(name).unwrap_or_default();
            let text = format!("# HELP {name}{suffix}{about}# TYPE {name}{suffix} {kind}");
            self.piece.extend_from_slice(text.as_bytes());
        } else if !line.starts_with('#') {
            self.piece.extend_from_slice(line.as_bytes());
        }
    }

    fn flush(&mut self) -> fmt::Result {
        if self.piece.is_empty() {
            return Ok(());
        }
        let full = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        if (self.send)(full.into()) {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

impl<S: FnMut(Bytes) -> bool> fmt::Write for Writer<S> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') {
                self.take()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    fn told(format: Format) -> String {
        let mut registry = Registry::default();
        registry.register("a", "Counted", Counter::<u64>::default());
        registry.register("b", "Measured", Gauge::<i64>::default());
        let (sender, mut receiver) = mpsc::channel(8);
        send(&registry, format, &sender);
        drop(sender);
        let mut told = Vec::new();
        while let Some(piece) = receiver.blocking_recv() {
            told.extend_from_slice(&piece);
        }
        String::from_utf8(told).unwrap()
    }

    #[test]
    fn a_counter_is_described_as_each_format_wants() {
        assert_eq!(
            told(Format::Text),
            "# HELP a_total Counted.\n# TYPE a_total counter\na_total 0\n# HELP b Measured.\n# TYPE b gauge\nb 0\n"
        );
        assert_eq!(
            told(Format::OpenMetrics),
            "# HELP a Counted.\n# TYPE a counter\na_total 0\n# HELP b Measured.\n# TYPE b gauge\nb 0\n# EOF\n"
        );
    }

    #[test]
    fn open_metrics_is_for_who_names_it() {
        for (accept, expected) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", Format::Text),
            ("application/openmetrics-text;q=0, text/plain", Format::Text),
            (
                "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5",
                Format::OpenMetrics,
            ),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            assert_eq!(Format::of(&headers), expected, "{accept}");
        }
    }

    #[test]
    fn nothing_is_made_for_who_has_gone() {
        let mut registry = Registry::default();
        registry.register("a", "Counted", Counter::<u64>::default());
        let (sender, receiver) = mpsc::channel(1);
        drop(receiver);
        send(&registry, Format::Text, &sender);
    }
}
