//! Who did what, by the API server's own audit log: told after all other stories.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::harness::{Cluster, Outcome};

/// The user that oxolm is.
const OXOLM: &str = "system:serviceaccount:olmv1-system:oxolm";

/// What oxolm may write as itself: resource, and the namespace it is confined to (`*`: any).
const OWN: &[(&str, &str)] = &[
    ("olm.operatorframework.io/clustercatalogs", "*"),
    ("olm.operatorframework.io/clusterextensions", "*"),
    ("olm.operatorframework.io/clusterobjectsets", "*"),
    ("/secrets", "olmv1-system"),
    ("coordination.k8s.io/leases", "olmv1-system"),
    ("events.k8s.io/events", "*"),
    ("/events", "*"),
    ("authentication.k8s.io/tokenreviews", "*"),
    ("authentication.k8s.io/selfsubjectreviews", "*"),
    ("authorization.k8s.io/subjectaccessreviews", "*"),
    ("config.openshift.io/clusteroperators", "*"),
];

/// Accounts that write into another namespace too, since their operators watch it or somebody lets them: home, and the
/// other one.
const ELSEWHERE: &[(&str, &str)] = &[
    ("single-namespace", "default"),
    ("mislabelled-tenant", "mislabelled"),
];

/// Every write to an object of a bundle was done as the account of its extension; oxolm itself wrote only what is its own.
pub(crate) async fn who_wrote_what(_cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let path = std::env::var("OXOLM_AUDIT_LOG")
        .context("OXOLM_AUDIT_LOG is not set: hack/cluster env prints it")?;
    let (mut own, mut impersonated) = (0_usize, 0_usize);
    let mut breaches = BTreeSet::new();
    for line in BufReader::new(File::open(path)?).lines() {
        let Ok(event) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        let verb = event["verb"].as_str().unwrap_or_default();
        if event["user"]["username"] != OXOLM || matches!(verb, "get" | "list" | "watch") {
            continue;
        }
        let of = &event["objectRef"];
        let resource = format!(
            "{}/{}",
            of["apiGroup"].as_str().unwrap_or_default(),
            of["resource"].as_str().unwrap_or_default()
        );
        let namespace = of["namespace"].as_str().unwrap_or_default();
        match event["impersonatedUser"]["username"].as_str() {
            Some(account) if is_account(account, namespace, &resource) => impersonated += 1,
            Some(account) => {
                breaches.insert(format!("{verb} {resource} in {namespace:?} as {account}"));
            }
            None if OWN.iter().any(|(known, within)| {
                *known == resource && (*within == "*" || *within == namespace)
            }) =>
            {
                own += 1;
            }
            None => {
                breaches.insert(format!(
                    "{verb} {resource} in {namespace:?} as oxolm itself"
                ));
            }
        }
    }
    ensure!(
        breaches.is_empty(),
        "writes that must not be:\n{}",
        Vec::from_iter(breaches).join("\n")
    );
    ensure!(
        own > 0 && impersonated > 0,
        "the log tells of writes: {own} own, {impersonated} as accounts"
    );
    Ok(Outcome::Passed)
}

/// Every story has one account, in the namespace that it installs into; what is cluster-scoped has no namespace.
fn is_account(account: &str, namespace: &str, resource: &str) -> bool {
    let is_review = resource.ends_with("reviews");
    account
        .strip_prefix("system:serviceaccount:")
        .and_then(|rest| rest.split_once(':'))
        .is_some_and(|(home, name)| {
            name == "installer"
                && (namespace.is_empty()
                    || namespace == home
                    || is_review
                    || ELSEWHERE.contains(&(home, namespace)))
        })
}
