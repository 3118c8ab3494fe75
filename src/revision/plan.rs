//! Desired content against the revisions that exist: nothing to do, a patch, or a new revision.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::api::cluster_object_set::{
    ClusterObjectSetSpec, CollisionProtection, LifecycleState, Phase as WirePhase, ProgressionProbe,
};
use crate::api::{ClusterObjectSet, keys};
use crate::revision::name::{label_value, revision_name};
use crate::revision::pack::{content_digest, hash};
use crate::revision::phase::{ObjectMarks, Phase};
use crate::revision::{Account, BundleIdentity, Extension, Revision};

/// What is said of a revision that does not keep what is written to it.
pub const ALTERED: &str = "does not keep the annotations, labels and owner that are written to it";

/// How many archived revisions are kept as history.
pub const HISTORY: usize = 5;

/// How much of what is said about CRDs is kept on a revision: as much as a condition holds. An API server takes eight
/// times that in all annotations of an object.
const FINDINGS_BYTES: usize = 32 << 10;

/// What an extension wants to be installed.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    /// The extension.
    pub extension: Extension,
    /// Who applies.
    pub account: Account,
    /// The namespace that it is installed in.
    pub namespace: String,
    /// The bundle.
    pub bundle: BundleIdentity,
    /// The properties of the bundle, a JSON array; none if it has none.
    pub properties: Option<String>,
    /// Who provides webhook certificates; none if the bundle needs none.
    pub webhook_certificates: Option<String>,
    /// The demand for new webhook certificates, passed on to the revision.
    pub rotate_certificates: Option<String>,
    /// What the extension says about its CRDs, passed on to the revision.
    pub crd_deletion: Option<String>,
    /// What is said about its CRDs while it is in force; noted when the revision is made.
    pub crd_findings: Vec<String>,
    /// What was said about the rights that it gives and its predecessor does not.
    pub permissions_gained: Vec<String>,
    /// The objects.
    pub phases: Vec<Phase>,
    /// When objects count as available.
    pub progression_probes: Vec<ProgressionProbe>,
    /// How long the rollout may take; none: for ever.
    pub progress_deadline_minutes: Option<i32>,
    /// What happens to objects that exist already.
    pub collision_protection: CollisionProtection,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum RevisionPlan {
    /// The newest revision has the desired content.
    Unchanged {
        /// Its name.
        name: String,
    },
    /// The newest revision has the desired content, but something beside it changed.
    Patch {
        /// Its name.
        name: String,
        /// A JSON merge patch of the `ClusterObjectSet`.
        patch: Value,
    },
    /// The content is new.
    Create {
        /// The number of the new revision.
        number: i64,
        /// Its name.
        name: String,
    },
}

/// The marks that every object of a bundle gets before it is put into a phase.
pub fn object_marks(extension: &str, bundle: &BundleIdentity) -> ObjectMarks {
    let annotations = [
        (keys::BUNDLE_VERSION, &bundle.version),
        (keys::PACKAGE_NAME, &bundle.package),
    ];
    ObjectMarks {
        labels: owner_labels(extension),
        annotations: annotations
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect(),
    }
}

/// Compares `desired` with the newest of `existing` (the extension's revisions by number).
///
/// `is_taken` tells whether a `ClusterObjectSet` of a name exists, whosever it is: a squatted name is passed over.
pub fn plan(
    existing: &[Revision],
    desired: &Desired,
    is_taken: &dyn Fn(&str) -> bool,
) -> RevisionPlan {
    if let Some(newest) = existing.last()
        && newest.is_active()
        && newest.content.as_ref() == Some(&desired.content())
    {
        return match desired.patch_of(newest) {
            None => RevisionPlan::Unchanged {
                name: newest.name.clone(),
            },
            Some(patch) => RevisionPlan::Patch {
                name: newest.name.clone(),
                patch,
            },
        };
    }
    let number = existing.last().map_or(1, |newest| newest.number + 1);
    free_number(&desired.extension.name, number, is_taken)
}

