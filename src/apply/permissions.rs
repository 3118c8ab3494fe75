//! The permission preflight: asks, as the account, what it may do, and tells all that it lacks before the first write.
//!
//! Rights that come from RBAC cost one request for what holds everywhere and one for each namespace, and one for each
//! role of the cluster that the manifests bind. An authorizer that does not list its rules is asked about each thing
//! that is left open. That an account has all it needs is remembered until somebody's rights change.

#![expect(clippy::disallowed_types, reason = "asks the API server")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::authorization::v1::{
    SelfSubjectRulesReview, SubjectAccessReview, SubjectRulesReviewStatus,
};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::object::{Gvk, ObjectKey};
use crate::apply::discovery::{Discovery, DiscoveryError};
use crate::error::{Classify, Disposition, chain, quoted};
use crate::identity::accounts::Accounts;
use crate::identity::impersonation;
use crate::identity::request::{self, RequestError, path};
use crate::preflight::permissions::{
    Access, HeldRules, LiveRoles, MissingRules, Needs, NeedsError, Resource, Right, RoleRef, Rule,
    defined_kinds, live_rules, needs,
};
use crate::revision::Account;

/// The API groups that are asked.
const RBAC: &str = "rbac.authorization.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
/// A namespace that cannot exist, since this is no name for one: in it holds only what holds everywhere.
const NOWHERE: &str = "oxolm.nowhere";
/// How many questions about one account are asked at the same time.
const SIDE_BY_SIDE: usize = 8;
/// How many passed checks are remembered before all are forgotten. One takes about 200 bytes.
const PASSED: usize = 4096;
/// How long a passed check is taken for one of now on the way to the first write.
const JUST: Duration = Duration::from_secs(30);

/// An account that may not do what is needed, or of which that could not be found out. The texts are the reference's.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// It lacks rights, or something could not be found out about some.
    #[error("pre-authorization failed: {0}")]
    Lacking(Box<Lack>),
    /// The manifests do not tell what is needed.
    #[error(transparent)]
    Needs(#[from] NeedsError),
    /// A kind could not be looked up.
    #[error("pre-authorization failed")]
    Discover(#[source] DiscoveryError),
    /// What the account holds could not be found out.
    #[error(
        "pre-authorization failed: authorization evaluation error: missing rules may be incomplete: failed to resolve or evaluate permissions: cannot review the rights of {account}"
    )]
    Review {
        /// The account.
        account: Account,
        /// Why.
        #[source]
        source: RequestError,
    },
}

impl Classify for PreflightError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Needs(error) => error.disposition(),
            Self::Lacking(_) | Self::Discover(_) | Self::Review { .. } => Disposition::Retry,
        }
    }
}

/// What an account lacks.
#[derive(Debug, Default)]
pub struct Lack {
    /// The rules.
    pub missing: MissingRules,
    /// What could not be found out, so that there may be more.
    pub problems: Vec<Problem>,
}

impl Lack {
    /// Whether it lacks nothing, as far as anybody knows.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.problems.is_empty()
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.missing.is_empty() {
            self.missing.fmt(f)?;
        }
        if self.problems.is_empty() {
            return Ok(());
        }
        if !self.missing.is_empty() {
            f.write_str("\n")?;
        }
        let problems: Vec<String> = self.problems.iter().map(|problem| chain(problem)).collect();
        write!(
            f,
            "authorization evaluation error: missing rules may be incomplete: failed to resolve or evaluate permissions: {}",
            problems.join("; ")
        )
    }
}

/// One thing that could not be found out.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// A role that a binding refers to could not be read.
    #[error("cannot read role {}", quoted(&role.name))]
    Role {
        /// The role.
        role: RoleRef,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// An authorizer did not answer.
    #[error("cannot review an access of {account}")]
    Access {
        /// The account.
        account: Account,
        /// Why.
        #[source]
        source: RequestError,
    },
}

/// What the preflight remembers.
#[derive(Debug, Default)]
pub struct Preflight {
    /// Accounts and content that passed.
    passed: Mutex<BTreeMap<(Account, String), Passed>>,
}

/// When a check passed.
#[derive(Debug, Clone, Copy)]
struct Passed {
    /// The epoch of rights.
    epoch: u64,
    at: Instant,
}

/// Whom to ask about one account.
pub struct Preflighter<'a> {
    /// The controller's own client: asks about single accesses, and reads roles.
    pub own: &'a Client,
    /// Acts as the account: asks for its rules.
    pub client: &'a Client,
    /// Knows what kinds are called.
    pub discovery: &'a Discovery,
    /// Knows when rights changed.
    pub accounts: &'a Accounts,
}

