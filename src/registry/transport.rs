//! One request to one endpoint: scheme, credentials, tokens, redirects, retries.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RANGE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{Method, StatusCode};
use reqwest::Response;
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;
use url::Url;

use super::challenge::{self, Challenge};
use super::client::{Clients, Trust};
use super::config::{ConfigError, RegistryOptions};
use super::credential::{Credential, Credentials};
use super::endpoint::{Endpoint, Security};
use super::error::{Connection, Fault};
use super::limits::{
    DEFAULT_TOKEN_LIFETIME, DOCUMENT_TIMEOUT, MAX_ERROR_BYTES, MAX_RETRY_AFTER, MAX_TOKEN_BYTES,
    RetryPolicy, TOKEN_MARGIN,
};

/// Speaks HTTP to registries; shared by all pulls.
#[derive(Debug)]
pub(super) struct Transport {
    clients: Clients,
    credentials: ArcSwap<Credentials>,
    retry: RetryPolicy,
    /// By address, repository and access: what to put into `Authorization`.
    authorizations: Mutex<BTreeMap<(String, String, Access), Authorization>>,
    /// What loopback and insecure endpoints turned out to speak.
    schemes: Mutex<BTreeMap<String, Scheme>>,
}

/// What a request wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    Pull,
    Push,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Https,
    Http,
}

#[derive(Debug, Clone)]
struct Authorization {
    header: HeaderValue,
    /// `None` for what does not expire.
    expires: Option<Instant>,
}

/// A request to an endpoint, to be sent as often as need be.
#[derive(Debug, Clone)]
pub(super) struct Call<'a> {
    pub(super) method: Method,
    pub(super) target: Where<'a>,
    pub(super) access: Access,
    pub(super) accept: Option<String>,
    /// The first byte wanted, if not from the beginning.
    pub(super) from_byte: u64,
    pub(super) body: Option<(&'a str, Bytes)>,
}

/// What a request is addressed to.
#[derive(Debug, Clone)]
pub(super) enum Where<'a> {
    /// Below the repository: `manifests/latest`.
    Repository(&'a str),
    /// An address that the registry gave.
    Location(Url),
}

impl<'a> Call<'a> {
    pub(super) fn get(path: &'a str) -> Self {
        Self {
            method: Method::GET,
            target: Where::Repository(path),
            access: Access::Pull,
            accept: None,
            from_byte: 0,
            body: None,
        }
    }
}

impl Transport {
    pub(super) fn new(options: &RegistryOptions) -> Result<Self, ConfigError> {
        Ok(Self {
            clients: Clients::new(options)?,
            credentials: ArcSwap::default(),
            retry: options.retry,
            authorizations: Mutex::default(),
            schemes: Mutex::default(),
        })
    }

    /// From now on these credentials are used; tokens got with others are forgotten.
    pub(super) fn set_credentials(&self, credentials: Credentials) {
        self.credentials.store(Arc::new(credentials));
        lock(&self.authorizations).clear();
    }

    /// Takes in changes of the CA directory.
    pub(super) fn refresh(&self) -> Result<(), ConfigError> {
        self.clients.refresh()
    }

    /// Where the credential for `endpoint` came from, if there is one.
    pub(super) fn credential_origin(&self, endpoint: &Endpoint) -> Option<String> {
        self.credential(endpoint).map(|found| found.origin)
    }

    fn credential(&self, endpoint: &Endpoint) -> Option<Credential> {
        let credentials = self.credentials.load();
        credentials
            .find(&endpoint.authority, &endpoint.path)
            .cloned()
    }

    /// Sends `call` until it succeeds, fails for good, or was tried often enough.
    ///
    /// Any status but 2xx is a [`Fault::Status`].
    pub(super) async fn send(
        &self,
        endpoint: &Endpoint,
        call: &Call<'_>,
    ) -> Result<Response, Fault> {
        let mut tried = 0;
        loop {
            let fault = match self.try_send(endpoint, call).await {
                Ok(response) => return Ok(response),
                Err(fault) => fault,
            };
            tried += 1;
            if self.wait_to_retry(tried, &fault).await.is_err() {
                return Err(fault);
            }
        }
    }

