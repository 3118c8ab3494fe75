//! The writes that oxolm made, made again by a client that does nothing else.
//!
//! Bodies are what the objects became: a creation writes the object whole, a patch its status or one annotation.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use http::Request as HttpRequest;
use kube::Client;
use serde_json::{Value, json};

use crate::measure::load::{AT_ONCE, Load, NAME};
use crate::measure::usage::{Audit, Request};

/// One write.
pub(super) struct Write {
    /// The extension whose it is: the writes of one are made one after the other.
    extension: String,
    verb: String,
    path: String,
    body: Value,
}

/// Everything that was written for the extensions, with bodies from the objects as they are now.
pub(super) async fn record(client: &Client, load: &Load) -> anyhow::Result<Vec<Write>> {
    let requests = Audit::whole()?;
    let writes = requests
        .into_iter()
        .filter(|request| matches!(request.verb.as_str(), "create" | "update" | "patch"))
        .filter_map(|request| Some((extension_of(&request)?, request)));
    let mut bodies: BTreeMap<String, Value> = BTreeMap::new();
    let mut recorded = Vec::new();
    for (extension, request) in writes {
        let path = without_query(&request.path).to_owned();
        let object = path.trim_end_matches("/status").to_owned();
        let object = if request.verb == "create" && !object.ends_with(&request.name) {
            format!("{object}/{}", request.name)
        } else {
            object
        };
        if !bodies.contains_key(&object) {
            let get = HttpRequest::get(&object).body(Vec::new())?;
            // An Event or a review is not kept: its cost is in the request.
            let live = client.request::<Value>(get).await.unwrap_or(Value::Null);
            bodies.insert(object.clone(), live);
        }
        let live = bodies.get(&object).cloned().unwrap_or_default();
        if live.is_null() {
            continue;
        }
        let is_status = path.ends_with("/status");
        recorded.push(Write {
            extension,
            body: body(&request.verb, is_status, live),
            verb: request.verb,
            path,
        });
    }
    println!(
        "recorded {} writes for {} extensions",
        recorded.len(),
        load.count()
    );
    Ok(recorded)
}

fn without_query(path: &str) -> &str {
    path.split_once('?').map_or(path, |(path, _)| path)
}

/// `scale-7` of `scale-7-1` and `scale-7-manager`.
fn extension_of(request: &Request) -> Option<String> {
    let number = request.name.strip_prefix(NAME)?.strip_prefix('-')?;
    let number: String = number.chars().take_while(char::is_ascii_digit).collect();
    Some(format!("{NAME}-{number}"))
}

fn body(verb: &str, is_status: bool, mut live: Value) -> Value {
    if verb == "create" {
        if let Some(metadata) = live["metadata"].as_object_mut() {
            for field in [
                "uid",
                "resourceVersion",
                "generation",
                "creationTimestamp",
                "managedFields",
                "ownerReferences",
                "finalizers",
            ] {
                metadata.remove(field);
            }
        }
        if live["kind"] == "Event" {
            // Those of the first time are still there.
            let name = live["metadata"]["name"].as_str().unwrap_or_default();
            live["metadata"]["name"] = json!(format!("{name}.replayed"));
        }
        if let Some(object) = live.as_object_mut() {
            object.remove("status");
        }
        if let Some(spec) = live["spec"].as_object_mut() {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        return live;
    }
    if is_status {
        json!({"status": live["status"]})
    } else {
        json!({"metadata": {"annotations": {"example.com/replayed": "true"}}})
    }
}

/// Makes the writes, those of one extension in order, and waits until their Deployments are available.
pub(super) async fn replay(
    client: &Client,
    load: &Load,
    writes: Vec<Write>,
) -> anyhow::Result<Duration> {
    until_collected(client).await?;
    load.add_extensions().await?;
    let mut of_extension: BTreeMap<String, Vec<Write>> = BTreeMap::new();
    for write in writes {
        of_extension
            .entry(write.extension.clone())
            .or_default()
            .push(write);
    }
    let started = Instant::now();
    stream::iter(of_extension.into_values())
        .map(|writes| async move {
            for write in writes {
                let request = match write.verb.as_str() {
                    "create" => {
                        HttpRequest::post(&write.path).header("Content-Type", "application/json")
                    }
                    _ => HttpRequest::patch(&write.path)
                        .header("Content-Type", "application/merge-patch+json"),
                };
                let request = request.body(serde_json::to_vec(&write.body)?)?;
                client
                    .request::<Value>(request)
                    .await
                    .with_context(|| format!("{} {}", write.verb, write.path))?;
            }
            anyhow::Ok(())
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    until_available(client, load.count()).await?;
    Ok(started.elapsed())
}

/// The Secrets of revisions go after their revisions.
async fn until_collected(client: &Client) -> anyhow::Result<()> {
    loop {
        let path = "/api/v1/namespaces/olmv1-system/secrets?labelSelector=olm.operatorframework.io/revision-name";
        let list: Value = client
            .request(HttpRequest::get(path).body(Vec::new())?)
            .await?;
        if list["items"].as_array().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn until_available(client: &Client, count: usize) -> anyhow::Result<()> {
    loop {
        let path = format!("/apis/apps/v1/namespaces/{NAME}/deployments?resourceVersion=0");
        let list: Value = client
            .request(HttpRequest::get(path).body(Vec::new())?)
            .await?;
        let available = list["items"].as_array().map_or(0, |items| {
            let is_available = |item: &&Value| item["status"]["availableReplicas"] == 1;
            items.iter().filter(is_available).count()
        });
        if available == count {
            return Ok(());
        }
        let pause = if count > 100 { 500 } else { 50 };
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}
