//! The permission preflight: asks, as the account, what it may do, and tells what it lacks before the first write.
//!
//! A bundle whose rights come from RBAC alone costs one request for what holds everywhere and one for each namespace.
//! An authorizer that cannot list its rules is asked about each thing that is left open. That an account has all it
//! needs is remembered until somebody's rights change.

#![expect(clippy::disallowed_types, reason = "asks the API server")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::authorization::v1::{
    SelfSubjectRulesReview, SubjectAccessReview, SubjectRulesReviewStatus,
};
use kube::Client;
use serde_json::{Value, json};

use crate::api::object::{Gvk, ObjectKey};
use crate::apply::discovery::{Discovery, DiscoveryError};
use crate::error::{Classify, Disposition};
use crate::identity::accounts::Accounts;
use crate::identity::request::{self, RequestError, path};
use crate::preflight::permissions::{
    Access, HeldRules, LiveRoles, MissingRules, Needs, NeedsError, Resource, Right, Rule,
    live_rules, needs,
};
use crate::revision::Account;

/// The API group of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io";
/// A namespace that cannot exist, since its name is none: only what holds everywhere holds in it.
const NOWHERE: &str = "oxolm.nowhere";
/// How many verdicts are remembered before all are forgotten.
const VERDICTS: usize = 4096;

/// An account that may not do what is needed, or of which that could not be found out.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// It lacks rights.
    #[error("pre-authorization failed: {0}")]
    Missing(MissingRules),
    /// The manifests do not tell what is needed.
    #[error(transparent)]
    Needs(#[from] NeedsError),
    /// A kind could not be looked up.
    #[error("pre-authorization failed")]
    Discover(#[source] DiscoveryError),
    /// A review was refused.
    #[error(
        "pre-authorization failed: authorization evaluation error: missing rules may be incomplete: cannot review the rights of {account}"
    )]
    Review {
        /// The account.
        account: Account,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// A role that a binding refers to could not be read.
    #[error(
        "pre-authorization failed: authorization evaluation error: missing rules may be incomplete: cannot read role {role:?}"
    )]
    Role {
        /// The role's name.
        role: String,
        /// Why.
        #[source]
        source: RequestError,
    },
}

impl Classify for PreflightError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Needs(error) => error.disposition(),
            Self::Missing(_) | Self::Discover(_) | Self::Review { .. } | Self::Role { .. } => {
                Disposition::Retry
            }
        }
    }
}

/// The preflight and what it remembers.
#[derive(Debug, Default)]
pub struct Preflight {
    /// Account and content that passed, with the epoch in which they did.
    passed: Mutex<BTreeMap<(Account, String), u64>>,
}

/// Whom to ask.
pub struct Preflighter<'a> {
    /// The controller's own client.
    pub own: &'a Client,
    /// Acts as the account.
    pub client: &'a Client,
    /// Knows what kinds are called.
    pub discovery: &'a Discovery,
    /// Knows when rights changed.
    pub accounts: &'a Accounts,
}

impl std::fmt::Debug for Preflighter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Preflighter").finish_non_exhaustive()
    }
}

impl Preflight {
    /// Makes sure that `account` may install `manifests`, whose digest is `content`.
    ///
    /// # Errors
    /// When it lacks rights (all of them are named), or that could not be found out.
    pub async fn check(
        &self,
        asking: &Preflighter<'_>,
        account: &Account,
        content: &str,
        manifests: &[Value],
    ) -> Result<(), PreflightError> {
        let epoch = asking.accounts.epoch();
        let verdict = (account.clone(), content.to_owned());
        if self.lock().get(&verdict) == Some(&epoch) {
            return Ok(());
        }
        let missing = asking.missing(account, manifests).await?;
        if !missing.is_empty() {
            return Err(PreflightError::Missing(missing));
        }
        let mut passed = self.lock();
        if passed.len() >= VERDICTS {
            passed.clear();
        }
        passed.insert(verdict, epoch);
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Account, String), u64>> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Preflighter<'_> {
    /// What `account` lacks to install `manifests`.
    ///
    /// # Errors
    /// When that could not be found out.
    pub async fn missing(
        &self,
        account: &Account,
        manifests: &[Value],
    ) -> Result<MissingRules, PreflightError> {
        let known = self.resources(manifests).await?;
        let needs = needs(manifests, &|gvk| known.get(gvk).cloned())?;
        let (held, is_incomplete) = self.held(account, &needs).await?;
        let roles = self.roles(&needs).await?;
        let mut granted = BTreeSet::new();
        if is_incomplete {
            for access in needs.open(&held, &roles) {
                if self.allows(account, &access).await? {
                    granted.insert(access);
                }
            }
        }
        Ok(needs.missing(&held, &roles, &granted))
    }

