//! Who did what, by the API server's own audit log: told after all other stories.

mod rights;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::harness::{Cluster, Outcome};

pub(crate) use self::rights::rights_are_used_and_enough;

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

/// What oxolm asked of the API server, as itself or as an account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    verb: String,
    /// `GROUP/RESOURCE`.
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    /// The account that it was asked as.
    account: Option<String>,
    is_refused: bool,
}

impl Request {
    /// All that are in the log, each once. Paths that are no resources, such as discovery, are left out.
    fn all() -> anyhow::Result<BTreeSet<Self>> {
        let path = std::env::var("OXOLM_AUDIT_LOG")
            .context("OXOLM_AUDIT_LOG is not set: hack/cluster env prints it")?;
        let mut requests = BTreeSet::new();
        for line in BufReader::new(File::open(path)?).lines() {
            // The last line may be half written.
            if let Ok(event) = serde_json::from_str::<Value>(&line?) {
                requests.extend(Self::of(&event));
            }
        }
        Ok(requests)
    }

    fn of(event: &Value) -> Option<Self> {
        if event["user"]["username"] != OXOLM {
            return None;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let of = event.get("objectRef")?;
        Some(Self {
            verb: text(&event["verb"]),
            resource: format!("{}/{}", text(&of["apiGroup"]), text(&of["resource"])),
            subresource: text(&of["subresource"]),
            namespace: text(&of["namespace"]),
            name: text(&of["name"]),
            account: event["impersonatedUser"]["username"]
                .as_str()
                .map(str::to_owned),
            is_refused: event["responseStatus"]["code"] == 403,
        })
    }

    fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// Whether it was asked by whom it must be.
    fn is_in_order(&self) -> bool {
        let namespace = self.namespace.as_str();
        match &self.account {
            Some(account) => is_account(account, namespace, &self.resource),
            None => OWN.iter().any(|(known, within)| {
                *known == self.resource && (*within == "*" || *within == namespace)
            }),
        }
    }
}

/// Every write to an object of a bundle was done as the account of its extension; oxolm itself wrote only what is its own.
pub(crate) async fn who_wrote_what(_cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    let writes: Vec<Request> = Request::all()?
        .into_iter()
        .filter(Request::is_write)
        .collect();
    let breaches: BTreeSet<String> = writes
        .iter()
        .filter(|write| !write.is_in_order())
        .map(|write| {
            let whose = write.account.as_deref().unwrap_or("oxolm itself");
            format!(
                "{} {} in {:?} as {whose}",
                write.verb, write.resource, write.namespace
            )
        })
        .collect();
    ensure!(
        breaches.is_empty(),
        "writes that must not be:\n{}",
        Vec::from_iter(breaches).join("\n")
    );
    for (whose, is_there) in [
        (
            "as accounts",
            writes.iter().any(|write| write.account.is_some()),
        ),
        (
            "of its own",
            writes.iter().any(|write| write.account.is_none()),
        ),
    ] {
        ensure!(is_there, "the log tells of writes {whose}");
    }
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
