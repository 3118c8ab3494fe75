//! The object as it is sent: the manifest with the marks of the revision that applies it.
//!
//! Every object gets the label that drift watches select by and the number of the revision. Every object but a CRD
//! gets the revision as its controller, without `blockOwnerDeletion`: teardown is ordered by our own finalizer, so
//! the account needs no right on finalizers. A CRD gets an annotation instead, so that the garbage collector never
//! deletes it, and with it all its resources. So does each object of a revision that somebody wrote by hand, besides:
//! no label tells whose it was once its owner is lost. The rules of an aggregated `ClusterRole` are not sent: a controller of
//! the cluster writes them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Map, Value, json};

use crate::api::keys;
use crate::api::object::Gvk;
use crate::revision::collision::{Claim, CrdOwner, Sibling};

/// The manifest `object` as `claim` sends it.
///
/// `live` is the metadata of the object that exists: owners that are nobody of this extension stay, but none of
/// them remains the controller.
pub fn prepare(claim: &Claim, object: &Value, live: Option<&ObjectMeta>) -> Value {
    let mut object = object.as_object().cloned().unwrap_or_default();
    let gvk = Gvk::new(text(&object, "apiVersion"), text(&object, "kind"));
    let mut metadata = take_map(&mut object, "metadata");

    let mut labels = take_map(&mut metadata, "labels");
    labels.insert(keys::MANAGED_BY.to_owned(), json!(keys::MANAGED_BY_OLM));
    labels.entry(keys::OWNER_NAME).or_insert_with(|| json!(""));
    metadata.insert("labels".to_owned(), Value::Object(labels));

    let mut annotations = take_map(&mut metadata, "annotations");
    annotations.insert(keys::REVISION.to_owned(), json!(claim.revision.to_string()));
    if gvk.is_crd() || claim.is_by_hand() {
        let mark = json!(owner_mark(claim, &claim.name));
        annotations.insert(keys::OWNER.to_owned(), mark);
    }
    metadata.insert("annotations".to_owned(), Value::Object(annotations));

    let owners = owners(claim, &gvk, live);
    if !owners.is_empty() {
        metadata.insert("ownerReferences".to_owned(), json!(owners));
    }
    object.insert("metadata".to_owned(), Value::Object(metadata));
    if is_aggregated(&gvk, &object) {
        object.remove("rules");
    }
    Value::Object(object)
}

/// The owner reference to the revision: the controller, but without `blockOwnerDeletion`.
pub fn owner_reference(claim: &Claim) -> OwnerReference {
    owned_by(&claim.name, &claim.uid)
}