/// A new revision with the first number from `number` on whose name is free.
pub fn free_number(extension: &str, number: i64, is_taken: &dyn Fn(&str) -> bool) -> RevisionPlan {
    let mut number = number;
    loop {
        let name = revision_name(extension, number);
        if !is_taken(&name) {
            return RevisionPlan::Create { number, name };
        }
        number += 1;
    }
}

/// The revisions that history has no room for before a new one is made: archived, and not among the last five.
pub fn expired(existing: &[Revision]) -> Vec<&Revision> {
    existing
        .iter()
        .take(existing.len().saturating_sub(HISTORY))
        .filter(|revision| revision.state == LifecycleState::Archived && !revision.is_deleting)
        .collect()
}

/// The sentences as an annotation, as many as there is room for; none where nothing is to be said.
fn noted(sentences: &[String]) -> Option<String> {
    let mut room = FINDINGS_BYTES;
    let noted: Vec<&String> = sentences
        .iter()
        .take_while(|sentence| {
            let rest = room.checked_sub(sentence.len());
            room = rest.unwrap_or(0);
            rest.is_some()
        })
        .collect();
    (!noted.is_empty()).then(|| json!(noted).to_string())
}

fn owner_labels(extension: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (
            keys::OWNER_KIND.to_owned(),
            keys::OWNER_KIND_CLUSTER_EXTENSION.to_owned(),
        ),
        (keys::OWNER_NAME.to_owned(), label_value(extension)),
    ])
}

impl Desired {
    /// The hash of what cannot be changed in place, as it stands on the revision.
    pub fn content(&self) -> String {
        let protection = match self.collision_protection {
            CollisionProtection::Prevent => "Prevent",
            CollisionProtection::IfNoController => "IfNoController",
            CollisionProtection::None => "None",
        };
        hash(format!("{protection}\n{}", content_digest(&self.phases)).as_bytes())
    }

    /// The `ClusterObjectSet` of revision `number`, whose objects stand in `phases`.
    pub fn object_set(&self, name: &str, number: i64, phases: Vec<WirePhase>) -> ClusterObjectSet {
        let mut set = ClusterObjectSet::new(
            name,
            ClusterObjectSetSpec {
                lifecycle_state: LifecycleState::Active,
                revision: number,
                collision_protection: self.collision_protection,
                phases,
                progress_deadline_minutes: self.progress_deadline_minutes,
                progression_probes: self.progression_probes.clone(),
            },
        );
        set.metadata.labels = Some(owner_labels(&self.extension.name));
        set.metadata.annotations = Some(
            self.annotations()
                .into_iter()
                .chain([
                    (keys::CRD_FINDINGS, noted(&self.crd_findings)),
                    (keys::PERMISSIONS_GAINED, noted(&self.permissions_gained)),
                ])
                .filter_map(|(key, value)| Some((key.to_owned(), value?)))
                .collect(),
        );
        set.metadata.owner_references = Some(vec![self.extension.owner_reference()]);
        // From the start, which saves a request and leaves no moment without.
        set.metadata.finalizers = Some(vec![keys::FINALIZER_TEARDOWN.to_owned()]);
        set
    }

    /// The annotations of the revision; `None`: the annotation is not there.
    fn annotations(&self) -> Vec<(&'static str, Option<String>)> {
        let mut annotations = self.bundle.annotations().to_vec();
        annotations.extend([
            (keys::SERVICE_ACCOUNT_NAME, Some(self.account.name.clone())),
            (
                keys::SERVICE_ACCOUNT_NAMESPACE,
                Some(self.account.namespace.clone()),
            ),
            // It is the account's, unless that is the controller's default one.
            (
                keys::INSTALL_NAMESPACE,
                (self.namespace != self.account.namespace).then(|| self.namespace.clone()),
            ),
            (keys::CONTENT, Some(self.content())),
            (keys::OLM_PROPERTIES, self.properties.clone()),
            (
                keys::WEBHOOK_CERTIFICATES,
                self.webhook_certificates.clone(),
            ),
            (keys::ROTATE_CERTIFICATES, self.rotate_certificates.clone()),
            (keys::CRD_DELETION, self.crd_deletion.clone()),
        ]);
        annotations
    }

