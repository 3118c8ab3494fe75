use serde_json::{Value, json};

use super::*;
use crate::api::keys;
use crate::identity::{DefaultAccount, ExcludedNamespaces, Identity};
use crate::testing::api_server::ApiServer;

fn config_map(name: &str, owner: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
        "metadata": {
            "name": name, "namespace": "n", "labels": {keys::MANAGED_BY: keys::MANAGED_BY_OLM},
            "managedFields": [{"manager": keys::FIELD_MANAGER_OBJECTS, "operation": "Apply", "fieldsV1": {"f:/data/a": {}}}],
            "ownerReferences": [{"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterObjectSet", "name": owner, "uid": owner, "controller": true}],
        },
    })
}

fn key() -> ObjectKey {
    ObjectKey::of(&config_map("a", "e-1")).unwrap()
}

fn resource() -> Resource {
    Resource {
        group: String::new(),
        version: "v1".into(),
        plural: "configmaps".into(),
        is_namespaced: true,
    }
}

fn account() -> Account {
    Account {
        namespace: "n".into(),
        name: "installer".into(),
    }
}

fn ensure(server: &ApiServer, watches: &DriftWatches, is_probed: bool) {
    ensure_kind(server, watches, &key(), &resource(), is_probed);
}

/// As the stage that revisions of `installer` are applied on.
fn ensure_kind(
    server: &ApiServer,
    watches: &DriftWatches,
    key: &ObjectKey,
    resource: &Resource,
    is_probed: bool,
) {
    let identity = Identity::new(
        server.client(),
        Arc::default(),
        ExcludedNamespaces::default(),
        DefaultAccount::None,
    );
    let client = identity.client_for(&account()).unwrap();
    let deputy = Deputy {
        account: &account(),
        client: &client,
    };
    watches.ensure(key, resource, is_probed, deputy);
}

fn seen(object: &Value) -> Arc<Seen> {
    let metadata = serde_json::from_value(object["metadata"].clone()).unwrap();
    Arc::new(Seen::of(&key().gvk, &metadata))
}

async fn next(triggers: &mut mpsc::UnboundedReceiver<String>) -> String {
    tokio::time::timeout(Duration::from_secs(10), triggers.recv())
        .await
        .expect("a trigger comes")
        .unwrap()
}

#[tokio::test]
async fn what_others_do_triggers_the_owner_and_what_we_do_does_not() {
    let server = ApiServer::new();
    let (watches, mut triggers) = DriftWatches::new(server.client());
    assert_eq!(watches.view(&key(), &account()), View::Unwatched);
    ensure(&server, &watches, false);
    assert_eq!(watches.view(&key(), &account()), View::NotYet);

    // Ours, noted at once; then one of another revision, by which we know that the watch is past both.
    let ours = server.add(&config_map("a", "e-1"));
    watches.note(&key(), &account(), &seen(&ours));
    server.add(&config_map("b", "marker"));
    let path = "/api/v1/namespaces/n/configmaps/a";
    while watches.view(&key(), &account()) == View::NotYet {
        tokio::task::yield_now().await;
    }
    while triggers.try_recv().is_ok() {}

    // A field that is not ours: no drift. A field of ours: drift. Gone: drift.
    server.edit(path, &json!({"data": {"other": "x"}}));
    server.edit(path, &json!({"data": {"a": "2"}}));
    while next(&mut triggers).await != "e-1" {}
    assert_eq!(triggers.try_recv().ok(), None);
    server.remove(&config_map("a", "e-1"));
    assert_eq!(next(&mut triggers).await, "e-1");
    assert_eq!(watches.view(&key(), &account()), View::Absent);
}

#[tokio::test]
async fn a_list_costs_no_request_where_the_server_sends_it_with_the_watch() {
    let server = ApiServer::new();
    server.stream_lists();
    let (watches, mut triggers) = DriftWatches::new(server.client());
    let ours = server.add(&config_map("a", "e-1"));
    ensure(&server, &watches, false);
    while watches.view(&key(), &account()) != View::Present(seen(&ours)) {
        tokio::task::yield_now().await;
    }
    while triggers.try_recv().is_ok() {}
    server.edit(
        "/api/v1/namespaces/n/configmaps/a",
        &json!({"data": {"a": "2"}}),
    );
    assert_eq!(next(&mut triggers).await, "e-1");
    let asked: Vec<String> = server.log().into_iter().map(|one| one.line).collect();
    assert_eq!(asked, ["WATCH /api/v1/configmaps"]);
}