impl fmt::Debug for Preflighter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preflighter").finish_non_exhaustive()
    }
}

impl Preflight {
    /// Makes sure that `account` may install, keep and delete `manifests`, whose digest is `content`, and take down what
    /// is there and is `leaving`.
    ///
    /// # Errors
    /// When it lacks rights (all of them are named), or that could not be found out.
    pub async fn check(
        &self,
        asking: &Preflighter<'_>,
        account: &Account,
        content: &str,
        manifests: &[Value],
        leaving: &[Value],
    ) -> Result<(), PreflightError> {
        let question = (account.clone(), content.to_owned());
        // Read first: rights that change while we ask make the answer worthless.
        let epoch = asking.accounts.epoch();
        if (self.passed().get(&question)).is_some_and(|passed| passed.epoch == epoch) {
            return Ok(());
        }
        let lack = asking.lack(account, manifests, leaving).await?;
        asking.accounts.lacks(account, !lack.is_empty());
        if !lack.is_empty() {
            return Err(PreflightError::Lacking(Box::new(lack)));
        }
        let mut passed = self.passed();
        if passed.len() >= PASSED {
            passed.clear();
        }
        let at = Instant::now();
        passed.insert(question, Passed { epoch, at });
        Ok(())
    }

    /// Whether a check of this content passed a moment ago, whatever became of rights since: who asks again on the way
    /// from the plan to the first write learns nothing that the write will not tell.
    pub fn has_just_passed(&self, account: &Account, content: &str) -> bool {
        let question = (account.clone(), content.to_owned());
        let passed = self.passed().get(&question).copied();
        passed.is_some_and(|passed| passed.at.elapsed() < JUST)
    }

