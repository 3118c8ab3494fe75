//! Objects and lists in objects.

use serde_json::{Map, Value};

/// The object at `key`, made if there is none.
pub(super) fn member<'a>(
    members: &'a mut Map<String, Value>,
    key: &str,
) -> &'a mut Map<String, Value> {
    let value = members
        .entry(key)
        .or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value
        .as_object_mut()
        .expect("what is no object was just replaced by one")
}

/// The list at `key`, made if there is none.
pub(super) fn list_at<'a>(members: &'a mut Map<String, Value>, key: &str) -> &'a mut Vec<Value> {
    let value = members
        .entry(key)
        .or_insert_with(|| Value::Array(Vec::new()));
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    value
        .as_array_mut()
        .expect("what is no list was just replaced by one")
}
