//! Each situation, and the status that it gives.

use super::*;
use crate::api::cluster_extension::{
    CatalogFilter, ClusterExtensionSpec, SourceConfig, SourceType,
};
use crate::error;

fn extension() -> ClusterExtension {
    let mut extension = ClusterExtension::new(
        "argocd",
        ClusterExtensionSpec {
            namespace: "argocd".into(),
            service_account: None,
            source: SourceConfig {
                source_type: SourceType::Catalog,
                catalog: Some(CatalogFilter {
                    package_name: "argocd".into(),
                    ..CatalogFilter::default()
                }),
            },
            install: None,
            config: None,
            progress_deadline_minutes: None,
        },
    );
    extension.metadata.generation = Some(7);
    extension
}

fn now() -> Timestamp {
    Timestamp::from_second(1000).unwrap()
}

fn revision(number: i64, progressing: Option<(&str, Reason)>) -> Revision {
    let mut conditions = Conditions::of(&[], Some(1), now());
    if let Some((status, reason)) = progressing {
        let status = ConditionStatus::parse(status).unwrap();
        conditions.set(
            ConditionType::Progressing,
            status,
            reason,
            "from the revision",
        );
    }
    Revision {
        name: format!("argocd-{number}"),
        number,
        bundle: BundleMetadata {
            name: format!("argocd.v{number}.0.0"),
            version: format!("{number}.0.0"),
            release: None,
        },
        reference: format!("quay.io/a/argocd@sha256:{number}"),
        catalog: Some("one".into()),
        conditions: conditions.finish(),
    }
}

fn resolution(reason: Reason, deprecations: Option<Deprecations>) -> Resolution {
    Resolution {
        reason,
        message: "report".into(),
        deprecations,
        available_update: None,
    }
}

fn retry(message: &str) -> Failure {
    Failure {
        message: message.into(),
        disposition: Disposition::Retry,
    }
}

fn shape(status: &ClusterExtensionStatus, kind: ConditionType) -> String {
    condition::find(&status.conditions, kind).map_or_else(
        || "absent".into(),
        |c| format!("{}/{}: {}", c.status, c.reason, c.message),
    )
}

#[test]
fn a_first_rollout_is_absent_and_rolling_out() {
    let outcome = Outcome::Applied {
        observed: Observed {
            installed: None,
            rolling_out: vec![revision(1, None)],
        },
        resolution: resolution(Reason::Resolved, Some(Deprecations::default())),
        warnings: vec![],
    };
    let status = cluster_extension(&extension(), &outcome, now());
    assert_eq!(
        shape(&status, ConditionType::Installed),
        "False/Absent: No bundle installed"
    );
    assert_eq!(
        shape(&status, ConditionType::Progressing),
        "True/RollingOut: Revision 1.0.0 is rolling out."
    );
    assert_eq!(
        shape(&status, ConditionType::BundleDeprecated),
        "Unknown/Absent: no bundle installed yet"
    );
    assert_eq!(
        shape(&status, ConditionType::Deprecated),
        "False/NotDeprecated: not deprecated"
    );
    assert_eq!(status.install, None);
    assert_eq!(status.active_revisions.len(), 1);
    assert_eq!(
        shape(&status, ConditionType::Ready).split('/').next(),
        Some("False")
    );
}

#[test]
fn what_a_rollout_waits_for_is_said_in_our_own_conditions() {
    let mut rolling = revision(1, None);
    let mut conditions = Conditions::of(&[], Some(1), now());
    let why = "Object Deployment.apps/v1 n/d: not ready";
    let kind = ConditionType::Available;
    conditions.set(kind, ConditionStatus::False, Reason::ProbeFailure, why);
    rolling.conditions = conditions.finish();
    let outcome = Outcome::Applied {
        observed: Observed {
            installed: None,
            rolling_out: vec![rolling],
        },
        resolution: resolution(Reason::Resolved, None),
        warnings: vec![],
    };
    let status = cluster_extension(&extension(), &outcome, now());
    assert_eq!(
        shape(&status, ConditionType::Progressing),
        "True/RollingOut: Revision 1.0.0 is rolling out."
    );
    assert_eq!(
        shape(&status, ConditionType::Ready),
        format!("False/NotReady: Revision 1.0.0 is rolling out. {why}")
    );
}

#[test]
fn a_succeeded_revision_is_installed_and_ready() {
    let outcome = Outcome::Applied {
        observed: Observed {
            installed: Some(revision(2, Some(("True", Reason::Succeeded)))),
            rolling_out: vec![],
        },
        resolution: resolution(
            Reason::Resolved,
            Some(Deprecations {
                package: vec!["p".into(), String::new()],
                channel: vec![],
                bundle: vec!["b".into()],
            }),
        ),
        warnings: vec![],
    };
    let status = cluster_extension(&extension(), &outcome, now());
    assert_eq!(
        shape(&status, ConditionType::Installed),
        "True/Succeeded: Installed bundle quay.io/a/argocd@sha256:2 successfully"
    );
    assert_eq!(
        shape(&status, ConditionType::Progressing),
        "True/Succeeded: from the revision"
    );
    assert_eq!(
        shape(&status, ConditionType::Deprecated),
        "True/Deprecated: p\nb"
    );
    assert_eq!(
        shape(&status, ConditionType::ChannelDeprecated),
        "False/NotDeprecated: channel not deprecated"
    );
    assert_eq!(
        shape(&status, ConditionType::Ready),
        "True/Ready: from the revision"
    );
    assert_eq!(shape(&status, ConditionType::Reconciling), "absent");
}

