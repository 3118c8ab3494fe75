//! Revisions: what one is, whose it is, and whether the desired content needs a new one.
//!
//! A revision is a `ClusterObjectSet`. What is installed is read from revisions, never from status. Whether the
//! desired content differs from the newest revision is told by a digest of the content that stands on the revision
//! itself, so a pass that changes nothing asks the API server nothing. Differs from the reference, which finds out
//! by a server-side apply of immutable fields.

pub mod altered;
pub mod certificates;
pub mod collision;
pub mod compare;
pub mod explicit;
pub mod marks;
pub mod name;
pub mod pack;
pub mod phase;
pub mod plan;
pub mod probe;
pub mod remedy;
pub mod rollout;
pub mod unknown;
pub mod validate;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::api::cluster_object_set::{LifecycleState, ProgressionProbe};
use crate::api::condition::{self, Condition, ConditionType};
use crate::api::{ClusterObjectSet, GROUP, VERSION, keys};
use crate::revision::name::label_value;

/// What to do where a revision's Secret is not there; also what an extension knows such a revision by.
pub const SECRET_IS_MISSING: &str = "restore it from a backup; the newest revision of a ClusterExtension gets its own back as soon as its \
     bundle can be pulled";

/// A service account: who applies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// `namespace/name`
impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Account {
    /// The user that the account is to the API server.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// The account that a revision's annotations name; none when either annotation is missing or empty.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let annotation = |key| {
            metadata
                .annotations
                .as_ref()?
                .get(key)
                .filter(|value| !value.is_empty())
                .cloned()
        };
        Some(Self {
            namespace: annotation(keys::SERVICE_ACCOUNT_NAMESPACE)?,
            name: annotation(keys::SERVICE_ACCOUNT_NAME)?,
        })
    }
}

/// What is installed by a revision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BundleIdentity {
    /// The bundle's name.
    pub name: String,
    /// The package.
    pub package: String,
    /// The version as in the catalog.
    pub version: String,
    /// The release; an empty one is not none.
    pub release: Option<String>,
    /// The image reference as in the catalog.
    pub reference: String,
    /// The digest of the image.
    pub digest: Option<String>,
    /// The catalog that it was taken from.
    pub catalog: Option<String>,
}

impl BundleIdentity {
    /// Reads the annotations of a revision.
    pub fn of(annotations: &BTreeMap<String, String>) -> Self {
        let read = |key| annotations.get(key).cloned();
        Self {
            name: read(keys::BUNDLE_NAME).unwrap_or_default(),
            package: read(keys::PACKAGE_NAME).unwrap_or_default(),
            version: read(keys::BUNDLE_VERSION).unwrap_or_default(),
            release: read(keys::BUNDLE_RELEASE),
            reference: read(keys::BUNDLE_REFERENCE).unwrap_or_default(),
            digest: read(keys::BUNDLE_DIGEST),
            catalog: read(keys::CATALOG),
        }
    }

    /// The annotations of a revision that installs it; `None`: the annotation is not there.
    fn annotations(&self) -> [(&'static str, Option<String>); 7] {
        [
            (keys::BUNDLE_NAME, Some(self.name.clone())),
            (keys::PACKAGE_NAME, Some(self.package.clone())),
            (keys::BUNDLE_VERSION, Some(self.version.clone())),
            (keys::BUNDLE_RELEASE, self.release.clone()),
            (keys::BUNDLE_REFERENCE, Some(self.reference.clone())),
            (keys::BUNDLE_DIGEST, self.digest.clone()),
            (keys::CATALOG, self.catalog.clone()),
        ]
    }
}

/// The `ClusterExtension` that revisions are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The account that it installs as.
    pub account: Option<Account>,
}

impl Extension {
    /// The owner reference of its revisions, without `blockOwnerDeletion`.
    pub fn owner_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: keys::OWNER_KIND_CLUSTER_EXTENSION.to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: None,
        }
    }
}

/// Whether a revision is an extension's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belonging {
    /// Its controller is the extension.
    Owned,
    /// It has no owner at all, but the extension's owner labels and account: it was restored from a backup.
    Restored,
    /// It is somebody else's, whatever its labels say.
    Foreign,
}

/// Whose a revision with `metadata` is.
pub fn belonging(metadata: &ObjectMeta, extension: &Extension) -> Belonging {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    if owners.is_empty() {
        let is_named = label(metadata, keys::OWNER_KIND)
            == Some(keys::OWNER_KIND_CLUSTER_EXTENSION)
            && label(metadata, keys::OWNER_NAME) == Some(label_value(&extension.name).as_str());
        let account = Account::of(metadata);
        if is_named && account.is_some() && account == extension.account {
            return Belonging::Restored;
        }
        return Belonging::Foreign;
    }
    let is_controller =
        |owner: &OwnerReference| owner.controller == Some(true) && owner.uid == extension.uid;
    if owners.iter().any(is_controller) {
        Belonging::Owned
    } else {
        Belonging::Foreign
    }
}

