//! Which account applies a revision, and whose revision it is.

use std::sync::Arc;

use kube::ResourceExt as _;

use crate::api::cluster_object_set::LifecycleState;
use crate::api::{ClusterObjectSet, keys};
use crate::error::{Classify, Disposition, Reason};
use crate::identity::Identity;
use crate::revision::Account;
use crate::revision::collision::{Claim, CrdOwner, Family, Sibling};
use crate::revision::name::label_value;

/// A revision without a usable account. The texts are the reference's, with what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// Both annotations are missing.
    #[error(
        "revision {0:?} is missing required annotations: set {name} and {namespace}",
        name = keys::SERVICE_ACCOUNT_NAME, namespace = keys::SERVICE_ACCOUNT_NAMESPACE
    )]
    Annotations(String),
    /// One annotation is missing.
    #[error(
        "revision {0:?} is missing ServiceAccount name annotation: set {name}",
        name = keys::SERVICE_ACCOUNT_NAME
    )]
    Name(String),
    /// The other one is.
    #[error(
        "revision {0:?} is missing ServiceAccount namespace annotation: set {namespace}",
        namespace = keys::SERVICE_ACCOUNT_NAMESPACE
    )]
    Namespace(String),
}

impl Classify for AccountError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Annotations(_) | Self::Name(_) | Self::Namespace(_) => {
                Disposition::Terminal(Reason::Blocked)
            }
        }
    }
}

/// The account of a revision: the one that its annotations name. One that somebody wrote by hand without them acts as
/// the default account, if that is one for all.
///
/// # Errors
/// When there is none. It is never guessed.
pub fn account_of(identity: &Identity, set: &ClusterObjectSet) -> Result<Account, AccountError> {
    if let Some(account) = Account::of(&set.metadata) {
        return Ok(account);
    }
    let name = set.name_any();
    let has = |key| {
        set.annotations()
            .get(key)
            .is_some_and(|value| !value.is_empty())
    };
    match (
        has(keys::SERVICE_ACCOUNT_NAME),
        has(keys::SERVICE_ACCOUNT_NAMESPACE),
    ) {
        (false, true) => return Err(AccountError::Name(name)),
        (true, false) => return Err(AccountError::Namespace(name)),
        (true, true) | (false, false) => {}
    }
    if !is_by_hand(set) {
        return Err(AccountError::Annotations(name));
    }
    identity
        .account_for_all()
        .cloned()
        .ok_or(AccountError::Annotations(name))
}

/// Whether a revision belongs to no extension: no owner, and none of its labels.
fn is_by_hand(set: &ClusterObjectSet) -> bool {
    set.owner_references().is_empty()
        && !set.labels().contains_key(keys::OWNER_NAME)
        && !set.labels().contains_key(keys::OWNER_KIND)
}

/// Whether a revision was an extension's and has no owner now: it was orphaned, or restored from a backup.
pub fn is_orphan(set: &ClusterObjectSet) -> bool {
    set.owner_references().is_empty() && set.labels().contains_key(keys::OWNER_NAME)
}

/// The revision as it meets objects: who it is, whose it is, and which other active revisions there are.
pub fn claim_of<'a>(
    set: &ClusterObjectSet,
    account: &Account,
    all: impl IntoIterator<Item = &'a ClusterObjectSet>,
) -> Claim {
    let annotation = |key| set.annotations().get(key).cloned().unwrap_or_default();
    Claim {
        uid: set.uid().unwrap_or_default(),
        name: set.name_any(),
        revision: set.spec.revision,
        family: Family {
            extension: extension_of(set),
            package: annotation(keys::PACKAGE_NAME),
            namespace: install_namespace(set),
            account: account.to_string(),
        },
        siblings: all
            .into_iter()
            .filter(|other| are_siblings(set, other))
            .map(|other| Sibling {
                uid: other.uid().unwrap_or_default(),
                name: other.name_any(),
                revision: other.spec.revision,
            })
            .collect(),
    }
}

/// The namespace that a revision of an extension is installed in; empty for one by hand.
fn install_namespace(set: &ClusterObjectSet) -> String {
    let annotations = set.annotations();
    let is_extensions = set.labels().contains_key(keys::OWNER_NAME);
    let of_account = || annotations.get(keys::SERVICE_ACCOUNT_NAMESPACE);
    let named = annotations.get(keys::INSTALL_NAMESPACE);
    let namespace = named.or_else(|| of_account().filter(|_| is_extensions));
    namespace.cloned().unwrap_or_default()
}

/// The name of the extension that a revision is of; empty for one by hand.
pub fn extension_of(set: &ClusterObjectSet) -> String {
    let controller = set
        .owner_references()
        .iter()
        .find(|owner| owner.controller == Some(true));
    match controller {
        Some(owner) if owner.kind == keys::OWNER_KIND_CLUSTER_EXTENSION => owner.name.clone(),
        Some(_) => String::new(),
        // Restored: until its extension takes it back, its label names it.
        None => set
            .labels()
            .get(keys::OWNER_NAME)
            .cloned()
            .unwrap_or_default(),
    }
}

/// Whether the owner that a CRD's mark names still has a revision among `all`.
pub fn has_revision(owner: &CrdOwner, all: &[Arc<ClusterObjectSet>]) -> bool {
    let label = label_value(&owner.family.extension);
    all.iter().any(|set| {
        set.name_any() == owner.revision
            || !label.is_empty() && set.labels().get(keys::OWNER_NAME) == Some(&label)
    })
}

