//! Why, and why not: what became of each bundle that a reader would ask about.
//!
//! Short, it is the message of condition `Resolved` ([`message`]). Whole, it is what `oxolm resolve` prints.

pub(super) mod message;
mod nearest;

use std::fmt;

use super::candidate::{Candidate, Exclusion};
use super::choice::{Choice, View};
use super::{Catalog, Query, Resolution, ResolveError, deprecation};
use crate::fbc::package::Deprecation;
use crate::version::release::BundleVersion;

pub use message::{MAX_MESSAGE_BYTES, chosen_version};
pub use nearest::Hop;

/// The whole explanation of a resolution.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The answer itself.
    pub resolution: Resolution,
    /// Every bundle of the package in the selected catalogs: highest version first, then by catalog and name.
    pub candidates: Vec<CandidateReport>,
    /// The hops from what is installed to the highest bundle in channels and range, when there is a way.
    pub path: Vec<Hop>,
    /// The deprecation entries that apply to the chosen bundle, its package, or the channels asked for.
    pub deprecations: Vec<Deprecation>,
    /// What became of each catalog, by name.
    pub catalogs: Vec<CatalogReport>,
}

/// One bundle and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct CandidateReport {
    /// The bundle's name.
    pub bundle: String,
    /// Version and release, or why they cannot be read.
    pub version: Result<BundleVersion, String>,
    /// The channels that it is in, by name.
    pub channels: Vec<String>,
    /// The catalog.
    pub catalog: String,
    /// What became of it.
    pub verdict: Verdict,
    /// The hops from what is installed to it, if [`Verdict`] is that no edge leads to it, and some hops do.
    pub path: Vec<Hop>,
    /// The catalog's own message, if it calls the bundle deprecated.
    pub deprecated: Option<String>,
}

/// What became of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It was chosen.
    Chosen,
    /// It is the best of its catalog, and so is another of an equally preferred one.
    Tied,
    /// A filter excludes it.
    Excluded(Exclusion),
    /// It is eligible, but deprecated, and there is one that is not.
    Deprecated,
    /// It is eligible, but another of its catalog is higher.
    NotHighest,
    /// It is the best of its catalog, but that is not preferred.
    CatalogNotPreferred,
    /// It would have been chosen, but cannot be installed.
    Refused(String),
}

/// What became of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogReport {
    /// Its name.
    pub name: String,
    /// Its priority.
    pub priority: i32,
    /// What became of it.
    pub state: CatalogState,
}

/// What became of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CatalogState {
    /// It was read and has the package.
    Read,
    /// It was read and does not have the package.
    WithoutPackage,
    /// It cannot be read.
    Unreadable(String),
    /// The selector leaves it out.
    NotSelected,
    /// It is `Unavailable`.
    Unavailable,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chosen => "chosen",
            Self::Tied => "as good as the best of another catalog of the same priority",
            Self::Excluded(exclusion) => return write!(f, "{exclusion}"),
            Self::Deprecated => "deprecated, and there is one that is not",
            Self::NotHighest => "a higher one is eligible",
            Self::CatalogNotPreferred => "another catalog is preferred",
            Self::Refused(why) => return write!(f, "best, but cannot be installed: {why}"),
        })
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotInChannel => "not in a channel asked for",
            Self::OutsideRange => "version outside the range",
            Self::NotASuccessor => "no edge from the installed bundle",
            Self::HigherMajor => {
                "a higher major version needs upgradeConstraintPolicy: SelfCertified"
            }
            Self::LowerThanInstalled => "lower than the installed bundle, which satisfies the spec",
        })
    }
}

impl fmt::Display for CatalogState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::WithoutPackage => "does not have the package",
            Self::Unreadable(why) => return write!(f, "cannot be read: {why}"),
            Self::NotSelected => "left out by the selector",
            Self::Unavailable => "Unavailable",
        })
    }
}

