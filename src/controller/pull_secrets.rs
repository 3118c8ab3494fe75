//! Credentials for registries, kept as the Secrets say: `--global-pull-secret` and the `imagePullSecrets` of oxolm's
//! own service account.
//!
//! Each Secret is watched by its name, so the right to read it is all that is needed, and a change is seen at once. Later
//! ones override earlier ones: the global one comes first. What is wrong with one does not hinder the others; a failed pull
//! tells it (`registry::error`).
//!
//! Differs from the reference: it polls files that it writes for itself, and one broken Secret fails every pull.

#![expect(
    clippy::disallowed_types,
    reason = "the Secrets are read from the API server"
)]

use std::collections::BTreeMap;
use std::fmt;
use std::future::ready;
use std::str::FromStr;

use futures::stream::{BoxStream, SelectAll};
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::error::chain;
use crate::registry::credential::{Credentials, PullSecret, PullSecretFormat};
use crate::revision::Account;

/// The keys of a pull secret, the preferred one first.
const KEYS: [(&str, PullSecretFormat); 2] = [
    (".dockerconfigjson", PullSecretFormat::DockerConfigJson),
    (".dockercfg", PullSecretFormat::DockerCfg),
];

/// A Secret, `NAMESPACE/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for SecretName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Self {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err("expected NAMESPACE/NAME".to_owned()),
        }
    }
}

