//! Webhook configurations, one for each definition, and the Services in front of the pods that answer.

use serde_json::{Map, Value, json};

use crate::bundle::csv::{Deployment, WebhookDefinition, WebhookType};

use super::Context;
use super::name::WebhookNames;

/// Whether a webhook names the Deployment.
pub(super) fn serves(ctx: &Context<'_>, deployment: &str) -> bool {
    definitions(ctx).any(|webhook| webhook.deployment_name == deployment)
}

/// The Deployments that webhooks name, in order of the CSV.
pub(super) fn serving_deployments<'a>(
    ctx: &'a Context<'_>,
) -> impl Iterator<Item = &'a Deployment> {
    ctx.bundle
        .csv
        .deployments()
        .iter()
        .filter(|deployment| serves(ctx, &deployment.name))
}

fn definitions<'a>(ctx: &'a Context<'_>) -> impl Iterator<Item = &'a WebhookDefinition> {
    ctx.bundle.csv.spec.webhook_definitions.iter()
}

/// The configurations of admission: validating ones first, then mutating ones, each in order of the CSV.
pub(super) fn configurations(ctx: &Context<'_>) -> Vec<Value> {
    [WebhookType::Validating, WebhookType::Mutating]
        .iter()
        .flat_map(|r#type| {
            definitions(ctx)
                .filter(move |webhook| webhook.r#type == *r#type)
                .map(|webhook| configuration(ctx, webhook))
        })
        .collect()
}

fn configuration(ctx: &Context<'_>, webhook: &WebhookDefinition) -> Value {
    let kind = match webhook.r#type {
        WebhookType::Mutating => "MutatingWebhookConfiguration",
        WebhookType::Validating | WebhookType::Conversion | WebhookType::Other(_) => {
            "ValidatingWebhookConfiguration"
        }
    };
    let name = &webhook.generate_name;
    let name = name.strip_suffix('-').unwrap_or(name);
    let names = WebhookNames::of(&webhook.deployment_name);
    let mut object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        // The kind has no namespace; the reference gives it one, which the API server drops.
        "metadata": {"name": name, "namespace": ctx.install_namespace},
        "webhooks": [entry(ctx, webhook, name, &names)],
    });
    ctx.certificates
        .annotate_trust(&mut object, ctx.install_namespace, &names);
    object
}

fn entry(
    ctx: &Context<'_>,
    webhook: &WebhookDefinition,
    name: &str,
    names: &WebhookNames,
) -> Map<String, Value> {
    let mut service = Map::new();
    insert(&mut service, "namespace", Some(ctx.install_namespace));
    insert(&mut service, "name", Some(names.service.as_str()));
    insert(&mut service, "path", webhook.webhook_path.as_deref());
    insert(&mut service, "port", Some(webhook.service_port()));

    let mut entry = Map::new();
    insert(&mut entry, "name", Some(name));
    insert(
        &mut entry,
        "clientConfig",
        Some(json!({"service": service})),
    );
    let rules = Some(webhook.rules.clone()).filter(|rules| !rules.is_empty());
    insert(&mut entry, "rules", rules);
    insert(&mut entry, "failurePolicy", webhook.failure_policy.clone());
    insert(&mut entry, "matchPolicy", webhook.match_policy.clone());
    let selector = ctx.watch_namespace.as_ref().map(|namespace| {
        json!({"matchExpressions": [{
            "key": "kubernetes.io/metadata.name",
            "operator": "In",
            "values": [namespace],
        }]})
    });
    insert(&mut entry, "namespaceSelector", selector);
    insert(
        &mut entry,
        "objectSelector",
        webhook.object_selector.clone(),
    );
    insert(&mut entry, "sideEffects", webhook.side_effects.clone());
    insert(&mut entry, "timeoutSeconds", webhook.timeout_seconds);
    insert(
        &mut entry,
        "admissionReviewVersions",
        webhook.admission_review_versions.clone(),
    );
    if webhook.r#type == WebhookType::Mutating {
        let policy = webhook.reinvocation_policy.clone();
        insert(&mut entry, "reinvocationPolicy", policy);
    }
    entry
}

fn insert<T: Into<Value>>(members: &mut Map<String, Value>, key: &str, value: Option<T>) {
    if let Some(value) = value {
        members.insert(key.to_owned(), value.into());
    }
}

/// One Service for each Deployment that webhooks name, in order of the CSV.
pub(super) fn services(ctx: &Context<'_>) -> Vec<Value> {
    serving_deployments(ctx)
        .map(|deployment| service(ctx, deployment))
        .collect()
}

fn service(ctx: &Context<'_>, deployment: &Deployment) -> Value {
    let names = WebhookNames::of(&deployment.name);
    let mut spec = Map::new();
    spec.insert("ports".to_owned(), Value::Array(ports(ctx, deployment)));
    let labels = deployment
        .spec
        .get("selector")
        .and_then(|selector| selector.get("matchLabels"));
    insert(&mut spec, "selector", labels.cloned());
    let mut service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": names.service, "namespace": ctx.install_namespace},
        "spec": spec,
    });
    ctx.certificates.annotate_service(&mut service, &names);
    service
}

/// The distinct ports of a Deployment's webhooks, by port, then by the number of the target.
fn ports(ctx: &Context<'_>, deployment: &Deployment) -> Vec<Value> {
    let mut ports: Vec<(i32, i64, String, Value)> = definitions(ctx)
        .filter(|webhook| webhook.deployment_name == deployment.name)
        .map(|webhook| {
            let port = webhook.service_port();
            let target = webhook
                .target_port
                .clone()
                .unwrap_or_else(|| Value::from(port));
            let number = match &target {
                Value::String(text) => text.parse().unwrap_or(0),
                other => other.as_i64().unwrap_or(0),
            };
            (port, number, target.to_string(), target)
        })
        .collect();
    ports.sort_by(|a, b| (a.0, a.1, &a.2).cmp(&(b.0, b.1, &b.2)));
    ports.dedup_by(|a, b| a.0 == b.0 && a.2 == b.2);
    ports
        .into_iter()
        .map(|(port, _, _, target)| {
            json!({"name": port.to_string(), "port": port, "targetPort": target})
        })
        .collect()
}
