//! A small operator for the stories on a real node: it greets. One static program, alone in its image.
//!
//! For each `Greeting` it keeps a `ConfigMap` with the words, says so in the status, and takes the words away when the greeting
//! goes (a finalizer waits for that). Its webhook refuses to greet nobody, and converts between `v1` (`spec.name`) and `v2`
//! (`spec.person`). With `--crash` it ends at once, as a broken release would.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "an operator talks to the API server and logs; JSON is indexed by key, which gives null for what is not there"
)]

mod webhook;

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context as _;
use axum::Router;
use axum::routing::get;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

const GROUP: &str = "greeter.oxolm.dev";
const FINALIZER: &str = "greeter.oxolm.dev/words";
const FIELD_MANAGER: &str = "greeter";
const PROBES: &str = "0.0.0.0:8081";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--crash") {
        println!("this release is broken");
        return ExitCode::FAILURE;
    }
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::try_default().await?;
    let probes: SocketAddr = PROBES.parse()?;
    let listener = tokio::net::TcpListener::bind(probes).await?;
    let router = Router::new().route("/readyz", get(async || "ok\n"));
    // The webhook listens before anybody is told that it does.
    let webhook = webhook::start().await?;
    println!("greeting");
    tokio::select! {
        ended = axum::serve(listener, router) => ended.context("probes"),
        ended = webhook => ended.context("the webhook"),
        ended = greet_all(client) => ended,
        () = stopped() => Ok(()),
    }
}

async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut told) => {
            told.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

fn greetings(client: Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(GROUP, "v1", "Greeting"),
        "greetings",
    );
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    }
}

async fn greet_all(client: Client) -> anyhow::Result<()> {
    let all = greetings(client.clone(), None);
    let mut changes = watcher(all, watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .boxed();
    loop {
        match changes.try_next().await {
            Ok(Some(greeting)) => {
                if let Err(error) = greet(&client, &greeting).await {
                    println!("{}: {error:#}", greeting.name_any());
                }
            }
            Ok(None) => return Ok(()),
            // The watch begins again by itself.
            Err(error) => println!("watch: {error}"),
        }
    }
}

async fn greet(client: &Client, greeting: &DynamicObject) -> anyhow::Result<()> {
    let (name, namespace) = (
        greeting.name_any(),
        greeting.namespace().unwrap_or_default(),
    );
    let words: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let own = greetings(client.clone(), Some(&namespace));
    let merge = PatchParams::default();
    if greeting.metadata.deletion_timestamp.is_some() {
        if greeting.finalizers().iter().any(|one| one == FINALIZER) {
            match words.delete(&name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                other => _ = other?,
            }
            let rest: Vec<&String> = greeting
                .finalizers()
                .iter()
                .filter(|one| *one != FINALIZER)
                .collect();
            let patch = json!({"metadata": {"finalizers": rest, "resourceVersion": greeting.resource_version()}});
            own.patch(&name, &merge, &Patch::Merge(patch)).await?;
            println!("{name} goes");
        }
        return Ok(());
    }
    if greeting.finalizers().is_empty() {
        let patch = json!({"metadata": {"finalizers": [FINALIZER], "resourceVersion": greeting.resource_version()}});
        own.patch(&name, &merge, &Patch::Merge(patch)).await?;
        return Ok(());
    }
    let text = format!(
        "hello {}",
        greeting.data["spec"]["name"].as_str().unwrap_or_default()
    );
    if greeting.data["status"]["words"] == Value::String(text.clone()) {
        return Ok(());
    }
    let content = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"words": text}});
    words
        .patch(
            &name,
            &PatchParams::apply(FIELD_MANAGER).force(),
            &Patch::Apply(content),
        )
        .await?;
    let patch = json!({"status": {"words": text}});
    own.patch_status(&name, &merge, &Patch::Merge(patch))
        .await?;
    println!("{name} is greeted");
    Ok(())
}
