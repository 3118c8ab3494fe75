//! The message of condition `Resolved`: one line, at most 1 KiB, the same for the same input.

use super::super::candidate::{Candidate, Exclusion, Survey};
use super::super::choice::{Choice, View, Winner};
use super::super::error::EmptiedBy;
use super::super::{Catalog, Content, Query, ResolveError, ResolvedBundle};
use super::nearest::{self, Hop};
use crate::error::quoted;
use crate::version::range::Prereleases;
use crate::version::release::BundleVersion;

/// The longest message, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 1024;

/// What a message that was cut ends with.
const CUT: &str = " …";

/// What a message begins with that names a bundle to install.
const CHOSE: &str = "chose";

/// How many names a list shows.
const SHOWN: usize = 5;

/// The message of a resolution.
pub(in super::super) fn of(
    view: &View<'_>,
    outcome: &Result<ResolvedBundle, ResolveError>,
    choice: &Choice<'_, '_>,
) -> String {
    let mut text = match outcome {
        Ok(bundle) => resolved(view, bundle),
        Err(error) => unresolved(view, error, choice),
    };
    let is_blocked = matches!(outcome, Err(ResolveError::CatalogUnavailable { .. }));
    if !is_blocked {
        for note in view.ignored() {
            text.push_str("; ");
            text.push_str(&note);
        }
    }
    cut(text)
}

/// The version that a message of [`resolved`] says was chosen anew.
pub fn chosen_version(message: &str) -> Option<&str> {
    let (_, rest) = message.strip_prefix(CHOSE)?.split_once(" (")?;
    Some(rest.split_once(") from catalog ")?.0)
}

/// The message when the question itself is wrong.
pub(in super::super) fn without_view(query: &Query, error: &ResolveError) -> String {
    cut(match error {
        ResolveError::InvalidVersionRange { range, fault } => format!(
            "spec.source.catalog.version {} is no range: {}",
            quoted(range),
            fault.hint()
        ),
        ResolveError::InvalidSelector(fault) => format!(
            "spec.source.catalog.selector of package {} is invalid: {fault}",
            quoted(&query.package)
        ),
        other => other.to_string(),
    })
}

/// `text` cut at [`MAX_MESSAGE_BYTES`] on a character boundary.
fn cut(mut text: String) -> String {
    if text.len() > MAX_MESSAGE_BYTES {
        let mut end = MAX_MESSAGE_BYTES - CUT.len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(CUT);
    }
    text
}

fn named(bundle: &str, version: &BundleVersion) -> String {
    format!("{} ({version})", quoted(bundle))
}

fn named_candidate(candidate: &Candidate<'_>) -> String {
    match &candidate.version {
        Ok(version) => named(&candidate.bundle.name, version),
        Err(_) => quoted(&candidate.bundle.name).to_string(),
    }
}

/// The first names of a list, and how many more there are.
fn listed<T: AsRef<str>>(names: &[T]) -> String {
    let shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    let more = names.len().saturating_sub(SHOWN);
    if more == 0 {
        format!("[{}]", shown.join(" "))
    } else {
        format!("[{} and {more} more]", shown.join(" "))
    }
}

