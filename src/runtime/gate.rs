//! What must hold before oxolm writes anything: a server that answers and is new enough, no other controller of this API group,
//! and the policies on who may name an account in force.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the gate asks the API server, and waits"
)]

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::api::keys;
use crate::api::policy::{Settings, policies};
use crate::error::chain;
use crate::runtime::lease::IDENTITY_PREFIX;

/// The oldest Kubernetes minor version: `ValidatingAdmissionPolicy` v1 came with it.
const OLDEST_MINOR: u32 = 30;
/// The time between two looks while something is missing.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The time between two attempts to reach the API server.
const SERVER_AGAIN: Duration = Duration::from_secs(1);
/// The namespaces of a reference that runs on `OpenShift`; they count only there.
const OPENSHIFT_NAMESPACES: [&str; 2] = ["openshift-operator-controller", "openshift-catalogd"];

/// A server that oxolm cannot work with.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It cannot be asked.
    #[error("cannot read the version of the API server")]
    Unread(#[source] kube::Error),
    /// It is too old.
    #[error("this API server is Kubernetes {0}; oxolm needs 1.{OLDEST_MINOR} or newer")]
    TooOld(String),
}

/// Waits until the API server answers, and makes sure that it is new enough; `on_wait` learns why it does not. False when
/// `stop` came first.
///
/// Who ended instead would be started again less and less often, and sleep on when the API server is back.
///
/// # Errors
/// When it is too old, or refuses to answer.
pub async fn wait_for_server(
    client: &Client,
    stop: &CancellationToken,
    mut on_wait: impl FnMut(&str),
) -> Result<bool, ServerError> {
    let mut said = String::new();
    loop {
        let why = match check_server(client).await {
            Ok(()) => return Ok(true),
            Err(ServerError::Unread(error)) if is_away(&error) => {
                format!("waiting for the API server: {}", chain(&error))
            }
            Err(error) => return Err(error),
        };
        on_wait(&why);
        if said != why {
            warn!("{why}");
            said = why;
        }
        if !pause(stop, SERVER_AGAIN).await {
            return Ok(false);
        }
    }
}

/// Whether nobody answers, or nobody can yet: an API server that starts says so with a status.
fn is_away(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code >= 500 || status.code == 429,
        kube::Error::Service(_) | kube::Error::HyperError(_) => true,
        _ => false,
    }
}

async fn check_server(client: &Client) -> Result<(), ServerError> {
    let version = client
        .apiserver_version()
        .await
        .map_err(ServerError::Unread)?;
    if is_new_enough(&version.major, &version.minor) {
        Ok(())
    } else {
        Err(ServerError::TooOld(version.git_version))
    }
}

/// Providers append `+` and the like to the minor version.
fn is_new_enough(major: &str, minor: &str) -> bool {
    let digits = |text: &str| {
        text.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
            .parse::<u32>()
            .ok()
    };
    match (digits(major), digits(minor)) {
        (Some(1), Some(minor)) => minor >= OLDEST_MINOR,
        (Some(major), Some(_)) => major > 1,
        _ => false,
    }
}

/// Who this process is to the API server.
///
/// # Errors
/// When the API server does not say.
pub async fn own_user(client: &Client) -> Result<String, kube::Error> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = api
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await?;
    Ok(review
        .status
        .and_then(|status| status.user_info)
        .and_then(|user| user.username)
        .unwrap_or_default())
}

/// Waits until the account policies are in force in their shipped form; `on_wait` learns what is missing. False when
/// `stop` came first.
pub async fn wait_for_policies(
    client: &Client,
    settings: &Settings,
    stop: &CancellationToken,
    mut on_wait: impl FnMut(&str),
) -> bool {
    let mut said = String::new();
    loop {
        let missing = match missing_policies(client, settings).await {
            Ok(missing) if missing.is_empty() => {
                info!("account policies are in force");
                return true;
            }
            Ok(missing) => format!(
                "writing nothing: admission policy {} is not in force in its shipped form; install the chart's, or run \
                 with --account-policy none to do without",
                missing.join(", ")
            ),
            Err(error) => format!(
                "writing nothing: cannot read the admission policies: {}",
                chain(&error)
            ),
        };
        on_wait(&missing);
        if said != missing {
            warn!("{missing}");
            said = missing;
        }
        if !pause(stop, LOOK_AGAIN).await {
            return false;
        }
    }
}

