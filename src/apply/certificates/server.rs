//! One server of webhooks, as its Secret says.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

use super::x509::{Authority, Certificate, authorities, usable};
use crate::api::keys;
use crate::apply::objects::Item;
use crate::render::serving::Serving;
use crate::revision::certificates::Held;

/// The keys of the Secret: what the Pods mount, and the CAs that callers trust.
pub(super) const CERTIFICATE: &str = "tls.crt";
pub(super) const KEY: &str = "tls.key";
pub(super) const BUNDLE: &str = "ca.crt";

/// One server, as it was found.
pub(super) struct Server<'a> {
    pub(super) serving: &'a Serving,
    pub(super) item: &'a Item,
    pub(super) live: Option<Value>,
    pub(super) bundle: Vec<Authority>,
    pub(super) certificate: Option<Certificate>,
}

impl<'a> Server<'a> {
    pub(super) fn of(
        serving: &'a Serving,
        item: &'a Item,
        live: Option<Value>,
        now: Timestamp,
    ) -> Self {
        let mut server = Self {
            serving,
            item,
            live: None,
            bundle: Vec::new(),
            certificate: None,
        };
        server.found(live, now);
        server
    }

    pub(super) fn found(&mut self, live: Option<Value>, now: Timestamp) {
        let text = |key| {
            let data = live.as_ref()?.get("data")?.get(key)?.as_str()?;
            STANDARD.decode(data).ok() // The API server gives nothing else.
        };
        let text = |key| text(key).unwrap_or_default();
        self.bundle = authorities(&text(BUNDLE), now);
        let hosts = &self.serving.hosts;
        self.certificate = usable(&text(CERTIFICATE), &text(KEY), &self.bundle, hosts, now);
        self.live = live;
    }

    /// The certificate and the CAs beside its own.
    pub(super) fn held(&self) -> Option<Held> {
        let certificate = self.certificate.as_ref()?;
        let others = self.bundle.iter().enumerate();
        Some(Held {
            issued: certificate.issued,
            expires: certificate.expires,
            rotation: self.rotation().map(str::to_owned),
            others: others
                .filter(|(place, _)| *place != certificate.authority)
                .map(|(_, authority)| authority.issued)
                .collect(),
        })
    }

    /// The demand for a rotation that the certificate was made for.
    pub(super) fn rotation(&self) -> Option<&str> {
        let metadata = self.live.as_ref()?.get("metadata")?;
        metadata
            .get("annotations")?
            .get(keys::ROTATE_CERTIFICATES)?
            .as_str()
    }

    /// The CA of the certificate alone.
    pub(super) fn own_authority(&self) -> Vec<Authority> {
        let place = self.certificate.as_ref().map(|found| found.authority);
        let own = place.and_then(|place| self.bundle.get(place));
        own.into_iter().cloned().collect()
    }

    /// The CAs that stay in the bundle when a renewal begins.
    pub(super) fn kept(&self, now: Timestamp) -> Vec<Authority> {
        let Some((held, certificate)) = self.held().zip(self.certificate.as_ref()) else {
            return self.bundle.clone();
        };
        let all = self.bundle.iter().enumerate();
        all.filter(|(place, authority)| {
            *place == certificate.authority || held.keeps(authority.issued, now)
        })
        .map(|(_, authority)| authority.clone())
        .collect()
    }
}