    /// What must change on `revision`, whose content is already as desired.
    fn patch_of(&self, revision: &Revision) -> Option<Value> {
        let mut metadata = Map::new();
        let changed = |wanted: Vec<(&'static str, Option<String>)>,
                       present: &BTreeMap<String, String>| {
            wanted
                .into_iter()
                .filter(|(key, value)| present.get(*key) != value.as_ref())
                .map(|(key, value)| (key.to_owned(), json!(value)))
                .collect::<Map<String, Value>>()
        };
        let annotations = changed(self.annotations(), &revision.annotations);
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), Value::Object(annotations));
        }
        let wanted: Map<String, Value> = owner_labels(&self.extension.name)
            .into_iter()
            .filter(|(key, value)| revision.labels.get(key) != Some(value))
            .map(|(key, value)| (key, json!(value)))
            .collect();
        if !wanted.is_empty() {
            metadata.insert("labels".to_owned(), Value::Object(wanted));
        }
        let mut spec = Map::new();
        if revision.progress_deadline_minutes != self.progress_deadline_minutes {
            spec.insert(
                "progressDeadlineMinutes".to_owned(),
                json!(self.progress_deadline_minutes),
            );
        }
        if revision.progression_probes != self.progression_probes {
            spec.insert(
                "progressionProbes".to_owned(),
                json!(self.progression_probes),
            );
        }
        let mut patch = Map::new();
        for (field, content) in [("metadata", metadata), ("spec", spec)] {
            if !content.is_empty() {
                patch.insert(field.to_owned(), Value::Object(content));
            }
        }
        (!patch.is_empty()).then_some(Value::Object(patch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::phase;
    use crate::revision::probe::default_probes;
    use crate::revision::revisions_of;

    fn desired(version: &str, data: &str) -> Desired {
        let bundle = BundleIdentity {
            name: format!("b.v{version}"),
            package: "p".into(),
            version: version.into(),
            reference: "registry/b@sha256:1".into(),
            ..BundleIdentity::default()
        };
        let manifests = [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"d": data}}),
        ];
        let account = Account {
            namespace: "n".into(),
            name: "a".into(),
        };
        Desired {
            extension: Extension {
                name: "e".into(),
                uid: "ext".into(),
                account: Some(account.clone()),
            },
            account,
            namespace: "n".into(),
            phases: phase::phases(&manifests, &object_marks("e", &bundle)).unwrap(),
            bundle,
            properties: None,
            webhook_certificates: None,
            rotate_certificates: None,
            crd_deletion: None,
            crd_findings: Vec::new(),
            permissions_gained: Vec::new(),
            progression_probes: default_probes(),
            progress_deadline_minutes: None,
            collision_protection: CollisionProtection::Prevent,
        }
    }

    fn made(desired: &Desired, number: i64) -> ClusterObjectSet {
        let mut set = desired.object_set(&format!("e-{number}"), number, Vec::new());
        set.metadata.uid = Some(format!("u{number}"));
        set
    }

    fn planned(sets: &[ClusterObjectSet], desired: &Desired) -> RevisionPlan {
        plan(&revisions_of(sets, &desired.extension), desired, &|_| false)
    }

    fn create(number: i64) -> RevisionPlan {
        RevisionPlan::Create {
            number,
            name: format!("e-{number}"),
        }
    }

    #[test]
    fn the_same_content_needs_no_request() {
        let desired = desired("1.0.0", "x");
        assert_eq!(planned(&[], &desired), create(1));
        assert_eq!(
            planned(&[made(&desired, 1)], &desired),
            RevisionPlan::Unchanged { name: "e-1".into() }
        );
    }

    #[test]
    fn what_is_said_about_crds_is_noted_once() {
        let wanted = desired("1.0.0", "x");
        let noted = Desired {
            crd_findings: vec!["one".into(), "two".into(), "x".repeat(FINDINGS_BYTES)],
            ..wanted.clone()
        };
        let set = made(&noted, 1);
        let revision = &revisions_of([&set], &wanted.extension)[0];
        assert_eq!(revision.noted(keys::CRD_FINDINGS), ["one", "two"]);
        // The next pass finds nothing, for the CRDs are there already.
        assert_eq!(
            planned(std::slice::from_ref(&set), &wanted),
            RevisionPlan::Unchanged { name: "e-1".into() }
        );
        let silent = made(&wanted, 1);
        let revision = &revisions_of([&silent], &wanted.extension)[0];
        assert_eq!(revision.noted(keys::CRD_FINDINGS), Vec::<String>::new());
    }

    #[test]
    fn new_content_and_a_new_version_with_the_same_manifests_need_a_new_revision() {
        let first = made(&desired("1.0.0", "x"), 1);
        assert_eq!(
            planned(std::slice::from_ref(&first), &desired("1.0.0", "y")),
            create(2)
        );
        assert_eq!(
            planned(std::slice::from_ref(&first), &desired("1.0.1", "x")),
            create(2)
        );
        let protected = Desired {
            collision_protection: CollisionProtection::None,
            ..desired("1.0.0", "x")
        };
        assert_eq!(planned(&[first], &protected), create(2));
    }

    #[test]
    fn only_the_newest_active_revision_counts() {
        let (old, new) = (desired("1.0.0", "x"), desired("2.0.0", "x"));
        assert_eq!(
            planned(&[made(&old, 1), made(&new, 7)], &old),
            create(8),
            "a rollback is a new revision"
        );
        let mut archived = made(&old, 1);
        archived.spec.lifecycle_state = LifecycleState::Archived;
        assert_eq!(planned(&[archived], &old), create(2));
    }

    #[test]
    fn a_squatted_name_is_passed_over() {
        let desired = desired("1.0.0", "x");
        let taken = |name: &str| name == "e-1" || name == "e-2";
        assert_eq!(plan(&[], &desired, &taken), create(3));
    }

    #[test]
    fn what_is_not_content_is_patched_in_place() {
        let first = desired("1.0.0", "x");
        let set = made(&first, 1);
        let patched = |desired: &Desired| match planned(std::slice::from_ref(&set), desired) {
            RevisionPlan::Patch { patch, .. } => patch,
            other => panic!("{other:?}"),
        };
        let deadline = Desired {
            progress_deadline_minutes: Some(10),
            ..first.clone()
        };
        assert_eq!(
            patched(&deadline),
            json!({"spec": {"progressDeadlineMinutes": 10}})
        );
        let mut catalog = first.clone();
        catalog.bundle.catalog = Some("c".into());
        assert_eq!(
            patched(&catalog),
            json!({"metadata": {"annotations": {keys::CATALOG: "c"}}})
        );
    }

    #[test]
    fn an_annotation_that_is_gone_is_removed() {
        let mut first = desired("1.0.0", "x");
        first.bundle.release = Some(String::new());
        let set = made(&first, 1);
        first.bundle.release = None;
        let RevisionPlan::Patch { patch, .. } = planned(&[set], &first) else {
            panic!("the release is gone");
        };
        assert_eq!(
            patch,
            json!({"metadata": {"annotations": {keys::BUNDLE_RELEASE: null}}})
        );
    }

    #[test]
    fn history_keeps_five_and_never_drops_an_active_one() {
        let one = desired("1.0.0", "x");
        let sets: Vec<_> = (1..=8)
            .map(|number| {
                let mut set = made(&one, number);
                if number != 2 && number != 8 {
                    set.spec.lifecycle_state = LifecycleState::Archived;
                }
                set
            })
            .collect();
        let revisions = revisions_of(&sets, &one.extension);
        let names: Vec<_> = expired(&revisions).iter().map(|r| r.name.clone()).collect();
        assert_eq!(names, ["e-1", "e-3"]);
        assert!(expired(&revisions[..5]).is_empty());
    }
}
