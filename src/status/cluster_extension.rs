//! The status of a `ClusterExtension`.
//!
//! Follows the reference's table of situations. Differs from it where a decision says so: installed content keeps
//! `Installed` True while its account is missing; a revision that was just created is already a rollout;
//! `Resolved`, `Warnings` and the conditions of kstatus are additions.

use jiff::Timestamp;

use crate::api::cluster_extension::{
    AvailableUpdate, BundleMetadata, ClusterExtension, ClusterExtensionInstallStatus,
    ClusterExtensionStatus, RevisionStatus,
};
use crate::api::condition::{self, Condition, ConditionStatus, ConditionType, Reason};
use crate::error::{Disposition, Failure};
use crate::status::{Conditions, Kstatus, waits_for};

const NO_BUNDLE: &str = "No bundle installed";
const DEPRECATION_UNKNOWN: &str = "deprecation status unknown: catalog data unavailable";

/// A revision as its `ClusterObjectSet` shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision {
    /// The `ClusterObjectSet`'s name.
    pub name: String,
    /// Its number.
    pub number: i64,
    /// The bundle's identity.
    pub bundle: BundleMetadata,
    /// The bundle's image reference.
    pub reference: String,
    /// The catalog that it came from, where recorded.
    pub catalog: Option<String>,
    /// The `ClusterObjectSet`'s conditions; empty while nobody has looked at it.
    pub conditions: Vec<Condition>,
}

/// What is on the cluster, read from revisions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// The newest revision that has succeeded.
    pub installed: Option<Revision>,
    /// Active revisions that have not succeeded yet, oldest first.
    pub rolling_out: Vec<Revision>,
}

impl Observed {
    /// What the revisions warn of; what two of them say is said once.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings: Vec<Warning> = Vec::new();
        for revision in self.installed.iter().chain(&self.rolling_out) {
            let told = condition::find(&revision.conditions, ConditionType::Warnings);
            let Some(told) = told.filter(|told| told.status == ConditionStatus::True.as_str())
            else {
                continue;
            };
            if warnings.iter().all(|known| known.sentence != told.message) {
                warnings.push(Warning {
                    reason: Reason::parse(&told.reason).unwrap_or(Reason::SeveralWarnings),
                    sentence: told.message.clone(),
                });
            }
        }
        warnings
    }
}

/// What the resolver said.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    /// `Resolved`: True with [`Reason::Resolved`], else False with the reason that tells the cases apart.
    pub reason: Reason,
    /// The short report.
    pub message: String,
    /// The catalog's deprecations; `None` when no catalog data was available.
    pub deprecations: Option<Deprecations>,
    /// A version that the spec does not allow but the catalogs offer as an upgrade.
    pub available_update: Option<AvailableUpdate>,
}

/// The catalog's own messages that apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deprecations {
    /// About the package.
    pub package: Vec<String>,
    /// About the channels.
    pub channel: Vec<String>,
    /// About the installed bundle.
    pub bundle: Vec<String>,
}

/// A sentence for condition `Warnings`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Its kind.
    pub reason: Reason,
    /// The sentence.
    pub sentence: String,
}

/// How far a pass over one extension got, with all that was known.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Nothing could be looked at or done: no account, or the revisions cannot be read.
    Unobserved {
        /// Why.
        failure: Failure,
        /// What is installed, as far as known.
        observed: Observed,
    },
    /// No bundle could be chosen; what is installed is maintained.
    Unresolved {
        /// Why, in the reference's words.
        failure: Failure,
        /// What is on the cluster.
        observed: Observed,
        /// What the resolver said.
        resolution: Resolution,
        /// Sentences for `Warnings`.
        warnings: Vec<Warning>,
    },
    /// A bundle was chosen and could not be rolled out.
    Stuck {
        /// Why, with the bundle's name and version in front.
        failure: Failure,
        /// What is on the cluster.
        observed: Observed,
        /// What the resolver said.
        resolution: Resolution,
        /// Sentences for `Warnings`.
        warnings: Vec<Warning>,
    },
    /// The wanted revision is on the cluster; how far it got is in its conditions.
    Applied {
        /// What is on the cluster, the wanted revision included.
        observed: Observed,
        /// What the resolver said.
        resolution: Resolution,
        /// Sentences for `Warnings`.
        warnings: Vec<Warning>,
    },
    /// The extension is being taken down.
    Uninstalling {
        /// How far that is.
        message: String,
        /// What is on the cluster.
        observed: Observed,
    },
}

impl Outcome {
    /// What is on the cluster, in every case.
    pub fn observed(&self) -> &Observed {
        match self {
            Self::Unobserved { observed, .. }
            | Self::Unresolved { observed, .. }
            | Self::Stuck { observed, .. }
            | Self::Applied { observed, .. }
            | Self::Uninstalling { observed, .. } => observed,
        }
    }

    fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Unobserved { failure, .. }
            | Self::Unresolved { failure, .. }
            | Self::Stuck { failure, .. } => Some(failure),
            Self::Applied { .. } | Self::Uninstalling { .. } => None,
        }
    }

    fn resolution(&self) -> Option<(&Resolution, &[Warning])> {
        match self {
            Self::Unresolved {
                resolution,
                warnings,
                ..
            }
            | Self::Stuck {
                resolution,
                warnings,
                ..
            }
            | Self::Applied {
                resolution,
                warnings,
                ..
            } => Some((resolution, warnings)),
            Self::Unobserved { .. } | Self::Uninstalling { .. } => None,
        }
    }
}

/// The status after `outcome`.
pub fn cluster_extension(
    extension: &ClusterExtension,
    outcome: &Outcome,
    now: Timestamp,
) -> ClusterExtensionStatus {
    let generation = extension.metadata.generation;
    let mut status = extension.status.clone().unwrap_or_default();
    let mut conditions = Conditions::of(&status.conditions, generation, now);
    let observed = outcome.observed();
    status.observed_generation = generation;
    status.install = observed
        .installed
        .as_ref()
        .map(|revision| ClusterExtensionInstallStatus {
            bundle: revision.bundle.clone(),
            catalog: revision.catalog.clone(),
        });
    status.active_revisions = active_revisions(observed);
    set_installed(&mut conditions, outcome);
    set_progressing(&mut conditions, outcome);
    mirror_available(&mut conditions, observed);
    if let Outcome::Uninstalling { message, .. } = outcome
        && conditions.find(ConditionType::Available).is_some()
    {
        // Its objects go, one after the other, perhaps before their revision says so.
        let (kind, reason) = (ConditionType::Available, Reason::Reconciling);
        conditions.set(kind, ConditionStatus::Unknown, reason, message);
    }
    if let Some((resolution, warnings)) = outcome.resolution() {
        status
            .available_update
            .clone_from(&resolution.available_update);
        set_resolved(&mut conditions, resolution);
        set_deprecations(
            &mut conditions,
            resolution.deprecations.as_ref(),
            observed.installed.is_some(),
        );
        set_warnings(&mut conditions, warnings);
    }
    set_kstatus(&mut conditions, outcome);
    status.conditions = conditions.finish();
    status
}

fn active_revisions(observed: &Observed) -> Vec<RevisionStatus> {
    let installed = observed.installed.iter().map(|revision| RevisionStatus {
        name: revision.name.clone(),
        conditions: Vec::new(),
    });
    let rolling = observed.rolling_out.iter().map(|revision| RevisionStatus {
        name: revision.name.clone(),
        conditions: [ConditionType::Available, ConditionType::Progressing]
            .into_iter()
            .filter_map(|kind| condition::find(&revision.conditions, kind).cloned())
            .collect(),
    });
    installed.chain(rolling).collect()
}

fn set_installed(conditions: &mut Conditions, outcome: &Outcome) {
    let observed = outcome.observed();
    let kind = ConditionType::Installed;
    if let Some(revision) = &observed.installed {
        let message = format!("Installed bundle {} successfully", revision.reference);
        conditions.set(kind, ConditionStatus::True, Reason::Succeeded, &message);
        return;
    }
    if let Outcome::Unobserved { failure, .. } = outcome {
        conditions.set(
            kind,
            ConditionStatus::Unknown,
            Reason::Failed,
            &failure.message,
        );
        return;
    }
    let healthy = observed.rolling_out.last().is_some_and(|revision| {
        condition::find(&revision.conditions, ConditionType::Progressing)
            .is_none_or(|progressing| progressing.reason != Reason::Retrying.as_str())
    });
    let reason = if healthy {
        Reason::Absent
    } else {
        Reason::Failed
    };
    conditions.set(kind, ConditionStatus::False, reason, NO_BUNDLE);
}

fn set_progressing(conditions: &mut Conditions, outcome: &Outcome) {
    if let Some(failure) = outcome.failure() {
        conditions.set_progressing_failure(failure);
        return;
    }
    if let Outcome::Uninstalling { message, .. } = outcome {
        conditions.set(
            ConditionType::Progressing,
            ConditionStatus::True,
            Reason::Uninstalling,
            message,
        );
        return;
    }
    let observed = outcome.observed();
    let Some(newest) = observed.rolling_out.last().or(observed.installed.as_ref()) else {
        return;
    };
    match condition::find(&newest.conditions, ConditionType::Progressing) {
        Some(progressing) => conditions.mirror(ConditionType::Progressing, progressing),
        None => conditions.set(
            ConditionType::Progressing,
            ConditionStatus::True,
            Reason::RollingOut,
            &format!("Revision {} is rolling out.", newest.bundle.version),
        ),
    }
}

fn mirror_available(conditions: &mut Conditions, observed: &Observed) {
    let available = observed
        .installed
        .as_ref()
        .and_then(|revision| condition::find(&revision.conditions, ConditionType::Available));
    match available {
        Some(available) => conditions.mirror(ConditionType::Available, available),
        None => conditions.remove(ConditionType::Available),
    }
}