/// One revision of an extension, as far as decisions need it.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision {
    /// The name of the `ClusterObjectSet`.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The version of it that was read.
    pub resource_version: Option<String>,
    /// When it was made, by the clock of the API server.
    pub created: Option<Timestamp>,
    /// Its number.
    pub number: i64,
    /// Whether it is kept up or taken down.
    pub state: LifecycleState,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// Whether all its objects were available once.
    pub is_succeeded: bool,
    /// Whose it is.
    pub belonging: Belonging,
    /// What it installs.
    pub bundle: BundleIdentity,
    /// Who applies it.
    pub account: Option<Account>,
    /// The hash of its content, if oxolm made it.
    pub content: Option<String>,
    /// Who provides its webhook certificates.
    pub webhook_certificates: Option<String>,
    /// All its annotations.
    pub annotations: BTreeMap<String, String>,
    /// All its labels.
    pub labels: BTreeMap<String, String>,
    /// `spec.progressDeadlineMinutes`
    pub progress_deadline_minutes: Option<i32>,
    /// `spec.progressionProbes`
    pub progression_probes: Vec<ProgressionProbe>,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// Whether they are of its spec as it is now: of an archived revision, no longer of its rollout.
    pub is_observed: bool,
}

impl Revision {
    /// Reads a `ClusterObjectSet` that belongs to `extension`; none when it is somebody else's.
    pub fn of(set: &ClusterObjectSet, extension: &Extension) -> Option<Self> {
        let belonging = belonging(&set.metadata, extension);
        if belonging == Belonging::Foreign {
            return None;
        }
        let annotations = set.metadata.annotations.clone().unwrap_or_default();
        let observed = set.status.as_ref().and_then(|it| it.observed_generation);
        let conditions = set
            .status
            .as_ref()
            .map(|status| status.conditions.clone())
            .unwrap_or_default();
        Some(Self {
            name: set.metadata.name.clone().unwrap_or_default(),
            uid: set.metadata.uid.clone().unwrap_or_default(),
            resource_version: set.metadata.resource_version.clone(),
            created: (set.metadata.creation_timestamp.as_ref()).map(|created| created.0),
            number: set.spec.revision,
            state: set.spec.lifecycle_state,
            is_deleting: set.metadata.deletion_timestamp.is_some(),
            is_succeeded: has_succeeded(set),
            belonging,
            bundle: BundleIdentity::of(&annotations),
            account: Account::of(&set.metadata),
            content: annotations.get(keys::CONTENT).cloned(),
            webhook_certificates: annotations.get(keys::WEBHOOK_CERTIFICATES).cloned(),
            labels: set.metadata.labels.clone().unwrap_or_default(),
            annotations,
            progress_deadline_minutes: set.spec.progress_deadline_minutes,
            progression_probes: set.spec.progression_probes.clone(),
            conditions,
            is_observed: observed == set.metadata.generation,
        })
    }

    /// What was said about it when it was made, and noted under `key`.
    pub fn noted(&self, key: &str) -> Vec<String> {
        let noted = self.annotations.get(key);
        // What somebody else wrote there says nothing.
        noted
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// Whether it says that it does not find one of its Secrets, as after a restore without them.
    pub fn lacks_secrets(&self) -> bool {
        condition::find(&self.conditions, ConditionType::Progressing)
            .is_some_and(|condition| condition.message.contains(SECRET_IS_MISSING))
    }

    /// Whether it is kept up.
    pub fn is_active(&self) -> bool {
        self.state == LifecycleState::Active && !self.is_deleting
    }
}

/// Whether all objects of a revision were available once: its status says so, or the mark that a backup keeps.
pub fn has_succeeded(set: &ClusterObjectSet) -> bool {
    let annotations = set.metadata.annotations.as_ref();
    has_rolled_out(set) || annotations.is_some_and(|it| it.contains_key(keys::SUCCEEDED))
}

/// Whether the status of a revision says that all its objects were available once, here, in this cluster.
pub fn has_rolled_out(set: &ClusterObjectSet) -> bool {
    let status = set.status.as_ref();
    status.is_some_and(|it| condition::is_true(&it.conditions, ConditionType::Succeeded))
}

/// The revisions of `extension` among `sets`, by number and name.
pub fn revisions_of<'a>(
    sets: impl IntoIterator<Item = &'a ClusterObjectSet>,
    extension: &Extension,
) -> Vec<Revision> {
    let mut found: Vec<Revision> = sets
        .into_iter()
        .filter_map(|set| Revision::of(set, extension))
        .collect();
    found.sort_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
    found
}