#[tokio::test]
async fn where_the_server_does_not_it_is_asked_once() {
    let server = ApiServer::new();
    let (watches, _triggers) = DriftWatches::new(server.client());
    let mut secret = config_map("a", "e-1");
    secret["kind"] = json!("Secret");
    let secrets = Resource {
        plural: "secrets".into(),
        ..resource()
    };
    for (key, resource) in [
        (key(), resource()),
        (ObjectKey::of(&secret).unwrap(), secrets),
    ] {
        ensure_kind(&server, &watches, &key, &resource, false);
        while watches.view(&key, &account()) == View::NotYet {
            tokio::task::yield_now().await;
        }
    }
    let log = server.log();
    let refused = log.iter().filter(|one| one.code == 422).count();
    assert_eq!(refused, 1);
    let listed = log
        .iter()
        .filter(|one| one.line.starts_with("LIST"))
        .count();
    assert_eq!(listed, 2);
}

/// Only Kubernetes' own API server is known to say that it does not stream lists.
#[tokio::test]
async fn kinds_of_other_groups_are_listed() {
    let server = ApiServer::new();
    server.stream_lists();
    server.add(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.g.example.com"},
        "spec": {"group": "g.example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1"}]},
    }));
    let (watches, _triggers) = DriftWatches::new(server.client());
    let mut thing = config_map("a", "e-1");
    (thing["apiVersion"], thing["kind"]) = (json!("g.example.com/v1"), json!("Thing"));
    let key = ObjectKey::of(&thing).unwrap();
    let resource = Resource {
        group: key.gvk.group.clone(),
        plural: "things".into(),
        ..resource()
    };
    ensure_kind(&server, &watches, &key, &resource, false);
    while watches.view(&key, &account()) == View::NotYet {
        tokio::task::yield_now().await;
    }
    let lines = server.log().into_iter().map(|one| one.line);
    let lists: Vec<String> = lines.filter(|line| line.starts_with("LIST")).collect();
    assert_eq!(lists, ["LIST /apis/g.example.com/v1/things"]);
}

const NAMESPACED: &str = "LIST /api/v1/namespaces/n/configmaps";

/// A server where the controller may not watch `ConfigMap`s.
fn forbidding_server() -> ApiServer {
    let server = ApiServer::new();
    server.forbid_controller("LIST /api/v1/configmaps");
    server
}

/// Asks for a watch until the controller's own is denied; the account's has been started then.
async fn until_denied(
    server: &ApiServer,
    watches: &DriftWatches,
    triggers: &mut mpsc::UnboundedReceiver<String>,
) {
    ensure(server, watches, false);
    watches.note(&key(), &account(), &seen(&config_map("a", "e-1")));
    assert_eq!(next(triggers).await, "e-1");
    assert_eq!(watches.view(&key(), &account()), View::Unwatched);
    ensure(server, watches, false);
}

#[tokio::test]
async fn where_the_controller_may_not_watch_the_account_does() {
    let server = forbidding_server();
    let (watches, mut triggers) = DriftWatches::new(server.client());
    until_denied(&server, &watches, &mut triggers).await;
    let ours = server.add(&config_map("a", "e-1"));
    watches.note(&key(), &account(), &seen(&ours));
    while !matches!(watches.view(&key(), &account()), View::Present(_)) {
        tokio::task::yield_now().await;
    }
    assert_eq!(watches.watcher(&key(), &account()), Watcher::Account);
    let other = Account {
        name: "other".into(),
        ..account()
    };
    assert_eq!(
        watches.view(&key(), &other),
        View::Unwatched,
        "what one account sees is told to no other"
    );
    while triggers.try_recv().is_ok() {}
    server.edit(
        "/api/v1/namespaces/n/configmaps/a",
        &json!({"data": {"a": "2"}}),
    );
    assert_eq!(next(&mut triggers).await, "e-1");
    let lines: Vec<String> = (server.log().iter())
        .filter(|logged| logged.line == NAMESPACED)
        .map(|logged| logged.user.clone())
        .collect();
    assert_eq!(lines, ["system:serviceaccount:n:installer"]);
}

