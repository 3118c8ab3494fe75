//! A backup applied again: nothing that runs is deleted or made anew, and ownership is taken back by name.

mod kinds;

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use oxolm::api::condition::ConditionType;
use serde_json::{Value, json};

pub(crate) use self::kinds::nothing_goes_with_the_kinds_of_the_api;
use crate::harness::package::{Bundle, entry};
use crate::harness::stage::Stage;
use crate::harness::wait::{self, until_true};
use crate::harness::{Cluster, Outcome};
use crate::revision::set_path;

const EXTENSIONS: &str = "/apis/olm.operatorframework.io/v1/clusterextensions";
const SETS: &str = "/apis/olm.operatorframework.io/v1/clusterobjectsets";
const SECRETS: &str = "/api/v1/namespaces/olmv1-system/secrets";

/// In this order kinds are saved; restored in others.
const SAVED: [&str; 3] = [EXTENSIONS, SETS, SECRETS];

/// With oxolm running and everything of ours deleted with `--cascade=orphan`, in each order, and without Secrets; and with oxolm stopped.
pub(crate) async fn a_backup_is_applied_again(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let stage = Stage::offering(
        cluster,
        "restored",
        &[Bundle::new("1.0.0"), Bundle::new("1.1.0")],
    )
    .await?;
    stage.install("1.0.0").await?;
    stage.change_to("1.1.0").await?;
    stage.until_archived("restored-1").await?;
    let (saved, before) = (save(&stage).await?, stage.uids().await?);
    let deleted_before = deletions("restored")?.len();

    // Over what is there.
    restore(&stage, &saved, &[2, 1, 0]).await?;
    is_as_before(&stage, &before).await?;
    // After a loss that oxolm saw, extension first, revisions first, Secrets first.
    for order in [[2, 1, 0], [1, 0, 2], [0, 1, 2]] {
        lose(&stage, true).await?;
        restore(&stage, &saved, &order).await?;
        is_as_before(&stage, &before)
            .await
            .with_context(|| format!("restored in order {order:?}"))?;
    }
    // The backup leaves out the namespace that oxolm runs in.
    lose(&stage, true).await?;
    for secret in &saved[2] {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        stage
            .remove(&format!("{SECRETS}/{name}"), &json!({}))
            .await?;
    }
    restore(&stage, &saved, &[1, 0]).await?;
    is_as_before(&stage, &before)
        .await
        .context("restored without Secrets")?;
    // After one that it did not see, restored before it runs again.
    stage.cluster.controller.kill()?;
    lose(&stage, false).await?;
    restore(&stage, &saved, &[1, 0, 2]).await?;
    stage
        .cluster
        .controller
        .restart(&stage.cluster.client)
        .await?;
    is_as_before(&stage, &before).await?;

    let deleted = deletions("restored")?.split_off(deleted_before);
    ensure!(deleted.is_empty(), "{deleted:#?}");
    stage.clear().await?;
    stage.has_nothing().await?;
    for (list, selector) in owned(&stage) {
        let selector = selector.as_str();
        let is_empty = async || {
            let left = stage.get(&format!("{list}?{selector}")).await?;
            Ok(left["items"] == json!([]))
        };
        until_true(
            &stage.cluster,
            &format!("nothing is left in {list}"),
            is_empty,
        )
        .await?;
    }
    Ok(Outcome::Passed)
}

/// In the middle of an upgrade it is the revisions that tell what is installed: what is offered since, and cannot come after
/// that, is not chosen.
pub(crate) async fn what_is_installed_is_known_after_a_restore(
    cluster: Arc<Cluster>,
) -> anyhow::Result<Outcome> {
    let stuck = Bundle {
        tag: "unready",
        ..Bundle::new("1.1.0")
    };
    let bundles = [Bundle::new("1.0.0"), stuck, Bundle::new("3.0.0")];
    let stage = Stage::offering(cluster, "restored-half", &bundles[..1]).await?;
    stage.install_newest("1.0.0").await?;
    for bundle in &bundles[1..] {
        stage.package.push_bundle(bundle).await?;
    }
    let upgrade = [entry("1.0.0", ""), entry("1.1.0", "1.0.0")];
    stage.serve(&upgrade).await?;
    stage.until_active(2).await?;
    let (saved, before) = (save(&stage).await?, stage.uids().await?);

    lose(&stage, true).await?;
    let [first, second] = upgrade;
    stage.serve(&[first, second, entry("3.0.0", "")]).await?;
    restore(&stage, &saved, &[0, 1, 2]).await?;
    let told = stage.until_active(2).await?;
    let installed = told.status.and_then(|status| status.install);
    let installed = installed.map(|install| install.bundle.version);
    ensure!(installed.as_deref() == Some("1.0.0"), "{installed:?}");
    stage
        .until_condition(ConditionType::Progressing, "True/RollingOut", "1.1.0")
        .await?;
    let sets = stage.get(&format!("{SETS}?{}", owned(&stage)[0].1)).await?;
    let sets = sets["items"].as_array().map_or(0, Vec::len);
    ensure!(sets == 2, "{sets} revisions");
    ensure!(stage.uids().await? == before, "something was made anew");
    stage.clear().await?;
    Ok(Outcome::Passed)
}

