//! The certificates of webhooks that oxolm makes itself, as the account: a Secret for whoever serves them, and
//! `caBundle` fields for whoever calls them.
//!
//! When something is due, and in which order, is [`crate::revision::certificates`]'s to say. The bundle of CAs stands in
//! the Secret beside the certificate, so that the callers can be put right from it. The metadata of the Secret, and
//! whether it is ours at all, is the engine's: to it the Secret is an object of the revision like any other, which this
//! module fills. A field manager of its own keeps the engine from taking away what is written here.

pub mod release;
mod server;
mod x509;

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::{Map, Value, json};
use tracing::info;

use self::server::{BUNDLE, CERTIFICATE, KEY, Server};
use self::x509::{Authority, Made, authorities, make};
use crate::api::keys;
use crate::api::object::ObjectKey;
use crate::apply::content::{Content, Read, ReadObjects};
use crate::apply::objects::{ObjectError, Objects, Step, is_leaving, metadata_of};
use crate::render::serving::{Caller, trusted, trusting};
use crate::revision::certificates::{ARRIVES, Due, Wanted, due};
use crate::revision::collision::Standing;
use crate::revision::compare::is_apply_of;

/// How long after the callers were told of a CA the Secret is written: API servers learn of changed webhooks by a watch.
pub const TOLD: Duration = Duration::from_secs(5);

/// The certificates of one revision.
pub(super) struct Certificates<'a> {
    pub(super) objects: &'a Objects<'a>,
    pub(super) wanted: Wanted<'a>,
    /// How long callers know a CA before its certificate is in use.
    pub(super) ahead: Duration,
    pub(super) now: Timestamp,
}

/// How the certificates of a revision were left.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Certified {
    /// When there is something to do again, if there are certificates at all.
    pub until: Option<Timestamp>,
    /// The Secrets that got a certificate in place of another one.
    pub renewed: Vec<ObjectKey>,
    bundles: Bundles,
}

/// What callers have to trust.
#[derive(Debug, Clone, Default, PartialEq)]
struct Bundles {
    /// By Secret: the CAs as a `caBundle` field has them.
    known: BTreeMap<ObjectKey, String>,
    callers: Vec<(Caller, ObjectKey)>,
}

impl Certified {
    /// The same for a pass that did nothing.
    pub(super) fn as_left(&self) -> Self {
        Self {
            renewed: Vec::new(),
            ..self.clone()
        }
    }

    /// Writes into `live`, an object of the revision as it stands now, whom it is to trust, if it is a caller and does
    /// not yet; the answer is the object afterwards, if it was written.
    ///
    /// # Errors
    /// When the API server refuses.
    pub(super) async fn tell(
        &self,
        objects: &Objects<'_>,
        key: &ObjectKey,
        live: &Value,
    ) -> Result<Option<Value>, ObjectError> {
        let Some(fields) = self.bundles.missing(key, live) else {
            return Ok(None);
        };
        let uid = live.pointer("/metadata/uid").cloned();
        let metadata = Map::from_iter([("uid".to_owned(), json!(uid))]);
        let patch = partial(key, metadata, fields);
        write(objects, key, patch).await.map(Some)
    }
}

impl Bundles {
    fn know(&mut self, secret: &ObjectKey, bundle: &[Authority]) {
        self.known
            .insert(secret.clone(), STANDARD.encode(pem_of(bundle)));
    }

    /// All fields of the caller `key` that say whom it trusts, if one of them is not as it is to be.
    fn missing(&self, key: &ObjectKey, live: &Value) -> Option<Map<String, Value>> {
        let own = self.callers.iter().filter(|(caller, _)| caller.key == *key);
        let wanted: Vec<(Option<String>, String)> = own
            .filter_map(|(caller, secret)| {
                Some((caller.webhook.clone(), self.known.get(secret)?.clone()))
            })
            .collect();
        let is_told = |(webhook, bundle): &(Option<String>, String)| {
            trusted(live, webhook.as_deref()) == Some(bundle)
        };
        (!wanted.iter().all(is_told)).then(|| trusting(&wanted))
    }
}

