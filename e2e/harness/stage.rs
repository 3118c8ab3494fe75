//! What most stories begin with: a namespace, an account, a catalog; and waiting for what shall come.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use oxolm::api::condition::{self, ConditionType};
use oxolm::api::{ClusterCatalog, ClusterExtension, ClusterObjectSet, Condition};
use serde_json::{Value, json};

use super::package::Package;
use super::{Cluster, objects};

/// How long one step may take.
const STEP_DEADLINE: Duration = Duration::from_mins(1);
/// The time between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

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
        let yaml = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n---\n\
             apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: installer, namespace: {name}}}\n"
        );
        objects::apply(&cluster.client, &yaml).await?;
        Ok(Self {
            cluster,
            name: name.to_owned(),
            package: Package::new(name)?,
        })
    }

    /// Binds the account to cluster-admin.
    pub(crate) async fn grant_everything(&self) -> anyhow::Result<()> {
        let name = &self.name;
        let yaml = format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: {name}-admin}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}\n\
             subjects: [{{kind: ServiceAccount, name: installer, namespace: {name}}}]\n"
        );
        objects::apply(&self.cluster.client, &yaml).await
    }

    /// Creates the catalog with `reference` and the label `story`.
    pub(crate) async fn add_catalog(&self, reference: &str) -> anyhow::Result<()> {
        let name = &self.name;
        let yaml = format!(
            "apiVersion: olm.operatorframework.io/v1\nkind: ClusterCatalog\n\
             metadata: {{name: {name}, labels: {{story: {name}}}}}\n\
             spec: {{source: {{type: Image, image: {{ref: '{reference}'}}}}}}\n"
        );
        objects::apply(&self.cluster.client, &yaml).await
    }

    /// Points the catalog at another reference.
    pub(crate) async fn change_catalog(&self, reference: &str) -> anyhow::Result<()> {
        let patch = json!({"spec": {"source": {"image": {"ref": reference}}}});
        self.catalogs()
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Creates the extension; `catalog` is merged into `spec.source.catalog`.
    pub(crate) async fn add_extension(&self, catalog: &Value) -> anyhow::Result<()> {
        let mut object = json!({
            "apiVersion": "olm.operatorframework.io/v1",
            "kind": "ClusterExtension",
            "metadata": {"name": self.name},
            "spec": {
                "namespace": self.name,
                "serviceAccount": {"name": "installer"},
                "source": {"sourceType": "Catalog", "catalog": {
                    "packageName": self.package.name,
                    "selector": {"matchLabels": {"story": self.name}},
                }},
            },
        });
        if let (Some(into), Some(from)) = (
            object["spec"]["source"]["catalog"].as_object_mut(),
            catalog.as_object(),
        ) {
            into.extend(from.clone());
        }
        objects::apply(&self.cluster.client, &object.to_string()).await
    }

    /// Merges `catalog` into `spec.source.catalog` of the extension.
    pub(crate) async fn change_extension(&self, catalog: &Value) -> anyhow::Result<()> {
        let patch = json!({"spec": {"source": {"catalog": catalog}}});
        self.extensions()
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
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
        let mut last = None;
        let looked = async {
            loop {
                let extension = self.extensions().get(&self.name).await?;
                if holds(&extension) {
                    return anyhow::Ok(extension);
                }
                last = extension.status;
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        match tokio::time::timeout(STEP_DEADLINE, looked).await {
            Ok(extension) => extension,
            Err(_) => bail!(
                "not in {} s: {what}\n{}\noxolm said:\n{}",
                STEP_DEADLINE.as_secs(),
                last.map_or_else(String::new, |status| serde_json::to_string_pretty(&status)
                    .unwrap_or_default()),
                self.cluster.controller.last_lines(25)
            ),
        }
    }

    /// Waits until `holds` of the catalog.
    pub(crate) async fn until_catalog(
        &self,
        what: &str,
        holds: impl Fn(&ClusterCatalog) -> bool,
    ) -> anyhow::Result<ClusterCatalog> {
        let mut last = None;
        let looked = async {
            loop {
                let catalog = self.catalogs().get(&self.name).await?;
                if holds(&catalog) {
                    return anyhow::Ok(catalog);
                }
                last = catalog.status;
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        match tokio::time::timeout(STEP_DEADLINE, looked).await {
            Ok(catalog) => catalog,
            Err(_) => bail!(
                "not in {} s: {what}\n{}\noxolm said:\n{}",
                STEP_DEADLINE.as_secs(),
                last.map_or_else(String::new, |status| serde_json::to_string_pretty(&status)
                    .unwrap_or_default()),
                self.cluster.controller.last_lines(25)
            ),
        }
    }

    /// Whether an object is there.
    pub(crate) async fn exists(&self, path: &str) -> anyhow::Result<bool> {
        let request = http::Request::get(path).body(Vec::new())?;
        match self.cluster.client.request::<Value>(request).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
            Err(error) => Err(error).context(path.to_owned()),
        }
    }

    /// The objects that every bundle of the package installs.
    pub(crate) fn object_paths(&self) -> Vec<String> {
        let name = &self.name;
        vec![
            format!("/apis/apps/v1/namespaces/{name}/deployments/{name}-manager"),
            format!("/api/v1/namespaces/{name}/serviceaccounts/{name}-manager"),
            format!("/api/v1/namespaces/{name}/configmaps/{name}-settings"),
            format!("/api/v1/namespaces/{name}/services/{name}-metrics"),
            format!(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{name}.example.com"
            ),
        ]
    }

    /// Deletes the extension, waits until it and all its objects are gone, and clears the stage.
    pub(crate) async fn clear(&self) -> anyhow::Result<()> {
        self.uninstall().await?;
        let name = &self.name;
        self.delete_if_there(&self.catalogs()).await?;
        let yaml = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n---\n\
             apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: {name}-admin}}\n"
        );
        objects::delete(&self.cluster.client, &yaml).await
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
        let gone = async {
            while api.get_opt(&self.name).await?.is_some() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(STEP_DEADLINE, gone)
            .await
            .with_context(|| {
                format!(
                    "{} is not gone; oxolm said:\n{}",
                    self.name,
                    self.cluster.controller.last_lines(25)
                )
            })?
    }
}

/// `Status/Reason` of a condition, or `absent`.
pub(crate) fn shape(extension: &ClusterExtension, kind: ConditionType) -> String {
    find(extension, kind).map_or_else(
        || "absent".to_owned(),
        |one| format!("{}/{}", one.status, one.reason),
    )
}

/// The message of a condition, or nothing.
pub(crate) fn message(extension: &ClusterExtension, kind: ConditionType) -> String {
    find(extension, kind)
        .map(|one| one.message.clone())
        .unwrap_or_default()
}

fn find(extension: &ClusterExtension, kind: ConditionType) -> Option<&Condition> {
    condition::find(&extension.status.as_ref()?.conditions, kind)
}
