//! Logging in: user name and password, or a token that a service gives for them.
//!
//! Follows the [token specification](https://distribution.github.io/distribution/spec/auth/token/). Tokens are kept until shortly
//! before they expire. A credential is sent to the registry and to the token service that it names, and nowhere else.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderValue};
use serde::Deserialize;
use tokio::time::Instant;
use url::Url;

use super::authorization::{Access, Authorization};
use super::challenge::Challenge;
use super::credential::Credential;
use super::endpoint::{Endpoint, Security};
use super::error::Fault;
use super::limits::{DEFAULT_TOKEN_LIFETIME, MAX_TOKEN_BYTES, TOKEN_MARGIN};
use super::transport::{Transport, checked, document, trust};

impl Transport {
    /// Meets one of `challenges`. `None` when no credential would change the answer.
    pub(super) async fn authorize(
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
}

fn default_scope(endpoint: &Endpoint, access: Access) -> String {
    let actions = match access {
        Access::Pull => "pull",
        Access::Push => "pull,push",
    };
    format!("repository:{}:{actions}", endpoint.path)
}

fn basic(credential: &Credential) -> Result<HeaderValue, Fault> {
    let pair = format!("{}:{}", credential.username, credential.password);
    let encoded = STANDARD.encode(pair);
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
