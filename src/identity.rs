//! Acting as a service account.
//!
//! Everything that is done to the objects of an extension is done as its account, by
//! [impersonation](https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation): one
//! HTTP client and connection pool for all, and a layer that adds `Impersonate-User` to each request. The API server
//! adds the account's groups itself. Users and groups are never impersonated, and accounts in namespaces of the
//! control plane are refused here, whatever RBAC and the admission policy say.
//!
//! An account that was deleted can still be impersonated, so whether it exists is asked here, too
//! ([`accounts::Accounts`] remembers the answer).

#![expect(
    clippy::disallowed_types,
    reason = "this is where clients that act as somebody are made"
)]

pub mod accounts;
mod bindings;
pub mod connection;
pub mod fence;
pub mod impersonation;
pub mod reach;
pub mod request;

use std::str::FromStr;
use std::sync::Arc;

use http::HeaderValue;
use kube::Client;
use kube::client::Body;
use tower::service_fn;

use crate::error::{Classify, Disposition, Reason};
use crate::identity::accounts::Accounts;
use crate::identity::request::RequestError;
use crate::revision::Account;

/// The header that says as whom a request is to be done.
const IMPERSONATE_USER: &str = "impersonate-user";

/// Makes clients that act as a service account.
#[derive(Clone)]
pub struct Identity {
    client: Client,
    accounts: Arc<Accounts>,
    excluded: ExcludedNamespaces,
    default: DefaultAccount,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("excluded", &self.excluded)
            .field("default", &self.default)
            .finish_non_exhaustive()
    }
}

/// The account of an extension that names none (`oxolm run --default-service-account`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DefaultAccount {
    /// There is none.
    #[default]
    None,
    /// The account of this name in each extension's own namespace.
    InOwnNamespace(String),
    /// One account for all.
    One(Account),
}

/// A default account that is neither `NAME` nor `NAMESPACE/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid service account {0:?}: expected NAME or NAMESPACE/NAME")]
pub struct InvalidDefaultAccount(String);

impl FromStr for DefaultAccount {
    type Err = InvalidDefaultAccount;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_name = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
        };
        match text.split_once('/') {
            None if is_name(text) => Ok(Self::InOwnNamespace(text.to_owned())),
            Some((namespace, name)) if is_name(namespace) && is_name(name) => {
                Ok(Self::One(Account {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                }))
            }
            _ => Err(InvalidDefaultAccount(text.to_owned())),
        }
    }
}

/// Namespaces whose accounts are never used: names, or beginnings that end with `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExcludedNamespaces(Vec<String>);

impl Default for ExcludedNamespaces {
    fn default() -> Self {
        Self::new(["kube-*"])
    }
}

impl ExcludedNamespaces {
    /// From patterns: `kube-*`, `openshift-etcd`.
    pub fn new<T: Into<String>>(patterns: impl IntoIterator<Item = T>) -> Self {
        Self(patterns.into_iter().map(Into::into).collect())
    }

    /// Whether accounts of `namespace` are refused.
    pub fn contain(&self, namespace: &str) -> bool {
        self.0.iter().any(|pattern| {
            pattern
                .strip_suffix('*')
                .map_or(pattern == namespace, |prefix| namespace.starts_with(prefix))
        })
    }
}

/// An account that cannot be acted as.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Its namespace is excluded.
    #[error(
        "service account {0} may not be used: accounts in namespace {ns:?} are excluded from impersonation",
        ns = .0.namespace
    )]
    Excluded(Account),
    /// None is named, and there is no default.
    #[error(
        "no service account: set spec.serviceAccount.name, or run oxolm with --default-service-account (value defaultServiceAccount of its chart)"
    )]
    Unnamed,
    /// Its name or namespace cannot stand in a header.
    #[error("service account {0} has no valid name")]
    InvalidName(Account),
    /// It does not exist. The text is the reference's, with the remedy at the end.
    #[error(
        "operation cannot proceed due to the following validation error(s): service account {:?} not found in namespace {:?}: {}",
        account.name, account.namespace, remedy(account, *has_namespace)
    )]
    Missing {
        /// The account.
        account: Account,
        /// Whether its namespace exists.
        has_namespace: bool,
    },
    /// It could not be found out.
    #[error(
        "operation cannot proceed due to the following validation error(s): error getting service account"
    )]
    Unread(#[source] RequestError),
}

