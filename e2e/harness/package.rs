//! Bundles and catalogs for stories, written to a folder and pushed with `oxolm image push`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// A package of one story: its name is part of the names of all its objects, so that stories do not meet.
pub(crate) struct Package {
    pub(crate) name: String,
    /// The name of the catalog's only channel.
    pub(crate) channel: &'static str,
    /// Where images are pushed to.
    registry: String,
    /// The same registry, as oxolm reaches it.
    reached: String,
    folder: tempfile::TempDir,
}

/// By which Pods of a real node reach the registry, which speaks TLS there.
const REGISTRY_OF_PODS: &str = "registry.kube-system.svc";

/// One bundle.
#[derive(Clone)]
pub(crate) struct Bundle {
    pub(crate) version: &'static str,
    /// The tag of the operator's image: `unready` and the like mean something to the fake kubelet.
    pub(crate) tag: &'static str,
    /// The value of annotation `olm.properties`.
    pub(crate) properties: Option<&'static str>,
    /// More manifests: file name and content, in which `PACKAGE` is replaced.
    pub(crate) manifests: Vec<(&'static str, String)>,
    /// The supported install mode.
    pub(crate) mode: &'static str,
    /// The value in the bundle's `ConfigMap`; none: the version.
    pub(crate) setting: Option<&'static str>,
    /// Whether it owns a CRD.
    pub(crate) has_crd: bool,
    /// How many Pods its operator has.
    pub(crate) replicas: u8,
    /// The field `webhookdefinitions` of its CSV, in which `PACKAGE` is replaced; empty: none.
    pub(crate) definitions: &'static str,
}

impl Bundle {
    pub(crate) fn new(version: &'static str) -> Self {
        Self {
            version,
            tag: "latest",
            properties: None,
            manifests: Vec::new(),
            mode: "AllNamespaces",
            setting: None,
            has_crd: true,
            replicas: 1,
            definitions: "",
        }
    }
}

/// One entry of the catalog's only channel.
pub(crate) struct Entry<'a> {
    pub(crate) version: &'a str,
    /// The version that it replaces; empty for none.
    pub(crate) replaces: &'a str,
}

/// `entry("1.1.0", "1.0.0")`
pub(crate) fn entry<'a>(version: &'a str, replaces: &'a str) -> Entry<'a> {
    Entry { version, replaces }
}

impl Package {
    /// A package that is pushed to the registry of the cluster.
    pub(crate) fn new(name: &str) -> anyhow::Result<Self> {
        let registry = std::env::var("OXOLM_REGISTRY")
            .context("OXOLM_REGISTRY is not set: hack/cluster env prints it")?;
        let reached = if is_node_real() {
            REGISTRY_OF_PODS.to_owned()
        } else {
            registry.clone()
        };
        Ok(Self {
            name: name.to_owned(),
            channel: "stable",
            registry,
            reached,
            folder: tempfile::tempdir()?,
        })
    }

    /// The name of the bundle of a version.
    pub(crate) fn bundle_name(&self, version: &str) -> String {
        format!("{}.v{version}", self.name)
    }

    /// The catalog's reference, by tag.
    pub(crate) fn catalog(&self, tag: &str) -> String {
        format!("{}/{}/catalog:{tag}", self.reached, self.name)
    }

    fn bundle_image(&self, version: &str) -> String {
        format!("{}/{}/bundle:v{version}", self.reached, self.name)
    }

    /// Pushes a folder under `reference`; the reference by digest, as oxolm reaches it.
    async fn push(&self, folder: &Path, reference: &str, kind: &str) -> anyhow::Result<String> {
        let target = reference.replacen(&self.reached, &self.registry, 1);
        let pushed = push(folder, &target, &["--kind", kind]).await?;
        Ok(pushed.replacen(&self.registry, &self.reached, 1))
    }

    /// Builds and pushes a bundle; the reference by digest.
    pub(crate) async fn push_bundle(&self, bundle: &Bundle) -> anyhow::Result<String> {
        let folder = self
            .folder
            .path()
            .join(format!("bundle-{}", bundle.version));
        self.write_bundle(&folder, bundle)?;
        self.push(&folder, &self.bundle_image(bundle.version), "bundle")
            .await
    }

    /// Pushes the bundle in `folder` as that of a version.
    pub(crate) async fn push_bundle_folder(
        &self,
        version: &str,
        folder: &Path,
    ) -> anyhow::Result<String> {
        self.push(folder, &self.bundle_image(version), "bundle")
            .await
    }