#[tokio::test]
async fn a_kind_that_nobody_may_list_is_unwatched_until_rights_change() {
    let server = forbidding_server();
    server.fail_next(NAMESPACED, 403);
    let (mut watches, mut triggers) = DriftWatches::new(server.client());
    watches.patience.rights = Duration::ZERO;
    until_denied(&server, &watches, &mut triggers).await;
    watches.note(&key(), &account(), &seen(&config_map("a", "e-1")));
    assert_eq!(next(&mut triggers).await, "e-1");
    assert_eq!(watches.watcher(&key(), &account()), Watcher::Nobody);
    let lists = || {
        let log = server.log();
        log.iter()
            .filter(|logged| logged.line == NAMESPACED)
            .count()
    };
    ensure(&server, &watches, false);
    tokio::task::yield_now().await;
    assert_eq!(lists(), 1, "it is left alone for a while");

    server.add(&config_map("a", "e-1"));
    watches.rights_changed();
    watches.rights_changed();
    assert_eq!(next(&mut triggers).await, "e-1", "who waits is told to try");
    ensure(&server, &watches, false);
    assert_eq!(
        watches.watcher(&key(), &account()),
        Watcher::Nobody,
        "not before it works"
    );
    assert_eq!(
        next(&mut triggers).await,
        "e-1",
        "who waited is told that it works"
    );
    assert_eq!(watches.watcher(&key(), &account()), Watcher::Account);
    assert_eq!(lists(), 2);
}

#[tokio::test]
async fn a_watch_that_nobody_needs_is_stopped() {
    let server = ApiServer::new();
    let (mut watches, _triggers) = DriftWatches::new(server.client());
    ensure(&server, &watches, false);
    watches.stop_unneeded([]);
    assert_ne!(
        watches.view(&key(), &account()),
        View::Unwatched,
        "it has just been asked for"
    );
    watches.patience.unused = Duration::ZERO;
    watches.stop_unneeded([(&key(), &account())]);
    assert_ne!(watches.view(&key(), &account()), View::Unwatched);
    watches.stop_unneeded([]);
    assert_eq!(watches.view(&key(), &account()), View::Unwatched);
}

#[tokio::test]
async fn a_watch_that_worked_is_not_given_up_for_one_denial() {
    let server = ApiServer::new();
    let (watches, mut triggers) = DriftWatches::new(server.client());
    server.add(&config_map("a", "e-1"));
    ensure(&server, &watches, false);
    while !matches!(watches.view(&key(), &account()), View::Present(_)) {
        tokio::task::yield_now().await;
    }
    // The API server starts again, and does not know the roles yet.
    for line in ["WATCH", "LIST"] {
        server.fail_next(&format!("{line} /api/v1/configmaps"), 403);
    }
    server.end_watches();
    server.edit(
        "/api/v1/namespaces/n/configmaps/a",
        &json!({"data": {"a": "2"}}),
    );
    assert_eq!(next(&mut triggers).await, "e-1");
    assert!(matches!(watches.view(&key(), &account()), View::Present(_)));
}

#[tokio::test]
async fn the_status_matters_where_it_is_probed() {
    let server = ApiServer::new();
    let (watches, mut triggers) = DriftWatches::new(server.client());
    server.add(&config_map("a", "e-1"));
    ensure(&server, &watches, true);
    while !matches!(watches.view(&key(), &account()), View::Present(_)) {
        tokio::task::yield_now().await;
    }
    server.set_status("/api/v1/namespaces/n/configmaps/a", &json!({"x": 1}));
    assert_eq!(next(&mut triggers).await, "e-1");
}

#[tokio::test]
async fn a_change_that_overtakes_the_answer_to_our_write_is_told() {
    let server = ApiServer::new();
    let (watches, mut triggers) = DriftWatches::new(server.client());
    let ours = server.add(&config_map("a", "e-1"));
    server.set_status("/api/v1/namespaces/n/configmaps/a", &json!({"ready": true}));
    ensure(&server, &watches, true);
    while watches.view(&key(), &account()) == View::NotYet {
        tokio::task::yield_now().await;
    }
    watches.note(&key(), &account(), &seen(&ours));
    assert_eq!(next(&mut triggers).await, "e-1");
}

