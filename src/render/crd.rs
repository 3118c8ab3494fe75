//! Custom resource definitions, some of them converted by a webhook.

use serde_json::{Value, json};

use crate::bundle::csv::{WebhookDefinition, WebhookType};

use super::name::WebhookNames;
use super::{Context, RenderError};

/// The definitions in order of the bundle's files; those that a conversion webhook names get its stanza, whatever
/// they had before.
///
/// # Errors
/// A definition that preserves unknown fields cannot be converted by a webhook.
pub(super) fn definitions(ctx: &Context<'_>) -> Result<Vec<Value>, RenderError> {
    ctx.bundle
        .crds
        .iter()
        .map(|crd| {
            let mut crd = crd.clone();
            let name = name(&crd).to_owned();
            let webhook = ctx
                .bundle
                .csv
                .spec
                .webhook_definitions
                .iter()
                .filter(|webhook| webhook.r#type == WebhookType::Conversion)
                .find(|webhook| webhook.conversion_crds.contains(&name));
            if let Some(webhook) = webhook {
                convert(ctx, &mut crd, webhook).ok_or(RenderError::PreservesUnknownFields(name))?;
            }
            Ok(crd)
        })
        .collect()
}

/// The name of a definition.
pub(super) fn name(crd: &Value) -> &str {
    crd.pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Puts the stanza of `webhook` in; `None` when the definition forbids it.
fn convert(ctx: &Context<'_>, crd: &mut Value, webhook: &WebhookDefinition) -> Option<()> {
    let names = WebhookNames::of(&webhook.deployment_name);
    let spec = crd.get_mut("spec")?.as_object_mut()?;
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(true)) {
        return None;
    }
    let mut stanza = json!({
        "clientConfig": {"service": {
            "namespace": ctx.install_namespace,
            "name": names.service,
            "path": webhook.webhook_path.as_deref().unwrap_or("/"),
            "port": webhook.service_port(),
        }},
    });
    if let (Some(versions), Some(members)) =
        (&webhook.admission_review_versions, stanza.as_object_mut())
    {
        members.insert(
            "conversionReviewVersions".to_owned(),
            Value::from(versions.clone()),
        );
    }
    spec.insert(
        "conversion".to_owned(),
        json!({"strategy": "Webhook", "webhook": stanza}),
    );
    ctx.certificates
        .annotate_trust(crd, ctx.install_namespace, &names);
    Some(())
}