    /// Waits before the next attempt, or says that there is none.
    pub(super) async fn wait_to_retry(&self, tried: u32, fault: &Fault) -> Result<(), ()> {
        let attempts = if fault.is_throttled() {
            self.retry.attempts_when_throttled
        } else {
            self.retry.attempts
        };
        if !fault.is_transient() || tried >= attempts {
            return Err(());
        }
        let asked = match fault {
            Fault::Status { retry_after, .. } => *retry_after,
            _ => None,
        };
        let doubled = self
            .retry
            .first_delay
            .saturating_mul(1 << tried.saturating_sub(1).min(16));
        let delay = asked.unwrap_or(doubled.min(self.retry.max_delay));
        debug!(%fault, tried, ?delay, "registry request failed, trying again");
        sleep(delay).await;
        Ok(())
    }

    async fn try_send(&self, endpoint: &Endpoint, call: &Call<'_>) -> Result<Response, Fault> {
        let scheme = self.scheme(endpoint).await?;
        let key = (
            endpoint.address().to_owned(),
            endpoint.path.clone(),
            call.access,
        );
        let known = self.known_authorization(&key);
        let response = self
            .send_once(endpoint, scheme, call, known.as_ref())
            .await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return checked(response).await;
        }
        let values = response.headers().get_all(WWW_AUTHENTICATE);
        let challenges = challenge::parse(values.iter().filter_map(|value| value.to_str().ok()));
        let Some(authorization) = self.authorize(endpoint, call.access, &challenges).await? else {
            return checked(response).await;
        };
        if known.is_some_and(|known| known == authorization.header) {
            // The very answer that was just refused.
            return checked(response).await;
        }
        let header = authorization.header.clone();
        lock(&self.authorizations).insert(key, authorization);
        checked(
            self.send_once(endpoint, scheme, call, Some(&header))
                .await?,
        )
        .await
    }

    async fn send_once(
        &self,
        endpoint: &Endpoint,
        scheme: Scheme,
        call: &Call<'_>,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, Fault> {
        let base = base_url(endpoint, scheme)?;
        let url = match &call.target {
            Where::Repository(path) => {
                let path = format!("v2/{}/{path}", endpoint.path);
                base.join(&path)
                    .map_err(|error| Fault::Protocol(error.to_string()))?
            }
            Where::Location(url) => url.clone(),
        };
        let is_home = url.host_str() == base.host_str() && url.port() == base.port();
        let client = self.clients.get(trust(endpoint));
        let mut request = client.request(call.method.clone(), url);
        if let Some(accept) = &call.accept {
            request = request.header(ACCEPT, accept);
        }
        if call.from_byte > 0 {
            request = request.header(RANGE, format!("bytes={}-", call.from_byte));
        }
        // A credential is for the registry alone, not for wherever it points.
        if let Some(authorization) = authorization.filter(|_| is_home) {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        if let Some((content_type, body)) = &call.body {
            request = request
                .header(CONTENT_TYPE, *content_type)
                .body(body.clone());
        }
        request.send().await.map_err(|error| Fault::of(&error))
    }

    fn known_authorization(&self, key: &(String, String, Access)) -> Option<HeaderValue> {
        let mut authorizations = lock(&self.authorizations);
        let known = authorizations.get(key)?;
        if known
            .expires
            .is_some_and(|expires| expires <= Instant::now())
        {
            authorizations.remove(key);
            return None;
        }
        Some(known.header.clone())
    }

    /// Meets one of `challenges`. `None` when no credential would change the answer.
    async fn authorize(
        &self,
        endpoint: &Endpoint,
        access: Access,
        challenges: &[Challenge],
    ) -> Result<Option<Authorization>, Fault> {
        let credential = self.credential(endpoint);
        for challenge in challenges {
            match (challenge, &credential) {
                (
                    Challenge::Bearer {
                        realm,
                        service,
                        scope,
                    },
                    _,
                ) => {
                    let scope = scope
                        .clone()
                        .unwrap_or_else(|| default_scope(endpoint, access));
                    return self
                        .token(
                            endpoint,
                            realm,
                            service.as_deref(),
                            &scope,
                            credential.as_ref(),
                        )
                        .await
                        .map(Some)
                        .map_err(|fault| Fault::Token {
                            realm: without_query(realm),
                            fault: Box::new(fault),
                        });
                }
                (Challenge::Basic, Some(credential)) => {
                    return Ok(Some(Authorization {
                        header: basic(credential)?,
                        expires: None,
                    }));
                }
                (Challenge::Basic, None) => {}
            }
        }
        Ok(None)
    }

    async fn token(
        &self,
        endpoint: &Endpoint,
        realm: &str,
        service: Option<&str>,
        scope: &str,
        credential: Option<&Credential>,
    ) -> Result<Authorization, Fault> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            token: Option<String>,
            #[serde(default)]
            access_token: Option<String>,
            #[serde(default)]
            expires_in: Option<u64>,
        }
        let not_a_token = |what: &str| Fault::Challenge(what.to_owned());
        let Ok(mut url) = Url::parse(realm) else {
            return Err(not_a_token("the realm is not an address"));
        };
        if url.scheme() != "https"
            && !(url.scheme() == "http" && endpoint.security != Security::Verified)
        {
            return Err(not_a_token("the realm is not an https address"));
        }
        if let Some(service) = service {
            url.query_pairs_mut().append_pair("service", service);
        }
        for scope in scope.split_whitespace() {
            url.query_pairs_mut().append_pair("scope", scope);
        }
        let mut request = self.clients.get(trust(endpoint)).get(url);
        if let Some(credential) = credential {
            request = request.header(AUTHORIZATION, basic(credential)?);
        }
        let asked_at = Instant::now();
        let response = request.send().await.map_err(|error| Fault::of(&error))?;
        let response = checked(response).await?;
        let bytes = document(response, "token", MAX_TOKEN_BYTES).await?;
        let Ok(answer) = serde_json::from_slice::<Answer>(&bytes) else {
            return Err(Fault::Protocol(
                "the token service's answer is not a token".to_owned(),
            ));
        };
        let token = answer
            .token
            .or(answer.access_token)
            .filter(|token| !token.is_empty());
        let Some(token) = token else {
            return Err(Fault::Protocol(
                "the token service's answer holds no token".to_owned(),
            ));
        };
        let lifetime = answer
            .expires_in
            .map_or(DEFAULT_TOKEN_LIFETIME, Duration::from_secs);
        Ok(Authorization {
            header: sensitive(&format!("Bearer {token}"))?,
            expires: asked_at.checked_add(lifetime.saturating_sub(TOKEN_MARGIN)),
        })
    }

    /// HTTPS, or what a loopback or insecure endpoint turns out to speak.
    async fn scheme(&self, endpoint: &Endpoint) -> Result<Scheme, Fault> {
        if endpoint.security == Security::Verified {
            return Ok(Scheme::Https);
        }
        let known = lock(&self.schemes).get(endpoint.address()).copied();
        if let Some(scheme) = known {
            return Ok(scheme);
        }
        let url = base_url(endpoint, Scheme::Https)?;
        let probe = self.clients.get(trust(endpoint)).head(url).send();
        let scheme = match probe.await.map_err(|error| Fault::of(&error)) {
            Ok(_) | Err(Fault::Redirect(_)) => Scheme::Https,
            // A server of plain HTTP answers a TLS greeting with HTTP, or hangs up.
            Err(
                Fault::Connect(Connection::NotTls | Connection::Closed | Connection::Other)
                | Fault::Broken(_),
            ) => Scheme::Http,
            Err(fault) => return Err(fault),
        };
        lock(&self.schemes).insert(endpoint.address().to_owned(), scheme);
        Ok(scheme)
    }

    /// The base address for messages: with the scheme, once it is known.
    pub(super) fn describe(&self, endpoint: &Endpoint) -> String {
        let known = lock(&self.schemes).get(endpoint.address()).copied();
        match (endpoint.security, known) {
            (Security::Verified, _) | (_, Some(Scheme::Https)) => {
                format!("https://{}", endpoint.name())
            }
            (_, Some(Scheme::Http)) => format!("http://{}", endpoint.name()),
            (_, None) => endpoint.name(),
        }
    }
}