impl Certificates<'_> {
    /// Does what is due. `read`: objects as they were read or written in this pass.
    ///
    /// # Errors
    /// When an object could not be read or written. The next pass begins again.
    pub(super) async fn keep(
        &self,
        content: &Content,
        read: &mut ReadObjects,
    ) -> Result<Certified, ObjectError> {
        let mut certified = Certified::default();
        let mut servers = Vec::new();
        for serving in &content.servings {
            let Some(item) = content.item(&serving.secret) else {
                continue;
            };
            let live = self.read(&serving.secret, read).await?;
            let standing = live.as_ref().map(|live| self.objects.standing(item, live));
            // What another revision, or somebody else, has is not ours to look at; the engine will say so.
            if matches!(
                standing,
                Some(Standing::Progressed | Standing::Collision(_))
            ) {
                continue;
            }
            let server = Server::of(serving, item, live, self.now);
            let bundles = &mut certified.bundles;
            let callers = serving.callers.iter().cloned();
            bundles
                .callers
                .extend(callers.map(|caller| (caller, serving.secret.clone())));
            if !server.bundle.is_empty() {
                bundles.know(&serving.secret, &server.bundle);
            }
            servers.push((server, standing));
        }
        for (server, standing) in &mut servers {
            let until = match standing {
                None | Some(Standing::Own) if !server.live.as_ref().is_some_and(is_leaving) => {
                    self.keep_one(content, server, &mut certified, read).await?
                }
                // The engine takes it over first.
                _ => match self.due(server) {
                    Due::Nothing(until) => until,
                    Due::Renewal | Due::Removal => self.now,
                },
            };
            certified.until = Some(certified.until.map_or(until, |other| other.min(until)));
        }
        Ok(certified)
    }

    fn due(&self, server: &Server<'_>) -> Due {
        due(server.held().as_ref(), self.wanted, self.now)
    }

    /// Does what is due for one server; until when that is enough.
    async fn keep_one(
        &self,
        content: &Content,
        server: &mut Server<'_>,
        certified: &mut Certified,
        read: &mut ReadObjects,
    ) -> Result<Timestamp, ObjectError> {
        match self.due(server) {
            Due::Renewal => {
                let had_one = server.live.is_some();
                self.renew(content, server, certified, read).await?;
                let secret = &server.serving.secret;
                if had_one {
                    certified.renewed.push(secret.clone());
                }
                info!(secret = %secret, "made a webhook certificate");
            }
            Due::Removal => {
                let bundle = server.own_authority();
                self.fill(server, &[(BUNDLE, pem_of(&bundle))], read)
                    .await?;
                certified.bundles.know(&server.serving.secret, &bundle);
                self.tell(content, server, certified, read).await?;
            }
            Due::Nothing(_) => {
                // The process ended between the creation of the Secret and our hold on what is in it.
                if !is_held(server.live.as_ref()) {
                    self.fill(server, &[], read).await?;
                }
            }
        }
        Ok(match self.due(server) {
            Due::Nothing(until) => until,
            Due::Renewal | Due::Removal => later(self.now),
        })
    }

    /// Makes a CA and a certificate: first the callers trust the CA, then the Secret gets the certificate.
    async fn renew(
        &self,
        content: &Content,
        server: &mut Server<'_>,
        certified: &mut Certified,
        read: &mut ReadObjects,
    ) -> Result<(), ObjectError> {
        let secret = &server.serving.secret;
        let made =
            make(&server.serving.hosts, self.now).map_err(|source| ObjectError::Certificate {
                key: Box::new(secret.clone()),
                source,
            })?;
        let mut bundle = server.kept(self.now);
        if server.certificate.is_none() {
            // Whoever took the Secret away did not stop the Pods, which still serve what it held.
            bundle.extend(self.trusted(server, read).await?);
        }
        bundle.extend(authorities(made.authority.as_bytes(), self.now));
        bundle.sort_by(|one, other| (one.issued, &one.pem).cmp(&(other.issued, &other.pem)));
        bundle.dedup();
        let pem = pem_of(&bundle);
        if server.certificate.is_some() {
            // Where callers are that this revision does not know, it can be read.
            self.fill(server, &[(BUNDLE, pem.clone())], read).await?;
        }
        certified.bundles.know(secret, &bundle);
        if self.tell(content, server, certified, read).await? {
            tokio::time::sleep(self.ahead).await;
        }
        let Made {
            certificate, key, ..
        } = made;
        let data = [(BUNDLE, pem), (CERTIFICATE, certificate), (KEY, key)];
        if server.live.is_none() {
            self.create(server, &data, read).await?;
        }
        self.fill_anew(server, &data, read).await
    }

    /// The CAs that the callers of a server trust as things stand.
    async fn trusted(
        &self,
        server: &Server<'_>,
        read: &mut ReadObjects,
    ) -> Result<Vec<Authority>, ObjectError> {
        let mut found = Vec::new();
        for caller in &server.serving.callers {
            let live = self.read(&caller.key, read).await?;
            let bundle = live
                .as_ref()
                .and_then(|live| trusted(live, caller.webhook.as_deref()));
            // The API server gives nothing else than base64.
            let pem = bundle.and_then(|bundle| STANDARD.decode(bundle).ok());
            found.extend(authorities(&pem.unwrap_or_default(), self.now));
        }
        Ok(found)
    }

    /// Tells the callers of a server that are there, and ours, whom to trust; whether any was told something new.
    async fn tell(
        &self,
        content: &Content,
        server: &Server<'_>,
        certified: &Certified,
        read: &mut ReadObjects,
    ) -> Result<bool, ObjectError> {
        let mut was_told = false;
        for caller in &server.serving.callers {
            let Some(live) = self.read(&caller.key, read).await? else {
                continue;
            };
            let standing = content
                .item(&caller.key)
                .map(|item| self.objects.standing(item, &live));
            if standing != Some(Standing::Own) || is_leaving(&live) {
                continue;
            }
            if let Some(told) = certified.tell(self.objects, &caller.key, &live).await? {
                read.insert(caller.key.clone(), Read(Some(told)));
                was_told = true;
            }
        }
        Ok(was_told)
    }

    /// Creates the Secret, whole, as an object of the revision.
    async fn create(
        &self,
        server: &mut Server<'_>,
        data: &[(&str, String)],
        read: &mut ReadObjects,
    ) -> Result<(), ObjectError> {
        let mut item = server.item.clone();
        if let Some(object) = item.object.as_object_mut() {
            object.insert("data".to_owned(), encoded(data));
        }
        let created = self.objects.post(&item).await?;
        server.found(Some(created.clone()), self.now);
        read.insert(item.key, Read(Some(created)));
        Ok(())
    }

    /// Writes the certificate, and which demand it was made for.
    async fn fill_anew(
        &self,
        server: &mut Server<'_>,
        data: &[(&str, String)],
        read: &mut ReadObjects,
    ) -> Result<(), ObjectError> {
        let rotation = self.wanted.rotation.or(server.rotation());
        let rotation = rotation.map(str::to_owned);
        self.write(server, encoded(data), rotation, read).await
    }

    /// Writes what the Secret holds, changed by `data`.
    async fn fill(
        &self,
        server: &mut Server<'_>,
        data: &[(&str, String)],
        read: &mut ReadObjects,
    ) -> Result<(), ObjectError> {
        let live = server.live.as_ref().and_then(|live| live.get("data"));
        let mut all = Map::new();
        for key in [CERTIFICATE, KEY, BUNDLE] {
            if let Some(value) = live.and_then(|live| live.get(key)) {
                all.insert(key.to_owned(), value.clone());
            }
        }
        if let Value::Object(changed) = encoded(data) {
            all.extend(changed);
        }
        let rotation = server.rotation().map(str::to_owned);
        self.write(server, Value::Object(all), rotation, read).await
    }

    async fn write(
        &self,
        server: &mut Server<'_>,
        data: Value,
        rotation: Option<String>,
        read: &mut ReadObjects,
    ) -> Result<(), ObjectError> {
        let key = &server.serving.secret;
        let seen = server.live.as_ref().map(metadata_of).unwrap_or_default();
        let mut metadata = Map::from_iter([
            ("uid".to_owned(), json!(seen.uid)),
            ("resourceVersion".to_owned(), json!(seen.resource_version)),
        ]);
        if let Some(rotation) = rotation {
            let annotations = json!({keys::ROTATE_CERTIFICATES: rotation});
            metadata.insert("annotations".to_owned(), annotations);
        }
        let fields = Map::from_iter([("data".to_owned(), data)]);
        let written = write(self.objects, key, partial(key, metadata, fields)).await?;
        read.insert(key.clone(), Read(Some(written.clone())));
        server.found(Some(written), self.now);
        Ok(())
    }

    /// An object as this pass saw it last.
    async fn read(
        &self,
        key: &ObjectKey,
        read: &mut ReadObjects,
    ) -> Result<Option<Value>, ObjectError> {
        if let Some(Read(known)) = read.get(key) {
            return Ok(known.clone());
        }
        let found = self.objects.read(key).await?;
        read.insert(key.clone(), Read(found.clone()));
        Ok(found)
    }
}

