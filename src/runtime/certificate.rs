//! The certificate of our own servers: of files, of a Secret that all replicas share, or made for this process alone.
//!
//! A replica that cannot have the shared one yet (another controller is at work, so nothing may be written; the API
//! server does not answer; rights are missing) serves with one of its own until it can.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the shared certificate is kept by a task, and its life is measured"
)]

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::RunError;
use super::arguments::RunArguments;
use super::gate::{self, Sightings};
use super::stop::Stop;
use crate::apply::certificates::release::{Pair, Release, ReleaseError};
use crate::controller::cluster_operator;
use crate::error::chain;
use crate::serve::{Certificate, ServingCertificate};

/// How long a start waits for the shared certificate; who connects before it is there meets another one.
const FIRST_LOOK: Duration = Duration::from_secs(10);
/// The time between two looks when nobody writes it: it may have become due.
const PERIOD: Duration = Duration::from_mins(5);
/// The same while the shared one could not be had.
const SOON: Duration = Duration::from_secs(5);
/// How often one look is repeated because another replica was faster.
const ATTEMPTS: u32 = 4;

/// The certificate to serve with, which keeps itself new: of files as long as anything is served; the shared one until the
/// process is told to end, so that whoever removes it with oxolm removes it for good.
pub(super) async fn start(
    arguments: &RunArguments,
    client: &Client,
    namespace: &str,
    external_address: &str,
    stop: &Stop,
) -> Result<Arc<ServingCertificate>, RunError> {
    if let (Some(certificate), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) {
        let (certificate, key) = (certificate.clone(), key.clone());
        let serving = ServingCertificate::load(Certificate::Files { certificate, key });
        let serving = serving?;
        let (watched, stop) = (serving.clone(), stop.serving.clone());
        tokio::spawn(async move {
            tokio::select! { () = watched.watch() => {}, () = stop.cancelled() => {} }
        });
        return Ok(serving);
    }
    let hosts = hosts(external_address);
    let names = hosts.clone();
    let serving = ServingCertificate::load(Certificate::SelfMade { names })?;
    if let Some(name) = &arguments.tls_secret {
        let keeper = Keeper {
            release: Release {
                client: client.clone(),
                namespace: namespace.to_owned(),
                name: name.clone(),
                hosts,
            },
            serving: serving.clone(),
            said: String::new(),
            sightings: Sightings::default(),
        };
        keeper.start(stop.work.clone()).await;
    }
    Ok(serving)
}

/// What clients may call the content server.
fn hosts(external_address: &str) -> Vec<String> {
    let host = match external_address.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => external_address,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut hosts = vec![host.to_owned()];
    if host.rsplit_once('.').is_some_and(|(_, last)| last == "svc") {
        hosts.push(format!("{host}.cluster.local"));
    }
    hosts.push("localhost".to_owned());
    hosts
}

/// Keeps the shared certificate in use.
struct Keeper {
    release: Release,
    serving: Arc<ServingCertificate>,
    /// Why it is not in use, as last said.
    said: String,
    sightings: Sightings,
}