/// Whether `other` is an active revision of the same extension, and stays.
fn are_siblings(set: &ClusterObjectSet, other: &ClusterObjectSet) -> bool {
    is_active_beside(set, other) && other.metadata.deletion_timestamp.is_none()
}

/// Whether `other` is another revision of the same extension that is not archived.
pub fn is_active_beside(set: &ClusterObjectSet, other: &ClusterObjectSet) -> bool {
    is_active(other) && is_of_one_extension(set, other)
}

/// Whether a revision is not archived.
pub fn is_active(set: &ClusterObjectSet) -> bool {
    set.spec.lifecycle_state == LifecycleState::Active
}

/// Whether `other` is another revision of the same extension: the same controller, or, after a restore, the same labels and
/// account. A label beside a foreign owner means nothing.
pub fn is_of_one_extension(set: &ClusterObjectSet, other: &ClusterObjectSet) -> bool {
    if set.uid() == other.uid() {
        return false;
    }
    let controller = |set: &ClusterObjectSet| {
        let mut owners = set.owner_references().iter();
        owners
            .find(|owner| owner.controller == Some(true))
            .map(|owner| owner.uid.clone())
    };
    if let (Some(one), Some(two)) = (controller(set), controller(other)) {
        return one == two;
    }
    let name = set.labels().get(keys::OWNER_NAME);
    let account = Account::of(&set.metadata);
    let has_bare = set.owner_references().is_empty() || other.owner_references().is_empty();
    has_bare
        && name.is_some()
        && name == other.labels().get(keys::OWNER_NAME)
        && account.is_some()
        && account == Account::of(&other.metadata)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(uid: &str, metadata: &Value) -> ClusterObjectSet {
        let mut set = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
            "metadata": {"name": format!("set-{uid}"), "uid": uid},
            "spec": {"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent"},
        });
        for (key, value) in metadata.as_object().unwrap() {
            set["metadata"][key] = value.clone();
        }
        serde_json::from_value(set).unwrap()
    }

    fn marks(owner: Option<&str>, label: &str, account: &str) -> Value {
        let owners: Vec<Value> = owner
            .map(|uid| json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "e", "uid": uid, "controller": true}))
            .into_iter()
            .collect();
        json!({
            "labels": {keys::OWNER_NAME: label, keys::OWNER_KIND: "ClusterExtension"},
            "annotations": {keys::SERVICE_ACCOUNT_NAME: account, keys::SERVICE_ACCOUNT_NAMESPACE: "n"},
            "ownerReferences": owners,
        })
    }

    #[test]
    fn siblings_have_the_same_controller_or_are_restored() {
        let own = set("1", &marks(Some("ext"), "e", "a"));
        for (other, expected) in [
            (marks(Some("ext"), "e", "a"), true),
            (marks(Some("other"), "e", "a"), false),
            (marks(None, "e", "a"), true),
            (marks(None, "e", "b"), false),
            (marks(None, "f", "a"), false),
        ] {
            let all = [own.clone(), set("2", &other)];
            let account = Account::of(&own.metadata).unwrap();
            let siblings = claim_of(&own, &account, &all).siblings;
            assert_eq!(siblings.len(), usize::from(expected), "{other}");
        }
        let mut archived = set("2", &marks(Some("ext"), "e", "a"));
        archived.spec.lifecycle_state = LifecycleState::Archived;
        assert!(!are_siblings(&own, &archived));
    }

    #[tokio::test]
    async fn an_account_is_named_or_the_default_one_but_never_guessed() {
        let server = crate::testing::api_server::ApiServer::new();
        let identity = |default| {
            Identity::new(
                server.client(),
                Arc::default(),
                crate::identity::ExcludedNamespaces::default(),
                default,
            )
        };
        let (none, one) = (
            identity(crate::identity::DefaultAccount::None),
            identity("m/d".parse().unwrap()),
        );
        let text = |result: Result<Account, AccountError>| match result {
            Ok(account) => account.to_string(),
            Err(error) => error.to_string(),
        };
        let by_hand = set("1", &json!({}));
        let named = set("1", &marks(None, "e", "a"));
        let lost = set("1", &json!({"labels": {keys::OWNER_NAME: "e"}}));
        let no_name = set(
            "1",
            &json!({"annotations": {keys::SERVICE_ACCOUNT_NAMESPACE: "n"}}),
        );
        let no_namespace = set(
            "1",
            &json!({"annotations": {keys::SERVICE_ACCOUNT_NAME: "a"}}),
        );
        for (identity, set, expected) in [
            (&none, &named, "n/a"),
            (&one, &named, "n/a"),
            (&one, &by_hand, "m/d"),
            (
                &none,
                &by_hand,
                "revision \"set-1\" is missing required annotations: set olm.operatorframework.io/service-account-name and olm.operatorframework.io/service-account-namespace",
            ),
            (
                &one,
                &lost,
                "revision \"set-1\" is missing required annotations: set olm.operatorframework.io/service-account-name and olm.operatorframework.io/service-account-namespace",
            ),
            (
                &one,
                &no_name,
                "revision \"set-1\" is missing ServiceAccount name annotation: set olm.operatorframework.io/service-account-name",
            ),
            (
                &one,
                &no_namespace,
                "revision \"set-1\" is missing ServiceAccount namespace annotation: set olm.operatorframework.io/service-account-namespace",
            ),
        ] {
            assert_eq!(text(account_of(identity, set)), expected);
        }
    }
}
