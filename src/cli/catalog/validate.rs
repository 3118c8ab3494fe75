//! `oxolm catalog validate`

use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

use super::open::From;
use super::{Answer, Output, Streams};
use crate::error::chain;
use crate::fbc::read::StreamError;
use crate::fbc::validate::{Finding, Severity, Validator};
use crate::store::catalog::{self, CatalogError};

/// How a message begins that is about what the server refuses.
const REFUSED: &str = "the server refuses this: ";

/// Say everything that is wrong with a catalog, with file and line.
///
/// Errors are what `opm validate` demands; some of them make the server refuse the catalog, the others it serves as it is.
/// Warnings are what passes everywhere and hardly anybody means, such as a catalog without content.
///
/// -o json prints {"passed", "findings": [{"severity", "file", "line", "schema", "package", "name", "message"}]};
/// severity is error or warning, file is empty for what is about the whole catalog, line is null where there is none, and
/// the message of what the server refuses begins with "the server refuses this: ".
///
/// Exit code 0: no errors; 1: errors; 2: SRC cannot be used.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  oxolm catalog validate ./catalog\n  \
        oxolm catalog validate ./catalog -o json | jq -e .passed")]
pub(super) struct Validate {
    /// The catalog: a directory, a file, an image, or cluster:NAME
    #[arg(value_name = "SRC")]
    pub(super) source: String,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: Output,
    #[command(flatten)]
    pub(super) from: From,
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    passed: bool,
    findings: Vec<DocumentFinding<'a>>,
}

#[derive(Debug, Serialize)]
struct DocumentFinding<'a> {
    severity: &'static str,
    file: &'a str,
    line: Option<usize>,
    schema: &'a str,
    package: &'a str,
    name: &'a str,
    message: String,
}

pub(super) fn run(arguments: &Validate, streams: &mut Streams<'_>) -> anyhow::Result<Answer> {
    let opened = arguments.from.open(&arguments.source)?;
    let mut validator = Validator::default();
    let mut current: Arc<str> = Arc::from("");
    catalog::examine(opened.path(), &mut |file, document| {
        if *current != *file {
            current = Arc::from(file);
        }
        match document {
            Ok((meta, line)) => validator.add(&current, line, meta.as_ref()),
            Err(error) => {
                let (line, message) = described(&error);
                validator.refuse(file, line, message);
            }
        }
    })?;
    let findings = validator.finish();
    let passed = findings.iter().all(|one| one.severity != Severity::Error);
    match arguments.output {
        Output::Text => print(&findings, streams),
        Output::Json => {
            let document = Document {
                passed,
                findings: findings.iter().map(document).collect(),
            };
            super::print_json(&document, streams)
        }
    }
    .context("cannot write the answer")?;
    Ok(if passed { Answer::Yes } else { Answer::No })
}

/// The line and the reason; the file is told beside it.
fn described(error: &CatalogError) -> (Option<usize>, String) {
    match error {
        CatalogError::Content { source, .. } => (source.line(), position_less(source)),
        CatalogError::TooLarge { source, .. } => (source.line(), chain(source)),
        CatalogError::NoFile { .. } => (
            None,
            "it is neither a file nor a directory of the catalog".to_owned(),
        ),
        other => (None, chain(other)),
    }
}

/// The column and the reason, since the line is told beside it.
fn position_less(error: &StreamError) -> String {
    match error {
        StreamError::Document(error) => {
            format!("column {}: {}", error.position.column, error.problem)
        }
        StreamError::Read(_) | StreamError::TooLarge { .. } => chain(error),
    }
}

fn severity(finding: &Finding) -> &'static str {
    match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

fn document(finding: &Finding) -> DocumentFinding<'_> {
    let prefix = if finding.is_refused { REFUSED } else { "" };
    DocumentFinding {
        severity: severity(finding),
        file: &finding.file,
        line: finding.line,
        schema: &finding.schema,
        package: &finding.package,
        name: &finding.name,
        message: format!("{prefix}{}", finding.message),
    }
}

fn print(findings: &[Finding], streams: &mut Streams<'_>) -> std::io::Result<()> {
    let parts = [
        ("The server refuses this catalog:", true, Severity::Error),
        ("Its authors should fix:", false, Severity::Error),
        ("Its authors may want to look at:", false, Severity::Warning),
    ];
    for (title, is_refused, severity) in parts {
        let part: Vec<&Finding> = findings
            .iter()
            .filter(|one| one.is_refused == is_refused && one.severity == severity)
            .collect();
        if part.is_empty() {
            continue;
        }
        writeln!(streams.out, "{title}")?;
        for finding in part {
            writeln!(streams.out, "  {}", super::printable(&line(finding)))?;
        }
    }
    let count = |severity, what: &str| {
        let all = findings.iter().filter(|one| one.severity == severity);
        match all.count() {
            1 => format!("1 {what}"),
            count => format!("{count} {what}s"),
        }
    };
    let (errors, warnings) = (
        count(Severity::Error, "error"),
        count(Severity::Warning, "warning"),
    );
    writeln!(streams.out, "{errors}, {warnings}")
}

/// `file:line: schema "name" of package "package": message`
fn line(finding: &Finding) -> String {
    let Finding {
        file,
        schema,
        package,
        name,
        message,
        ..
    } = finding;
    let line = finding
        .line
        .map_or(String::new(), |line| format!(":{line}"));
    let name_part = match name.as_str() {
        "" => String::new(),
        name => format!(" {name:?}"),
    };
    let package_part = match package.as_str() {
        "" => String::new(),
        package if package == name => String::new(),
        package => format!(" of package {package:?}"),
    };
    match schema.as_str() {
        "" if file.is_empty() => message.clone(),
        "" => format!("{file}{line}: {message}"),
        schema => format!("{file}{line}: {schema}{name_part}{package_part}: {message}"),
    }
}