/// What is installed and what is on its way.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RevisionStates {
    /// The highest active revision that succeeded.
    pub installed: Option<Revision>,
    /// The active revisions that have not succeeded, by number.
    pub rolling_out: Vec<Revision>,
}

/// Sorts `revisions` (by number) into installed and rolling out. Archived ones are neither.
///
/// A revision that is being deleted counts as long as it is there: its objects still are.
pub fn states(revisions: &[Revision]) -> RevisionStates {
    let active = |revision: &&Revision| revision.state == LifecycleState::Active;
    let (succeeded, rolling_out): (Vec<_>, Vec<_>) = revisions
        .iter()
        .filter(active)
        .cloned()
        .partition(|revision| revision.is_succeeded);
    RevisionStates {
        installed: succeeded.into_iter().next_back(),
        rolling_out,
    }
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn extension() -> Extension {
        Extension {
            name: "e".into(),
            uid: "ext".into(),
            account: Some(Account {
                namespace: "n".into(),
                name: "a".into(),
            }),
        }
    }

    fn owner(uid: &str, controller: bool) -> serde_json::Value {
        json!([{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "e", "uid": uid, "controller": controller}])
    }

    fn set(
        number: i64,
        metadata: &serde_json::Value,
        status: &serde_json::Value,
    ) -> ClusterObjectSet {
        let mut set = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": {"name": format!("e-{number}"), "uid": format!("u{number}")},
            "spec": {"lifecycleState": "Active", "revision": number, "collisionProtection": "Prevent"},
            "status": {"conditions": status},
        });
        for (key, value) in metadata.as_object().unwrap() {
            set["metadata"][key] = value.clone();
        }
        serde_json::from_value(set).unwrap()
    }

    fn labels() -> serde_json::Value {
        json!({keys::OWNER_KIND: "ClusterExtension", keys::OWNER_NAME: "e"})
    }

    fn account() -> serde_json::Value {
        json!({keys::SERVICE_ACCOUNT_NAME: "a", keys::SERVICE_ACCOUNT_NAMESPACE: "n"})
    }

    #[test]
    fn a_revision_is_whose_controller_reference_says() {
        for (metadata, expected) in [
            (
                json!({"ownerReferences": owner("ext", true)}),
                Belonging::Owned,
            ),
            (
                json!({"ownerReferences": owner("ext", false)}),
                Belonging::Foreign,
            ),
            (
                json!({"ownerReferences": owner("other", true), "labels": labels(), "annotations": account()}),
                Belonging::Foreign,
            ),
            (
                json!({"labels": labels(), "annotations": account()}),
                Belonging::Restored,
            ),
            (json!({"labels": labels()}), Belonging::Foreign),
            (json!({"annotations": account()}), Belonging::Foreign),
        ] {
            let set = set(1, &metadata, &json!([]));
            assert_eq!(
                belonging(&set.metadata, &extension()),
                expected,
                "{metadata}"
            );
        }
        let nameless = Extension {
            account: None,
            ..extension()
        };
        let restored = set(1, &json!({"labels": labels()}), &json!([]));
        assert_eq!(
            belonging(&restored.metadata, &nameless),
            Belonging::Foreign,
            "an account is never guessed"
        );
    }

    #[test]
    fn the_highest_succeeded_revision_is_installed() {
        let succeeded = json!([{"type": "Succeeded", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let owned = json!({"ownerReferences": owner("ext", true)});
        let mut archived = set(1, &owned, &succeeded);
        archived.spec.lifecycle_state = LifecycleState::Archived;
        let sets = [
            set(10, &owned, &json!([])),
            set(3, &owned, &succeeded),
            archived,
            set(2, &owned, &succeeded),
            set(
                4,
                &json!({"ownerReferences": owner("other", true)}),
                &succeeded,
            ),
        ];
        let revisions = revisions_of(&sets, &extension());
        let numbers: Vec<_> = revisions.iter().map(|revision| revision.number).collect();
        assert_eq!(numbers, [1, 2, 3, 10]);
        let states = states(&revisions);
        assert_eq!(states.installed.map(|revision| revision.number), Some(3));
        let rolling: Vec<_> = states
            .rolling_out
            .iter()
            .map(|revision| revision.number)
            .collect();
        assert_eq!(rolling, [10]);
    }
}