    fn passed(&self) -> MutexGuard<'_, BTreeMap<(Account, String), Passed>> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Preflighter<'_> {
    /// What `account` lacks to install, keep and delete `manifests`, and to take down what is `leaving`, asked anew.
    ///
    /// # Errors
    /// When that could not be found out at all.
    pub async fn lack(
        &self,
        account: &Account,
        manifests: &[Value],
        leaving: &[Value],
    ) -> Result<Lack, PreflightError> {
        let mut known = self.resources(manifests).await?;
        known.extend(self.resources(leaving).await?);
        let known = |gvk: &Gvk| known.get(gvk).cloned();
        let needs = needs(manifests, &known)?.and_to_take_down(leaving, &known);
        let (held, is_complete) = self.held(account, &needs).await?;
        let mut problems = Vec::new();
        let live = self.live_roles(&needs, &mut problems).await;
        let open = if is_complete {
            BTreeSet::new()
        } else {
            needs.open(&held, &live)
        };
        let granted = self.granted(account, open, &mut problems).await;
        Ok(Lack {
            missing: needs.missing(&held, &live, &granted),
            problems,
        })
    }

    async fn resources(
        &self,
        manifests: &[Value],
    ) -> Result<BTreeMap<Gvk, Resource>, PreflightError> {
        let defined = defined_kinds(manifests);
        let kinds: BTreeSet<Gvk> = manifests
            .iter()
            .filter_map(|manifest| Some(ObjectKey::of(manifest).ok()?.gvk)) // `needs` reports the others.
            .filter(|gvk| !defined.contains_key(&(gvk.group.clone(), gvk.kind.clone())))
            .collect();
        let mut known = BTreeMap::new();
        for gvk in kinds {
            let resource = self.discovery.resource(&gvk).await;
            let resource = resource.map_err(PreflightError::Discover)?;
            known.extend(resource.map(|resource| (gvk, resource)));
        }
        Ok(known)
    }

    /// The rules that hold everywhere and in each namespace, and whether these are all.
    async fn held(
        &self,
        account: &Account,
        needs: &Needs,
    ) -> Result<(HeldRules, bool), PreflightError> {
        let places = [NOWHERE].into_iter().chain(needs.namespaces());
        let places: Vec<String> = places.map(str::to_owned).collect();
        let answers = stream::iter(places)
            .map(|place| review_rules(self.client, place))
            .buffered(SIDE_BY_SIDE)
            .collect::<Vec<_>>()
            .await;
        let (mut held, mut is_complete) = (HeldRules::default(), true);
        for answer in answers {
            let (place, status) = answer.map_err(|source| PreflightError::Review {
                account: account.clone(),
                source,
            })?;
            is_complete &= !status.incomplete;
            let resources = status.resource_rules.into_iter().map(Rule::from);
            let urls = status.non_resource_rules.into_iter().map(Rule::from);
            let rules = resources.chain(urls).collect();
            if place == NOWHERE {
                held.cluster = rules;
            } else {
                held.namespaces.insert(place, rules);
            }
        }
        Ok((held, is_complete))
    }

    /// The rules of the roles that bindings refer to. One that cannot be read counts as one that gives nothing.
    async fn live_roles(&self, needs: &Needs, problems: &mut Vec<Problem>) -> LiveRoles {
        let answers = stream::iter(needs.referenced_roles())
            .map(|role| self.live_role(role))
            .buffered(SIDE_BY_SIDE)
            .collect::<Vec<_>>()
            .await;
        let mut live = LiveRoles::new();
        for (role, answer) in answers {
            match answer {
                Ok(None) => {}
                Ok(Some(found)) => {
                    live.insert(role, live_rules(&found));
                }
                Err(source) => {
                    live.insert(role.clone(), Vec::new());
                    problems.push(Problem::Role { role, source });
                }
            }
        }
        live
    }

    async fn live_role(&self, role: RoleRef) -> (RoleRef, Result<Option<Value>, RequestError>) {
        let plural = match role.namespace {
            Some(_) => "roles",
            None => "clusterroles",
        };
        let url = path(RBAC, "v1", role.namespace.as_deref(), plural);
        let answer = request::get(self.own, &url, &role.name).await;
        (role, answer)
    }

    /// What of `open` some authorizer says yes to.
    async fn granted(
        &self,
        account: &Account,
        open: BTreeSet<Access>,
        problems: &mut Vec<Problem>,
    ) -> BTreeSet<Access> {
        let answers = stream::iter(open)
            .map(|access| self.review_access(account, access))
            .buffered(SIDE_BY_SIDE)
            .collect::<Vec<_>>()
            .await;
        let mut granted = BTreeSet::new();
        for answer in answers {
            match answer {
                Ok(access) => granted.extend(access),
                Err(source) => problems.push(Problem::Access {
                    account: account.clone(),
                    source,
                }),
            }
        }
        granted
    }

    /// Asks all authorizers about one thing, with the groups that the API server gives the account: the access, if they
    /// say yes.
    async fn review_access(
        &self,
        account: &Account,
        access: Access,
    ) -> Result<Option<Access>, RequestError> {
        let attributes = match &access.right {
            Right::Resource {
                group,
                resource,
                name,
                verb,
            } => json!({"resourceAttributes": {
                "namespace": access.namespace, "verb": verb, "group": group, "resource": resource,
                "name": name.as_deref().unwrap_or_default(),
            }}),
            Right::Url { url, verb } => {
                json!({"nonResourceAttributes": {"path": url, "verb": verb}})
            }
        };
        let mut review = json!({
            "apiVersion": format!("{AUTHORIZATION}/v1"), "kind": "SubjectAccessReview", "spec": attributes,
        });
        if let Some(spec) = review.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("user".to_owned(), json!(account.user()));
            spec.insert("groups".to_owned(), json!(groups(account)));
        }
        let url = path(AUTHORIZATION, "v1", None, "subjectaccessreviews");
        let answer = request::create(self.own, &url, "oxolm", &review).await?;
        // An answer that cannot be read is no yes.
        let is_allowed = serde_json::from_value::<SubjectAccessReview>(answer)
            .ok()
            .and_then(|review| review.status)
            .is_some_and(|status| status.allowed);
        Ok(is_allowed.then_some(access))
    }
}

/// The groups that the API server puts every service account into.
fn groups(account: &Account) -> [String; 3] {
    [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{}", account.namespace),
        "system:authenticated".to_owned(),
    ]
}

/// The rules that hold in `namespace` for whom `client` acts as.
async fn review_rules(
    client: &Client,
    namespace: String,
) -> Result<(String, SubjectRulesReviewStatus), RequestError> {
    let review = json!({
        "apiVersion": format!("{AUTHORIZATION}/v1"), "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    });
    let url = path(AUTHORIZATION, "v1", None, "selfsubjectrulesreviews");
    let answer = match request::create(client, &url, "oxolm", &review).await {
        // Clusters may take from accounts the right to ask about themselves: then the controller asks about them.
        Err(error) if error.is_forbidden() && !impersonation::is_refused(&error) => Value::Null,
        answer => answer?,
    };
    // An answer that cannot be read lists nothing, so everything is left open.
    let status = serde_json::from_value::<SelfSubjectRulesReview>(answer)
        .ok()
        .and_then(|review| review.status)
        .unwrap_or(SubjectRulesReviewStatus {
            incomplete: true,
            ..SubjectRulesReviewStatus::default()
        });
    Ok((namespace, status))
}

#[cfg(test)]
mod tests;