/// Were the late note believed, the object would be missing for ever.
#[tokio::test]
async fn a_deletion_that_overtakes_the_answer_to_our_write_is_told() {
    let server = ApiServer::new();
    let (watches, mut triggers) = DriftWatches::new(server.client());
    server.add(&config_map("b", "marker"));
    ensure(&server, &watches, true);
    while watches.view(&key(), &account()) == View::NotYet {
        tokio::task::yield_now().await;
    }
    let ours = server.add(&config_map("a", "e-1"));
    server.remove(&config_map("a", "e-1"));
    server.add(&config_map("b2", "past-both"));
    while next(&mut triggers).await != "past-both" {}
    watches.note(&key(), &account(), &seen(&ours));
    assert_eq!(next(&mut triggers).await, "e-1");
    assert_eq!(watches.view(&key(), &account()), View::Absent);

    // Made anew since: that is what is there.
    let anew = server.add(&config_map("a", "e-1"));
    watches.note(&key(), &account(), &seen(&anew));
    assert_eq!(watches.view(&key(), &account()), View::Present(seen(&anew)));
    watches.note(&key(), &account(), &seen(&ours));
    assert_eq!(watches.view(&key(), &account()), View::Present(seen(&anew)));
}

/// Written, and deleted by somebody, before the first list.
#[tokio::test(start_paused = true)]
async fn what_no_list_and_no_event_tells_of_is_gone() {
    let server = ApiServer::new();
    let (watches, mut triggers) = DriftWatches::new(server.client());
    let ours = server.add(&config_map("a", "e-1"));
    server.remove(&config_map("a", "e-1"));
    ensure(&server, &watches, true);
    watches.note(&key(), &account(), &seen(&ours));
    assert_eq!(next(&mut triggers).await, "e-1");
    assert_eq!(
        watches.view(&key(), &account()),
        View::Present(seen(&ours)),
        "it may have been made after the list"
    );
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(triggers.try_recv().ok().as_deref(), Some("e-1"));
    assert_eq!(watches.view(&key(), &account()), View::Absent);
}

#[tokio::test]
async fn a_namespace_that_the_kind_does_not_have_means_nothing() {
    let server = ApiServer::new();
    let (watches, mut triggers) = DriftWatches::new(server.client());
    let kind = (
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
    );
    let mut object = config_map("a", "e-1");
    (object["apiVersion"], object["kind"]) = (json!(kind.0), json!(kind.1));
    let key = ObjectKey::of(&object).unwrap();
    assert_eq!(key.namespace, "n", "as it is rendered");
    let resource = Resource {
        group: key.gvk.group.clone(),
        version: "v1".into(),
        plural: "validatingwebhookconfigurations".into(),
        is_namespaced: false,
    };
    ensure_kind(&server, &watches, &key, &resource, false);
    let ours = server.add(&object);
    watches.note(&key, &account(), &seen(&ours));
    while watches.view(&key, &account()) == View::NotYet {
        tokio::task::yield_now().await;
    }
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/a";
    server.edit(path, &json!({"data": {"a": "2"}}));
    while next(&mut triggers).await != "e-1" {}
    assert_ne!(watches.view(&key, &account()), View::Present(seen(&ours)));
    server.remove(&object);
    while watches.view(&key, &account()) != View::Absent {
        tokio::task::yield_now().await;
    }
}

#[test]
fn an_older_state_is_told_from_a_newer_one() {
    let at = |uid: &str, version: &str| Seen {
        uid: uid.into(),
        resource_version: version.into(),
        own: None,
        controller: None,
        revisions: Vec::new(),
        is_labelled: true,
    };
    assert!(at("u", "9").is_older_than(&at("u", "10")));
    assert!(!at("u", "10").is_older_than(&at("u", "9")));
    assert!(!at("u", "x").is_older_than(&at("u", "y")));
    assert!(at("u", "1").is_older_than(&at("v", "2")));
}

/// An admission policy may take our label away as soon as it is written: then no watch tells of the object.
#[tokio::test]
async fn what_has_not_our_label_is_not_watched() {
    let server = ApiServer::new();
    let (watches, _triggers) = DriftWatches::new(server.client());
    ensure(&server, &watches, false);
    let mut object = config_map("a", "e-1");
    object["metadata"]["labels"] = json!({keys::MANAGED_BY: "corp"});
    let ours = server.add(&object);
    watches.note(&key(), &account(), &seen(&ours));
    while watches.view(&key(), &account()) == View::NotYet {
        tokio::task::yield_now().await;
    }
    assert_eq!(watches.view(&key(), &account()), View::Unwatched);
    assert_eq!(watches.watcher(&key(), &account()), Watcher::Unlabelled);
}
