//! Deployments.

use serde_json::{Map, Value, json};

use crate::bundle::csv::Deployment;

use super::member::member;
use super::{Context, Provider, certificate, deployment_config, webhook};

/// The annotation that tells the pod which namespaces to watch; empty means all.
const TARGET_NAMESPACES: &str = "olm.targetNamespaces";

/// The annotation that tells the pod where it is installed.
const OPERATOR_NAMESPACE: &str = "olm.operatorNamespace";

/// The Deployments in order of the CSV.
pub(super) fn deployments(ctx: &Context<'_>) -> Vec<Value> {
    ctx.bundle
        .csv
        .deployments()
        .iter()
        .map(|deployment| object(ctx, deployment))
        .collect()
}

fn object(ctx: &Context<'_>, deployment: &Deployment) -> Value {
    let mut spec = deployment.spec.clone();
    spec.insert("revisionHistoryLimit".to_owned(), Value::from(1));
    let template = member(&mut spec, "template");
    annotate(ctx, member(template, "metadata"));
    if ctx.certificates != Provider::None && webhook::serves(ctx, &deployment.name) {
        certificate::mount(member(template, "spec"), &deployment.name);
    }
    let mut metadata = json!({"name": deployment.name, "namespace": ctx.install_namespace});
    if let (false, Some(members)) = (deployment.label.is_empty(), metadata.as_object_mut()) {
        members.insert("labels".to_owned(), json!(deployment.label));
    }
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": spec,
    });
    if let (Some(config), Some(members)) = (&ctx.deployment_config, object.as_object_mut()) {
        deployment_config::merge(members, config);
    }
    object
}

/// The annotations of the CSV below those of the template, and ours above both.
fn annotate(ctx: &Context<'_>, metadata: &mut Map<String, Value>) {
    let annotations = member(metadata, "annotations");
    for (key, value) in &ctx.bundle.csv.metadata.annotations {
        annotations
            .entry(key.as_str())
            .or_insert_with(|| Value::from(value.as_str()));
    }
    annotations.insert(TARGET_NAMESPACES.to_owned(), Value::from(ctx.targets()));
    annotations.insert(
        OPERATOR_NAMESPACE.to_owned(),
        Value::from(ctx.install_namespace),
    );
}
