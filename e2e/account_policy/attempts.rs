//! The table: who writes what, and the answer.

use serde_json::{Value, json};

use super::people::{ACTOR, JANE, KEEPER, RESTORER};

const NOT_OTHER: &str = "user account-policy-jane may not impersonate service account account-policy/other: grant verb impersonate on it, or name another";
const KEPT_NAMESPACE: &str = "service account kube-system/mine cannot be used: the accounts of its namespace are excluded; name one in another namespace";

const NONE: &str = "user account-policy-jane names no service account, and no default one applies: name one that the user may impersonate";
const OTHER_ACTED: &str = "user account-policy-jane may not impersonate service account account-policy/other, which acted until now: grant verb impersonate on it";

/// Somebody writes something, and is refused with a message, or not.
pub(super) struct Attempt {
    pub(super) why: &'static str,
    pub(super) who: &'static str,
    pub(super) write: Write,
    pub(super) refused: Option<String>,
}

pub(super) enum Write {
    /// A new extension: namespace and account.
    NewExtension(&'static str, Option<&'static str>),
    /// A merge patch of the extension of somebody else.
    Extension(Value),
    /// A merge patch of an extension that names no account.
    Unnamed(Value),
    /// A merge patch of the status of the extension of somebody else.
    ExtensionStatus(Value),
    /// A new revision with these metadata.
    NewRevision(Value),
    /// A merge patch of the revision of somebody else.
    Revision(Value),
}

fn allowed(why: &'static str, who: &'static str, write: Write) -> Attempt {
    Attempt {
        why,
        who,
        write,
        refused: None,
    }
}

fn refused(
    why: &'static str,
    who: &'static str,
    write: Write,
    message: impl Into<String>,
) -> Attempt {
    Attempt {
        why,
        who,
        write,
        refused: Some(message.into()),
    }
}

/// The account of jane.
fn hers() -> Value {
    json!({"spec": {"serviceAccount": {"name": "mine"}}})
}

pub(super) fn extension_attempts() -> Vec<Attempt> {
    use Write::{Extension, ExtensionStatus, NewExtension, Unnamed};
    let annotate =
        |key: &str, value: Value| Extension(json!({"metadata": {"annotations": {key: value}}}));
    let version = json!({"spec": {"source": {"catalog": {"version": "1.x"}}}});
    vec![
        allowed(
            "her account",
            JANE,
            NewExtension("account-policy", Some("mine")),
        ),
        refused(
            "no account, and no default",
            JANE,
            NewExtension("account-policy", None),
            NONE,
        ),
        allowed(
            "no account, and no default, by who may act as everyone",
            RESTORER,
            NewExtension("account-policy", None),
        ),
        refused(
            "her account for an extension that named none",
            JANE,
            Unnamed(hers()),
            "user account-policy-jane may not change what an administrator made without a service account: grant verb impersonate on all service accounts, or delete it and make it anew",
        ),
        allowed(
            "an account for an extension that named none, by who may act as everyone",
            RESTORER,
            Unnamed(hers()),
        ),
        refused(
            "another account",
            JANE,
            NewExtension("account-policy", Some("other")),
            NOT_OTHER,
        ),
        refused(
            "an account of the control plane",
            JANE,
            NewExtension("kube-system", Some("mine")),
            KEPT_NAMESPACE,
        ),
        refused(
            "an account of the control plane, by who may act as everyone",
            RESTORER,
            NewExtension("kube-system", Some("mine")),
            KEPT_NAMESPACE,
        ),
        allowed(
            "any account, by who may act as everyone",
            RESTORER,
            NewExtension("account-policy", Some("other")),
        ),
        refused("the spec", JANE, Extension(version.clone()), NOT_OTHER),
        allowed(
            "the spec, by who may act as everyone",
            RESTORER,
            Extension(version),
        ),
        refused(
            "an annotation of ours",
            JANE,
            annotate("oxolm.dev/adopt", json!("all")),
            NOT_OTHER,
        ),
        refused(
            "another value of an annotation of ours",
            JANE,
            annotate("oxolm.dev/crd-deletion", json!("keep-if-used")),
            NOT_OTHER,
        ),
        refused(
            "an annotation of ours taken away",
            JANE,
            annotate("oxolm.dev/crd-deletion", Value::Null),
            NOT_OTHER,
        ),
        allowed(
            "another annotation",
            JANE,
            annotate("example.com/a", json!("b")),
        ),
        allowed(
            "a label",
            JANE,
            Extension(json!({"metadata": {"labels": {"a": "b"}}})),
        ),
        allowed(
            "a finalizer",
            JANE,
            Extension(json!({"metadata": {"finalizers": ["example.com/a"]}})),
        ),
        refused(
            "status is a matter of RBAC alone",
            JANE,
            ExtensionStatus(json!({"status": {"observedGeneration": 1}})),
            "cannot patch resource \"clusterextensions/status\" in API group \"olm.operatorframework.io\" at the cluster scope",
        ),
    ]
}

