//! Does an object still look the way we left it?
//!
//! Two questions with different answers. [`is_as_desired`] looks at a whole object: may a server-side apply be
//! skipped? [`own_fields`] looks at metadata alone: has anybody taken a field away since our last apply? Whoever
//! changes a field of ours becomes its manager, so our own entry in `managedFields` tells.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::api::keys;
use crate::revision::altered::amount;

/// A hash of our entry in `managedFields`: its fields, operation and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnFields([u8; 16]);

/// The entry that our server-side apply left in `managedFields`, hashed together with that of webhook certificates, if
/// there is one; none when there is no entry of ours.
pub fn own_fields(metadata: &ObjectMeta) -> Option<OwnFields> {
    let entries = || metadata.managed_fields.iter().flatten();
    let own = entries().find(|entry| is_own_apply(entry))?;
    let manager = keys::FIELD_MANAGER_WEBHOOK_CERTIFICATES;
    let certificates = entries().filter(|entry| is_apply_of(entry, manager));
    let mut hasher = Sha256::new();
    for entry in [own].into_iter().chain(certificates) {
        hasher.update(serde_json::to_vec(&entry.fields_v1).unwrap_or_default());
        hasher.update(serde_json::to_vec(&entry.time).unwrap_or_default());
    }
    let mut hash = [0; 16];
    for (to, from) in hash.iter_mut().zip(hasher.finalize()) {
        *to = from;
    }
    Some(OwnFields(hash))
}

/// Whether an entry of `managedFields` is our server-side apply.
pub fn is_own_apply(entry: &ManagedFieldsEntry) -> bool {
    is_apply_of(entry, keys::FIELD_MANAGER_OBJECTS)
}

/// Whether an entry of `managedFields` is a server-side apply of `manager`.
pub fn is_apply_of(entry: &ManagedFieldsEntry, manager: &str) -> bool {
    entry.manager.as_deref() == Some(manager)
        && entry.operation.as_deref() == Some("Apply")
        && entry.subresource.as_deref().unwrap_or_default().is_empty()
}

/// The groups of Kubernetes' own kinds that have quantities: the API server writes those in its own way.
const WITH_AMOUNTS: [&str; 3] = ["", "apps", "batch"];

/// The fields of such kinds that hold quantities by name.
const AMOUNTS: [&str; 4] = ["limits", "requests", "hard", "capacity"];

/// Where a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Where two texts are two values.
    Any,
    /// In an object that may have quantities somewhere.
    AboveAmounts,
    /// It holds quantities by name, if it is a map.
    Amounts,
    /// It is a quantity.
    Amount,
}

impl Place {
    fn field(self, name: &str) -> Self {
        match self {
            Self::AboveAmounts if AMOUNTS.contains(&name) => Self::Amounts,
            Self::AboveAmounts | Self::Any => self,
            Self::Amounts | Self::Amount => Self::Amount,
        }
    }
}

/// Whether every field of `desired` is in `live` with the same value, so that applying it would change nothing.
///
/// May say no where the API server only writes a value in another way (another order of a list): then an apply is sent that
/// changes nothing. It never says yes where an apply would change something, as long as our entry in `managedFields` is there.
pub fn is_as_desired(desired: &Value, live: &Value) -> bool {
    let version = desired.get("apiVersion").and_then(Value::as_str);
    let group = version.map(|version| version.split_once('/').map_or("", |(group, _)| group));
    let has_amounts = group.is_some_and(|group| WITH_AMOUNTS.contains(&group));
    let place = if has_amounts {
        Place::AboveAmounts
    } else {
        Place::Any
    };
    is_same(desired, live, place)
}

fn is_same(desired: &Value, live: &Value, place: Place) -> bool {
    match (desired, live) {
        (Value::Object(desired), Value::Object(live)) => {
            desired.iter().all(|(key, value)| match live.get(key) {
                Some(found) => is_same(value, found, place.field(key)),
                None => is_empty(value),
            })
        }
        (Value::Array(desired), Value::Array(live)) => {
            desired.len() == live.len()
                && desired
                    .iter()
                    .zip(live)
                    .all(|(desired, live)| is_same(desired, live, place))
        }
        (desired, live) => {
            desired == live
                || place == Place::Amount
                    && amount(desired)
                        .zip(amount(live))
                        .is_some_and(|(desired, live)| desired == live)
        }
    }
}