fn set_resolved(conditions: &mut Conditions, resolution: &Resolution) {
    let status = if resolution.reason == Reason::Resolved {
        ConditionStatus::True
    } else {
        ConditionStatus::False
    };
    conditions.set(
        ConditionType::Resolved,
        status,
        resolution.reason,
        &resolution.message,
    );
}

fn set_deprecations(
    conditions: &mut Conditions,
    deprecations: Option<&Deprecations>,
    installed: bool,
) {
    let kinds = [
        (ConditionType::PackageDeprecated, "package not deprecated"),
        (ConditionType::ChannelDeprecated, "channel not deprecated"),
        (ConditionType::BundleDeprecated, "bundle not deprecated"),
    ];
    match deprecations {
        None => {
            let unknown = Reason::DeprecationStatusUnknown;
            for kind in [
                ConditionType::Deprecated,
                kinds[0].0,
                kinds[1].0,
                kinds[2].0,
            ] {
                conditions.set(kind, ConditionStatus::Unknown, unknown, DEPRECATION_UNKNOWN);
            }
        }
        Some(deprecations) => {
            let messages = [
                &deprecations.package,
                &deprecations.channel,
                &deprecations.bundle,
            ]
            .map(|list| {
                list.iter()
                    .filter(|message| !message.is_empty())
                    .cloned()
                    .collect::<Vec<_>>()
            });
            set_deprecation(
                conditions,
                ConditionType::Deprecated,
                &messages.concat(),
                "not deprecated",
            );
            for ((kind, none), messages) in kinds.into_iter().zip(&messages) {
                set_deprecation(conditions, kind, messages, none);
            }
        }
    }
    if !installed {
        let kind = ConditionType::BundleDeprecated;
        conditions.set(
            kind,
            ConditionStatus::Unknown,
            Reason::Absent,
            "no bundle installed yet",
        );
    }
}

fn set_deprecation(
    conditions: &mut Conditions,
    kind: ConditionType,
    messages: &[String],
    none: &str,
) {
    if messages.is_empty() {
        conditions.set(kind, ConditionStatus::False, Reason::NotDeprecated, none);
    } else {
        conditions.set(
            kind,
            ConditionStatus::True,
            Reason::Deprecated,
            &messages.join("\n"),
        );
    }
}

/// The status of `extension` with other warnings, and nothing else changed.
pub fn with_warnings(
    extension: &ClusterExtension,
    warnings: &[Warning],
    now: Timestamp,
) -> ClusterExtensionStatus {
    let mut status = extension.status.clone().unwrap_or_default();
    let mut conditions = Conditions::of(&status.conditions, extension.metadata.generation, now);
    set_warnings(&mut conditions, warnings);
    status.conditions = conditions.finish();
    status
}

fn set_warnings(conditions: &mut Conditions, warnings: &[Warning]) {
    let sentences: Vec<&str> = warnings
        .iter()
        .map(|warning| warning.sentence.as_str())
        .collect();
    let reason = match warnings {
        [] => return conditions.remove(ConditionType::Warnings),
        [first, others @ ..] if others.iter().all(|one| one.reason == first.reason) => first.reason,
        _ => Reason::SeveralWarnings,
    };
    conditions.set(
        ConditionType::Warnings,
        ConditionStatus::True,
        reason,
        &sentences.join("\n"),
    );
}

fn set_kstatus(conditions: &mut Conditions, outcome: &Outcome) {
    let observed = outcome.observed();
    let (state, message) = match (
        outcome.failure(),
        conditions.find(ConditionType::Progressing),
    ) {
        (Some(failure), _) => match failure.disposition {
            Disposition::Retry => (Kstatus::Reconciling, failure.message.clone()),
            Disposition::Terminal(_) => (Kstatus::Stalled, failure.message.clone()),
        },
        (None, Some(progressing)) if progressing.status == ConditionStatus::False.as_str() => {
            (Kstatus::Stalled, progressing.message.clone())
        }
        (None, Some(progressing)) if progressing.reason == Reason::Succeeded.as_str() => {
            match conditions.find(ConditionType::Available) {
                Some(available) if available.status != ConditionStatus::True.as_str() => {
                    (Kstatus::NotReady, available.message.clone())
                }
                _ if observed.installed.is_some() => (Kstatus::Ready, progressing.message.clone()),
                _ => (Kstatus::Reconciling, progressing.message.clone()),
            }
        }
        (None, Some(progressing)) => {
            // The reference's texts of `Progressing` do not say it.
            let newest = observed.rolling_out.last();
            let waits = newest.and_then(|newest| waits_for(&newest.conditions));
            let waits = waits.map(|available| available.message.as_str());
            let parts = [Some(progressing.message.as_str()), waits];
            let message: Vec<&str> = parts.into_iter().flatten().collect();
            (Kstatus::Reconciling, message.join(" "))
        }
        (None, None) => (Kstatus::Reconciling, NO_BUNDLE.to_owned()),
    };
    conditions.set_kstatus(state, &message);
}

#[cfg(test)]
mod tests;
