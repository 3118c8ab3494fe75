//! Annotations of ours that say nothing: a word that none of them takes, a name that is none of theirs.

use kube::ResourceExt as _;

use crate::api::condition::Reason;
use crate::api::{ClusterExtension, keys};
use crate::oci::digest::Digest;
use crate::status::cluster_extension::Warning;

/// The annotations that an extension may have, each with the words that it takes; none: it takes any text.
const KNOWN: &[(&str, &[&str])] = &[
    (keys::ADOPT, &["none", "unowned", "all"]),
    (keys::CRD_DELETION, &["keep-if-used", "delete"]),
    (
        keys::CRD_UPGRADE_SAFETY,
        &[keys::CRD_UPGRADE_SAFETY_SCHEMA_ONLY],
    ),
    (keys::ACCEPT_DIGEST, &[]),
    (keys::ROTATE_CERTIFICATES, &[]),
    (keys::MAX_OPENSHIFT_VERSION, &[]),
];

/// What is said of annotations without effect.
pub(super) fn without_effect(extension: &ClusterExtension) -> Vec<Warning> {
    let ours = extension.annotations().iter();
    let ours = ours.filter(|(name, _)| name.starts_with(keys::OXOLM_PREFIX));
    let told = ours.filter_map(|(name, value)| {
        let why = match KNOWN.iter().find(|(known, _)| known == name) {
            None => {
                let known: Vec<&str> = KNOWN.iter().map(|(known, _)| *known).collect();
                format!("an extension takes {}", known.join(", "))
            }
            Some(_) if name == keys::ACCEPT_DIGEST => match Digest::parse(value) {
                Ok(_) => return None,
                Err(error) => error.to_string(),
            },
            Some((_, words)) if words.is_empty() || words.contains(&value.as_str()) => return None,
            Some((_, words)) => format!("{value:?} is none of {}", words.join(", ")),
        };
        Some(Warning {
            reason: Reason::UnknownAnnotation,
            sentence: format!("Annotation {name} has no effect: {why}."),
        })
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(name: &str, value: &str) -> Vec<String> {
        let object = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": "e", "annotations": {name: value, "example.com/adopt": "x"}},
            "spec": {"namespace": "n", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
        });
        let warnings = without_effect(&serde_json::from_value(object).unwrap());
        warnings.into_iter().map(|it| it.sentence).collect()
    }

    #[test]
    fn what_has_no_effect_is_told() {
        for (name, value) in [
            ("oxolm.dev/adopt", "all"),
            ("oxolm.dev/adopt", "none"),
            ("oxolm.dev/crd-deletion", "delete"),
            ("oxolm.dev/crd-upgrade-safety", "schema-only"),
            (
                "oxolm.dev/accept-digest",
                &format!("sha256:{}", "1".repeat(64)),
            ),
            ("oxolm.dev/rotate-certificates", "now"),
            ("oxolm.dev/max-openshift-version", "4.20"),
        ] {
            assert_eq!(told(name, value), Vec::<String>::new());
        }
        assert_eq!(
            told("oxolm.dev/adopt", "All"),
            ["Annotation oxolm.dev/adopt has no effect: \"All\" is none of none, unowned, all."]
        );
        assert_eq!(
            told("oxolm.dev/crd-deletion", ""),
            [
                "Annotation oxolm.dev/crd-deletion has no effect: \"\" is none of keep-if-used, delete."
            ]
        );
        assert_eq!(
            told("oxolm.dev/accept-digest", "latest"),
            [
                "Annotation oxolm.dev/accept-digest has no effect: invalid digest \"latest\": expected sha256: and 64 \
                 lower-case hexadecimal digits."
            ]
        );
        let unknown = told("oxolm.dev/adapt", "all");
        assert!(
            unknown[0].starts_with(
                "Annotation oxolm.dev/adapt has no effect: an extension takes oxolm.dev/adopt, "
            ),
            "{unknown:?}"
        );
    }
}