/// What the API server leaves out when it is written as empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    proptest! {
        /// What a manifest says reaches the API server and comes back as JSON; a number that was read as its neighbour
        /// would be a difference for ever.
        #[test]
        fn numbers_come_back_as_they_were(number in any::<f64>().prop_filter("JSON has it", |it| it.is_finite())) {
            let desired = json!({"spec": {"weight": number}});
            let live: Value = serde_json::from_str(&desired.to_string()).unwrap();
            prop_assert!(is_as_desired(&desired, &live));
        }
    }

    #[test]
    fn what_others_add_is_no_difference() {
        let desired = json!({"data": {"a": "1"}, "list": [{"name": "x"}]});
        for (live, expected) in [
            (
                json!({"data": {"a": "1", "b": "2"}, "list": [{"name": "x", "more": 1}], "status": {}}),
                true,
            ),
            (json!({"data": {"a": "2"}, "list": [{"name": "x"}]}), false),
            (json!({"list": [{"name": "x"}]}), false),
            (
                json!({"data": {"a": "1"}, "list": [{"name": "x"}, {"name": "y"}]}),
                false,
            ),
            (json!({"data": {"a": "1"}, "list": []}), false),
            (json!({"data": null, "list": [{"name": "x"}]}), false),
        ] {
            assert_eq!(is_as_desired(&desired, &live), expected, "{live}");
        }
        assert!(is_as_desired(&json!({"a": null, "b": []}), &json!({})));
        assert!(!is_as_desired(&json!({"a": {}}), &json!({})));
    }

    /// The API server reads a quantity and writes it in its own way; what it does not know as one stays as it is.
    #[test]
    fn quantities_are_the_same_however_they_are_written() {
        let pod = |cpu: &Value| json!({"containers": [{"name": "m", "resources": {"limits": {"cpu": cpu}}}]});
        let of = |version: &str, cpu: Value| json!({"apiVersion": version, "spec": {"template": {"spec": pod(&cpu)}}});
        for (version, wanted, live, expected) in [
            ("apps/v1", json!("1000m"), json!("1"), true),
            ("apps/v1", json!(1), json!("1"), true),
            ("batch/v1", json!("0.5"), json!("500m"), true),
            ("v1", json!("1024Mi"), json!("1Gi"), true),
            ("v1", json!("1024Mi"), json!("1G"), false),
            ("example.com/v1", json!("1000m"), json!("1"), false),
            ("apiextensions.k8s.io/v1", json!("1000m"), json!("1"), false),
        ] {
            let is_same = is_as_desired(&of(version, wanted), &of(version, live.clone()));
            assert_eq!(is_same, expected, "{version} {live}");
        }
        let data =
            |text: &str| json!({"apiVersion": "v1", "data": {"limits": text, "requests": "a"}});
        assert!(!is_as_desired(&data("1000m"), &data("1")));
        let hard = |cpu: &str| json!({"apiVersion": "v1", "spec": {"hard": {"requests.cpu": cpu}}});
        assert!(is_as_desired(&hard("2000m"), &hard("2")));
    }

    fn metadata(fields: &Value, time: &str, operation: &str) -> ObjectMeta {
        serde_json::from_value(json!({"managedFields": [
            {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:x": {}}},
            {"manager": keys::FIELD_MANAGER_OBJECTS, "operation": operation, "time": time, "fieldsV1": fields},
        ]}))
        .unwrap()
    }

    #[test]
    fn our_entry_tells_when_a_field_is_taken() {
        let ours = json!({"f:data": {"f:a": {}, "f:b": {}}});
        let left = own_fields(&metadata(&ours, "2026-01-01T00:00:00Z", "Apply"));
        assert!(left.is_some());
        assert_eq!(
            left,
            own_fields(&metadata(&ours, "2026-01-01T00:00:00Z", "Apply"))
        );
        let taken = json!({"f:data": {"f:a": {}}});
        assert_ne!(
            left,
            own_fields(&metadata(&taken, "2026-01-01T00:00:00Z", "Apply"))
        );
        assert_ne!(
            left,
            own_fields(&metadata(&ours, "2026-01-01T00:00:01Z", "Apply"))
        );
        assert_eq!(
            own_fields(&metadata(&ours, "2026-01-01T00:00:00Z", "Update")),
            None
        );
        assert_eq!(own_fields(&ObjectMeta::default()), None);
    }

    #[test]
    fn so_does_the_entry_of_webhook_certificates() {
        let ours = json!({"f:data": {"f:a": {}}});
        let with = |fields: Value| {
            let mut metadata = metadata(&ours, "2026-01-01T00:00:00Z", "Apply");
            let entry = json!({
                "manager": keys::FIELD_MANAGER_WEBHOOK_CERTIFICATES, "operation": "Apply", "fieldsV1": fields,
            });
            let entry = serde_json::from_value(entry).unwrap();
            metadata.managed_fields.as_mut().unwrap().push(entry);
            own_fields(&metadata)
        };
        let told = with(json!({"f:webhooks": {}}));
        assert_eq!(told, with(json!({"f:webhooks": {}})));
        assert_ne!(told, with(json!({})));
        let before = own_fields(&metadata(&ours, "2026-01-01T00:00:00Z", "Apply"));
        assert_ne!(told, before);
    }
}