pub(super) fn revision_attempts() -> Vec<Attempt> {
    use Write::{NewRevision, Revision};
    let not_theirs = |who: &str, name: &str| {
        format!(
            "user {who} may not say whose ClusterObjectSet {name} is (owner references, labels and annotations of owner, bundle and account): grant verb adopt on clusterobjectsets, or leave them as they are"
        )
    };
    let new = not_theirs(ACTOR, "account-policy-new");
    let others = not_theirs(JANE, "account-policy-others-1");
    let account = |name: &str| {
        json!({"annotations": {
            "olm.operatorframework.io/service-account-name": name,
            "olm.operatorframework.io/service-account-namespace": "account-policy",
        }})
    };
    let owner = |uid: &str| {
        json!({"ownerReferences": [{
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "name": "account-policy-others", "uid": uid, "controller": true,
        }]})
    };
    let metadata = |value: Value| Revision(json!({"metadata": value}));
    vec![
        refused("by hand", JANE, NewRevision(json!({})), NONE),
        allowed(
            "by hand, by who may act as everyone",
            RESTORER,
            NewRevision(json!({})),
        ),
        refused(
            "as her account",
            JANE,
            NewRevision(account("mine")),
            not_theirs(JANE, "account-policy-new"),
        ),
        refused(
            "as another account, by who may adopt but not act as it",
            KEEPER,
            NewRevision(account("other")),
            NOT_OTHER.replace(JANE, KEEPER),
        ),
        allowed(
            "a backup with its account",
            RESTORER,
            NewRevision(account("other")),
        ),
        refused(
            "with an owner's label",
            ACTOR,
            NewRevision(json!({"labels": {"olm.operatorframework.io/owner-name": "somebody"}})),
            new.clone(),
        ),
        refused(
            "with an owner",
            ACTOR,
            NewRevision(owner("00000000-0000-0000-0000-000000000002")),
            new.clone(),
        ),
        refused(
            "with properties",
            ACTOR,
            NewRevision(json!({"annotations": {"olm.properties": "[]"}})),
            new,
        ),
        refused(
            "the spec of another",
            JANE,
            Revision(json!({"spec": {"lifecycleState": "Archived"}})),
            NOT_OTHER,
        ),
        refused(
            "the account of another",
            JANE,
            metadata(
                json!({"annotations": {"olm.operatorframework.io/service-account-name": "mine"}}),
            ),
            others.clone(),
        ),
        refused(
            "the owner's label of another",
            JANE,
            metadata(json!({"labels": {"olm.operatorframework.io/owner-name": "jane"}})),
            others.clone(),
        ),
        refused(
            "the owner's label of another taken away",
            JANE,
            metadata(json!({"labels": {"olm.operatorframework.io/owner-name": null}})),
            others.clone(),
        ),
        refused(
            "another owner",
            JANE,
            metadata(owner("00000000-0000-0000-0000-000000000002")),
            others,
        ),
        allowed(
            "no owner any more, as the garbage collector does it",
            JANE,
            metadata(json!({"ownerReferences": null})),
        ),
        allowed("a label", JANE, metadata(json!({"labels": {"a": "b"}}))),
        allowed(
            "another owner, by who may adopt",
            RESTORER,
            metadata(owner("00000000-0000-0000-0000-000000000002")),
        ),
    ]
}

/// With a default account, naming none is naming that one.
pub(super) fn default_attempts() -> [(&'static str, Vec<Attempt>); 2] {
    use Write::{NewExtension, NewRevision, Unnamed};
    [
        (
            "other",
            vec![
                refused(
                    "the default of the namespace",
                    JANE,
                    NewExtension("account-policy", None),
                    NOT_OTHER,
                ),
                allowed(
                    "her own instead",
                    JANE,
                    NewExtension("account-policy", Some("mine")),
                ),
                refused(
                    "a revision by hand has no namespace",
                    JANE,
                    NewRevision(json!({})),
                    NONE,
                ),
                refused(
                    "her account instead of the default of the namespace",
                    JANE,
                    Unnamed(hers()),
                    OTHER_ACTED,
                ),
            ],
        ),
        (
            "account-policy/other",
            vec![
                refused(
                    "the default of all",
                    JANE,
                    NewExtension("elsewhere", None),
                    NOT_OTHER,
                ),
                refused(
                    "the default of all, for a revision",
                    JANE,
                    NewRevision(json!({})),
                    NOT_OTHER,
                ),
                refused(
                    "her account instead of the default of all",
                    JANE,
                    Unnamed(hers()),
                    OTHER_ACTED,
                ),
                allowed(
                    "her account instead of the default of all, by who may act as everyone",
                    RESTORER,
                    Unnamed(hers()),
                ),
                allowed(
                    "the default of all, by who may act as everyone",
                    RESTORER,
                    NewExtension("elsewhere", None),
                ),
            ],
        ),
    ]
}
