//! What oxolm may do as itself against what it does, by the audit log of all stories: a right that is never used is one too
//! many, and a request that is refused is one too few.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::ensure;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

use super::Request;
use crate::harness::release::RELEASE;
use crate::harness::{Cluster, Outcome};

/// Rights that no story uses: `NAMESPACE VERB GROUP/RESOURCE` with `*` for all that begins so, and why oxolm has them.
const UNUSED: &[(&str, &str)] = &[
    (
        "olmv1-system delete /secrets",
        "what is left of a revision whose creation was interrupted is removed: that oxolm ends there is rare here, fault runs see to it",
    ),
    (
        "* get /serviceaccounts",
        "whether an account is there, as long as the watch of all has not told: the moment after a start",
    ),
    (
        "* get rbac.authorization.k8s.io/roles",
        "a bundle may bind a Role that somebody else made; it is read as a ClusterRole is, and those are",
    ),
    ("* list monitoring.coreos.com/*", FOREIGN),
    ("* watch monitoring.coreos.com/*", FOREIGN),
    ("* list autoscaling.k8s.io/*", FOREIGN),
    ("* watch autoscaling.k8s.io/*", FOREIGN),
    ("* list console.openshift.io/*", FOREIGN),
    ("* watch console.openshift.io/*", FOREIGN),
    ("* list cert-manager.io/*", FOREIGN),
    ("* watch cert-manager.io/*", FOREIGN),
    ("* list /configmaps", OLDER),
    ("* list /services", OLDER),
    ("* list admissionregistration.k8s.io/*", OLDER),
    ("* list apiextensions.k8s.io/*", OLDER),
    ("* list apps/*", OLDER),
    ("* list networking.k8s.io/*", OLDER),
    ("* list policy/*", OLDER),
    ("* list scheduling.k8s.io/*", OLDER),
];

/// Why nobody lists them here.
const OLDER: &str = "the API server of the tests sends the list with the watch; older ones do not, and there it is asked for";

/// Why nobody watches them here.
const FOREIGN: &str = "bundles ship resources of this group for clusters that serve it, and no control plane of the tests does; they are \
     watched as Services are, by the same code";

/// Requests that may be refused: as above, and why.
const REFUSED: &[(&str, &str)] = &[
    (" list *", UNWATCHED),
    (" watch *", UNWATCHED),
    (
        " create olm.operatorframework.io/clusterobjectsets",
        "nothing is created of a kind that is being deleted, whoever asks: a story deletes it",
    ),
];

/// Why they are refused.
const UNWATCHED: &str = "a kind that is not in the list of watched kinds (D10b): the refusal is how oxolm learns that it must read it as the account";

/// A right of the chart: a verb on a resource, everywhere (`*`) or in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    namespace: String,
    verb: String,
    resource: String,
    names: Vec<String>,
}

impl Right {
    fn all_of(namespace: &str, rules: Option<Vec<PolicyRule>>) -> Vec<Self> {
        let mut rights = Vec::new();
        for rule in rules.into_iter().flatten() {
            let groups = rule.api_groups.unwrap_or_default();
            let resources = rule.resources.unwrap_or_default();
            for (group, resource) in groups
                .iter()
                .flat_map(|group| resources.iter().map(move |resource| (group, resource)))
            {
                rights.extend(rule.verbs.iter().map(|verb| Self {
                    namespace: namespace.to_owned(),
                    verb: verb.clone(),
                    resource: format!("{group}/{resource}"),
                    names: rule.resource_names.clone().unwrap_or_default(),
                }));
            }
        }
        rights
    }

    /// Whether it gives this one too. Of what is created, and of collections, the name is not looked at.
    fn covers(&self, taken: &Self) -> bool {
        (self.namespace == "*" || self.namespace == taken.namespace)
            && self.verb == taken.verb
            && self.resource == taken.resource
            && (self.names.is_empty()
                || taken
                    .names
                    .iter()
                    .all(|name| name.is_empty() || self.names.contains(name)))
    }

    fn text(&self) -> String {
        format!("{} {} {}", self.namespace, self.verb, self.resource)
    }