impl Classify for IdentityError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Excluded(_) | Self::Unnamed | Self::InvalidName(_) => {
                Disposition::Terminal(Reason::Blocked)
            }
            Self::Missing { .. } | Self::Unread(_) => Disposition::Retry,
        }
    }
}

/// The command that makes the account.
fn remedy(account: &Account, has_namespace: bool) -> String {
    let Account { namespace, name } = account;
    let account = format!("kubectl create serviceaccount {name} --namespace {namespace}");
    if has_namespace {
        account
    } else {
        format!("kubectl create namespace {namespace} && {account}")
    }
}

impl Identity {
    /// Acts through `client`, whose own user must have the verb `impersonate` on service accounts.
    pub fn new(
        client: Client,
        accounts: Arc<Accounts>,
        excluded: ExcludedNamespaces,
        default: DefaultAccount,
    ) -> Self {
        Self {
            client,
            accounts,
            excluded,
            default,
        }
    }

    /// What is known about accounts.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// The account of an extension: the one that it names in `namespace`, else the default one.
    ///
    /// # Errors
    /// When there is none, or it is excluded.
    pub fn account_for(
        &self,
        namespace: &str,
        name: Option<&str>,
    ) -> Result<Account, IdentityError> {
        let account = match (name, &self.default) {
            (Some(name), _) => Account {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
            (None, DefaultAccount::InOwnNamespace(name)) => Account {
                namespace: namespace.to_owned(),
                name: name.clone(),
            },
            (None, DefaultAccount::One(account)) => account.clone(),
            (None, DefaultAccount::None) => return Err(IdentityError::Unnamed),
        };
        self.admit(account)
    }

    /// The account of a revision that somebody wrote by hand and that names none: the default one, if it is one for
    /// all.
    pub fn account_for_all(&self) -> Option<&Account> {
        match &self.default {
            DefaultAccount::One(account) => Some(account),
            DefaultAccount::None | DefaultAccount::InOwnNamespace(_) => None,
        }
    }

    /// A client that acts as `account`. It shares the connections of all others.
    ///
    /// # Errors
    /// When the account is excluded, or its name cannot stand in a header.
    pub fn client_for(&self, account: &Account) -> Result<Client, IdentityError> {
        let account = self.admit(account.clone())?;
        let user = HeaderValue::from_str(&account.user())
            .map_err(|_invalid| IdentityError::InvalidName(account.clone()))?;
        let base = self.client.clone();
        let namespace = account.namespace;
        let service = service_fn(move |mut request: http::Request<Body>| {
            request.headers_mut().insert(IMPERSONATE_USER, user.clone());
            let base = base.clone();
            async move { base.send(request).await }
        });
        Ok(Client::new(service, namespace))
    }

    /// Makes sure that `account` exists.
    ///
    /// # Errors
    /// When it does not, or it could not be found out.
    pub async fn check_exists(&self, account: &Account) -> Result<(), IdentityError> {
        if self
            .accounts
            .exists(&self.client, account)
            .await
            .map_err(IdentityError::Unread)?
        {
            return Ok(());
        }
        let namespaces = request::path("", "v1", None, "namespaces");
        let has_namespace = match request::get(&self.client, &namespaces, &account.namespace).await
        {
            Ok(found) => found.is_some(),
            // Whoever may not look gets the shorter remedy.
            Err(_) => true,
        };
        Err(IdentityError::Missing {
            account: account.clone(),
            has_namespace,
        })
    }

    fn admit(&self, account: Account) -> Result<Account, IdentityError> {
        if self.excluded.contain(&account.namespace) {
            return Err(IdentityError::Excluded(account));
        }
        Ok(account)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::api_server::ApiServer;

    fn account(namespace: &str, name: &str) -> Account {
        Account {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    fn identity(server: &ApiServer, default: DefaultAccount) -> Identity {
        Identity::new(
            server.client(),
            Arc::new(Accounts::default()),
            ExcludedNamespaces::new(["kube-*", "openshift-etcd"]),
            default,
        )
    }

    #[test]
    fn excluded_namespaces_are_names_and_beginnings() {
        let excluded = ExcludedNamespaces::new(["kube-*", "openshift-etcd"]);
        for (namespace, expected) in [
            ("kube-system", true),
            ("kube-", true),
            ("kubernetes", false),
            ("openshift-etcd", true),
            ("openshift-etcd-operator", false),
        ] {
            assert_eq!(excluded.contain(namespace), expected, "{namespace}");
        }
    }

    #[test]
    fn a_default_account_is_a_name_or_a_namespace_and_a_name() {
        assert_eq!(
            "installer".parse(),
            Ok(DefaultAccount::InOwnNamespace("installer".into()))
        );
        assert_eq!("n/a".parse(), Ok(DefaultAccount::One(account("n", "a"))));
        for wrong in ["", "/a", "n/", "n/a/b", "A", "a b"] {
            assert!(wrong.parse::<DefaultAccount>().is_err(), "{wrong:?}");
        }
    }

    #[tokio::test]
    async fn the_account_is_the_named_one_or_the_default_one() {
        let server = ApiServer::new();
        for (default, name, expected) in [
            (DefaultAccount::None, Some("a"), Ok(account("n", "a"))),
            (
                DefaultAccount::InOwnNamespace("d".into()),
                None,
                Ok(account("n", "d")),
            ),
            (
                DefaultAccount::One(account("m", "d")),
                None,
                Ok(account("m", "d")),
            ),
            (
                DefaultAccount::None,
                None,
                Err(
                    "no service account: set spec.serviceAccount.name, or run oxolm with --default-service-account (value defaultServiceAccount of its chart)",
                ),
            ),
            (
                DefaultAccount::One(account("kube-system", "d")),
                None,
                Err(
                    "service account kube-system/d may not be used: accounts in namespace \"kube-system\" are excluded from impersonation",
                ),
            ),
        ] {
            let found = identity(&server, default)
                .account_for("n", name)
                .map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned));
        }
    }

    #[tokio::test]
    async fn requests_carry_the_account_and_nothing_else() {
        let server = ApiServer::new();
        let identity = identity(&server, DefaultAccount::None);
        let client = identity.client_for(&account("n", "a")).unwrap();
        let path = request::path("", "v1", Some("n"), "configmaps");
        assert_eq!(request::get(&client, &path, "c").await.unwrap(), None);
        let [log] = &server.log()[..] else {
            panic!("one request was sent");
        };
        assert_eq!(log.user, "system:serviceaccount:n:a");
        assert_eq!(log.line, "GET /api/v1/namespaces/n/configmaps/c");
        assert!(matches!(
            identity.client_for(&account("openshift-etcd", "a")),
            Err(IdentityError::Excluded(_))
        ));
        assert!(matches!(
            identity.client_for(&account("n", "a\nx")),
            Err(IdentityError::InvalidName(_))
        ));
    }

    #[tokio::test]
    async fn a_missing_account_names_the_command_that_makes_it() {
        let server = ApiServer::new();
        let identity = identity(&server, DefaultAccount::None);
        let wanted = account("n", "a");
        let text = |error: IdentityError| error.to_string();
        let prefix = "operation cannot proceed due to the following validation error(s): service account \"a\" not found in namespace \"n\": ";
        assert_eq!(
            identity.check_exists(&wanted).await.map_err(text),
            Err(format!(
                "{prefix}kubectl create namespace n && kubectl create serviceaccount a --namespace n"
            ))
        );
        server.add(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}));
        assert_eq!(
            identity.check_exists(&wanted).await.map_err(text),
            Err(format!(
                "{prefix}kubectl create serviceaccount a --namespace n"
            ))
        );
        server.add(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "namespace": "n"}}));
        assert_eq!(identity.check_exists(&wanted).await.map_err(text), Ok(()));
        server.fail_next("GET /api/v1/namespaces/n/serviceaccounts/b", 500);
        let error = identity.check_exists(&account("n", "b")).await.unwrap_err();
        assert!(
            crate::error::chain(&error).starts_with(
                "operation cannot proceed due to the following validation error(s): error getting service account: "
            ),
            "{error}"
        );
    }
}
