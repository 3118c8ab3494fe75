//! The bundles of the small operator in `e2e/operator`.

use std::fs;

use anyhow::Context as _;
use serde_json::json;

use crate::harness::package::Entry;
use crate::harness::stage::Stage;

/// The one definition that all bundles bring.
pub(super) const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/greetings.greeter.oxolm.dev";

/// The operator's image, as the node reaches it.
pub(super) fn image(registry: &str) -> String {
    format!("{registry}/greeter:v1")
}

/// Pushes the bundle of a version; one that crashes ends as soon as it is started.
pub(super) async fn push(stage: &Stage, version: &str, crashes: bool) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let registry = std::env::var("OXOLM_REGISTRY")?;
    let arguments = if crashes {
        json!(["--crash"])
    } else {
        json!([])
    };
    let files = [
        ("metadata/annotations.yaml", ANNOTATIONS),
        ("manifests/csv.yaml", CSV),
        ("manifests/crd.yaml", CRD),
    ];
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        let content = content
            .replace("PACKAGE", &stage.name)
            .replace("VERSION", version)
            .replace("IMAGE", &image(&registry))
            .replace("ARGUMENTS", &arguments.to_string());
        fs::write(path, content)?;
    }
    stage
        .package
        .push_bundle_folder(version, folder.path())
        .await?;
    Ok(())
}

/// A stage with the operator at version 1.0.0.
pub(super) async fn install(stage: &Stage) -> anyhow::Result<()> {
    push(stage, "1.0.0", false).await?;
    let first = Entry {
        version: "1.0.0",
        replaces: "",
    };
    stage.serve(&[first]).await?;
    stage.install_newest("1.0.0").await?;
    Ok(())
}

/// A greeting of `name` in the stage's namespace.
pub(super) fn greeting(stage: &Stage, name: &str) -> String {
    let namespace = &stage.name;
    format!(
        "apiVersion: greeter.oxolm.dev/v1\nkind: Greeting\nmetadata: {{name: first, namespace: {namespace}}}\n\
         spec: {{name: {name}}}\n"
    )
}

/// Where the greeting is, in a version.
pub(super) fn greeting_path(stage: &Stage, version: &str) -> String {
    let namespace = &stage.name;
    format!("/apis/greeter.oxolm.dev/{version}/namespaces/{namespace}/greetings/first")
}

const ANNOTATIONS: &str = "annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: PACKAGE
";

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: greetings.greeter.oxolm.dev
spec:
  group: greeter.oxolm.dev
  names: {kind: Greeting, listKind: GreetingList, plural: greetings, singular: greeting}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {name: {type: string}}}
          status: {type: object, properties: {words: {type: string}}}
  - name: v2
    served: true
    storage: false
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {person: {type: string}}}
          status: {type: object, properties: {words: {type: string}}}
";

const CSV: &str = "apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: PACKAGE.vVERSION
spec:
  displayName: Greeter
  version: VERSION
  installModes:
  - {type: AllNamespaces, supported: true}
  customresourcedefinitions:
    owned:
    - {kind: Greeting, name: greetings.greeter.oxolm.dev, version: v1}
    - {kind: Greeting, name: greetings.greeter.oxolm.dev, version: v2}
  webhookdefinitions:
  - type: ValidatingAdmissionWebhook
    generateName: validate.greeter.oxolm.dev
    deploymentName: greeter
    containerPort: 9443
    targetPort: 9443
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Fail
    webhookPath: /validate
    rules:
    - {apiGroups: [greeter.oxolm.dev], apiVersions: [v1, v2], resources: [greetings], operations: [CREATE, UPDATE]}
  - type: ConversionWebhook
    generateName: convert.greeter.oxolm.dev
    deploymentName: greeter
    containerPort: 9443
    targetPort: 9443
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Fail
    webhookPath: /convert
    conversionCRDs: [greetings.greeter.oxolm.dev]
  install:
    strategy: deployment
    spec:
      clusterPermissions:
      - serviceAccountName: greeter
        rules:
        - {apiGroups: [greeter.oxolm.dev], resources: [greetings], verbs: [get, list, watch, patch]}
        - {apiGroups: [greeter.oxolm.dev], resources: [greetings/status], verbs: [patch]}
        - {apiGroups: [\"\"], resources: [configmaps], verbs: [get, create, patch, delete]}
      deployments:
      - name: greeter
        spec:
          replicas: 1
          selector:
            matchLabels: {app: greeter}
          template:
            metadata:
              labels: {app: greeter}
            spec:
              serviceAccountName: greeter
              securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
              containers:
              - name: greeter
                image: IMAGE
                args: ARGUMENTS
                securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
                readinessProbe: {httpGet: {path: /readyz, port: 8081}, periodSeconds: 1}
";