    async fn resources(
        &self,
        manifests: &[Value],
    ) -> Result<BTreeMap<Gvk, Resource>, PreflightError> {
        let mut known = BTreeMap::new();
        let kinds: BTreeSet<Gvk> = manifests
            .iter()
            .filter_map(|manifest| Some(ObjectKey::of(manifest).ok()?.gvk)) // `needs` reports the others.
            .collect();
        let defined = crate::preflight::permissions::defined_kinds(manifests);
        for gvk in kinds {
            let kind = (gvk.group.clone(), gvk.kind.clone());
            let resource = match defined.get(&kind) {
                Some(resource) => Some(resource.clone()),
                None => self
                    .discovery
                    .resource(&gvk)
                    .await
                    .map_err(PreflightError::Discover)?,
            };
            known.extend(resource.map(|resource| (gvk, resource)));
        }
        Ok(known)
    }

    /// The rules that hold everywhere and in each namespace, and whether an authorizer did not list its own.
    async fn held(
        &self,
        account: &Account,
        needs: &Needs,
    ) -> Result<(HeldRules, bool), PreflightError> {
        let mut held = HeldRules::default();
        let (cluster, mut is_incomplete) = self.rules(account, NOWHERE).await?;
        held.cluster = cluster;
        for namespace in needs.namespaces() {
            let (rules, incomplete) = self.rules(account, namespace).await?;
            is_incomplete |= incomplete;
            held.namespaces.insert(namespace.to_owned(), rules);
        }
        Ok((held, is_incomplete))
    }

