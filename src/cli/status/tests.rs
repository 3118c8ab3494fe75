use serde_json::json;

use super::*;
use crate::api::keys;

/// When all conditions of this file began.
const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn extension(name: &str, status: &Value) -> ClusterExtension {
    serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
        "metadata": {"name": name, "generation": 1, "uid": "1"},
        "spec": {"namespace": "n", "source": {"sourceType": "Catalog", "catalog": {"packageName": "p"}}},
        "status": status,
    }))
    .unwrap()
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn printed(print: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    print(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A revision of the extensions of this file that succeeded, installed as `n/NAME`.
fn succeeded(name: &str) -> ClusterObjectSet {
    serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": {"name": "x-1", "uid": "2",
            "annotations": {keys::SERVICE_ACCOUNT_NAME: name, keys::SERVICE_ACCOUNT_NAMESPACE: "n"},
            "ownerReferences": [{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension", "name": "x",
                "uid": "1", "controller": true}]},
        "spec": {"revision": 1, "lifecycleState": "Active", "collisionProtection": "Prevent", "phases": []},
        "status": {"conditions": [condition("Succeeded", "True", "Succeeded", "done")]},
    }))
    .unwrap()
}

#[test]
fn the_account_in_use_is_that_of_the_revision_then_that_of_the_spec() {
    let unnamed = extension("x", &json!({}));
    let mut named = extension("x", &json!({}));
    named.spec.service_account = serde_json::from_value(json!({"name": "b"})).unwrap();
    let account = |extension: &ClusterExtension, sets: &[ClusterObjectSet]| {
        let overview = overview::extension(extension, NOW);
        described(&(extension.clone(), overview), sets)["account"].clone()
    };
    assert_eq!(account(&unnamed, &[]), Value::Null);
    assert_eq!(account(&named, &[]), "n/b");
    assert_eq!(account(&named, &[succeeded("a")]), "n/a");
    assert_eq!(account(&unnamed, &[succeeded("a")]), "n/a");
    let overview = overview::extension(&named, NOW);
    let text = printed(|out| print_one((&named, &overview), &[], &[], out));
    let first = text.lines().next();
    assert_eq!(first, Some("x: not looked at, by service account n/b"));
}

#[test]
fn what_is_wrong_comes_first() {
    let fine = extension(
        "fine",
        &json!({"observedGeneration": 1, "conditions": [
            condition("Installed", "True", "Succeeded", "Installed bundle r/p:1"),
            condition("Progressing", "True", "Succeeded", "Desired state reached")],
            "install": {"bundle": {"name": "p.v1.0.0", "version": "1.0.0"}, "catalog": "c"},
            "availableUpdate": {"version": "2.0.0", "bundle": "p.v2.0.0"}}),
    );
    let mut broken = extension(
        "late",
        &json!({"observedGeneration": 1, "conditions": [
            condition("Installed", "False", "Failed", "No bundle installed"),
            condition("Progressing", "True", "Retrying", "service account n/s not found"),
        ]}),
    );
    broken.spec.service_account = serde_json::from_value(json!({"name": "s"})).unwrap();
    let catalog: ClusterCatalog = serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "metadata": {"name": "c"},
        "spec": {"source": {"type": "Image", "image": {"ref": "r/c:1"}}},
        "status": {"conditions": [
            condition("Serving", "True", "Available", "Serving desired content"),
            condition("Progressing", "True", "Succeeded", "done")]},
    }))
    .unwrap();
    let extensions = sorted(vec![fine, broken], |one| overview::extension(one, NOW));
    let catalogs = sorted(vec![catalog], overview::catalog);
    let mut by_hand = succeeded("s");
    by_hand.metadata.name = Some("by-hand".to_owned());
    by_hand.metadata.owner_references = None;
    let sets = [succeeded("s"), by_hand];
    let mut owner = extension("x", &json!({}));
    owner.metadata.uid = Some("1".to_owned());
    let of_owner = sorted(vec![owner], |one| overview::extension(one, NOW));
    let alone = sorted(alone(&of_owner, &sets), |one| overview::revision(one, NOW));
    let all = printed(|out| tables(&extensions, &catalogs, &alone, &[], out));
    insta::assert_snapshot!(all, @r#"
    1 of 2 extensions, 0 of 1 catalogs and 1 of 1 revisions without extension need somebody

    EXTENSION  VERSION  CATALOG  ACCOUNT  STATE      UPDATE
    late                         n/s      retrying
    fine       1.0.0    c        -        installed  2.0.0

    CATALOG  STATE
    c        serving

    REVISION  ACCOUNT  STATE
    by-hand   n/s      not available

    extension late: retrying
      service account n/s not found
      → Do what the message says: a missing account, permission, namespace or registry is named there; colliding objects are taken over with annotation oxolm.dev/adopt, or deleted, but no CustomResourceDefinition, which takes its resources with it. Nothing has to be restarted.
    "#);
}

#[test]
fn an_extension_is_told_object_by_object() {
    let extension = extension(
        "x",
        &json!({"observedGeneration": 1, "conditions": [
            condition("Progressing", "True", "RollingOut", "Revision 1.0.0 is being rolled out"),
        ]}),
    );
    let set: ClusterObjectSet = serde_json::from_value(json!({
        "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet",
        "metadata": {"name": "x-1", "uid": "1"},
        "spec": {"revision": 1, "lifecycleState": "Active", "collisionProtection": "Prevent", "phases": []},
        "status": {"conditions": [condition("Available", "False", "ProbeFailure", "Deployment n/d: not ready")]},
    }))
    .unwrap();
    let key = |kind: &str, namespace: &str| {
        crate::api::object::ObjectKey::of(&json!({"apiVersion": "v1", "kind": kind,
            "metadata": {"name": "d", "namespace": namespace}}))
        .unwrap()
    };
    let object = |phase: &str, kind: &str, namespace: &str, state: State| Surveyed {
        phase: phase.to_owned(),
        key: key(kind, namespace),
        state,
    };
    let revision = Surveys {
        overview: overview::revision(&set, NOW),
        objects: Ok(vec![
            object("namespaces", "Namespace", "", State::Ready),
            object(
                "deploy",
                "Deployment",
                "n",
                State::NotReady("status.availableReplicas is 0".to_owned()),
            ),
            object("deploy", "Secret", "n", State::Foreign(None)),
            object("deploy", "Service", "n", State::Missing),
        ]),
        set,
    };
    let overview = overview::extension(&extension, NOW);
    insta::assert_snapshot!(
        printed(|out| print_one((&extension, &overview), &[], std::slice::from_ref(&revision), out)), @r#"
    x: installing

    extension: installing
      Revision 1.0.0 is being rolled out

    revision x-1: rolling out
      Deployment n/d: not ready
    PHASE       KIND        NAMESPACE  NAME  STATE
    namespaces  Namespace              d     ready
    deploy      Deployment  n          d     not ready: status.availableReplicas is 0
    deploy      Secret      n          d     not its own: nobody controls it
    deploy      Service     n          d     missing
    "#);
    assert_eq!(revision_json(&revision)["objects"][3]["state"], "missing");
}
