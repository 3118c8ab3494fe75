//! `oxolm range`: what a version range means, without a cluster.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueEnum};
use owo_colors::OwoColorize as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Answer, batch};
use crate::version::Version;
use crate::version::range::explain::{self, Explanation};
use crate::version::range::{Range, admission};
use crate::version::skip_range::SkipRange;

/// Check and explain version ranges.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        oxolm range check '^1.2' 1.2.0 2.0.0"
)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(Check),
    Explain(Explain),
}

/// Say which versions are in a range.
///
/// Exit code 0: all are; 1: some are not; 2: the range or a version cannot be read.
///
/// `-o json` prints {"range","language","canonical","admitted","versions":[{"version","matches"}]}.
///
/// `--batch` reads one question per line, {"id","language":"spec"|"skip-range","range","version"?}, and answers each with
/// {"id","valid","admitted","matches","canonical","error"}.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:\n  \
        oxolm range check '>=1.0 <2.0' 1.5.0 2.0.0\n  \
        oxolm range check --language skip-range '<1.2.0' 1.1.0"
)]
struct Check {
    /// The range; it may begin with a hyphen
    #[arg(allow_hyphen_values = true, required_unless_present = "batch")]
    range: Option<String>,
    /// Versions, as catalogs write them: three numbers, perhaps a pre-release and build metadata
    #[arg(required_unless_present = "batch")]
    versions: Vec<String>,
    /// The language of the range
    #[arg(long, value_enum, default_value_t)]
    language: Language,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Answer the questions of a file, one per line; - is standard input
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["range", "versions", "output", "language"])]
    batch: Option<PathBuf>,
}

/// Say what a range stands for, and what it admits next to its borders.
///
/// Exit code 0, or 2 when the range cannot be read.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  oxolm range explain '~1.2 || ^3'")]
struct Explain {
    /// The range; it may begin with a hyphen
    #[arg(allow_hyphen_values = true)]
    range: String,
    /// The language of the range
    #[arg(long, value_enum, default_value_t)]
    language: Language,
    /// The form of the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Language {
    /// That of spec.source.catalog.version
    #[default]
    Spec,
    /// That of skipRange in catalogs
    SkipRange,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    #[default]
    Text,
    Json,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Answer> {
    match &arguments.command {
        Command::Check(check) => match &check.batch {
            Some(source) => {
                batch::answer(source, |question: Question| Ok(question.answer()))?;
                Ok(Answer::Yes)
            }
            None => check.run(),
        },
        Command::Explain(explain) => explain.run(),
    }
}

/// A range of either language.
enum AnyRange {
    Spec(Range),
    Skip(SkipRange),
}

impl AnyRange {
    /// # Errors
    /// What is wrong with the text and where.
    fn parse(language: Language, text: &str) -> Result<Self, String> {
        match language {
            Language::Spec => Range::parse(text).map(Self::Spec).map_err(|error| {
                let hint = error.hint();
                format!("{error}: {hint}")
            }),
            Language::SkipRange => SkipRange::parse(text)
                .map(Self::Skip)
                .map_err(|error| error.to_string()),
        }
    }

    fn contains(&self, version: &Version) -> bool {
        match self {
            Self::Spec(range) => range.contains(version),
            Self::Skip(range) => range.contains(version),
        }
    }

    fn canonical(&self) -> Option<String> {
        match self {
            Self::Spec(range) => Some(range.to_string()),
            Self::Skip(_) => None,
        }
    }