/// Reads a whole body of at most `limit` bytes, under [`DOCUMENT_TIMEOUT`].
pub(super) async fn document(
    response: Response,
    what: &'static str,
    limit: u64,
) -> Result<Bytes, Fault> {
    let too_large = || Fault::TooLarge { what, limit };
    if response
        .content_length()
        .is_some_and(|length| length > limit)
    {
        return Err(too_large());
    }
    let read = async {
        let mut response = response;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| Fault::of(&error))? {
            if (bytes.len() as u64).saturating_add(chunk.len() as u64) > limit {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Bytes::from(bytes))
    };
    match timeout(DOCUMENT_TIMEOUT, read).await {
        Ok(result) => result,
        Err(_elapsed) => Err(Fault::Deadline(DOCUMENT_TIMEOUT.as_secs())),
    }
}

/// Turns every status but 2xx into a fault, with the code of the registry's error document.
async fn checked(response: Response) -> Result<Response, Fault> {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        code: String,
    }
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let retry_after = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok())
        .map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
    // What cannot be read of an error document only makes the message shorter.
    let body = document(response, "error", MAX_ERROR_BYTES)
        .await
        .unwrap_or_default();
    let code = serde_json::from_slice::<Errors>(&body)
        .ok()
        .and_then(|errors| errors.errors.into_iter().next())
        .map(|entry| entry.code)
        .filter(|code| {
            code.len() <= 64 && code.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
        })
        .map(|code| code.to_ascii_lowercase().replace('_', " "));
    Err(Fault::Status {
        status,
        code,
        retry_after,
    })
}

