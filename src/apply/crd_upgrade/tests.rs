//! The check against the fake API server.

use serde_json::json;

use super::*;
use crate::error::chain;
use crate::testing::api_server::{ApiServer, CONTROLLER};

fn crd(schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.g"},
        "spec": {
            "group": "g", "names": {"kind": "Thing", "plural": "things"}, "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true,
                "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".a"}],
                "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

async fn checked(server: &ApiServer, objects: &[Value]) -> (Result<(), String>, Vec<String>) {
    let (own, account) = (server.client(), server.client());
    let check = CrdUpgradeCheck {
        own: &own,
        account: &account,
        user: "n/a",
        resources: Resources::Looked,
    };
    let mut warnings = Vec::new();
    let result = check.check(objects, &mut warnings).await;
    (result.map_err(|error| chain(&error)), warnings)
}

#[test]
fn pages_are_as_large_as_memory_allows() {
    for (count, bytes, expected) in [
        (0, 0, 500),
        (5, 5 * 100, 500),
        (5, 5 * 8 * 1024, 256),
        (5, 5 * 1_500_000, 1),
        (1, 3 << 20, 1),
    ] {
        assert_eq!(next_limit(count, bytes), expected, "{count} of {bytes}");
    }
}

#[tokio::test]
async fn a_new_crd_and_other_objects_pass() {
    let server = ApiServer::new();
    let new = crd(&json!({"type": "object"}));
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "things.g"}});
    assert_eq!(checked(&server, &[new, other]).await, (Ok(()), vec![]));
    assert_eq!(
        server.requests(),
        [format!("{CONTROLLER} GET {CRDS}/things.g")]
    );
}

#[tokio::test]
async fn a_refusal_has_the_references_text_and_warnings_are_kept_apart() {
    let server = ApiServer::new();
    server.add(&crd(
        &json!({"type": "object", "properties": {"a": {"type": "string"}}}),
    ));
    let mut new = crd(&json!({"type": "object", "properties": {"a": {"type": "integer"}}}));
    new["spec"]["versions"][0]["additionalPrinterColumns"] = json!([]);
    let (result, warnings) = checked(&server, &[new]).await;
    assert_eq!(
        result.unwrap_err(),
        "validating upgrade for CRD \"things.g\": v1: ^.a: type: type changed : \"string\" -> \"integer\""
    );
    assert_eq!(
        warnings,
        ["CRD things.g changes: printerColumn: column \"Age\" of version v1 is gone."]
    );
}

#[tokio::test]
async fn a_crd_that_cannot_be_read_is_named() {
    let server = ApiServer::new();
    let good = crd(&json!({"type": "object"}));
    server.add(&good);
    server.fail_next(&format!("GET {CRDS}/things.g"), 500);
    let (result, _) = checked(&server, std::slice::from_ref(&good)).await;
    let text = result.unwrap_err();
    assert!(
        text.starts_with("getting existing resource for CRD \"things.g\": "),
        "{text}"
    );
    let (result, _) = checked(&server, &[crd(&json!({"type": 1}))]).await;
    assert!(
        result
            .unwrap_err()
            .starts_with("converting unstructured to CRD object: ")
    );
}

#[tokio::test]
async fn where_the_controller_may_not_read_the_account_is_asked() {
    let server = ApiServer::new();
    server.add(&crd(&json!({"type": "object"})));
    server.fail_next(&format!("GET {CRDS}/things.g"), 403);
    let (result, _) = checked(&server, &[crd(&json!({"type": "object"}))]).await;
    assert_eq!(result, Ok(()));
    assert_eq!(server.requests().len(), 2);
}

fn thing(name: &str, size: i64) -> Value {
    json!({"apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": name, "namespace": "n"}, "spec": {"size": size}})
}

fn sized(more: &Value) -> Value {
    let mut size = json!({"type": "integer"});
    size.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    crd(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": size}}}}),
    )
}

const THINGS: &str = "LIST /apis/g/v1/things";