/// Resolves and explains.
pub fn explain(query: &Query, catalogs: &[Catalog<'_>]) -> Report {
    let resolution = super::resolve(query, catalogs);
    let Ok(view) = View::of(query, catalogs) else {
        return Report {
            resolution,
            candidates: Vec::new(),
            path: Vec::new(),
            deprecations: Vec::new(),
            catalogs: Vec::new(),
        };
    };
    let choice = view.choose(view.satisfies());
    let mut candidates = candidates(&view, &choice, &resolution);
    candidates.sort_by(|left, right| {
        let version = |report: &CandidateReport| report.version.as_ref().ok().cloned();
        version(right)
            .cmp(&version(left))
            .then_with(|| left.catalog.cmp(&right.catalog))
            .then_with(|| left.bundle.cmp(&right.bundle))
    });
    Report {
        path: nearest::path_to_best(&view),
        deprecations: deprecations(query, &resolution),
        catalogs: catalog_reports(&view),
        candidates,
        resolution,
    }
}

fn deprecations(query: &Query, resolution: &Resolution) -> Vec<Deprecation> {
    let Ok(bundle) = &resolution.outcome else {
        return Vec::new();
    };
    bundle
        .applying_deprecations()
        .filter(|entry| {
            entry.schema != deprecation::CHANNEL
                || query.channels.is_empty()
                || query.channels.contains(&entry.name)
        })
        .cloned()
        .collect()
}

fn catalog_reports(view: &View<'_>) -> Vec<CatalogReport> {
    let state_of = |catalog: &Catalog<'_>| {
        if let Some((_, why)) = view
            .unreadable
            .iter()
            .find(|(unreadable, _)| unreadable.name == catalog.name)
        {
            return CatalogState::Unreadable(why.clone());
        }
        let is_read = view
            .surveys
            .iter()
            .any(|survey| survey.catalog.name == catalog.name);
        if is_read {
            CatalogState::Read
        } else {
            CatalogState::WithoutPackage
        }
    };
    let report = |catalog: &Catalog<'_>, state: CatalogState| CatalogReport {
        name: catalog.name.clone(),
        priority: catalog.priority,
        state,
    };
    let mut reports: Vec<_> = view
        .selected
        .iter()
        .map(|catalog| report(catalog, state_of(catalog)))
        .chain(
            view.unavailable
                .iter()
                .map(|catalog| report(catalog, CatalogState::Unavailable)),
        )
        .chain(
            view.left_out
                .iter()
                .map(|catalog| report(catalog, CatalogState::NotSelected)),
        )
        .collect();
    reports.sort_by(|left, right| left.name.cmp(&right.name));
    reports
}

fn candidates(
    view: &View<'_>,
    choice: &Choice<'_, '_>,
    resolution: &Resolution,
) -> Vec<CandidateReport> {
    let installed = view.query.installed.as_ref();
    let mut reports = Vec::new();
    for survey in &view.surveys {
        let channels = nearest::channels_of(survey.contents);
        let graph = nearest::graph(view, survey);
        let best = survey.best(installed, view.floor());
        for candidate in &survey.candidates {
            let name = candidate.bundle.name.as_str();
            let is = |other: &Candidate<'_>| std::ptr::eq(other.bundle, candidate.bundle);
            let winner = match choice {
                Choice::Nothing => None,
                Choice::One(winner) => Some((winner, Verdict::Chosen)),
                Choice::Tie(winners) => winners
                    .iter()
                    .find(|winner| is(winner.candidate))
                    .map(|winner| (winner, Verdict::Tied)),
            }
            .filter(|(winner, _)| is(winner.candidate));
            let verdict = match (winner, candidate.exclusion(view.floor())) {
                (Some((_, Verdict::Chosen)), _) => chosen_or_refused(resolution),
                (Some((_, verdict)), _) => verdict,
                (None, Some(exclusion)) => Verdict::Excluded(exclusion),
                (None, None) if best.is_some_and(is) => Verdict::CatalogNotPreferred,
                (None, None)
                    if candidate.is_deprecated && best.is_some_and(|best| !best.is_deprecated) =>
                {
                    Verdict::Deprecated
                }
                (None, None) => Verdict::NotHighest,
            };
            let path = match (&verdict, &graph) {
                (Verdict::Excluded(Exclusion::NotASuccessor), Some(graph)) => graph.hops_to(name),
                _ => Vec::new(),
            };
            reports.push(CandidateReport {
                bundle: name.to_owned(),
                version: candidate.version.clone().map_err(|fault| fault.to_string()),
                channels: channels.get(name).cloned().unwrap_or_default(),
                catalog: survey.catalog.name.clone(),
                verdict,
                path,
                deprecated: deprecation::of_bundle(survey.contents, name)
                    .map(|entry| entry.message.clone()),
            });
        }
    }
    reports
}

fn chosen_or_refused(resolution: &Resolution) -> Verdict {
    match &resolution.outcome {
        Ok(_) => Verdict::Chosen,
        Err(
            error @ (ResolveError::UnsupportedBundle { .. } | ResolveError::UnmetDependency { .. }),
        ) => Verdict::Refused(error.to_string()),
        // Best of what could be read; a catalog that could not be might have better.
        Err(_) => Verdict::CatalogNotPreferred,
    }
}

#[cfg(test)]
mod tests;