/// The lists of revisions and Secrets of the extension.
fn owned(stage: &Stage) -> [(&'static str, String); 2] {
    let name = &stage.name;
    let selector = format!("labelSelector=olm.operatorframework.io/owner-name={name}");
    [(SETS, selector.clone()), (SECRETS, selector)]
}

/// Everything of ours, by kind, as backup tools keep it.
async fn save(stage: &Stage) -> anyhow::Result<[Vec<Value>; 3]> {
    let extension = stage.get(&format!("{EXTENSIONS}/{}", stage.name)).await?;
    let mut saved = [vec![extension], Vec::new(), Vec::new()];
    for ((list, selector), into) in owned(stage).into_iter().zip(&mut saved[1..]) {
        let found = stage.get(&format!("{list}?{selector}")).await?;
        let (version, kind) = if list == SETS {
            ("olm.operatorframework.io/v1", "ClusterObjectSet")
        } else {
            ("v1", "Secret")
        };
        for object in found["items"].as_array().into_iter().flatten() {
            let mut object = object.clone();
            object["apiVersion"] = json!(version);
            object["kind"] = json!(kind);
            into.push(object);
        }
    }
    for object in saved.iter_mut().flatten() {
        let stripped = json!({"status": null, "metadata": {"uid": null, "resourceVersion": null, "ownerReferences": null,
            "managedFields": null, "generation": null, "creationTimestamp": null}});
        json_patch::merge(object, &stripped);
    }
    Ok(saved)
}

/// Deletes extension and revisions with `--cascade=orphan`. Without oxolm, somebody also removes the finalizers.
async fn lose(stage: &Stage, with_oxolm: bool) -> anyhow::Result<()> {
    let orphan = json!({"propagationPolicy": "Orphan"});
    let extension = format!("{EXTENSIONS}/{}", stage.name);
    let mut paths = vec![extension];
    let sets = stage.get(&format!("{SETS}?{}", owned(stage)[0].1)).await?;
    for set in sets["items"].as_array().into_iter().flatten() {
        paths.push(set_path(
            set["metadata"]["name"].as_str().unwrap_or_default(),
        ));
    }
    for path in paths {
        stage.remove(&path, &orphan).await?;
        if !with_oxolm {
            let is_orphaned = async || {
                let finalizers = stage.get(&path).await?["metadata"]["finalizers"].to_string();
                Ok(!finalizers.contains("\"orphan\""))
            };
            // An archived revision has no finalizer of ours, and is gone by now.
            if stage.exists(&path).await? {
                until_true(&stage.cluster, "its dependents are orphaned", is_orphaned)
                    .await
                    .ok();
                let none = json!({"metadata": {"finalizers": null}});
                stage.merge(&path, &none).await.ok();
            }
        }
        stage.until_exists(&path, false).await?;
    }
    Ok(())
}

/// Creates what is not there; what is there is left alone, as backup tools do.
async fn restore(stage: &Stage, saved: &[Vec<Value>; 3], order: &[usize]) -> anyhow::Result<()> {
    for at in order {
        for object in &saved[*at] {
            let request = http::Request::post(SAVED[*at])
                .header("Content-Type", "application/json")
                .body(object.to_string().into_bytes())?;
            match stage.cluster.client.request::<Value>(request).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                other => _ = other.with_context(|| format!("cannot restore {object}"))?,
            }
        }
    }
    Ok(())
}

/// The version is installed, by one active revision, the extension's own, and nothing was made anew.
async fn is_as_before(stage: &Stage, before: &[Value]) -> anyhow::Result<()> {
    let extension = stage.until_installed("1.1.0").await?;
    let uid = json!(extension.metadata.uid);
    let what = "one revision is active, and all are the extension's";
    let is_settled = async || {
        let sets = stage.get(&format!("{SETS}?{}", owned(stage)[0].1)).await?;
        let sets = sets["items"].as_array().cloned().unwrap_or_default();
        let active = sets
            .iter()
            .filter(|set| set["spec"]["lifecycleState"] == "Active");
        let is_owned = |set: &Value| set["metadata"]["ownerReferences"][0]["uid"] == uid;
        Ok(active.count() == 1 && sets.iter().all(is_owned))
    };
    until_true(&stage.cluster, what, is_settled).await?;
    wait::until(
        &stage.cluster,
        &stage.extensions(),
        "restored",
        "one is active",
        |extension| {
            extension
                .status
                .as_ref()
                .is_some_and(|status| status.active_revisions.len() == 1)
        },
    )
    .await?;
    let (now, paths) = (stage.uids().await?, stage.object_paths());
    let made_anew: Vec<_> = paths
        .iter()
        .zip(now.iter().zip(before))
        .filter(|(_, (now, before))| now != before)
        .map(|(path, _)| path)
        .collect();
    ensure!(made_anew.is_empty(), "made anew: {made_anew:?}");
    Ok(())
}

/// What oxolm or the garbage collector deleted of a story's objects, by the API server's own log.
fn deletions(name: &str) -> anyhow::Result<Vec<String>> {
    let path = std::env::var("OXOLM_AUDIT_LOG")
        .context("OXOLM_AUDIT_LOG is not set: hack/cluster env prints it")?;
    let mut found = Vec::new();
    for line in BufReader::new(File::open(path)?).lines() {
        let Ok(event) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        let user = event["user"]["username"].as_str().unwrap_or_default();
        let is_watched = user.ends_with(":oxolm") || user.ends_with(":generic-garbage-collector");
        let of = &event["objectRef"];
        let text = |field: &str| of[field].as_str().unwrap_or_default().to_owned();
        let is_own = text("name").starts_with(name) || text("namespace") == name;
        // Of a revision that was archived nothing is needed, and another may have its name before the backup is applied.
        let is_needed = !text("name").starts_with(&format!("{name}-1-"));
        // A deletion that the API server refused deletes nothing.
        let is_done = event["responseStatus"]["code"] == 200;
        if is_watched && is_own && is_needed && is_done && event["verb"] == "delete" {
            found.push(format!(
                "{user} deleted {} {}/{}",
                text("resource"),
                text("namespace"),
                text("name")
            ));
        }
    }
    Ok(found)
}