#[tokio::test]
async fn resources_that_pass_make_a_warning_of_an_error() {
    let server = ApiServer::new();
    server.add(&sized(&json!({})));
    for index in 0..600 {
        server.add(&thing(&format!("t{index}"), 1));
    }
    // Reading begins again when the API server forgot where it was, on the second page.
    server.fail_after(1, THINGS, 410);
    let (result, warnings) = checked(&server, &[sized(&json!({"maximum": 5}))]).await;
    assert_eq!(result, Ok(()));
    assert_eq!(
        warnings,
        [
            "CRD things.g changes: v1: ^.spec.size: maximum: maximum constraint added when there was none previously : 5."
        ]
    );
    let pages = server.log().into_iter().filter(|one| one.line == THINGS);
    let codes: Vec<u16> = pages.map(|one| one.code).collect();
    assert_eq!(codes, [200, 410, 200, 200, 200]);
}

#[tokio::test]
async fn resources_that_fail_are_named() {
    let server = ApiServer::new();
    server.add(&sized(&json!({})));
    for index in 0..120 {
        server.add(&thing(&format!("t{index:03}"), index));
    }
    let (result, warnings) = checked(&server, &[sized(&json!({"maximum": 100}))]).await;
    assert_eq!(
        result.unwrap_err(),
        "validating upgrade for CRD \"things.g\": v1: ^.spec.size: maximum: maximum constraint added when there was none previously : 100\n\
         storedResources: 19 of 120 would not be valid or lose data: \
         Thing n/t101: spec.size: must be at most 100, is 101; Thing n/t102: spec.size: must be at most 100, is 102; \
         Thing n/t103: spec.size: must be at most 100, is 103; Thing n/t104: spec.size: must be at most 100, is 104; \
         Thing n/t105: spec.size: must be at most 100, is 105; and 14 more\n\
         change or delete these resources, or go on all the same with this in spec of the ClusterExtension: \
         install: {preflight: {crdUpgradeSafety: {enforcement: None}}}"
    );
    assert_eq!(warnings, Vec::<String>::new());
}

#[tokio::test]
async fn without_the_right_to_list_the_schemas_decide() {
    let server = ApiServer::new();
    server.add(&sized(&json!({})));
    server.fail_next(THINGS, 403);
    let (result, _) = checked(&server, &[sized(&json!({"maximum": 5}))]).await;
    assert_eq!(
        result.unwrap_err(),
        "validating upgrade for CRD \"things.g\": v1: ^.spec.size: maximum: maximum constraint added when there was none previously : 5\n\
         storedResources: not looked at: n/a may not list things.g in all namespaces; grant it that: kubectl create \
         clusterrole n-a-list-things.g --verb=list --resource=things.g && kubectl create clusterrolebinding \
         n-a-list-things.g --clusterrole=n-a-list-things.g --serviceaccount=n:a\n\
         pre-authorization failed: service account requires the following permissions to manage cluster extension:\n  \
         Namespace:\"\" APIGroups:[g] Resources:[things] Verbs:[list]"
    );
    for _ in 0..ATTEMPTS {
        server.fail_next(THINGS, 410);
    }
    let (result, _) = checked(&server, &[sized(&json!({"maximum": 5}))]).await;
    assert!(
        result
            .unwrap_err()
            .contains("\nstoredResources: not looked at: cannot list things.g: ")
    );
}

#[tokio::test]
async fn a_conversion_webhook_that_does_not_answer_leaves_the_verdict() {
    let server = ApiServer::new();
    server.add(&sized(&json!({})));
    let text = "conversion webhook for g/v1, Kind=Thing failed: Post \"https://a.b.svc:443/\": dial tcp 10.0.0.1:443: refused";
    server.fail_with(THINGS, 500, text);
    let (result, _) = checked(&server, &[sized(&json!({"maximum": 5}))]).await;
    assert_eq!(
        result.unwrap_err(),
        "validating upgrade for CRD \"things.g\": v1: ^.spec.size: maximum: maximum constraint added when there was none previously : 5\n\
         storedResources: not looked at: the conversion webhook of things.g does not answer properly, without which \
         none can be read as v1: see to its Service and its pods"
    );
}

