#![expect(
    clippy::disallowed_methods,
    reason = "shell: reads the lines of a batch"
)]
//! Many questions in one run: one JSON object per line in, one per line out, in order.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Answers each line of `source` (`-` is standard input) on standard output.
///
/// # Errors
/// At the first line that is no such question, or that cannot be answered; the lines before it are answered.
pub(super) fn answer<Q: DeserializeOwned, A: Serialize>(
    source: &Path,
    mut answer: impl FnMut(Q) -> anyhow::Result<A>,
) -> anyhow::Result<()> {
    let input: Box<dyn BufRead> = if source == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file =
            File::open(source).with_context(|| format!("cannot open {}", source.display()))?;
        Box::new(BufReader::new(file))
    };
    let mut output = io::BufWriter::new(io::stdout().lock());
    for (index, line) in input.lines().enumerate() {
        let number = index + 1;
        let line = line.with_context(|| format!("cannot read line {number}"))?;
        if line.trim().is_empty() {
            continue;
        }
        let answered = serde_json::from_str(&line)
            .context("not a question")
            .and_then(&mut answer)
            .with_context(|| format!("line {number}"));
        match answered {
            Ok(answered) => {
                serde_json::to_writer(&mut output, &answered).context("cannot write")?;
                output.write_all(b"\n").context("cannot write")?;
            }
            Err(error) => {
                output.flush().context("cannot write")?;
                return Err(error);
            }
        }
    }
    output.flush().context("cannot write")
}