    async fn rules(
        &self,
        account: &Account,
        namespace: &str,
    ) -> Result<(Vec<Rule>, bool), PreflightError> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        });
        let url = path(
            "authorization.k8s.io",
            "v1",
            None,
            "selfsubjectrulesreviews",
        );
        let answer = self.review(self.client, account, &url, &review).await?;
        // A review without status: nothing is known, so everything is asked.
        let status = serde_json::from_value::<SelfSubjectRulesReview>(answer)
            .ok()
            .and_then(|review| review.status)
            .unwrap_or(SubjectRulesReviewStatus {
                incomplete: true,
                ..SubjectRulesReviewStatus::default()
            });
        let resources = status.resource_rules.into_iter().map(Rule::from);
        let urls = status.non_resource_rules.into_iter().map(Rule::from);
        Ok((resources.chain(urls).collect(), status.incomplete))
    }

    /// Asks all authorizers about one thing, with the groups that the API server gives the account.
    async fn allows(&self, account: &Account, access: &Access) -> Result<bool, PreflightError> {
        let mut review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": account.user(),
                "groups": [
                    "system:serviceaccounts",
                    format!("system:serviceaccounts:{}", account.namespace),
                    "system:authenticated",
                ],
            },
        });
        let (field, asked) = match &access.right {
            Right::Resource {
                group,
                resource,
                name,
                verb,
            } => {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                let name = name.as_deref().unwrap_or_default();
                let asked = json!({
                    "namespace": access.namespace, "verb": verb, "group": group, "resource": resource,
                    "subresource": subresource, "name": name,
                });
                ("resourceAttributes", asked)
            }
            Right::Url { url, verb } => {
                ("nonResourceAttributes", json!({"path": url, "verb": verb}))
            }
        };
        if let Some(spec) = review.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert(field.to_owned(), asked);
        }
        let url = path("authorization.k8s.io", "v1", None, "subjectaccessreviews");
        let answer = self.review(self.own, account, &url, &review).await?;
        // An answer that cannot be read is no yes.
        Ok(serde_json::from_value::<SubjectAccessReview>(answer)
            .ok()
            .and_then(|review| review.status)
            .is_some_and(|status| status.allowed))
    }

    async fn review(
        &self,
        client: &Client,
        account: &Account,
        url: &str,
        review: &Value,
    ) -> Result<Value, PreflightError> {
        request::create(client, url, "oxolm", review)
            .await
            .map_err(|source| PreflightError::Review {
                account: account.clone(),
                source,
            })
    }

    /// The rules of the roles that bindings refer to, as far as they exist.
    async fn roles(&self, needs: &Needs) -> Result<LiveRoles, PreflightError> {
        let mut roles = LiveRoles::new();
        for role in needs.referenced_roles() {
            let (namespace, plural) = match &role.namespace {
                Some(namespace) => (Some(namespace.as_str()), "roles"),
                None => (None, "clusterroles"),
            };
            let url = path(RBAC, "v1", namespace, plural);
            let found = request::get(self.own, &url, &role.name).await;
            let found = found.map_err(|source| PreflightError::Role {
                role: role.name.clone(),
                source,
            })?;
            if let Some(found) = found {
                roles.insert(role, live_rules(&found));
            }
        }
        Ok(roles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::chain;
    use crate::testing::api_server::ApiServer;

    struct Fixture {
        server: ApiServer,
        preflight: Preflight,
        accounts: std::sync::Arc<Accounts>,
        discovery: Discovery,
    }

    impl Fixture {
        fn new() -> Self {
            let server = ApiServer::new();
            Self {
                discovery: Discovery::new(server.client()),
                server,
                preflight: Preflight::default(),
                accounts: std::sync::Arc::default(),
            }
        }

        async fn check(&self, manifests: &[Value]) -> Result<(), String> {
            let account = Account {
                namespace: "n".into(),
                name: "a".into(),
            };
            let identity = crate::identity::Identity::new(
                self.server.client(),
                self.accounts.clone(),
                crate::identity::ExcludedNamespaces::default(),
                crate::identity::DefaultAccount::None,
            );
            let asking = Preflighter {
                own: &self.server.client(),
                client: &identity.client_for(&account).unwrap(),
                discovery: &self.discovery,
                accounts: &self.accounts,
            };
            let checked = self
                .preflight
                .check(&asking, &account, "digest", manifests)
                .await;
            checked.map_err(|error| chain(&error))
        }
    }

    fn config_map(namespace: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": namespace}})
    }

    #[tokio::test]
    async fn what_holds_everywhere_is_asked_once_and_each_namespace_once_and_a_pass_is_remembered()
    {
        let fixture = Fixture::new();
        let manifests = [config_map("n"), config_map("m")];
        fixture.check(&manifests).await.unwrap();
        let review = "n:a POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        assert_eq!(
            fixture.server.requests(),
            ["controller GET /api/v1", review, review, review]
        );
        fixture.check(&manifests).await.unwrap();
        assert_eq!(fixture.server.requests(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn all_missing_rules_are_told_at_once() {
        let fixture = Fixture::new();
        let all = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]});
        fixture.server.set_rules("n:a", &[("n", all.clone())]);
        let error = fixture
            .check(&[config_map("n"), config_map("m")])
            .await
            .unwrap_err();
        assert_eq!(
            error,
            "pre-authorization failed: service account requires the following permissions to manage cluster extension:\n\
             \x20 Namespace:\"m\" APIGroups:[] Resources:[configmaps] ResourceNames:[c] Verbs:[delete,get,patch,update]\n\
             \x20 Namespace:\"m\" APIGroups:[] Resources:[configmaps] Verbs:[create]"
        );
        fixture.server.set_rules("n:a", &[("", all)]);
        fixture
            .check(&[config_map("n"), config_map("m")])
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn an_authorizer_that_lists_nothing_is_asked_about_each_thing() {
        let fixture = Fixture::new();
        fixture.server.set_rules("n:a", &[]);
        fixture.server.set_incomplete(&[
            "create configmaps",
            "get configmaps",
            "patch configmaps",
            "update configmaps",
        ]);
        let error = fixture.check(&[config_map("n")]).await.unwrap_err();
        assert!(
            error.ends_with("\n  Namespace:\"n\" APIGroups:[] Resources:[configmaps] ResourceNames:[c] Verbs:[delete]"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_role_of_the_cluster_counts_with_its_rules() {
        let fixture = Fixture::new();
        let rbac = json!({"apiGroups": [RBAC], "resources": ["*"], "verbs": ["create", "get", "patch", "update", "delete"]});
        fixture.server.set_rules("n:a", &[("", rbac)]);
        fixture.server.add(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "auth"},
            "rules": [{"apiGroups": ["x"], "resources": ["y"], "verbs": ["create"]}],
        }));
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
            "roleRef": {"kind": "ClusterRole", "name": "auth"},
        });
        let error = fixture.check(&[binding]).await.unwrap_err();
        assert!(
            error.ends_with("\n  Namespace:\"\" APIGroups:[x] Resources:[y] Verbs:[create]"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn what_cannot_be_found_out_is_said() {
        let fixture = Fixture::new();
        let unknown = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "t"}});
        assert!(
            fixture
                .check(&[unknown])
                .await
                .unwrap_err()
                .starts_with("could not get REST mapping for object 0")
        );
        fixture.server.fail_next("GET /apis/apps/v1", 500);
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "t", "namespace": "n"}});
        assert!(
            fixture
                .check(&[deployment])
                .await
                .unwrap_err()
                .starts_with("pre-authorization failed: cannot discover the resources of apps/v1")
        );
        fixture.server.fail_next(
            "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            500,
        );
        assert!(
            fixture.check(&[config_map("n")]).await.unwrap_err()
                .contains("authorization evaluation error: missing rules may be incomplete: cannot review the rights of n/a")
        );
        fixture.server.fail_next(
            "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/auth",
            500,
        );
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
            "roleRef": {"kind": "ClusterRole", "name": "auth"},
        });
        assert!(
            fixture
                .check(&[binding])
                .await
                .unwrap_err()
                .contains("cannot read role \"auth\"")
        );
    }
}