/// Applies a part of an object that exists, as the manager of certificates.
async fn write(
    objects: &Objects<'_>,
    key: &ObjectKey,
    object: Value,
) -> Result<Value, ObjectError> {
    let manager = keys::FIELD_MANAGER_WEBHOOK_CERTIFICATES;
    let parameters = PatchParams::apply(manager).force();
    objects
        .patch(key, Step::Certify, &parameters, &Patch::Apply(object))
        .await
}

/// The part of an object that `fields` are.
fn partial(key: &ObjectKey, metadata: Map<String, Value>, fields: Map<String, Value>) -> Value {
    let mut metadata = metadata;
    metadata.insert("name".to_owned(), json!(key.name));
    let mut object = fields;
    object.insert("apiVersion".to_owned(), json!(key.gvk.api_version()));
    object.insert("kind".to_owned(), json!(key.gvk.kind));
    object.insert("metadata".to_owned(), Value::Object(metadata));
    Value::Object(object)
}

fn encoded(data: &[(&str, String)]) -> Value {
    data.iter()
        .map(|(key, text)| ((*key).to_owned(), json!(STANDARD.encode(text))))
        .collect()
}

fn pem_of(bundle: &[Authority]) -> String {
    bundle
        .iter()
        .map(|authority| authority.pem.as_str())
        .collect()
}

/// Whether what the Secret holds is held by our manager, so that the engine does not take it away.
fn is_held(live: Option<&Value>) -> bool {
    let metadata = live.map(metadata_of).unwrap_or_default();
    let mut entries = metadata.managed_fields.iter().flatten();
    entries.any(|entry| is_apply_of(entry, keys::FIELD_MANAGER_WEBHOOK_CERTIFICATES))
}

fn later(now: Timestamp) -> Timestamp {
    now.saturating_add(ARRIVES).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
