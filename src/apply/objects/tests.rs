use super::*;

fn entry(manager: &str, operation: &str, field: &str) -> Value {
    json!({"manager": manager, "operation": operation, "time": "2026-01-01T00:00:00Z", "fieldsV1": {field: {}}})
}

fn object(entries: &[Value]) -> Value {
    json!({"metadata": {"uid": "1", "resourceVersion": "7", "managedFields": entries}})
}

/// The entries of `live` after the claim that `created` asks for.
fn claimed_entries(created: &Value, live: &Value) -> Result<Value, json_patch::PatchError> {
    let patch = claim(&metadata_of(created)).expect("there is something to claim");
    let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
    let mut claimed = live.clone();
    json_patch::patch(&mut claimed, &patch)?;
    Ok(claimed["metadata"]["managedFields"].clone())
}

#[test]
fn a_status_that_is_written_right_after_creation_does_not_stand_in_the_way() {
    let creation = entry(keys::FIELD_MANAGER_CREATION, "Update", "f:spec");
    let status = entry("kube-controller-manager", "Update", "f:status");
    assert!(keys::FIELD_MANAGER_CREATION < "kube-controller-manager");
    let created = object(std::slice::from_ref(&creation));
    let mut live = object(&[creation, status.clone()]);
    live["metadata"]["resourceVersion"] = json!("8");
    let ours = entry(keys::FIELD_MANAGER_OBJECTS, "Apply", "f:spec");
    assert_eq!(
        claimed_entries(&created, &live).unwrap(),
        json!([ours, status])
    );
    let another =
        json!({"metadata": {"uid": "2", "managedFields": live["metadata"]["managedFields"]}});
    assert!(claimed_entries(&created, &another).is_err());
}

#[test]
fn what_was_left_unclaimed_is_claimed_as_it_was_read() {
    let status = entry("kube-controller-manager", "Update", "f:status");
    let ours = entry(keys::FIELD_MANAGER_OBJECTS, "Apply", "f:spec");
    for manager in [keys::FIELD_MANAGER_CREATION, keys::FIELD_MANAGER_OBJECTS] {
        let live = object(&[status.clone(), entry(manager, "Update", "f:spec")]);
        let expected = json!([status, ours]);
        assert_eq!(claimed_entries(&live, &live).unwrap(), expected);
        // What was written beside an apply belongs to it.
        let mut later = entry(manager, "Update", "f:data");
        later["time"] = json!("2026-01-02T00:00:00Z");
        let mut united = entry(keys::FIELD_MANAGER_OBJECTS, "Apply", "f:spec");
        united["time"] = later["time"].clone();
        united["fieldsV1"]["f:data"] = json!({});
        let both = object(&[ours.clone(), status.clone(), later]);
        let expected = json!([status, united]);
        assert_eq!(claimed_entries(&both, &both).unwrap(), expected);
    }
    let done = metadata_of(&object(&[ours, status]));
    assert_eq!(claim(&done), None);
}
