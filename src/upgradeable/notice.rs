//! What the owner of an extension is told about the cluster's update, and what an administrator's word changed.

use super::{ActiveBundle, InvalidProperty, Minor, Why, blocker};
use crate::api::keys;

/// The sentences about the bundles of one extension that block a cluster at `current`, each once and sorted.
pub fn sentences(current: Minor, bundles: &[ActiveBundle]) -> Vec<String> {
    let mut sentences: Vec<String> = bundles
        .iter()
        .filter_map(|bundle| Some(sentence(current, bundle, &blocker(current, bundle)?.why)))
        .collect();
    sentences.sort();
    sentences.dedup();
    sentences
}

fn sentence(current: Minor, bundle: &ActiveBundle, why: &Why) -> String {
    let next = current.next();
    let name = &bundle.bundle;
    let by = by_annotation(bundle);
    match why {
        Why::Maximum(maximum) if *maximum < current => format!(
            "Bundle {name:?} supports OpenShift up to {maximum}{by}, but the cluster is at {current} already, and cannot be \
             updated to {next} before the extension is upgraded or uninstalled."
        ),
        Why::Maximum(maximum) => format!(
            "The cluster cannot be updated to OpenShift {next} before the extension is upgraded or uninstalled: bundle \
             {name:?} supports versions up to {maximum}{by}."
        ),
        Why::Unreadable(InvalidProperty::Value(value)) if bundle.override_text.is_some() => {
            format!(
                "The cluster cannot be updated to OpenShift {next}: annotation {} is {value}, which is no version such as \
                 \"4.18\".",
                keys::MAX_OPENSHIFT_VERSION
            )
        }
        Why::Unreadable(error) => format!(
            "The cluster cannot be updated to OpenShift {next}: it cannot be told which versions bundle {name:?} supports: \
             {error}."
        ),
    }
}

/// Where a maximum comes from, if not from the bundle itself.
pub(super) fn by_annotation(bundle: &ActiveBundle) -> String {
    match &bundle.override_text {
        Some(_) => format!(" (annotation {})", keys::MAX_OPENSHIFT_VERSION),
        None => String::new(),
    }
}

/// The extensions that only an administrator's word lets pass, as a sentence for the `ClusterOperator`.
pub(super) fn let_pass(current: Minor, bundles: &[ActiveBundle]) -> Option<String> {
    let mut names: Vec<String> = bundles
        .iter()
        .filter(|bundle| bundle.override_text.is_some() && blocker(current, bundle).is_none())
        .filter(|bundle| {
            let without = ActiveBundle {
                override_text: None,
                ..(*bundle).clone()
            };
            blocker(current, &without).is_some()
        })
        .map(|bundle| {
            let maximum = bundle.override_text.as_deref().unwrap_or_default();
            format!("ClusterExtension {:?} ({maximum})", bundle.extension)
        })
        .collect();
    names.sort();
    names.dedup();
    (!names.is_empty()).then(|| {
        format!(
            "Annotation {} lets pass: {}.",
            keys::MAX_OPENSHIFT_VERSION,
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upgradeable::verdict;

    fn bundle(maximum: &str, override_text: Option<&str>) -> ActiveBundle {
        ActiveBundle {
            extension: "a".to_owned(),
            bundle: "a.v1".to_owned(),
            properties: Some(format!(
                r#"[{{"type":"olm.maxOpenShiftVersion","value":"{maximum}"}}]"#
            )),
            override_text: override_text.map(str::to_owned),
        }
    }

    #[track_caller]
    fn check(bundles: &[ActiveBundle], expected: &[&str]) {
        let current = Minor::of_cluster_version("4.18.3").unwrap();
        assert_eq!(sentences(current, bundles), expected);
    }

    #[test]
    fn the_owner_is_told_what_to_do() {
        check(&[bundle("4.19", None)], &[]);
        let blocked = "The cluster cannot be updated to OpenShift 4.19 before the extension is upgraded or uninstalled: \
                       bundle \"a.v1\" supports versions up to 4.18.";
        check(&[bundle("4.18", None), bundle("4.18", None)], &[blocked]);
        check(
            &[bundle("4.17", None)],
            &[
                "Bundle \"a.v1\" supports OpenShift up to 4.17, but the cluster is at 4.18 already, and cannot be updated to \
               4.19 before the extension is upgraded or uninstalled.",
            ],
        );
        check(&[bundle("4.18", Some("4.19"))], &[]);
        check(
            &[bundle("4.19", Some("4.18"))],
            &[
                "The cluster cannot be updated to OpenShift 4.19 before the extension is upgraded or uninstalled: bundle \
               \"a.v1\" supports versions up to 4.18 (annotation oxolm.dev/max-openshift-version).",
            ],
        );
        check(
            &[bundle("4.19", Some("soon"))],
            &[
                "The cluster cannot be updated to OpenShift 4.19: annotation oxolm.dev/max-openshift-version is \"soon\", \
               which is no version such as \"4.18\".",
            ],
        );
        check(
            &[bundle("soon", None)],
            &[
                "The cluster cannot be updated to OpenShift 4.19: it cannot be told which versions bundle \"a.v1\" supports: \
               error converting to semver for version \"soon\": expected <major>.<minor>, for example \"4.18\".",
            ],
        );
    }

    #[test]
    fn an_annotation_is_visible_to_the_administrator() {
        let message = |bundles: &[ActiveBundle]| {
            verdict(Minor::of_cluster_version("4.18.3").unwrap(), bundles).message
        };
        assert_eq!(message(&[bundle("4.19", Some("4.20"))]), "All is well");
        assert_eq!(
            message(&[bundle("4.18", Some("4.19"))]),
            "All is well. Annotation oxolm.dev/max-openshift-version lets pass: ClusterExtension \"a\" (4.19)."
        );
        let mut other = bundle("4.19", Some("4.18"));
        other.extension = "b".to_owned();
        assert_eq!(
            message(&[bundle("4.18", Some("4.19")), other]),
            "InstalledOLMOperatorsUpgradeable: Found ClusterExtensions that require upgrades prior to upgrading cluster to \
             version 4.19: bundle \"a.v1\" for ClusterExtension \"b\" (annotation oxolm.dev/max-openshift-version). \
             Annotation oxolm.dev/max-openshift-version lets pass: ClusterExtension \"a\" (4.19)."
        );
    }
}