/// The owner reference to the revision of this name and UID, as [`owner_reference`].
pub fn owned_by(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: format!("{}/{}", crate::api::GROUP, crate::api::VERSION),
        kind: "ClusterObjectSet".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// What changes in the metadata of an object of `claim`'s when it is given to `heir`, as a merge patch: whose it is. What is
/// in it is left as it is.
pub fn given_to(heir: &Sibling, claim: &Claim, gvk: &Gvk, live: &ObjectMeta) -> Value {
    let number = (keys::REVISION, heir.revision.to_string());
    let has_mark = gvk.is_crd() || claim.is_by_hand();
    let mark = has_mark.then(|| (keys::OWNER, owner_mark(claim, &heir.name)));
    let annotations: BTreeMap<&str, String> = [Some(number), mark].into_iter().flatten().collect();
    let owners = live.owner_references.iter().flatten();
    let others = owners.filter(|owner| owner.uid != claim.uid && owner.uid != heir.uid);
    let mut owners: Vec<OwnerReference> = others.cloned().collect();
    if !gvk.is_crd() {
        owners.push(owned_by(&heir.name, &heir.uid));
    }
    let version = &live.resource_version;
    json!({"resourceVersion": version, "annotations": annotations, "ownerReferences": owners})
}

/// The value of [`keys::OWNER`] for a revision of this name, of the same extension.
fn owner_mark(claim: &Claim, revision: &str) -> String {
    let owner = CrdOwner {
        family: claim.family.clone(),
        revision: revision.to_owned(),
    };
    serde_json::to_string(&owner).unwrap_or_default()
}

fn owners(claim: &Claim, gvk: &Gvk, live: Option<&ObjectMeta>) -> Vec<OwnerReference> {
    let is_own =
        |uid: &str| uid == claim.uid || claim.siblings.iter().any(|sibling| sibling.uid == uid);
    let mut owners: Vec<OwnerReference> = live
        .and_then(|live| live.owner_references.as_ref())
        .into_iter()
        .flatten()
        .filter(|owner| !is_own(&owner.uid))
        .map(|owner| OwnerReference {
            controller: owner.controller.map(|_| false),
            ..owner.clone()
        })
        .collect();
    if !gvk.is_crd() {
        owners.push(owner_reference(claim));
    }
    owners
}

/// Whether a controller of the cluster writes the rules of a role: whatever else they are is overwritten at once.
fn is_aggregated(gvk: &Gvk, object: &Map<String, Value>) -> bool {
    let rule = object.get("aggregationRule");
    gvk.is("rbac.authorization.k8s.io", "ClusterRole") && rule.is_some_and(|rule| !rule.is_null())
}

fn take_map(object: &mut Map<String, Value>, field: &str) -> Map<String, Value> {
    match object.remove(field) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

fn text<'a>(object: &'a Map<String, Value>, field: &str) -> &'a str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::collision::{Family, is_own};

    fn claim() -> Claim {
        Claim {
            uid: "u2".into(),
            name: "e-2".into(),
            revision: 2,
            family: Family {
                extension: "e".into(),
                package: "p".into(),
                namespace: "n".into(),
                account: "n/a".into(),
            },
            siblings: vec![Sibling {
                uid: "u1".into(),
                name: "e-1".into(),
                revision: 1,
            }],
        }
    }

    #[test]
    fn an_object_gets_its_revision_as_controller_and_keeps_foreign_owners() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "a", "namespace": "n", "labels": {keys::MANAGED_BY: "Helm", keys::OWNER_NAME: "e"},
        }});
        let live: ObjectMeta = serde_json::from_value(json!({"ownerReferences": [
            {"apiVersion": "v1", "kind": "K", "name": "foreign", "uid": "f", "controller": true},
            {"apiVersion": "v1", "kind": "K", "name": "e-1", "uid": "u1", "controller": true},
        ]}))
        .unwrap();
        let ours = json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "name": "e-2", "uid": "u2", "controller": true});
        let foreign = json!({"apiVersion": "v1", "kind": "K", "name": "foreign", "uid": "f", "controller": false});
        assert_eq!(
            prepare(&claim(), &object, Some(&live))["metadata"],
            json!({
                "name": "a", "namespace": "n",
                "labels": {keys::MANAGED_BY: keys::MANAGED_BY_OLM, keys::OWNER_NAME: "e"},
                "annotations": {keys::REVISION: "2"},
                "ownerReferences": [foreign, ours],
            })
        );
        assert_eq!(
            prepare(&claim(), &object, None)["metadata"]["ownerReferences"],
            json!([ours])
        );
    }

    #[test]
    fn an_object_of_a_revision_by_hand_says_whose_it_is() {
        let mut claim = claim();
        claim.family = Family {
            account: "n/a".into(),
            ..Family::default()
        };
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}});
        let sent = prepare(&claim, &object, None);
        let mark = json!({"account": "n/a", "revision": "e-2"}).to_string();
        assert_eq!(sent["metadata"]["annotations"][keys::OWNER], mark);
    }

    #[test]
    fn a_crd_gets_a_mark_and_no_owner() {
        let object = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a"}});
        let sent = prepare(&claim(), &object, None);
        assert_eq!(sent["metadata"].get("ownerReferences"), None);
        assert_eq!(sent["metadata"]["labels"][keys::OWNER_NAME], "");
        let metadata: ObjectMeta = serde_json::from_value(sent["metadata"].clone()).unwrap();
        let gvk = Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        assert!(is_own(&claim(), &gvk, &metadata));
    }

    #[test]
    fn the_rules_of_an_aggregated_role_are_left_to_who_aggregates_them() {
        let role = |rule: Value| {
            let role = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
                "aggregationRule": rule, "rules": [],
            });
            prepare(&claim(), &role, None).get("rules").cloned()
        };
        let aggregated = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
        assert_eq!(role(aggregated), None);
        assert_eq!(role(Value::Null), Some(json!([])));
    }
}
