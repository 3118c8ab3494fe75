//! The answer of `oxolm resolve`, for people and for programs.

use std::io::{self, Write};

use anyhow::Context as _;
use comfy_table::{ContentArrangement, Table, presets};
use owo_colors::OwoColorize as _;
use serde::Serialize;

use crate::fbc::package::Deprecation;
use crate::resolve::Query;
use crate::resolve::candidate::Exclusion;
use crate::resolve::report::{CandidateReport, CatalogState, Hop, Report, Verdict};
use crate::version::release::BundleVersion;

/// How many candidates are shown without `--all`.
const SHOWN: usize = 15;

/// The stable form of `-o json` and `-o yaml`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    package: &'a str,
    resolved: bool,
    bundle: Option<&'a str>,
    version: Option<String>,
    release: Option<String>,
    image: Option<&'a str>,
    catalog: Option<&'a str>,
    /// Of condition `Resolved`.
    reason: &'static str,
    message: &'a str,
    /// Of condition `Progressing`.
    error: Option<String>,
    available_update: Option<DocumentHop>,
    path: Vec<DocumentHop>,
    deprecations: &'a [Deprecation],
    catalogs: Vec<DocumentCatalog<'a>>,
    candidates: Vec<DocumentCandidate<'a>>,
}

#[derive(Debug, Serialize)]
struct DocumentHop {
    bundle: String,
    version: String,
}

#[derive(Debug, Serialize)]
struct DocumentCatalog<'a> {
    name: &'a str,
    priority: i32,
    state: String,
}

#[derive(Debug, Serialize)]
struct DocumentCandidate<'a> {
    bundle: &'a str,
    version: Option<String>,
    release: Option<String>,
    channels: &'a [String],
    catalog: &'a str,
    verdict: &'static str,
    why: String,
    path: Vec<DocumentHop>,
    deprecated: Option<&'a str>,
}

fn label(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Chosen => "Chosen",
        Verdict::Tied => "Tied",
        Verdict::Excluded(Exclusion::NotInChannel) => "NotInChannel",
        Verdict::Excluded(Exclusion::OutsideRange) => "OutsideRange",
        Verdict::Excluded(Exclusion::NotASuccessor) => "NotASuccessor",
        Verdict::Excluded(Exclusion::HigherMajor) => "HigherMajor",
        Verdict::Excluded(Exclusion::LowerThanInstalled) => "LowerThanInstalled",
        Verdict::Deprecated => "Deprecated",
        Verdict::NotHighest => "NotHighest",
        Verdict::CatalogNotPreferred => "CatalogNotPreferred",
        Verdict::Refused(_) => "Refused",
    }
}

fn hops(path: &[Hop]) -> Vec<DocumentHop> {
    path.iter()
        .map(|hop| DocumentHop {
            bundle: hop.bundle.clone(),
            version: hop.version.to_string(),
        })
        .collect()
}

fn release_of(version: &BundleVersion) -> Option<String> {
    version.release.as_ref().map(ToString::to_string)
}

fn document<'a>(query: &'a Query, report: &'a Report) -> Document<'a> {
    let resolution = &report.resolution;
    let chosen = resolution.outcome.as_ref().ok();
    Document {
        package: &query.package,
        resolved: chosen.is_some(),
        bundle: chosen.map(|bundle| bundle.name.as_str()),
        version: chosen.map(|bundle| bundle.version.to_string()),
        release: chosen
            .and_then(|bundle| bundle.release.as_ref())
            .map(ToString::to_string),
        image: chosen.map(|bundle| bundle.image.as_str()),
        catalog: chosen.map(|bundle| bundle.catalog.as_str()),
        reason: match &resolution.outcome {
            Ok(_) => "Resolved",
            Err(error) => error.reason().as_str(),
        },
        message: &resolution.message,
        error: resolution.outcome.as_ref().err().map(ToString::to_string),
        available_update: resolution
            .available_update
            .as_ref()
            .map(|update| DocumentHop {
                bundle: update.bundle.clone(),
                version: update.version.to_string(),
            }),
        path: hops(&report.path),
        deprecations: &report.deprecations,
        catalogs: report
            .catalogs
            .iter()
            .map(|catalog| DocumentCatalog {
                name: &catalog.name,
                priority: catalog.priority,
                state: catalog.state.to_string(),
            })
            .collect(),
        candidates: report
            .candidates
            .iter()
            .map(|candidate| DocumentCandidate {
                bundle: &candidate.bundle,
                version: candidate
                    .version
                    .as_ref()
                    .ok()
                    .map(|version| version.version.to_string()),
                release: candidate.version.as_ref().ok().and_then(release_of),
                channels: &candidate.channels,
                catalog: &candidate.catalog,
                verdict: label(&candidate.verdict),
                why: why(candidate),
                path: hops(&candidate.path),
                deprecated: candidate.deprecated.as_deref(),
            })
            .collect(),
    }
}

pub(super) fn json(query: &Query, report: &Report) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &document(query, report)).context("cannot write")?;
    writeln!(out).context("cannot write")
}