fn catalog_names(catalogs: &[&Catalog<'_>]) -> String {
    let names: Vec<&str> = catalogs
        .iter()
        .map(|catalog| catalog.name.as_str())
        .collect();
    listed(&names)
}

fn resolved(view: &View<'_>, bundle: &ResolvedBundle) -> String {
    let version = BundleVersion {
        version: bundle.version.clone(),
        release: bundle.release.clone(),
    };
    let stays = view.query.installed.as_ref().is_some_and(|installed| {
        installed.name == bundle.name && view.installed_version() == Some(&version)
    });
    let verb = if stays {
        "installed bundle stays:"
    } else {
        CHOSE
    };
    format!(
        "{verb} {} from catalog {}",
        named(&bundle.name, &version),
        quoted(&bundle.catalog)
    )
}

fn unresolved(view: &View<'_>, error: &ResolveError, choice: &Choice<'_, '_>) -> String {
    match error {
        ResolveError::InvalidSelector(_) | ResolveError::InvalidVersionRange { .. } => {
            without_view(view.query, error)
        }
        ResolveError::CatalogUnavailable { catalog, why, .. } => unavailable(catalog, why, choice),
        ResolveError::InvalidInstalledVersion(fault) => {
            let name = view
                .query
                .installed
                .as_ref()
                .map_or("", |installed| installed.name.as_str());
            format!(
                "the recorded version of installed bundle {} cannot be read, so no edge can be followed: {fault}; \
                 upgradeConstraintPolicy: SelfCertified does without edges",
                quoted(name)
            )
        }
        ResolveError::NoBundles { emptied_by, .. } => match emptied_by {
            EmptiedBy::Selection => nothing_selected(view),
            EmptiedBy::Package => no_package(view),
            EmptiedBy::Channels => no_channel(view),
            EmptiedBy::Range => no_version(view),
            EmptiedBy::Edges => no_way(view),
        },
        ResolveError::AmbiguousCatalogs { .. } => ambiguous(view, choice),
        ResolveError::UnsupportedBundle { bundle, fault } => format!(
            "the best candidate {} cannot be installed: {fault}; exclude it with spec.source.catalog.version, or have its \
             catalog corrected",
            quoted(bundle)
        ),
        ResolveError::UnmetDependency { bundle, property } => format!(
            "the best candidate {} declares a dependency ({property}), and dependencies are not supported: choose a \
             version without one with spec.source.catalog.version",
            quoted(bundle)
        ),
    }
}

fn unavailable(catalog: &str, why: &str, choice: &Choice<'_, '_>) -> String {
    let without = match choice {
        Choice::Nothing => "no other selected catalog has an answer".to_owned(),
        Choice::One(winner) => format!(
            "without it the answer would be {} from catalog {}",
            named_candidate(winner.candidate),
            quoted(&winner.survey.catalog.name)
        ),
        Choice::Tie(winners) => {
            format!("without it catalogs {} would tie", tied_names(winners))
        }
    };
    format!(
        "catalog {} cannot be read ({why}), and its content could change the answer; {without}; repair it, set its \
         availabilityMode to Unavailable, or leave it out with spec.source.catalog.selector",
        quoted(catalog)
    )
}

fn tied_names(winners: &[Winner<'_, '_>]) -> String {
    let names: Vec<&str> = winners
        .iter()
        .map(|winner| winner.survey.catalog.name.as_str())
        .collect();
    listed(&names)
}

fn nothing_selected(view: &View<'_>) -> String {
    if !view.unavailable.is_empty() {
        format!(
            "every selected catalog is Unavailable: {}; make one Available or select another",
            catalog_names(&view.unavailable)
        )
    } else if view.left_out.is_empty() {
        "there is no catalog: create a ClusterCatalog".to_owned()
    } else {
        format!(
            "spec.source.catalog.selector matches none of the catalogs {}: correct it or the catalogs' labels",
            catalog_names(&view.left_out)
        )
    }
}

fn no_package(view: &View<'_>) -> String {
    let mut parts = vec![format!(
        "package {} does not exist in the selected catalogs {}",
        quoted(&view.query.package),
        catalog_names(&view.selected)
    )];
    let has_it = |catalogs: &[&Catalog<'_>]| -> Vec<String> {
        catalogs
            .iter()
            .filter(|catalog| matches!(catalog.content, Content::Package(_)))
            .map(|catalog| catalog.name.clone())
            .collect()
    };
    let left_out = has_it(&view.left_out);
    let unavailable = has_it(&view.unavailable);
    if !left_out.is_empty() {
        parts.push(format!(
            "the selector leaves out catalogs that have it: {}",
            listed(&left_out)
        ));
    }
    if !unavailable.is_empty() {
        parts.push(format!(
            "Unavailable catalogs have it: {}",
            listed(&unavailable)
        ));
    }
    let unread = view.unavailable.iter();
    let unread = unread.filter(|catalog| matches!(catalog.content, Content::Unreadable(_)));
    let unread: Vec<&str> = unread.map(|catalog| catalog.name.as_str()).collect();
    if !unread.is_empty() {
        parts.push(format!(
            "catalogs that are Unavailable are not asked: {}",
            listed(&unread)
        ));
    }
    parts.push("check the name and the catalogs".to_owned());
    parts.join("; ")
}

fn no_channel(view: &View<'_>) -> String {
    let mut channels: Vec<&str> = view
        .surveys
        .iter()
        .flat_map(|survey| &survey.contents.channels)
        .map(|channel| channel.name.as_str())
        .collect();
    channels.sort_unstable();
    channels.dedup();
    format!(
        "package {} exists, but channels {} hold none of its bundles; it has channels {}: correct \
         spec.source.catalog.channels",
        quoted(&view.query.package),
        listed(&view.query.channels),
        listed(&channels)
    )
}

/// Readable candidates that `wanted` takes, highest first.
fn candidates<'v, 'a>(
    view: &'v View<'a>,
    wanted: impl Fn(&Candidate<'a>) -> bool,
) -> Vec<(&'v BundleVersion, &'v Survey<'a>, &'v Candidate<'a>)> {
    let mut found: Vec<_> = view
        .surveys
        .iter()
        .flat_map(|survey| survey.candidates.iter().map(move |c| (survey, c)))
        .filter(|(_, candidate)| wanted(candidate))
        .filter_map(|(survey, candidate)| {
            Some((candidate.version.as_ref().ok()?, survey, candidate))
        })
        .collect();
    found.sort_by(|left, right| {
        right
            .0
            .cmp(left.0)
            .then_with(|| left.1.catalog.name.cmp(&right.1.catalog.name))
            .then_with(|| left.2.bundle.name.cmp(&right.2.bundle.name))
    });
    found
}

fn no_version(view: &View<'_>) -> String {
    let query = view.query;
    let place = if query.channels.is_empty() {
        String::new()
    } else {
        format!(" in channels {}", listed(&query.channels))
    };
    let mut parts = vec![format!(
        "package {} exists, but your range {} excludes every version{place}",
        quoted(&query.package),
        quoted(&query.version)
    )];
    let outside = candidates(view, |candidate| {
        candidate.excluded == Some(Exclusion::OutsideRange)
    });
    let mut versions: Vec<String> = outside
        .iter()
        .map(|(version, _, _)| version.version.to_string())
        .collect();
    versions.dedup();
    if !versions.is_empty() {
        parts.push(format!("the highest are {}", listed(&versions)));
    }
    if let Some(range) = &view.range {
        let admits =
            |version: &BundleVersion| range.contains_with(&version.version, Prereleases::Included);
        if let Some((version, _, _)) = outside.iter().find(|(version, _, _)| admits(version)) {
            parts.push(format!(
                "{} is a pre-release, which only a range that names one admits",
                version.version
            ));
        }
        let elsewhere = candidates(view, |candidate| {
            candidate.excluded == Some(Exclusion::NotInChannel)
                && candidate
                    .version
                    .as_ref()
                    .is_ok_and(|version| range.contains(&version.version))
        });
        if let Some((_, survey, candidate)) = elsewhere.first() {
            let channels = nearest::channels_of(survey.contents);
            let channels = channels
                .get(candidate.bundle.name.as_str())
                .cloned()
                .unwrap_or_default();
            parts.push(format!(
                "{} is in the range and in channels {}",
                named_candidate(candidate),
                listed(&channels)
            ));
        }
    }
    parts.push("change spec.source.catalog.version".to_owned());
    parts.join("; ")
}

fn hops(path: &[Hop]) -> String {
    let versions: Vec<String> = path.iter().map(|hop| hop.version.to_string()).collect();
    versions.join(" → ")
}

fn no_way(view: &View<'_>) -> String {
    let lower = candidates(view, |candidate| candidate.excluded.is_none());
    if let Some((version, _, candidate)) = lower.first() {
        return format!(
            "the best candidate {} is lower than what is installed, which satisfies the spec and is not replaced by \
             a lower one; version: {} takes it",
            named_candidate(candidate),
            quoted(&version.version.to_string())
        );
    }
    let major = candidates(view, |candidate| {
        candidate.excluded == Some(Exclusion::HigherMajor)
    });
    if let Some((_, _, candidate)) = major.first() {
        return format!(
            "{} is of a higher major version, and such upgrades are not automatic here: \
             upgradeConstraintPolicy: SelfCertified takes it",
            named_candidate(candidate)
        );
    }
    unreachable_target(view)
}

/// The sentence for: it exists and the range admits it, but no edge leads to it.
fn unreachable_target(view: &View<'_>) -> String {
    let installed = view
        .query
        .installed
        .as_ref()
        .map_or("", |installed| installed.name.as_str());
    let targets = candidates(view, |candidate| {
        candidate.excluded == Some(Exclusion::NotASuccessor)
    });
    let path = nearest::path_to_best(view);
    let target = match path.last() {
        Some(last) => targets
            .iter()
            .find(|(_, _, candidate)| candidate.bundle.name == last.bundle),
        None => targets.first(),
    };
    let Some((version, survey, candidate)) = target else {
        return format!(
            "no bundle of package {} in the channels and the range can follow installed bundle {}",
            quoted(&view.query.package),
            quoted(installed)
        );
    };
    let mut parts = vec![format!(
        "{} in catalog {} exists and is in the range, but no edge leads to it from installed bundle {}",
        named_candidate(candidate),
        quoted(&survey.catalog.name),
        quoted(installed)
    )];
    if let [next, .., _] = path.as_slice() {
        let steps = path.len();
        parts.push(format!(
            "{steps} hops do: {}; first set version: {}",
            hops(&path),
            quoted(&next.version.to_string())
        ));
    } else {
        parts.push(format!(
            "several hops do not, either; upgradeConstraintPolicy: SelfCertified with version: {} forces it",
            quoted(&version.version.to_string())
        ));
    }
    parts.join("; ")
}

fn ambiguous(view: &View<'_>, choice: &Choice<'_, '_>) -> String {
    let Choice::Tie(winners) = choice else {
        return String::new();
    };
    let answers: Vec<String> = winners
        .iter()
        .take(SHOWN)
        .map(|winner| {
            format!(
                "{} in {}",
                named_candidate(winner.candidate),
                quoted(&winner.survey.catalog.name)
            )
        })
        .collect();
    let priority = winners.first().map_or(0, Winner::priority);
    let mut parts = vec![format!(
        "{} catalogs of priority {priority} have an answer: {}",
        winners.len(),
        answers.join(", ")
    )];
    let origin = view
        .query
        .installed
        .as_ref()
        .and_then(|installed| installed.catalog.as_ref());
    if let Some(origin) = origin {
        parts.push(format!(
            "catalog {}, which the installed bundle came from, is not among them",
            quoted(origin)
        ));
    }
    parts.push(
        "give one a higher spec.priority, or select one with spec.source.catalog.selector"
            .to_owned(),
    );
    parts.join("; ")
}