fn trust(endpoint: &Endpoint) -> Trust {
    match endpoint.security {
        Security::Verified => Trust::Verified,
        Security::Loopback => Trust::Loopback,
        Security::Insecure => Trust::Anything,
    }
}

fn base_url(endpoint: &Endpoint, scheme: Scheme) -> Result<Url, Fault> {
    let scheme = match scheme {
        Scheme::Https => "https",
        Scheme::Http => "http",
    };
    let Ok(url) = Url::parse(&format!("{scheme}://{}/", endpoint.address())) else {
        return Err(Fault::Protocol(
            "the registry's name is not an address".to_owned(),
        ));
    };
    Ok(url)
}

fn default_scope(endpoint: &Endpoint, access: Access) -> String {
    let actions = match access {
        Access::Pull => "pull",
        Access::Push => "pull,push",
    };
    format!("repository:{}:{actions}", endpoint.path)
}

fn basic(credential: &Credential) -> Result<HeaderValue, Fault> {
    use base64::Engine as _;
    let pair = format!("{}:{}", credential.username, credential.password);
    let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
    sensitive(&format!("Basic {encoded}"))
}

fn sensitive(value: &str) -> Result<HeaderValue, Fault> {
    let Ok(mut header) = HeaderValue::from_str(value) else {
        return Err(Fault::Protocol(
            "the token is not a header value".to_owned(),
        ));
    };
    header.set_sensitive(true);
    Ok(header)
}

/// A realm without what could vary or tell.
fn without_query(realm: &str) -> String {
    realm
        .split(['?', '#'])
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Each critical section is one operation of a map, so a poisoned one is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