async fn missing_policies(
    client: &Client,
    settings: &Settings,
) -> Result<Vec<String>, kube::Error> {
    let found_policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let found_bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let mut missing = Vec::new();
    for shipped in policies(settings) {
        let policy = found_policies.get_opt(shipped.name()).await?;
        let binding = found_bindings.get_opt(shipped.name()).await?;
        let is_in_force = policy
            .zip(binding)
            .is_some_and(|(policy, binding)| shipped.is_in_force(&policy, &binding));
        if !is_in_force {
            missing.push(shipped.name().to_owned());
        }
    }
    Ok(missing)
}

/// Waits until no other controller of this API group is alive. False when `stop` came first.
pub async fn wait_until_alone(
    client: &Client,
    system_namespace: &str,
    is_openshift: bool,
    sightings: &Sightings,
    stop: &CancellationToken,
    mut on_wait: impl FnMut(&str),
) -> bool {
    let mut said = String::new();
    loop {
        let rival = match rival(client, system_namespace, is_openshift, sightings).await {
            Ok(None) => return true,
            Ok(Some(rival)) => format!("writing nothing: {rival}"),
            Err(error) => format!(
                "writing nothing: cannot look for other controllers: {}",
                chain(&error)
            ),
        };
        on_wait(&rival);
        if said != rival {
            warn!("{rival}");
            said = rival;
        }
        if !pause(stop, LOOK_AGAIN).await {
            return false;
        }
    }
}

async fn pause(stop: &CancellationToken, period: Duration) -> bool {
    tokio::select! {
        () = stop.cancelled() => false,
        () = tokio::time::sleep(period) => true,
    }
}

/// Another controller that renews one of the reference's leases, as a sentence.
///
/// # Errors
/// When a lease cannot be read.
pub async fn rival(
    client: &Client,
    system_namespace: &str,
    is_openshift: bool,
    sightings: &Sightings,
) -> Result<Option<String>, kube::Error> {
    let mut namespaces = vec![system_namespace, keys::DEFAULT_SYSTEM_NAMESPACE];
    if is_openshift {
        namespaces.extend(OPENSHIFT_NAMESPACES);
    }
    namespaces.dedup();
    for namespace in namespaces {
        let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
        for name in [keys::LEASE_NAME, keys::CATALOGD_LEASE_NAME] {
            let spec = match api.get_opt(name).await {
                Ok(lease) => lease.and_then(|lease| lease.spec).unwrap_or_default(),
                // Outside our own namespace, leases are readable only where the chart knows of OpenShift.
                Err(kube::Error::Api(status))
                    if status.is_forbidden() && namespace != system_namespace =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            if sightings.is_rival(namespace, name, &spec, Timestamp::now()) {
                return Ok(Some(described(&spec, namespace, name)));
            }
        }
    }
    Ok(None)
}

/// A catalogd beside us: while we lead we hold the other lease ourselves.
///
/// # Errors
/// When the lease cannot be read.
pub async fn catalogd_rival(
    client: &Client,
    namespace: &str,
    sightings: &Sightings,
) -> Result<Option<String>, kube::Error> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let spec = api
        .get_opt(keys::CATALOGD_LEASE_NAME)
        .await?
        .and_then(|lease| lease.spec)
        .unwrap_or_default();
    let name = keys::CATALOGD_LEASE_NAME;
    let is_rival = sightings.is_rival(namespace, name, &spec, Timestamp::now());
    Ok(is_rival.then(|| described(&spec, namespace, name)))
}

fn described(spec: &LeaseSpec, namespace: &str, name: &str) -> String {
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    format!(
        "another controller of this API, {holder}, holds lease {namespace}/{name}; stop it first, or delete the \
         lease where nothing of the kind runs"
    )
}

/// Clocks may differ by so much.
const GRACE: SignedDuration = SignedDuration::from_mins(1);

/// What the leases of others said, and when that was seen first.
#[derive(Debug, Default)]
pub struct Sightings(Mutex<BTreeMap<String, Sighting>>);

