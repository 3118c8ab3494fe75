//! One request to one endpoint: scheme, credentials, tokens, redirects, retries.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderValue, RANGE, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use http::{Method, StatusCode};
use reqwest::Response;
use serde::Deserialize;
use tokio::time::{sleep, timeout};
use tracing::debug;
use url::Url;

use super::authorization::{Access, Authorizations};
use super::challenge;
use super::client::{Clients, Trust};
use super::config::{ConfigError, RegistryOptions};
use super::credential::{Credential, Credentials};
use super::endpoint::{Endpoint, Security};
use super::error::{Connection, Fault};
use super::limits::{DOCUMENT_TIMEOUT, MAX_ERROR_BYTES, MAX_RETRY_AFTER, RetryPolicy};
use super::pause::Pauses;

/// Speaks HTTP to registries; shared by all pulls.
#[derive(Debug)]
pub(super) struct Transport {
    pub(super) clients: Clients,
    credentials: ArcSwap<Credentials>,
    retry: RetryPolicy,
    authorizations: Authorizations,
    pauses: Pauses,
    /// What loopback and insecure endpoints turned out to speak.
    schemes: Mutex<BTreeMap<String, Scheme>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Https,
    Http,
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
            authorizations: Authorizations::default(),
            pauses: Pauses::default(),
            schemes: Mutex::default(),
        })
    }

    /// From now on these credentials are used; tokens got with others are forgotten.
    pub(super) fn set_credentials(&self, credentials: Credentials) {
        self.credentials.store(Arc::new(credentials));
        self.authorizations.forget_all();
        self.pauses.end_all();
    }

    /// Takes in changes of the CA directory.
    pub(super) fn refresh(&self) -> Result<(), ConfigError> {
        self.clients.refresh()
    }

    /// Where the credential for `endpoint` came from, if there is one.
    pub(super) fn credential_origin(&self, endpoint: &Endpoint) -> Option<String> {
        self.credential(endpoint).map(|found| found.origin)
    }

    /// Why pull secrets cannot be used.
    pub(super) fn unusable_secrets(&self) -> Vec<String> {
        self.credentials.load().problems().to_vec()
    }

    pub(super) fn credential(&self, endpoint: &Endpoint) -> Option<Credential> {
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
            if let Some(said) = self.pauses.current(endpoint) {
                return Err(said);
            }
            let fault = match self.try_send(endpoint, call).await {
                Ok(response) => return Ok(response),
                Err(fault) => fault,
            };
            tried += 1;
            if let Some(wait) = fault
                .asks_to_wait()
                .filter(|wait| *wait > self.retry.max_delay)
            {
                self.pauses.begin(endpoint, &fault, wait);
                return Err(fault);
            }
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
        let doubled = self
            .retry
            .first_delay
            .saturating_mul(1 << tried.saturating_sub(1).min(16));
        let delay = fault
            .asks_to_wait()
            .unwrap_or(doubled)
            .min(self.retry.max_delay);
        debug!(%fault, tried, ?delay, "registry request failed, trying again");
        sleep(delay).await;
        Ok(())
    }

    async fn try_send(&self, endpoint: &Endpoint, call: &Call<'_>) -> Result<Response, Fault> {
        let scheme = self.scheme(endpoint).await?;
        let known = self.authorizations.known(endpoint, call.access);
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
        self.authorizations
            .remember(endpoint, call.access, authorization);
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
            // A server of plain HTTP answers a TLS greeting with HTTP.
            Err(Fault::Connect(Connection::NotTls)) => Scheme::Http,
            // Some hang up instead, but so does a server that is just starting: nothing to remember.
            Err(Fault::Connect(Connection::Closed | Connection::Other) | Fault::Broken(_)) => {
                return Ok(Scheme::Http);
            }
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
pub(super) async fn checked(response: Response) -> Result<Response, Fault> {
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
    let retry_after = retry_after(response.headers());
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

/// How long the registry asks to wait: so many seconds, or until a moment, which is counted from the answer's own `Date`.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let moment = |text: &str| httpdate::parse_http_date(text).ok();
    let asked = text(RETRY_AFTER)?;
    let wait = match asked.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_no_number) => moment(asked)?
            .duration_since(moment(text(DATE)?)?)
            .unwrap_or_default(),
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

pub(super) fn trust(endpoint: &Endpoint) -> Trust {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each critical section is one operation of a map, so a poisoned one is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_says_in_seconds_or_by_a_date_how_long_to_wait() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (asked, expected) in [
            ("7", Some(7)),
            (" 7 ", Some(7)),
            ("Sun, 06 Nov 1994 08:49:49 GMT", Some(12)),
            ("Sunday, 06-Nov-94 08:49:49 GMT", Some(12)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("99999999", Some(MAX_RETRY_AFTER.as_secs())),
            (
                "Sun, 06 Nov 2044 08:49:49 GMT",
                Some(MAX_RETRY_AFTER.as_secs()),
            ),
            ("soon", None),
            ("-1", None),
        ] {
            let headers = HeaderMap::from_iter([
                (DATE, HeaderValue::from_static(date)),
                (RETRY_AFTER, HeaderValue::from_static(asked)),
            ]);
            assert_eq!(
                retry_after(&headers).map(|wait| wait.as_secs()),
                expected,
                "{asked}"
            );
        }
        let undated = [(RETRY_AFTER, HeaderValue::from_static(date))];
        assert_eq!(retry_after(&HeaderMap::from_iter(undated)), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
