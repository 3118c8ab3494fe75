//! An account with the rules that the reference's documentation writes out for an installing account.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use oxolm::api::object::ObjectKey;
use oxolm::apply::discovery::Discovery;
use oxolm::bundle::Files;
use oxolm::identity::request::path;
use serde_json::{Value, json};

use crate::harness::objects::documents;
use crate::harness::package::{Package, entry};
use crate::harness::real;
use crate::harness::stage::Stage;
use crate::harness::{Cluster, Outcome};

const PACKAGE: &str = "argocd-operator";
/// The version that is shared, and the one that is made of it.
const VERSIONS: [&str; 2] = ["0.0.14", "0.0.15"];
/// The kinds that the documentation lets the account make anywhere, by API group and plural.
const EVERYWHERE: [(&str, &str); 3] = [
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
];

/// With just these rules a real bundle is installed, upgraded and uninstalled.
///
/// Its definitions are of a version that API servers no longer take; they are written anew, and so is the next version: the
/// same operator under another name.
pub(crate) async fn the_documented_rules_are_enough(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let Some(bundles) = real::bundles()? else {
        return Ok(Outcome::Skipped(real::MISSING));
    };
    let published = (PACKAGE.to_owned(), VERSIONS[0].to_owned());
    let published = bundles.get(&published).context("the bundle is shared")?;
    let stage = Stage {
        cluster,
        package: Package::new(PACKAGE)?,
        name: "documented".to_owned(),
    };
    stage.add_account().await?;
    let (mut objects, mut config) = (Vec::new(), None);
    for version in VERSIONS {
        let files = rewritten(published, version)?;
        let rendered = real::rendered(&files, &stage.name, "elsewhere").context("it is sound")?;
        objects.extend(rendered.manifests.objects);
        config = rendered.config;
        let folder = tempfile::tempdir()?;
        for (name, bytes) in &files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
            std::fs::write(path, bytes)?;
        }
        stage
            .package
            .push_bundle_folder(version, folder.path())
            .await?;
    }
    let objects = located(&stage, objects).await?;
    for role in documented(&stage.name, &objects) {
        stage.apply(&role.to_string()).await?;
    }
    let [first, second] = VERSIONS;
    stage
        .serve(&[entry(first, ""), entry(second, first)])
        .await?;
    let spec = json!({
        "config": {"configType": "Inline", "inline": config},
        "source": {"catalog": {"version": first}},
    });
    stage.add_extension_with(&spec).await?;
    stage.until_installed(first).await?;
    stage.change_to(second).await?;
    let upgraded = |object: &&Located| object.plural == "deployments";
    let deployment = objects
        .iter()
        .find(upgraded)
        .context("it has an operator")?;
    let deployment = stage.get(&deployment.path).await?;
    let version = &deployment["metadata"]["annotations"]["olm.operatorframework.io/bundle-version"];
    ensure!(version == second, "{deployment}");
    stage.uninstall().await?;
    // The rules do not let it find out whether a definition is in use: it stays, as every definition that may be.
    let (definitions, others): (Vec<_>, Vec<_>) =
        (objects.iter()).partition(|object| object.plural == "customresourcedefinitions");
    for object in others {
        stage.until_exists(&object.path, false).await?;
    }
    let events = stage
        .get("/apis/events.k8s.io/v1/namespaces/default/events")
        .await?;
    let events = events["items"].as_array().into_iter().flatten();
    let kept: BTreeSet<&str> = events
        .filter(|event| event["reason"] == "CrdKept")
        .filter_map(|event| event["note"].as_str())
        .collect();
    for definition in definitions {
        let is_told = kept.iter().any(|note| note.contains(&definition.name));
        let is_there = stage.exists(&definition.path).await?;
        ensure!(is_there == is_told, "{}: {kept:?}", definition.name);
        if is_there {
            stage.remove(&definition.path, &json!({})).await?;
        }
    }
    stage.clear().await?;
    for kind in ["ClusterRole", "ClusterRoleBinding"] {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": INSTALLER}});
        stage.delete(&role.to_string()).await?;
    }
    Ok(Outcome::Passed)
}