#[derive(Debug)]
struct Sighting {
    renewed: Option<MicroTime>,
    since: Instant,
}

impl Sightings {
    /// Whether a lease is held by somebody who is not oxolm, and renews it.
    ///
    /// Where the time of the last renewal says nothing, since there is none or it is still to come, the holder lives until
    /// the lease was seen unchanged for its whole duration.
    fn is_rival(&self, namespace: &str, name: &str, spec: &LeaseSpec, now: Timestamp) -> bool {
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        if holder.is_empty() || holder.starts_with(IDENTITY_PREFIX) {
            return false;
        }
        let seconds = spec.lease_duration_seconds.unwrap_or_default();
        let lasts = SignedDuration::from_secs(seconds.into()) + GRACE;
        let renewed = spec.renew_time.clone();
        let age = renewed
            .as_ref()
            .map(|renewed| now.duration_since(renewed.0));
        match age.filter(|age| *age >= -GRACE) {
            Some(age) => age <= lasts,
            None => self.unchanged_for(format!("{namespace}/{name}"), renewed) <= lasts,
        }
    }

    fn unchanged_for(&self, lease: String, renewed: Option<MicroTime>) -> SignedDuration {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = Instant::now();
        let first = Sighting {
            renewed: renewed.clone(),
            since,
        };
        let sighting = seen.entry(lease).or_insert(first);
        if sighting.renewed != renewed {
            *sighting = Sighting { renewed, since };
        }
        SignedDuration::try_from(sighting.since.elapsed()).unwrap_or(SignedDuration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::api_server::ApiServer;

    #[test]
    fn kubernetes_1_30_is_the_oldest() {
        for (major, minor, expected) in [
            ("1", "29", false),
            ("1", "30", true),
            ("1", "36+", true),
            ("2", "0", true),
            ("", "", false),
        ] {
            assert_eq!(is_new_enough(major, minor), expected, "{major}.{minor}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_starts_before_the_api_server_waits_for_it() {
        let server = ApiServer::new();
        let (client, stop) = (server.client(), CancellationToken::new());
        server.fail_next("GET /version", 503);
        let mut told = Vec::new();
        let answers = wait_for_server(&client, &stop, |why| told.push(why.to_owned()));
        assert!(answers.await.unwrap());
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with("waiting for the API server: "),
            "{told:?}"
        );

        // What no time mends is not waited for.
        server.fail_next("GET /version", 403);
        let refused = wait_for_server(&client, &stop, |_| ()).await;
        assert!(
            matches!(refused, Err(ServerError::Unread(_))),
            "{refused:?}"
        );

        server.fail_next("GET /version", 503);
        stop.cancel();
        assert!(!wait_for_server(&client, &stop, |_| ()).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_living_foreign_holder_is_a_rival() {
        let sightings = Sightings::default();
        let is_rival = |spec: &LeaseSpec, now| sightings.is_rival("n", "l", spec, now);
        let now = Timestamp::from_second(10_000).unwrap();
        let lease = |holder: &str, age: i64| LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(137),
            renew_time: Some(MicroTime(Timestamp::from_second(10_000 - age).unwrap())),
            ..LeaseSpec::default()
        };
        assert!(is_rival(&lease("operator-controller-7f_1", 100), now));
        assert!(is_rival(&lease("operator-controller-7f_1", 190), now));
        assert!(!is_rival(&lease("operator-controller-7f_1", 200), now));
        assert!(!is_rival(&lease("oxolm_pod", 1), now));
        assert!(!is_rival(&lease("", 1), now));
        assert!(!is_rival(&LeaseSpec::default(), now));
        // A clock that was ahead, or no time at all: who renews it, lives.
        for age in [Some(-100_000), None] {
            let mut odd = lease("catalogd_1", age.unwrap_or_default());
            odd.renew_time = odd.renew_time.filter(|_| age.is_some());
            assert!(is_rival(&odd, now));
            tokio::time::advance(Duration::from_secs(190)).await;
            assert!(is_rival(&odd, now));
            tokio::time::advance(Duration::from_secs(10)).await;
            assert!(!is_rival(&odd, now));
            let renewed = lease("catalogd_1", -200_000);
            assert!(is_rival(&renewed, now));
        }
    }
}