    /// Builds and pushes a catalog under `tag`; the reference by digest.
    pub(crate) async fn push_catalog(
        &self,
        tag: &str,
        entries: &[Entry<'_>],
    ) -> anyhow::Result<String> {
        self.push_catalog_text(tag, &self.catalog_text(entries))
            .await
    }

    /// Pushes a catalog of exactly this content.
    pub(crate) async fn push_catalog_text(&self, tag: &str, text: &str) -> anyhow::Result<String> {
        let folder = self.folder.path().join(format!("catalog-{tag}"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("catalog.yaml"), text)?;
        self.push(&folder, &self.catalog(tag), "catalog").await
    }

    /// Pushes the catalog in `folder`.
    pub(crate) async fn push_catalog_folder(
        &self,
        tag: &str,
        folder: &Path,
    ) -> anyhow::Result<String> {
        self.push(folder, &self.catalog(tag), "catalog").await
    }

    /// File-based catalog content with these entries.
    pub(crate) fn catalog_text(&self, entries: &[Entry<'_>]) -> String {
        let (package, channel) = (&self.name, self.channel);
        let mut text = format!(
            "schema: olm.package\nname: {package}\ndefaultChannel: {channel}\n---\nschema: olm.channel\n\
             package: {package}\nname: {channel}\nentries:\n"
        );
        for entry in entries {
            _ = writeln!(text, "- name: {}", self.bundle_name(entry.version));
            if !entry.replaces.is_empty() {
                _ = writeln!(text, "  replaces: {}", self.bundle_name(entry.replaces));
            }
        }
        for entry in entries {
            let (name, image, version) = (
                self.bundle_name(entry.version),
                self.bundle_image(entry.version),
                entry.version,
            );
            _ = write!(
                text,
                "---\nschema: olm.bundle\npackage: {package}\nname: {name}\nimage: {image}\nproperties:\n\
                 - type: olm.package\n  value: {{packageName: {package}, version: {version}}}\n"
            );
        }
        text
    }

    fn write_bundle(&self, folder: &Path, bundle: &Bundle) -> anyhow::Result<()> {
        let mut files: Vec<(PathBuf, String)> = vec![
            ("metadata/annotations.yaml".into(), ANNOTATIONS.to_owned()),
            (
                "manifests/csv.yaml".into(),
                CSV.replace("  OWNED\n", if bundle.has_crd { OWNED } else { "" })
                    .replace("  WEBHOOKS\n", bundle.definitions),
            ),
            ("manifests/configmap.yaml".into(), CONFIG_MAP.to_owned()),
            ("manifests/service.yaml".into(), SERVICE.to_owned()),
        ];
        if bundle.has_crd {
            files.push(("manifests/crd.yaml".into(), CRD.to_owned()));
        }
        for (name, content) in &bundle.manifests {
            files.push((Path::new("manifests").join(name), content.clone()));
        }
        let properties = bundle.properties.unwrap_or("[]").replace('\'', "''");
        for (name, content) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().context("a file has a folder")?)?;
            let content = content
                .replace("SETTING", bundle.setting.unwrap_or(bundle.version))
                .replace("PACKAGE", &self.name)
                .replace("VERSION", bundle.version)
                .replace("TAG", bundle.tag)
                .replace("MODE", bundle.mode)
                .replace("REPLICAS", &bundle.replicas.to_string())
                .replace("PROPERTIES", &properties);
            fs::write(path, content)?;
        }
        Ok(())
    }
}

/// Whether Pods really run on the cluster's node.
pub(crate) fn is_node_real() -> bool {
    std::env::var("OXOLM_CLUSTER_NODE").as_deref() == Ok("real")
}

/// `oxolm image push`; the reference by digest.
pub(crate) async fn push(
    source: &Path,
    reference: &str,
    options: &[&str],
) -> anyhow::Result<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxolm"));
    command
        .args(["image", "push"])
        .arg(source)
        .arg(reference)
        .args(options)
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    if !output.status.success() {
        bail!(
            "oxolm image push {reference}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let printed = String::from_utf8(output.stdout)?;
    let pushed = printed.split_whitespace().next_back().map(str::to_owned);
    pushed.context("oxolm image push prints the reference")
}

const ANNOTATIONS: &str = "annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: PACKAGE
  operators.operatorframework.io.bundle.channels.v1: stable
";

/// The CRD of a bundle that has one; `PACKAGE` is replaced.
pub(crate) const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.PACKAGE.example.com
spec:
  group: PACKAGE.example.com
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
";

const CONFIG_MAP: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: PACKAGE-settings
data:
  version: SETTING
";

const SERVICE: &str = "apiVersion: v1
kind: Service
metadata:
  name: PACKAGE-metrics
spec:
  selector: {app: PACKAGE}
  ports:
  - {name: metrics, port: 8080, targetPort: 8080}
";

const OWNED: &str = "  customresourcedefinitions:
    owned:
    - {kind: Thing, name: things.PACKAGE.example.com, version: v1}
";

const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: PACKAGE.vVERSION
  annotations:
    olm.properties: 'PROPERTIES'
spec:
  displayName: PACKAGE
  version: VERSION
  installModes:
  - {type: MODE, supported: true}
  OWNED
  WEBHOOKS
  install:
    strategy: deployment
    spec:
      clusterPermissions:
      - serviceAccountName: PACKAGE-manager
        rules:
        - {apiGroups: [PACKAGE.example.com], resources: [things], verbs: [get, list, watch, update]}
      permissions:
      - serviceAccountName: PACKAGE-manager
        rules:
        - {apiGroups: [\"\"], resources: [configmaps], verbs: [get, list, watch]}
      deployments:
      - name: PACKAGE-manager
        spec:
          replicas: REPLICAS
          selector:
            matchLabels: {app: PACKAGE}
          template:
            metadata:
              labels: {app: PACKAGE}
            spec:
              serviceAccountName: PACKAGE-manager
              containers:
              - name: manager
                image: registry.example.com/PACKAGE:TAG
";