impl Keeper {
    /// Looks once, then again and again in a task.
    async fn start(mut self, stop: CancellationToken) {
        let first = tokio::time::timeout(FIRST_LOOK, self.look()).await;
        let mut pause = first.unwrap_or(SOON);
        tokio::spawn(async move {
            let mut writes = pin!(self.writes());
            loop {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                    Some(()) = writes.next() => {}
                }
                pause = self.look().await;
            }
        });
    }

    /// The moments at which somebody wrote or removed the Secret.
    fn writes(&self) -> impl Stream<Item = ()> + use<> {
        let Release {
            client, namespace, ..
        } = &self.release;
        let secrets: Api<PartialObjectMeta<Secret>> = Api::namespaced(client.clone(), namespace);
        let name = format!("metadata.name={}", self.release.name);
        let config = watcher::Config::default().fields(&name);
        let events = watcher(secrets, config).default_backoff();
        events.filter_map(async |event| match event {
            Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_)) => Some(()),
            _ => None,
        })
    }

    /// Takes what the Secret holds, and writes what is due; until when to wait for the next look.
    async fn look(&mut self) -> Duration {
        let mut why = "other replicas write it all the time".to_owned();
        for _ in 0..ATTEMPTS {
            match self.turn().await {
                Ok(Turn::Kept) => {
                    self.said.clear();
                    return PERIOD;
                }
                Ok(Turn::Overtaken) => {}
                Ok(Turn::Held(rival)) => {
                    why = rival;
                    break;
                }
                Err(error) => {
                    why = chain(&error);
                    break;
                }
            }
        }
        if self.said != why {
            warn!("serving with a certificate that may not be that of the other replicas: {why}");
            self.said = why;
        }
        SOON
    }

    async fn turn(&self) -> Result<Turn, ReleaseError> {
        let found = self.release.look(Timestamp::now()).await?;
        if let Some(pair) = found.pair {
            self.take(pair);
        }
        let Some(due) = found.due else {
            return Ok(Turn::Kept);
        };
        if let Some(rival) = self.rival().await {
            return Ok(Turn::Held(rival));
        }
        let Some(pair) = self.release.write(due).await? else {
            return Ok(Turn::Overtaken);
        };
        info!(secret = self.release.name, "wrote the serving certificate");
        self.take(pair);
        Ok(Turn::Kept)
    }

    /// Another controller of this API, beside which nothing is written.
    async fn rival(&self) -> Option<String> {
        let Release {
            client, namespace, ..
        } = &self.release;
        let is_openshift = cluster_operator::is_openshift(client).await;
        match gate::rival(client, namespace, is_openshift, &self.sightings).await {
            Ok(rival) => rival,
            Err(error) => Some(format!(
                "cannot look for other controllers: {}",
                chain(&error)
            )),
        }
    }

    fn take(&self, pair: Pair) {
        match self.serving.take(pair.certificate, pair.key) {
            Ok(true) => info!(
                secret = self.release.name,
                "took the new serving certificate"
            ),
            Ok(false) => {}
            Err(error) => warn!(error = chain(&error), "kept the old serving certificate"),
        }
    }
}

/// What became of a look.
enum Turn {
    /// The shared certificate is in use.
    Kept,
    /// Another replica wrote meanwhile.
    Overtaken,
    /// Nothing may be written, because of this.
    Held(String),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::api_server::ApiServer;

    fn keeper(server: &ApiServer) -> Keeper {
        let names = vec!["localhost".to_owned()];
        Keeper {
            release: Release {
                client: server.client(),
                namespace: "system".to_owned(),
                name: "tls".to_owned(),
                hosts: names.clone(),
            },
            serving: ServingCertificate::load(Certificate::SelfMade { names }).unwrap(),
            said: String::new(),
            sightings: Sightings::default(),
        }
    }

    #[tokio::test]
    async fn a_replica_takes_what_another_writes_at_once() {
        let server = ApiServer::new();
        server
            .add(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "system"}}));
        let (first, second) = (keeper(&server), keeper(&server));
        let served = [first.serving.clone(), second.serving.clone()];
        let stop = CancellationToken::new();
        first.start(stop.clone()).await;
        second.start(stop.clone()).await;
        let before = served[0].served();
        assert_eq!(before, served[1].served());
        let path = "/api/v1/namespaces/system/secrets/tls";
        // Whoever sees it first makes another one; the other takes that, long before its next look.
        server.remove(&server.object(path).unwrap());
        let is_new = || served[0].served() != before && served[0].served() == served[1].served();
        let wait = async {
            while !is_new() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(SOON, wait).await.unwrap();
        stop.cancel();
    }

    #[test]
    fn hosts_are_those_of_the_address() {
        for (address, expected) in [
            (
                "catalogd-service.n.svc",
                &[
                    "catalogd-service.n.svc",
                    "catalogd-service.n.svc.cluster.local",
                    "localhost",
                ][..],
            ),
            ("catalogs.example:8443", &["catalogs.example", "localhost"]),
            ("10.0.0.1:443", &["10.0.0.1", "localhost"]),
            ("[fd00::1]:443", &["fd00::1", "localhost"]),
        ] {
            assert_eq!(hosts(address), expected, "{address}");
        }
    }
}
