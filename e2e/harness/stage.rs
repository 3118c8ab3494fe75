//! What most stories begin with: a namespace, an account, a catalog; and waiting for what shall come.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use oxolm::api::condition::ConditionType;
use oxolm::api::{ClusterCatalog, ClusterExtension, ClusterObjectSet};
use serde_json::{Value, json};

use super::package::{Bundle, Entry, Package, entry};
use super::wait::{self, message, shape};
use super::{Cluster, objects};

/// The stage of one story. Everything on it is named after the story.
pub(crate) struct Stage {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) name: String,
    pub(crate) package: Package,
}

impl Stage {
    /// A namespace and, in it, account `installer`, which is bound to cluster-admin.
    pub(crate) async fn set(cluster: Arc<Cluster>, name: &str) -> anyhow::Result<Self> {
        let stage = Self::set_without_rights(cluster, name).await?;
        stage.grant_everything().await?;
        Ok(stage)
    }

    /// A namespace and, in it, account `installer`, which may do nothing.
    pub(crate) async fn set_without_rights(
        cluster: Arc<Cluster>,
        name: &str,
    ) -> anyhow::Result<Self> {
        let stage = Self::bare(cluster, name)?;
        stage.add_account().await?;
        Ok(stage)
    }

    /// As [`Self::set`], with a catalog that serves `bundles`, each a successor of the one before.
    pub(crate) async fn offering(
        cluster: Arc<Cluster>,
        name: &str,
        bundles: &[Bundle],
    ) -> anyhow::Result<Self> {
        let stage = Self::set(cluster, name).await?;
        stage.offer(bundles).await?;
        Ok(stage)
    }

    /// Nothing yet.
    pub(crate) fn bare(cluster: Arc<Cluster>, name: &str) -> anyhow::Result<Self> {
        Ok(Self {
            cluster,
            name: name.to_owned(),
            package: Package::new(name)?,
        })
    }

