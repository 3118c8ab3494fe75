//! Fields that the API server does not know.

use super::*;

const CONFIGS: &str = "/api/v1/namespaces/n/configmaps";
const DECODING: &str = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"dta\", unknown field \"imutable\"";
const APPLY: &str = "failed to create typed patch object (n/config; /v1, Kind=ConfigMap): .dta: field not declared in schema";
const TOLD: &str = "True/UnknownFields: ConfigMap.v1 n/config: left out what the API server does not know: dta, imutable.";

/// Server-side apply names some fields, a creation all.
fn refuse_apply(server: &ApiServer) {
    server.fail_with(&format!("PATCH {CONFIG}"), 500, APPLY);
    server.fail_with(&format!("POST {CONFIGS}"), 400, DECODING);
}

fn misspelt(data: &str) -> Value {
    let mut config = config(data);
    config["dta"] = json!({"a": "1"});
    config["imutable"] = json!(true);
    config
}

#[tokio::test]
async fn unknown_fields_are_left_out_and_told() {
    let cluster = Cluster::new().await;
    let server = &cluster.server;
    server.fail_with(&format!("POST {CONFIGS}"), 400, DECODING);
    cluster.ensure(&desired("1.0.0", &[misspelt("1")])).await;
    cluster.passes("e-1").await;
    assert_eq!(cluster.condition("e-1", "Warnings"), TOLD);
    assert!(cluster.condition("e-1", "Succeeded").starts_with("True"));
    let live = server.object(CONFIG).unwrap();
    assert_eq!(
        (&live["dta"], &live["data"]["key"]),
        (&Value::Null, &json!("1"))
    );
    server.requests();
    cluster.passes("e-1").await;
    assert_eq!(server.requests(), Vec::<String>::new(), "nothing changed");

    // Whoever knows nothing yet asks once, and tells the same.
    let cluster = cluster.restarted().await;
    let server = &cluster.server;
    refuse_apply(server);
    cluster.passes("e-1").await;
    assert_eq!(cluster.condition("e-1", "Warnings"), TOLD);
    let written: Vec<String> = server.requests();
    let writes = written
        .iter()
        .filter(|line| line.contains(CONFIG) && !line.contains("GET"));
    assert_eq!(writes.count(), 1, "{written:?}");

    // So do repairs and upgrades.
    server.edit(CONFIG, &json!({"data": {"key": "2"}}));
    refuse_apply(server);
    cluster.passes("e-1").await;
    assert_eq!(server.object(CONFIG).unwrap()["data"]["key"], "1");
    refuse_apply(server);
    cluster.ensure(&desired("2.0.0", &[misspelt("3")])).await;
    cluster.passes("e-2").await;
    assert_eq!(server.object(CONFIG).unwrap()["data"]["key"], "3");
    assert_eq!(cluster.condition("e-2", "Warnings"), TOLD);
}

#[tokio::test]
async fn a_refusal_that_names_nothing_of_ours_is_told_as_it_is() {
    let cluster = Cluster::new().await;
    let refusal = "strict decoding error: unknown field \"spec\"";
    cluster
        .server
        .fail_with(&format!("POST {CONFIGS}"), 400, refusal);
    cluster.ensure(&desired("1.0.0", &[config("1")])).await;
    cluster.pass("e-1").await;
    let told = cluster.condition("e-1", "Progressing");
    assert!(told.contains(refusal), "{told}");
}