/// The service account that a user of the API server is; `None` for other users.
pub fn account_of(user: &str) -> Option<Account> {
    let rest = user.strip_prefix("system:serviceaccount:")?;
    let (namespace, name) = rest.split_once(':')?;
    let is_name = |part: &str| !part.is_empty() && !part.contains(':');
    (is_name(namespace) && is_name(name)).then(|| Account {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// Where the pull secrets are.
pub struct Source {
    /// Reads as oxolm itself.
    pub client: Client,
    /// `--global-pull-secret`
    pub global: Option<SecretName>,
    /// Oxolm's own account.
    pub account: Option<Account>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("global", &self.global)
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}

/// Hands the credentials to `use_credentials` once all Secrets were looked at, and whenever they changed, until `stop`.
pub async fn watch(
    source: Source,
    stop: CancellationToken,
    mut use_credentials: impl FnMut(Credentials) + Send,
) {
    let mut known = Known::new(&source);
    let mut watches = SelectAll::new();
    if let Some(account) = &source.account {
        let api: Api<ServiceAccount> = Api::namespaced(source.client.clone(), &account.namespace);
        watches.push(object(api, &account.name).map(Seen::Account).boxed());
    }
    known.follow(&source, &mut watches);
    let mut used: Option<Credentials> = None;
    loop {
        if let Some(credentials) = known.credentials()
            && used.as_ref() != Some(&credentials)
        {
            for problem in credentials.problems() {
                warn!(problem, "a pull secret cannot be used");
            }
            info!(
                registries = credentials.len(),
                "credentials for registries are in use"
            );
            used = Some(credentials.clone());
            use_credentials(credentials);
        }
        let seen = tokio::select! {
            () = stop.cancelled() => return,
            seen = watches.next(), if !watches.is_empty() => seen,
            else => return,
        };
        match seen {
            Some(Seen::Account(Ok(account))) => {
                known.set_account(&source, account.unwrap_or_default());
                known.follow(&source, &mut watches);
            }
            Some(Seen::Account(Err(why))) => {
                warn!(why, "cannot read oxolm's own service account");
                known.has_account = true;
            }
            Some(Seen::Secret(name, seen)) => known.set_secret(&name, seen),
            None => {}
        }
    }
}

/// What a watch says of one object: there, not there, or why nobody knows.
type Found<K> = Result<Option<K>, String>;

enum Seen {
    Account(Found<ServiceAccount>),
    Secret(SecretName, Found<Secret>),
}

type Watches = SelectAll<BoxStream<'static, Seen>>;

struct Known {
    global: Option<SecretName>,
    /// Those of the account, in its order.
    own: Vec<SecretName>,
    /// Whether the account was looked at.
    has_account: bool,
    secrets: BTreeMap<SecretName, Watched>,
}

struct Watched {
    /// `None` until it was looked at.
    found: Option<Found<Secret>>,
    stop: CancellationToken,
}

impl Known {
    fn new(source: &Source) -> Self {
        Self {
            global: source.global.clone(),
            own: Vec::new(),
            has_account: source.account.is_none(),
            secrets: BTreeMap::new(),
        }
    }

    fn names(&self) -> impl Iterator<Item = &SecretName> {
        self.global.iter().chain(&self.own)
    }

    fn set_account(&mut self, source: &Source, account: ServiceAccount) {
        self.has_account = true;
        let Some(Account { namespace, .. }) = &source.account else {
            return;
        };
        let references = account.image_pull_secrets.unwrap_or_default();
        self.own = references
            .into_iter()
            .filter(|reference| !reference.name.is_empty())
            .map(|reference| SecretName {
                namespace: namespace.clone(),
                name: reference.name,
            })
            .collect();
    }

    /// Watches exactly the Secrets that are named now.
    fn follow(&mut self, source: &Source, watches: &mut Watches) {
        let wanted: Vec<SecretName> = self.names().cloned().collect();
        self.secrets.retain(|name, watched| {
            let is_wanted = wanted.contains(name);
            if !is_wanted {
                watched.stop.cancel();
            }
            is_wanted
        });
        for name in wanted {
            self.secrets.entry(name).or_insert_with_key(|name| {
                let api: Api<Secret> = Api::namespaced(source.client.clone(), &name.namespace);
                let stop = CancellationToken::new();
                let whose = name.clone();
                let seen = object(api, &name.name)
                    .map(move |found| Seen::Secret(whose.clone(), found))
                    .take_until(stop.clone().cancelled_owned());
                watches.push(seen.boxed());
                Watched { found: None, stop }
            });
        }
    }

    fn set_secret(&mut self, name: &SecretName, found: Found<Secret>) {
        // A watch that breaks says nothing about the Secret: what was known of it stays.
        if let Some(watched) = self.secrets.get_mut(name)
            && (found.is_ok() || !matches!(watched.found, Some(Ok(_))))
        {
            watched.found = Some(found);
        }
    }

    /// What is known, once everything was looked at.
    fn credentials(&self) -> Option<Credentials> {
        if !self.has_account {
            return None;
        }
        let mut all = Credentials::default();
        for name in self.names() {
            let found = self.secrets.get(name)?.found.as_ref()?;
            match pull_secret(name, found) {
                Ok(secret) => all.add(&secret),
                Err(problem) => all.add_problem(problem),
            }
        }
        Some(all)
    }
}

fn pull_secret(name: &SecretName, found: &Found<Secret>) -> Result<PullSecret, String> {
    let secret = match found {
        Ok(Some(secret)) => secret,
        Ok(None) => return Err(format!("pull secret {name} does not exist")),
        Err(why) => return Err(format!("cannot read pull secret {name}: {why}")),
    };
    let data = secret.data.as_ref();
    KEYS.iter()
        .find_map(|(key, format)| {
            let bytes = data?.get(*key)?;
            Some(PullSecret {
                origin: format!("Secret {name}"),
                format: *format,
                data: bytes.0.clone(),
            })
        })
        .ok_or_else(|| {
            format!("pull secret {name} has neither key .dockerconfigjson nor .dockercfg")
        })
}

/// One object by name, now and after each change. The watch is kept up with back-off.
fn object<K>(api: Api<K>, name: &str) -> impl Stream<Item = Found<K>> + Send + use<K>
where
    K: kube::Resource + Clone + DeserializeOwned + fmt::Debug + Send + 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    watcher(api, config)
        .default_backoff()
        .scan(false, |is_there, event| {
            let found = match event {
                Ok(Event::Init) => {
                    *is_there = false;
                    None
                }
                Ok(Event::InitApply(object)) => {
                    *is_there = true;
                    Some(Ok(Some(object)))
                }
                Ok(Event::InitDone) => (!*is_there).then_some(Ok(None)),
                Ok(Event::Apply(object)) => Some(Ok(Some(object))),
                Ok(Event::Delete(_)) => Some(Ok(None)),
                Err(error) => Some(Err(chain(&error))),
            };
            ready(Some(found))
        })
        .filter_map(ready)
}

#[cfg(test)]
mod tests;