#[test]
fn a_failing_upgrade_keeps_installed_true() {
    let outcome = Outcome::Unresolved {
        failure: retry("no bundles found"),
        observed: Observed {
            installed: Some(revision(1, Some(("True", Reason::Succeeded)))),
            rolling_out: vec![],
        },
        resolution: resolution(Reason::NoUpgradePath, None),
        warnings: vec![],
    };
    let status = cluster_extension(&extension(), &outcome, now());
    assert_eq!(
        shape(&status, ConditionType::Progressing),
        "True/Retrying: no bundles found"
    );
    assert!(shape(&status, ConditionType::Installed).starts_with("True/Succeeded"));
    assert_eq!(
        shape(&status, ConditionType::Resolved),
        "False/NoUpgradePath: report"
    );
    assert_eq!(
        shape(&status, ConditionType::BundleDeprecated),
        format!("Unknown/DeprecationStatusUnknown: {DEPRECATION_UNKNOWN}")
    );
    assert!(shape(&status, ConditionType::Reconciling).starts_with("True"));
}

#[test]
fn a_missing_account_is_unknown_unless_something_is_installed() {
    let failure = retry("service account not found");
    let outcome = Outcome::Unobserved {
        failure: failure.clone(),
        observed: Observed::default(),
    };
    let status = cluster_extension(&extension(), &outcome, now());
    assert_eq!(
        shape(&status, ConditionType::Installed),
        "Unknown/Failed: service account not found"
    );
    let installed = Observed {
        installed: Some(revision(1, None)),
        rolling_out: vec![],
    };
    let status = cluster_extension(
        &extension(),
        &Outcome::Unobserved {
            failure,
            observed: installed,
        },
        now(),
    );
    assert!(shape(&status, ConditionType::Installed).starts_with("True/Succeeded"));
    assert!(status.install.is_some());
}

#[test]
fn a_terminal_failure_is_stalled() {
    let failure = Failure {
        message: "bad config".into(),
        disposition: Disposition::Terminal(error::Reason::InvalidConfiguration),
    };
    let outcome = Outcome::Stuck {
        failure,
        observed: Observed::default(),
        resolution: resolution(Reason::Resolved, Some(Deprecations::default())),
        warnings: vec![
            Warning {
                reason: Reason::MajorUpgrade,
                sentence: "one".into(),
            },
            Warning {
                reason: Reason::PermissionsGained,
                sentence: "two".into(),
            },
        ],
    };
    let status = cluster_extension(&extension(), &outcome, now());
    assert_eq!(
        shape(&status, ConditionType::Progressing),
        "False/InvalidConfiguration: bad config"
    );
    assert_eq!(
        shape(&status, ConditionType::Stalled),
        "True/Blocked: bad config"
    );
    assert_eq!(
        shape(&status, ConditionType::Warnings),
        "True/SeveralWarnings: one\ntwo"
    );
    assert_eq!(
        shape(&status, ConditionType::Installed),
        "False/Failed: No bundle installed"
    );
}

#[test]
fn the_same_outcome_gives_the_same_status() {
    let outcome = Outcome::Applied {
        observed: Observed {
            installed: Some(revision(1, Some(("True", Reason::Succeeded)))),
            rolling_out: vec![revision(2, Some(("True", Reason::Retrying)))],
        },
        resolution: resolution(Reason::Resolved, Some(Deprecations::default())),
        warnings: vec![],
    };
    let mut object = extension();
    let first = cluster_extension(&object, &outcome, now());
    object.status = Some(first.clone());
    assert_eq!(
        cluster_extension(&object, &outcome, Timestamp::from_second(9999).unwrap()),
        first
    );
    assert_eq!(first.active_revisions.len(), 2);
    assert!(shape(&first, ConditionType::Progressing).starts_with("True/Retrying"));
}

#[test]
fn what_revisions_warn_of_is_said_once() {
    let warning = |number, message: &str| {
        let mut conditions = Conditions::of(&[], Some(1), now());
        conditions.set(
            ConditionType::Warnings,
            ConditionStatus::True,
            Reason::NotWatched,
            message,
        );
        Revision {
            conditions: conditions.finish(),
            ..revision(number, None)
        }
    };
    let observed = Observed {
        installed: Some(warning(1, "a")),
        rolling_out: vec![warning(2, "a"), revision(3, None), warning(4, "b")],
    };
    let told = observed.warnings().into_iter();
    let told: Vec<_> = told
        .map(|warning| (warning.reason, warning.sentence))
        .collect();
    let expected = ["a", "b"].map(|text| (Reason::NotWatched, text.to_owned()));
    assert_eq!(told, expected);
}