    fn explain(&self) -> Explanation {
        match self {
            Self::Spec(range) => explain::range(range),
            Self::Skip(range) => explain::skip_range(range),
        }
    }
}

fn admitted(language: Language, text: &str) -> Option<bool> {
    (language == Language::Spec).then(|| admission::is_admitted(text))
}

/// A range of `spec.source.catalog.version`.
///
/// # Errors
/// When the text is none; the error says where it ends to be one.
pub(super) fn check_spec_range(text: &str) -> anyhow::Result<()> {
    parse(Language::Spec, text).map(drop)
}

fn parse(language: Language, text: &str) -> anyhow::Result<AnyRange> {
    match AnyRange::parse(language, text) {
        Ok(range) => Ok(range),
        Err(why) => bail!("{text:?} is no range: {why}"),
    }
}

impl Check {
    fn run(&self) -> anyhow::Result<Answer> {
        let text = self.range.as_deref().unwrap_or_default();
        let range = parse(self.language, text)?;
        let mut rows = Vec::new();
        for text in &self.versions {
            let version =
                Version::parse(text).with_context(|| format!("{text:?} is no version"))?;
            rows.push((text, range.contains(&version)));
        }
        let mut out = anstream::stdout().lock();
        match self.output {
            Output::Text => {
                for (version, matches) in &rows {
                    if *matches {
                        writeln!(out, "{version} is {} {text:?}", "in".green())?;
                    } else {
                        writeln!(out, "{version} is {} {text:?}", "not in".red())?;
                    }
                }
            }
            Output::Json => {
                let versions: Vec<Value> = rows
                    .iter()
                    .map(|(version, matches)| {
                        serde_json::json!({"version": version, "matches": matches})
                    })
                    .collect();
                let answer = serde_json::json!({
                    "range": text,
                    "language": self.language,
                    "canonical": range.canonical(),
                    "admitted": admitted(self.language, text),
                    "versions": versions,
                });
                writeln!(out, "{answer:#}")?;
            }
        }
        Ok(if rows.iter().all(|(_, matches)| *matches) {
            Answer::Yes
        } else {
            Answer::No
        })
    }
}

impl Explain {
    fn run(&self) -> anyhow::Result<Answer> {
        let range = parse(self.language, &self.range)?;
        let explained = range.explain();
        let mut out = anstream::stdout().lock();
        match self.output {
            Output::Text => write_explanation(&mut out, &self.range, &explained)?,
            Output::Json => {
                let groups: Vec<Vec<Value>> = explained
                    .groups
                    .iter()
                    .map(|words| {
                        words
                            .iter()
                            .map(
                                |w| serde_json::json!({"written": w.written, "meaning": w.meaning}),
                            )
                            .collect()
                    })
                    .collect();
                let borders: Vec<Value> = explained
                    .borders
                    .iter()
                    .map(|(version, is_in)| {
                        serde_json::json!({"version": version.to_string(), "matches": is_in})
                    })
                    .collect();
                let answer = serde_json::json!({
                    "range": self.range,
                    "language": self.language,
                    "canonical": range.canonical(),
                    "admitted": admitted(self.language, &self.range),
                    "groups": groups,
                    "borders": borders,
                });
                writeln!(out, "{answer:#}")?;
            }
        }
        Ok(Answer::Yes)
    }
}

fn write_explanation(
    out: &mut impl std::io::Write,
    text: &str,
    explained: &Explanation,
) -> std::io::Result<()> {
    writeln!(out, "{text:?} admits a version when")?;
    for (index, words) in explained.groups.iter().enumerate() {
        if index > 0 {
            writeln!(out, "or when")?;
        }
        let width = words.iter().map(|w| w.written.len()).max().unwrap_or(0);
        for word in words {
            writeln!(out, "  {:width$}  {}", word.written, word.meaning)?;
        }
    }
    writeln!(out, "\nOn and beside its borders:")?;
    for (version, is_in) in &explained.borders {
        if *is_in {
            writeln!(out, "  {} {version}", "in ".green())?;
        } else {
            writeln!(out, "  {} {version}", "out".red())?;
        }
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
struct Question {
    #[serde(default)]
    id: Value,
    language: Language,
    range: String,
    #[serde(default)]
    version: Option<String>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Answered {
    id: Value,
    valid: bool,
    admitted: Option<bool>,
    matches: Option<bool>,
    canonical: Option<String>,
    error: Option<String>,
}

impl Question {
    fn answer(self) -> Answered {
        let admitted = admitted(self.language, &self.range);
        let range = match AnyRange::parse(self.language, &self.range) {
            Ok(range) => range,
            Err(why) => {
                return Answered {
                    id: self.id,
                    valid: false,
                    admitted,
                    matches: None,
                    canonical: None,
                    error: Some(why),
                };
            }
        };
        let version = self.version.map(|text| {
            Version::parse(&text).map_err(|why| format!("{text:?} is no version: {why}"))
        });
        let (matches, error) = match version {
            None => (None, None),
            Some(Ok(version)) => (Some(range.contains(&version)), None),
            Some(Err(why)) => (None, Some(why)),
        };
        Answered {
            id: self.id,
            valid: true,
            admitted,
            matches,
            canonical: range.canonical(),
            error,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(question: Value, expected: &Value) {
        let question: Question = serde_json::from_value(question).unwrap();
        assert_eq!(serde_json::to_value(question.answer()).unwrap(), *expected);
    }

    #[test]
    fn each_question_has_its_answer() {
        check(
            json!({"id": 1, "language": "spec", "range": "> 1.0 , 2.x", "version": "2.3.4"}),
            &json!({"id": 1, "valid": true, "admitted": true, "matches": true, "canonical": ">1.0 2.x", "error": null}),
        );
        check(
            json!({"id": "b", "language": "skip-range", "range": ">=1.0.0 <2.0.0"}),
            &json!({"id": "b", "valid": true, "admitted": null, "matches": null, "canonical": null, "error": null}),
        );
        check(
            json!({"language": "spec", "range": "1 <", "version": "1.0.0"}),
            &json!({"id": null, "valid": false, "admitted": false, "matches": null, "canonical": null,
                "error": "improper constraint: \"1 <\": at position 4: expected a version such as \"1.2.3\", \"1.2\" or \"1.x\""}),
        );
        check(
            json!({"id": 3, "language": "spec", "range": "1", "version": "1.0"}),
            &json!({"id": 3, "valid": true, "admitted": true, "matches": null, "canonical": "1",
                "error": "\"1.0\" is no version: No Major.Minor.Patch elements found"}),
        );
    }
}
