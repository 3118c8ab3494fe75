//! Whether anybody answers the webhooks that a configuration names.
//!
//! Differs from the reference, which calls a configuration available as soon as it is applied: while nobody answers,
//! every call of the kinds that it selects fails. A webhook at a URL is somebody else's, and is not asked about.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::ProbeResult;
use crate::api::object::Gvk;

/// A Service that is called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Service {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Whether objects of this kind say whom to call on admission.
pub fn calls_webhooks(gvk: &Gvk) -> bool {
    let group = "admissionregistration.k8s.io";
    gvk.is(group, "ValidatingWebhookConfiguration") || gvk.is(group, "MutatingWebhookConfiguration")
}

/// The Services that a webhook configuration names, each once, sorted.
pub fn called_services(configuration: &Value) -> BTreeSet<Service> {
    let webhooks = configuration.get("webhooks").and_then(Value::as_array);
    let services = webhooks.into_iter().flatten().filter_map(|webhook| {
        let service = webhook.pointer("/clientConfig/service")?;
        let text = |field| Some(service.get(field)?.as_str()?.to_owned());
        Some(Service {
            namespace: text("namespace")?,
            name: text("name")?,
        })
    });
    services.collect()
}

/// Whether `service` has an endpoint that is ready, given its `EndpointSlice`s.
pub fn has_ready_endpoint(slices: &[Value]) -> bool {
    let endpoints = slices.iter().filter_map(|slice| {
        let endpoints = slice.get("endpoints")?.as_array()?;
        Some(endpoints)
    });
    // Unknown is to be taken for ready, as the API has it.
    endpoints
        .flatten()
        .any(|endpoint| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false)))
}

impl ProbeResult {
    /// The outcome, given the called Services that nobody answers for.
    #[must_use]
    pub fn unless_unanswered(self, unanswered: &[Service]) -> Self {
        if unanswered.is_empty() {
            return self;
        }
        let messages = unanswered
            .iter()
            .map(|service| format!("Service {service} has no ready endpoint"));
        self.and(Self::False(messages.collect()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_are_named_once_and_urls_are_not_asked_about() {
        let webhook = |config: Value| json!({"name": "w", "clientConfig": config});
        let service = |name| json!({"service": {"namespace": "n", "name": name, "port": 443}});
        let configuration = json!({"webhooks": [
            webhook(service("b")), webhook(service("a")), webhook(service("b")),
            webhook(json!({"url": "https://example.com"})), webhook(json!({})),
        ]});
        let called: Vec<String> = called_services(&configuration)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(called, ["n/a", "n/b"]);
        assert_eq!(called_services(&json!({})), BTreeSet::new());
    }

    #[test]
    fn one_ready_endpoint_is_enough() {
        let slice = |ready: Value| json!({"endpoints": [{"conditions": {"ready": ready}}]});
        for (slices, expected) in [
            (vec![], false),
            (vec![json!({}), json!({"endpoints": null})], false),
            (vec![slice(json!(false))], false),
            (vec![slice(json!(false)), slice(json!(true))], true),
            (vec![slice(Value::Null)], true),
            (vec![json!({"endpoints": [{}]})], true),
        ] {
            assert_eq!(has_ready_endpoint(&slices), expected, "{slices:?}");
        }
    }

    #[test]
    fn who_is_not_answered_for_is_named() {
        let service = Service {
            namespace: "n".into(),
            name: "a".into(),
        };
        assert_eq!(ProbeResult::True.unless_unanswered(&[]), ProbeResult::True);
        let told = ProbeResult::True.unless_unanswered(&[service]);
        assert_eq!(told.message(), "Service n/a has no ready endpoint");
        assert!(!told.is_true());
    }
}