pub(super) fn yaml(query: &Query, report: &Report) -> anyhow::Result<()> {
    let text = serde_saphyr::to_string(&document(query, report)).context("cannot write YAML")?;
    write!(io::stdout().lock(), "{text}").context("cannot write")
}

pub(super) fn text(query: &Query, report: &Report, all: bool) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    write_text(&mut out, query, report, all).context("cannot write")
}

fn why(candidate: &CandidateReport) -> String {
    let verdict = &candidate.verdict;
    let mut parts = vec![match candidate.path.as_slice() {
        [next, .., _] => format!(
            "{verdict}, but {} hops lead there, the first to {}",
            candidate.path.len(),
            next.version
        ),
        [] | [_] => verdict.to_string(),
    }];
    if let Err(fault) = &candidate.version {
        parts.push(format!("version cannot be read: {fault}"));
    }
    if let Some(message) = &candidate.deprecated {
        parts.push(format!("deprecated: {message}"));
    }
    parts.join("; ")
}

pub(super) fn write_text(
    out: &mut impl Write,
    query: &Query,
    report: &Report,
    all: bool,
) -> io::Result<()> {
    let resolution = &report.resolution;
    match &resolution.outcome {
        Ok(bundle) => {
            writeln!(out, "{}: {}", "resolved".green().bold(), resolution.message)?;
            writeln!(out, "image {}", bundle.image)?;
        }
        Err(error) => {
            writeln!(
                out,
                "{} ({}): {}",
                "not resolved".red().bold(),
                error.reason(),
                resolution.message
            )?;
            writeln!(out, "condition Progressing would say: {error}")?;
        }
    }
    if let Some(update) = &resolution.available_update {
        writeln!(
            out,
            "{} {} ({}) is kept away by the range alone",
            "available:".yellow(),
            update.bundle,
            update.version
        )?;
    }
    write_candidates(out, report, all)?;
    write_catalogs(out, report)?;
    write_path(out, query, report)?;
    write_deprecations(out, report)
}

fn write_candidates(out: &mut impl Write, report: &Report, all: bool) -> io::Result<()> {
    if report.candidates.is_empty() {
        return Ok(());
    }
    let shown: Vec<&CandidateReport> = nearest(&report.candidates, all);
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(["VERSION", "BUNDLE", "CHANNELS", "CATALOG", "VERDICT"]);
    for candidate in &shown {
        let version = match &candidate.version {
            Ok(version) => version.to_string(),
            Err(_) => "?".to_owned(),
        };
        table.add_row([
            version,
            candidate.bundle.clone(),
            channels(&candidate.channels),
            candidate.catalog.clone(),
            why(candidate),
        ]);
    }
    writeln!(out)?;
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    let hidden = report.candidates.len() - shown.len();
    if hidden > 0 {
        writeln!(out, " … and {hidden} more (--all shows them)")?;
    }
    Ok(())
}

/// The chosen and tied ones, and the highest of the others, in order.
fn nearest(candidates: &[CandidateReport], all: bool) -> Vec<&CandidateReport> {
    let mut room = SHOWN;
    candidates
        .iter()
        .filter(|candidate| {
            let matters = matches!(
                candidate.verdict,
                Verdict::Chosen | Verdict::Tied | Verdict::Refused(_)
            );
            let fits = room > 0;
            room = room.saturating_sub(1);
            all || matters || fits
        })
        .collect()
}

fn channels(channels: &[String]) -> String {
    const MOST: usize = 3;
    match channels {
        [] => "-".to_owned(),
        few if few.len() <= MOST => few.join(","),
        many => {
            let first: Vec<&str> = many.iter().take(MOST).map(String::as_str).collect();
            format!("{} +{}", first.join(","), many.len() - MOST)
        }
    }
}

fn write_catalogs(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for catalog in &report.catalogs {
        if catalog.state != CatalogState::Read {
            writeln!(out, "catalog {}: {}", catalog.name, catalog.state)?;
        }
    }
    Ok(())
}

fn write_path(out: &mut impl Write, query: &Query, report: &Report) -> io::Result<()> {
    let (Some(installed), false) = (&query.installed, report.path.is_empty()) else {
        return Ok(());
    };
    let mut steps = vec![installed.version.clone()];
    steps.extend(report.path.iter().map(|hop| hop.version.to_string()));
    writeln!(out, "\npath: {}", steps.join(" → "))
}

fn write_deprecations(out: &mut impl Write, report: &Report) -> io::Result<()> {
    if !report.deprecations.is_empty() {
        writeln!(out)?;
    }
    for entry in &report.deprecations {
        let name = if entry.name.is_empty() {
            String::new()
        } else {
            format!(" {}", entry.name)
        };
        let kind = entry.schema.trim_start_matches("olm.");
        writeln!(
            out,
            "{} {kind}{name}: {}",
            "deprecated".yellow(),
            entry.message
        )?;
    }
    Ok(())
}