/// The files of the bundle as those of `version`.
fn rewritten(published: &Files, version: &str) -> anyhow::Result<Files> {
    let mut files = Files::new();
    for (name, bytes) in published {
        let text = String::from_utf8(bytes.clone())?;
        let text = if name.ends_with("_crd.yaml") {
            let beta = documents(&text)?.into_iter().next();
            definition(&serde_json::to_value(beta.context("it is a definition")?)?).to_string()
        } else {
            text.replace(VERSIONS[0], version)
        };
        files.insert(name.clone(), text.into_bytes());
    }
    Ok(files)
}

/// A definition of today with the names of that of `v1beta1`.
fn definition(beta: &Value) -> Value {
    let spec = &beta["spec"];
    let version = spec["version"].as_str();
    let version = version.or_else(|| spec["versions"][0]["name"].as_str());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": beta["metadata"]["name"]},
        "spec": {
            "group": spec["group"], "names": spec["names"], "scope": spec["scope"],
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

/// An object, and where it is.
struct Located {
    object: Value,
    group: String,
    plural: String,
    name: String,
    is_namespaced: bool,
    path: String,
}

async fn located(stage: &Stage, objects: Vec<Value>) -> anyhow::Result<Vec<Located>> {
    let discovery = Discovery::new(stage.cluster.client.clone());
    let mut located = Vec::new();
    for object in objects {
        let key = ObjectKey::of(&object)?;
        let resource = discovery.resource(&key.gvk).await?;
        let resource = resource.with_context(|| format!("{} is not served", key.gvk))?;
        let namespace = resource.is_namespaced.then_some(key.namespace.as_str());
        let folder = path(
            &key.gvk.group,
            &key.gvk.version,
            namespace,
            &resource.plural,
        );
        located.push(Located {
            path: format!("{folder}/{}", key.name),
            group: key.gvk.group,
            plural: resource.plural,
            name: key.name,
            is_namespaced: resource.is_namespaced,
            object,
        });
    }
    Ok(located)
}

const INSTALLER: &str = "documented-installer";

/// The roles of the documentation, and what binds them: each kind of the bundle may be made, listed and watched, and its own
/// objects be read, changed and deleted; and the account holds what the operator is given.
fn documented(namespace: &str, objects: &[Located]) -> [Value; 4] {
    let rules = |is_namespaced: bool| -> Vec<Value> {
        let mut names: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        let mut rules = Vec::new();
        for object in objects
            .iter()
            .filter(|one| one.is_namespaced == is_namespaced)
        {
            let kind = (object.group.as_str(), object.plural.as_str());
            names.entry(kind).or_default().insert(&object.name);
            rules.extend(
                object.object["rules"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .cloned(),
            );
        }
        for ((group, plural), names) in names {
            let is_listed = is_namespaced || EVERYWHERE.contains(&(group, plural));
            assert!(is_listed, "{plural} are not in the documentation");
            rules.push(json!({"apiGroups": [group], "resources": [plural], "verbs": ["create", "list", "watch"]}));
            rules.push(json!({
                "apiGroups": [group], "resources": [plural], "resourceNames": names,
                "verbs": ["get", "update", "patch", "delete"],
            }));
        }
        rules
    };
    let mut everywhere = rules(false);
    everywhere.push(json!({
        "apiGroups": ["olm.operatorframework.io"], "resources": ["clusterextensions/finalizers"],
        "resourceNames": ["documented"], "verbs": ["update"],
    }));
    let object = |kind: &str, rest: Value| {
        let mut object = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": INSTALLER},
        });
        json_patch::merge(&mut object, &rest);
        object
    };
    let binding = |kind: &str| {
        json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": INSTALLER},
            "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": namespace}],
        })
    };
    let here = |mut object: Value| {
        object["metadata"]["namespace"] = json!(namespace);
        object
    };
    [
        object("ClusterRole", json!({"rules": everywhere})),
        object("ClusterRoleBinding", binding("ClusterRole")),
        here(object("Role", json!({"rules": rules(true)}))),
        here(object("RoleBinding", binding("Role"))),
    ]
}