    /// Creates the namespace and the account.
    pub(crate) async fn add_account(&self) -> anyhow::Result<()> {
        let name = &self.name;
        let yaml = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n---\n\
             apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: installer, namespace: {name}}}\n"
        );
        self.apply(&yaml).await
    }

    /// Binds the account to cluster-admin.
    pub(crate) async fn grant_everything(&self) -> anyhow::Result<()> {
        let name = &self.name;
        let yaml = format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: {name}-admin}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}\n\
             subjects: [{{kind: ServiceAccount, name: installer, namespace: {name}}}]\n"
        );
        self.apply(&yaml).await
    }

    /// Gives the account what `oxolm rbac generate` says that these bundles take, their certificates made by oxolm.
    pub(crate) async fn grant_for(&self, bundles: &[Bundle]) -> anyhow::Result<()> {
        let mut references = Vec::new();
        for bundle in bundles {
            references.push(self.package.push_bundle(bundle).await?);
        }
        let (_comment, roles) = self.roles_for(references, None).await?;
        self.apply(&roles).await
    }

    /// What `oxolm rbac generate` says that these bundles take, their certificates made by oxolm: the comment above the
    /// roles, and the roles.
    pub(crate) async fn roles_for(
        &self,
        bundles: Vec<String>,
        config: Option<&Path>,
    ) -> anyhow::Result<(String, String)> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxolm"));
        command
            .args(["rbac", "generate"])
            .args(bundles)
            .args(["--namespace", &self.name, "--service-account", "installer"])
            .args(["--certificates", "self"]);
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "oxolm rbac generate: {said}");
        let text = String::from_utf8(output.stdout)?;
        let (comment, roles) = text.split_once("---\n").context("there are roles")?;
        Ok((comment.to_owned(), roles.to_owned()))
    }

    /// Pushes bundles, each a successor of the one before, and serves them.
    pub(crate) async fn offer(&self, bundles: &[Bundle]) -> anyhow::Result<()> {
        let mut entries: Vec<Entry<'_>> = Vec::new();
        for bundle in bundles {
            self.package.push_bundle(bundle).await?;
            let before = entries.last().map_or("", |entry| entry.version);
            entries.push(entry(bundle.version, before));
        }
        self.serve(&entries).await
    }

    /// Serves these entries; what the catalog served before is replaced.
    pub(crate) async fn serve(&self, entries: &[Entry<'_>]) -> anyhow::Result<()> {
        self.serve_text(&self.package.catalog_text(entries)).await
    }

    /// Serves exactly this content; what the catalog served before is replaced.
    pub(crate) async fn serve_text(&self, text: &str) -> anyhow::Result<()> {
        let reference = self.package.push_catalog_text("served", text).await?;
        self.add_catalog(&reference).await
    }

    /// Creates the catalog with `reference` and the label `story`, or points it there.
    pub(crate) async fn add_catalog(&self, reference: &str) -> anyhow::Result<()> {
        let name = &self.name;
        let yaml = format!(
            "apiVersion: olm.operatorframework.io/v1\nkind: ClusterCatalog\n\
             metadata: {{name: {name}, labels: {{story: {name}}}}}\n\
             spec: {{source: {{type: Image, image: {{ref: '{reference}'}}}}}}\n"
        );
        self.apply(&yaml).await
    }

    /// Points the catalog at another reference.
    pub(crate) async fn change_catalog(&self, reference: &str) -> anyhow::Result<()> {
        let patch = json!({"spec": {"source": {"image": {"ref": reference}}}});
        self.catalogs()
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Deletes the catalog and waits until it is gone.
    pub(crate) async fn remove_catalog(&self) -> anyhow::Result<()> {
        self.delete_if_there(&self.catalogs()).await
    }

    /// Applies every document of `yaml`.
    pub(crate) async fn apply(&self, yaml: &str) -> anyhow::Result<()> {
        objects::apply(&self.cluster.client, yaml).await
    }

    /// Deletes every object of `yaml` and waits until they are gone.
    pub(crate) async fn delete(&self, yaml: &str) -> anyhow::Result<()> {
        objects::delete(&self.cluster.client, yaml).await
    }

    /// Creates the extension at this version and waits until it is installed.
    pub(crate) async fn install(&self, version: &str) -> anyhow::Result<ClusterExtension> {
        self.add_extension(&json!({ "version": version })).await?;
        self.until_installed(version).await
    }

    /// Creates the extension with no version and waits until `version`, the newest, is installed.
    pub(crate) async fn install_newest(&self, version: &str) -> anyhow::Result<ClusterExtension> {
        self.add_extension(&json!({})).await?;
        self.until_installed(version).await
    }

    /// Asks for another version and waits until it is installed.
    pub(crate) async fn change_to(&self, version: &str) -> anyhow::Result<ClusterExtension> {
        self.change_extension(&json!({ "version": version }))
            .await?;
        self.until_installed(version).await
    }

    /// Creates the extension; `catalog` is merged into `spec.source.catalog`.
    pub(crate) async fn add_extension(&self, catalog: &Value) -> anyhow::Result<()> {
        self.add_extension_with(&json!({"source": {"catalog": catalog}}))
            .await
    }

    /// Creates the extension; `spec` is merged into its spec.
    pub(crate) async fn add_extension_with(&self, spec: &Value) -> anyhow::Result<()> {
        let mut object = self.extension(&self.name);
        json_patch::merge(&mut object, &json!({ "spec": spec }));
        self.apply(&object.to_string()).await
    }

    /// An extension of the stage's package in its namespace.
    pub(crate) fn extension(&self, name: &str) -> Value {
        json!({
            "apiVersion": "olm.operatorframework.io/v1",
            "kind": "ClusterExtension",
            "metadata": {"name": name},
            "spec": {
                "namespace": self.name,
                "serviceAccount": {"name": "installer"},
                "source": {"sourceType": "Catalog", "catalog": {
                    "packageName": self.package.name,
                    "selector": {"matchLabels": {"story": self.name}},
                }},
            },
        })
    }

    /// Merges `patch` into the extension.
    pub(crate) async fn patch_extension(&self, patch: &Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(patch);
        self.extensions()
            .patch(&self.name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Merges `catalog` into `spec.source.catalog` of the extension.
    pub(crate) async fn change_extension(&self, catalog: &Value) -> anyhow::Result<()> {
        self.patch_extension(&json!({"spec": {"source": {"catalog": catalog}}}))
            .await
    }

    pub(crate) fn catalogs(&self) -> Api<ClusterCatalog> {
        Api::all(self.cluster.client.clone())
    }

    pub(crate) fn extensions(&self) -> Api<ClusterExtension> {
        Api::all(self.cluster.client.clone())
    }

    pub(crate) fn sets(&self) -> Api<ClusterObjectSet> {
        Api::all(self.cluster.client.clone())
    }

    /// Waits until a version is installed and its rollout is over.
    pub(crate) async fn until_installed(&self, version: &str) -> anyhow::Result<ClusterExtension> {
        self.until(&format!("version {version} is installed"), |extension| {
            let status = extension.status.as_ref();
            let installed = status
                .and_then(|status| status.install.as_ref())
                .map(|install| &install.bundle);
            let is_current = status.and_then(|status| status.observed_generation)
                == extension.metadata.generation;
            is_current
                && installed.is_some_and(|bundle| bundle.version == version)
                && shape(extension, ConditionType::Progressing) == "True/Succeeded"
        })
        .await
    }

    /// Waits until the extension tells of so many active revisions.
    pub(crate) async fn until_active(&self, count: usize) -> anyhow::Result<ClusterExtension> {
        let what = format!("revisions that are active: {count}");
        let holds = |extension: &ClusterExtension| {
            let status = extension.status.as_ref();
            status.is_some_and(|status| status.active_revisions.len() == count)
        };
        self.until(&what, holds).await
    }

    /// Waits until a condition has this status and reason and its message holds `text`.
    pub(crate) async fn until_condition(
        &self,
        kind: ConditionType,
        wanted: &str,
        text: &str,
    ) -> anyhow::Result<ClusterExtension> {
        self.until(&format!("{kind} is {wanted} with {text:?}"), |extension| {
            shape(extension, kind) == wanted && message(extension, kind).contains(text)
        })
        .await
    }

    /// Waits until `holds` of the extension.
    pub(crate) async fn until(
        &self,
        what: &str,
        holds: impl Fn(&ClusterExtension) -> bool,
    ) -> anyhow::Result<ClusterExtension> {
        wait::until(&self.cluster, &self.extensions(), &self.name, what, holds).await
    }

    /// Waits until `holds` of the catalog.
    pub(crate) async fn until_catalog(
        &self,
        what: &str,
        holds: impl Fn(&ClusterCatalog) -> bool,
    ) -> anyhow::Result<ClusterCatalog> {
        wait::until(&self.cluster, &self.catalogs(), &self.name, what, holds).await
    }

    /// Waits until a revision's condition has this status and reason.
    pub(crate) async fn until_set(
        &self,
        name: &str,
        kind: ConditionType,
        wanted: &str,
    ) -> anyhow::Result<ClusterObjectSet> {
        let what = format!("{kind} is {wanted}");
        let holds = |set: &ClusterObjectSet| shape(set, kind) == wanted;
        wait::until(&self.cluster, &self.sets(), name, &what, holds).await
    }

    /// Waits until a revision is rolled out.
    pub(crate) async fn until_rolled_out(&self, name: &str) -> anyhow::Result<ClusterObjectSet> {
        self.until_set(name, ConditionType::Progressing, "True/Succeeded")
            .await
    }

    /// Waits until a revision is archived.
    pub(crate) async fn until_archived(&self, name: &str) -> anyhow::Result<ClusterObjectSet> {
        self.until_set(name, ConditionType::Progressing, "False/Archived")
            .await
    }

    /// Waits until there is, or is not, an object at a path.
    pub(crate) async fn until_exists(&self, path: &str, wanted: bool) -> anyhow::Result<()> {
        let what = if wanted { "there" } else { "gone" };
        let holds = async || Ok(self.exists(path).await? == wanted);
        wait::until_true(&self.cluster, &format!("{path} is {what}"), holds).await
    }

    /// The object at a path.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let request = http::Request::get(path).body(Vec::new())?;
        let answer = self.cluster.client.request(request).await;
        answer.with_context(|| path.to_owned())
    }

    /// Merges `patch` into the object at a path, as a person would.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> anyhow::Result<Value> {
        let request = http::Request::patch(format!("{path}?fieldManager=kubectl-edit"))
            .header("Content-Type", "application/merge-patch+json")
            .body(patch.to_string().into_bytes())?;
        let answer = self.cluster.client.request(request).await;
        answer.with_context(|| path.to_owned())
    }

    /// Deletes the object at a path, with these options.
    pub(crate) async fn remove(&self, path: &str, options: &Value) -> anyhow::Result<()> {
        let request = http::Request::delete(path)
            .header("Content-Type", "application/json")
            .body(options.to_string().into_bytes())?;
        match self.cluster.client.request::<Value>(request).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => other.map(|_| ()).with_context(|| path.to_owned()),
        }
    }

    /// Whether an object is there.
    pub(crate) async fn exists(&self, path: &str) -> anyhow::Result<bool> {
        Ok(self.find(path).await?.is_some())
    }

    /// The object at a path, if there is one.
    pub(crate) async fn find(&self, path: &str) -> anyhow::Result<Option<Value>> {
        let request = http::Request::get(path).body(Vec::new())?;
        match self.cluster.client.request(request).await {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error).context(path.to_owned()),
        }
    }

    /// Where the bundle's `ConfigMap` is.
    pub(crate) fn settings_path(&self) -> String {
        let name = &self.name;
        format!("/api/v1/namespaces/{name}/configmaps/{name}-settings")
    }

    /// Where the operator is.
    pub(crate) fn deployment_path(&self) -> String {
        let name = &self.name;
        format!("/apis/apps/v1/namespaces/{name}/deployments/{name}-manager")
    }

    /// The objects that every bundle of the package installs.
    pub(crate) fn object_paths(&self) -> Vec<String> {
        let name = &self.name;
        vec![
            self.deployment_path(),
            format!("/api/v1/namespaces/{name}/serviceaccounts/{name}-manager"),
            self.settings_path(),
            format!("/api/v1/namespaces/{name}/services/{name}-metrics"),
            format!(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{name}.example.com"
            ),
        ]
    }

    /// Every object that every bundle of the package installs is there.
    pub(crate) async fn has_everything(&self) -> anyhow::Result<()> {
        for path in self.object_paths() {
            ensure!(self.exists(&path).await?, "{path} is not there");
        }
        Ok(())
    }

    /// None of the objects that every bundle of the package installs is there.
    pub(crate) async fn has_nothing(&self) -> anyhow::Result<()> {
        for path in self.object_paths() {
            ensure!(!self.exists(&path).await?, "{path} is there");
        }
        Ok(())
    }

    /// The UIDs of the objects that every bundle of the package installs.
    pub(crate) async fn uids(&self) -> anyhow::Result<Vec<Value>> {
        let mut uids = Vec::new();
        for path in self.object_paths() {
            uids.push(self.get(&path).await?["metadata"]["uid"].clone());
        }
        Ok(uids)
    }

    /// Deletes the extension, waits until it and all its objects are gone, and clears the stage.
    pub(crate) async fn clear(&self) -> anyhow::Result<()> {
        self.uninstall().await?;
        let name = &self.name;
        self.remove_catalog().await?;
        let yaml = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n---\n\
             apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: {name}-admin}}\n"
        );
        self.delete(&yaml).await
    }

    /// Deletes the extension and waits until it is gone.
    pub(crate) async fn uninstall(&self) -> anyhow::Result<()> {
        self.delete_if_there(&self.extensions()).await
    }

    async fn delete_if_there<K>(&self, api: &Api<K>) -> anyhow::Result<()>
    where
        K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        match api.delete(&self.name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
            other => other?,
        };
        wait::until_gone(&self.cluster, api, &self.name).await
    }
}