    fn is_one_of(&self, list: &[(&str, &str)]) -> bool {
        list.iter()
            .any(|(listed, _why)| is_meant(listed, &self.text()))
    }
}

impl Request {
    /// The right of oxolm's own that it takes: for the request itself, or to act as an account.
    fn right(&self) -> Option<Right> {
        let Some(account) = &self.account else {
            let resource = match self.subresource.as_str() {
                "" => self.resource.clone(),
                subresource => format!("{}/{subresource}", self.resource),
            };
            return Some(Right {
                namespace: self.namespace.clone(),
                verb: self.verb.clone(),
                resource,
                names: vec![self.name.clone()],
            });
        };
        let account = account.strip_prefix("system:serviceaccount:")?;
        let (namespace, name) = account.split_once(':')?;
        Some(Right {
            namespace: namespace.to_owned(),
            verb: "impersonate".to_owned(),
            resource: "/serviceaccounts".to_owned(),
            names: vec![name.to_owned()],
        })
    }
}

/// Every right of the chart's roles is used in some story, and nothing is refused, but for what is listed with a reason.
pub(crate) async fn rights_are_used_and_enough(cluster: Arc<Cluster>) -> anyhow::Result<Outcome> {
    if std::env::args().len() > 1 && std::env::var_os("OXOLM_ALL_STORIES").is_none() {
        return Ok(Outcome::Skipped("only all stories together use all rights"));
    }
    let granted = granted(&cluster).await?;
    ensure!(!granted.is_empty(), "the chart has roles");
    let (refused, taken): (Vec<Request>, Vec<Request>) = Request::all()?
        .into_iter()
        .partition(|request| request.is_refused && request.account.is_none());
    let taken: BTreeSet<Right> = taken.iter().filter_map(Request::right).collect();
    let refused: BTreeSet<Right> = refused.iter().filter_map(Request::right).collect();
    let is_used = |right: &Right| taken.iter().any(|taken| right.covers(taken));

    let unused = granted.iter().filter(|right| !is_used(right));
    let unused = unused.filter(|right| !right.is_one_of(UNUSED));
    let refused = refused.iter().filter(|right| !right.is_one_of(REFUSED));
    // What only some runs use may stay listed.
    let stale = UNUSED.iter().map(|(listed, _why)| *listed);
    let stale = stale.filter(|listed| !granted.iter().any(|right| is_meant(listed, &right.text())));
    let told = [
        ("granted and never used", texts(unused.map(Right::text))),
        ("used and not granted", texts(refused.map(Right::text))),
        (
            "listed as unused, and not granted",
            texts(stale.map(str::to_owned)),
        ),
    ];
    let told = told.iter().filter(|(_what, which)| !which.is_empty());
    let told: Vec<String> = told
        .map(|(what, which)| format!("{what}:\n{which}"))
        .collect();
    ensure!(told.is_empty(), "{}", told.join("\n"));
    Ok(Outcome::Passed)
}

fn texts(all: impl Iterator<Item = String>) -> String {
    let sorted: BTreeSet<String> = all.collect();
    Vec::from_iter(sorted).join("\n")
}

/// Whether an entry of a list means a right.
fn is_meant(listed: &str, right: &str) -> bool {
    match listed.strip_suffix('*') {
        Some(beginning) => right.starts_with(beginning),
        None => right == listed,
    }
}

/// What the roles of the release give to oxolm's own account.
async fn granted(cluster: &Cluster) -> anyhow::Result<Vec<Right>> {
    let client = &cluster.client;
    let wide: Api<ClusterRole> = Api::all(client.clone());
    let mut rights = Right::all_of("*", wide.get(RELEASE).await?.rules);
    let roles: Api<Role> = Api::all(client.clone());
    let own = ListParams::default().labels("app.kubernetes.io/name=oxolm");
    for role in roles.list(&own).await? {
        let namespace = role.namespace().unwrap_or_default();
        rights.extend(Right::all_of(&namespace, role.rules));
    }
    Ok(rights)
}