#[tokio::test]
async fn a_page_token_that_expired_starts_over_a_few_times() {
    let server = ApiServer::new();
    server.add(&sized(&json!({})));
    server.add(&thing("small", 3));
    let expired = "The provided continue parameter is too old";
    for _ in 1..ATTEMPTS {
        server.fail_with(THINGS, 410, expired);
    }
    let new = sized(&json!({"maximum": 5}));
    let (result, warnings) = checked(&server, std::slice::from_ref(&new)).await;
    assert_eq!((result, warnings.len()), (Ok(()), 1));
    for _ in 0..ATTEMPTS {
        server.fail_with(THINGS, 410, expired);
    }
    let (result, _) = checked(&server, &[new]).await;
    let text = result.unwrap_err();
    assert!(
        text.ends_with("storedResources: not looked at: cannot list things.g: The provided continue parameter is too old"),
        "{text}"
    );
}

#[tokio::test]
async fn a_refusal_knows_which_resources_would_change_it() {
    let server = ApiServer::new();
    server.add(&sized(&json!({})));
    server.add(&thing("large", 9));
    let (own, account) = (server.client(), server.client());
    let check = CrdUpgradeCheck {
        own: &own,
        account: &account,
        user: "n/a",
        resources: Resources::Looked,
    };
    let new = sized(&json!({"maximum": 5}));
    let refused = check
        .check(std::slice::from_ref(&new), &mut Vec::new())
        .await;
    let Err(CrdUpgradeError::Refused { looked, .. }) = refused else {
        panic!("a resource does not fit");
    };
    assert_eq!(looked[0].path, "/apis/g/v1/things");
    let changes = looked[0].changes(&account);
    server.edit(
        "/apis/g/v1/namespaces/n/things/large",
        &json!({"spec": {"size": 3}}),
    );
    assert!(changes.await.unwrap());
    assert_eq!(check.check(&[new], &mut Vec::new()).await.unwrap(), ());
}

#[tokio::test]
async fn rights_that_only_a_look_needs_are_told_when_there_is_one() {
    let server = ApiServer::new();
    server.add(&sized(&json!({})));
    server.add(&thing("small", 3));
    let (own, account) = (server.client(), server.client());
    let mut check = CrdUpgradeCheck {
        own: &own,
        account: &account,
        user: "n/a",
        resources: Resources::Looked,
    };
    let (same, other) = (sized(&json!({})), sized(&json!({"maximum": 5})));
    assert_eq!(
        check.unlisted(std::slice::from_ref(&other)).await.unwrap(),
        []
    );
    server.forbid_controller(THINGS);
    assert_eq!(check.unlisted(&[same]).await.unwrap(), []);
    assert_eq!(
        check.unlisted(std::slice::from_ref(&other)).await.unwrap(),
        [Access::to_list("g", "things")]
    );
    check.resources = Resources::Ignored;
    assert_eq!(check.unlisted(&[other]).await.unwrap(), []);
}

#[tokio::test]
async fn a_version_that_goes_is_let_pass_unseen_and_that_is_said() {
    let server = ApiServer::new();
    let version = |name: &str, storage: bool, served: bool| {
        json!({"name": name, "served": served, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    let crd = |old_is_served: bool| {
        let mut crd = crd(&json!({}));
        crd["spec"]["versions"] = json!([
            version("v1", true, true),
            version("v1alpha1", false, old_is_served)
        ]);
        crd["status"] = json!({"storedVersions": ["v1alpha1", "v1"]});
        crd
    };
    server.add(&crd(true));
    server.set_status(&format!("{CRDS}/things.g"), &crd(true)["status"]);
    server.forbid_controller(THINGS);
    server.forbid_controller("LIST /apis/g/v1alpha1/things");
    let (result, warnings) = checked(&server, &[crd(false)]).await;
    assert_eq!(result, Ok(()));
    assert!(
        warnings[0].contains("storedResources: not looked at: n/a may not list things.g"),
        "{warnings:?}"
    );
}
