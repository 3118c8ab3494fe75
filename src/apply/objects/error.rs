//! What could not be done to one object.

use crate::api::object::ObjectKey;
use crate::apply::discovery::DiscoveryError;
use crate::error::{Classify, DEAD_WEBHOOK, Disposition, chain};
use crate::identity::impersonation;
use crate::identity::request::RequestError;

/// Something could not be done to one object. The texts are the reference's.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// Its kind could not be looked up.
    #[error("reconciling object: reconciling {key}")]
    Discover {
        /// Which.
        key: Box<ObjectKey>,
        /// Why.
        #[source]
        source: DiscoveryError,
    },
    /// Its kind is not served.
    #[error(
        "reconciling object: reconciling {key}: no matches for kind {:?} in version {:?}",
        key.gvk.kind, key.gvk.api_version()
    )]
    UnknownKind {
        /// Which.
        key: Box<ObjectKey>,
    },
    /// A request was refused.
    #[error("reconciling object: reconciling {key}: {step}")]
    Request {
        /// Which.
        key: Box<ObjectKey>,
        /// What was attempted.
        step: Step,
        /// Why not.
        #[source]
        source: RequestError,
        /// The configuration of the webhook that should have been asked and does not answer, if the revision brings it itself.
        webhook: Option<Box<ObjectKey>>,
    },
    /// It lost its owner because its revision is being deleted with `--cascade=orphan`.
    #[error("reconciling object: reconciling {key}: its revision is being deleted")]
    Leaving {
        /// Which.
        key: Box<ObjectKey>,
    },
    /// It cannot be changed, and is to be made anew, but somebody's finalizers hold it.
    #[error(
        "reconciling object: reconciling {key}: it cannot be changed, so it is made anew; it is being deleted, and waits for {}",
        finalizers.join(", ")
    )]
    Held {
        /// Which.
        key: Box<ObjectKey>,
        /// What it waits for.
        finalizers: Vec<String>,
    },
    /// No certificate could be made for it.
    #[error("reconciling object: reconciling {key}: making a certificate")]
    Certificate {
        /// Which.
        key: Box<ObjectKey>,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// It changed each time that we looked.
    #[error("reconciling object: reconciling {key}: it is changed by somebody else all the time")]
    Restless {
        /// Which.
        key: Box<ObjectKey>,
    },
}

impl Classify for ObjectError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Discover { .. }
            | Self::UnknownKind { .. }
            | Self::Request { .. }
            | Self::Leaving { .. }
            | Self::Held { .. }
            | Self::Certificate { .. }
            | Self::Restless { .. } => Disposition::Retry,
        }
    }
}

impl ObjectError {
    /// What was said to the request, where one was answered otherwise than hoped.
    fn answer(&self) -> Option<&RequestError> {
        match self {
            Self::Request { source, .. } => Some(source),
            Self::Discover { .. }
            | Self::UnknownKind { .. }
            | Self::Leaving { .. }
            | Self::Held { .. }
            | Self::Certificate { .. }
            | Self::Restless { .. } => None,
        }
    }

    /// Whether the account lacks the right.
    pub fn is_forbidden(&self) -> bool {
        self.answer().is_some_and(RequestError::is_forbidden)
    }

    /// Whether the account lacks the right, as the API server sees it now: one that has just started knows no roles yet.
    pub fn is_lacking(&self) -> bool {
        self.answer().is_some_and(RequestError::is_lacking)
    }

    /// Whether the API server answered.
    pub fn is_answered(&self) -> bool {
        self.refusal().is_some() && !self.is_unimpersonated()
    }

    /// What the API server said, where it said no.
    pub(super) fn refusal(&self) -> Option<&str> {
        match self.answer() {
            Some(RequestError::Refused(status)) => Some(&status.message),
            _ => None,
        }
    }

    /// The name of the webhook that did not answer, where the API server refused the object for that.
    pub fn dead_webhook(&self) -> Option<&str> {
        let (_, rest) = self.refusal()?.split_once(DEAD_WEBHOOK)?;
        rest.split('"').next()
    }

    /// The object that has to be deleted first: this one, where it is there and cannot become what it should be, since some of
    /// its fields never change, or where it is being deleted for that; or the configuration of a webhook of its own that does not answer.
    pub fn obstacle(&self) -> Option<&ObjectKey> {
        match self {
            Self::Request {
                webhook: Some(webhook),
                ..
            } => Some(&**webhook),
            Self::Held { key, .. } => Some(&**key),
            Self::Request {
                key,
                step: Step::Update | Step::Adopt,
                source,
                ..
            } if source.is_invalid() => Some(&**key),
            _ => None,
        }
    }

    /// Whether a field is to change that never does.
    pub(super) fn is_frozen(&self) -> bool {
        let refusal = self.refusal().unwrap_or_default();
        FROZEN.iter().any(|words| refusal.contains(words))
    }

    /// What lets the object become what it should be, where the API server never changes it so; nothing where all that is
    /// below the object would go with it.
    fn remedy(&self) -> Option<String> {
        let key = self.obstacle()?;
        let command = delete_command(key);
        if matches!(
            self,
            Self::Request {
                webhook: Some(_),
                ..
            }
        ) {
            return Some(format!(
                "the webhook is one of the extension's own; once its configuration is deleted, the rollout goes on, and makes it \
                 anew: {command}"
            ));
        }
        if key.gvk.is_crd() || !self.is_frozen() {
            return None;
        }
        let (caution, how) = match (key.gvk.group.as_str(), key.gvk.kind.as_str()) {
            ("apps", "StatefulSet") => (" (its Pods stay)", " --cascade=orphan"),
            ("", "PersistentVolumeClaim" | "PersistentVolume") => {
                (" (its data may go with it)", "")
            }
            ("", "Secret" | "ConfigMap") => (" (save what others keep in it first)", ""),
            _ => ("", ""),
        };
        Some(format!(
            "once it is deleted, {} {} is made anew as it should be{caution}: {command}{how}",
            key.gvk, key.name
        ))
    }

    /// Whether nobody may act as the account: then no request gets through.
    pub fn is_unimpersonated(&self) -> bool {
        self.answer().is_some_and(impersonation::is_refused)
    }

    /// Whether a conversion webhook does not answer: then no request about a custom resource gets through.
    pub fn is_failed_conversion(&self) -> bool {
        self.answer()
            .is_some_and(RequestError::is_failed_conversion)
    }
}

/// How API servers say that a field never changes.
const FROZEN: &[&str] = &[
    "immutable",
    "cannot change roleRef",
    "may not be changed",
    "may not change once set",
    "may not change fields other than",
    "Forbidden: updates to ",
];

/// What deletes an object.
fn delete_command(key: &ObjectKey) -> String {
    let ObjectKey {
        gvk,
        namespace,
        name,
    } = key;
    let kind = if gvk.group.is_empty() {
        gvk.kind.clone()
    } else {
        format!("{}.{}.{}", gvk.kind, gvk.version, gvk.group)
    };
    let place = if namespace.is_empty() {
        String::new()
    } else {
        format!(" --namespace {namespace}")
    };
    format!("kubectl delete {kind} {name}{place}")
}

/// Everything that could not be done, one object a line, each followed by what helps, if that is known.
pub fn texts(errors: &[ObjectError]) -> String {
    // Who may not act as the account may not for any object: once says it all.
    let unimpersonated = errors.iter().filter(|error| error.is_unimpersonated());
    let others = errors.iter().filter(|error| !error.is_unimpersonated());
    let told = unimpersonated.take(1).chain(others);
    let told = told.flat_map(|error| [Some(chain(error)), error.remedy()]);
    let texts: Vec<String> = told.flatten().collect();
    texts.join("\n")
}

/// A request about one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is read.
    Read,
    /// It is created.
    Create,
    /// It is asked whether it could be created anew, since it cannot be changed.
    Renew,
    /// Its fields are made ours after it was created.
    Claim,
    /// Its revision is read again before it is taken back.
    Confirm,
    /// It is ours and applied.
    Update,
    /// It was not ours and is applied.
    Adopt,
    /// A certificate, or whom to trust, is written into it.
    Certify,
    /// We are taken out of its owners.
    Disown,
    /// It is deleted.
    Delete,
    /// The resources of a CRD are looked for.
    Count,
    /// Who answers its webhooks is looked for.
    Endpoints,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read => "getting resource",
            Self::Create => "creating resource",
            Self::Renew => "it cannot be changed, so it is to be deleted and made anew, and that would be refused",
            Self::Claim => "migrating managed fields",
            Self::Confirm => "reading its revision",
            Self::Update => "patching (modified)",
            Self::Adopt => "patching (owner change)",
            Self::Certify => "writing webhook certificates",
            Self::Disown => "removing owner",
            Self::Delete => "deleting resource",
            Self::Count => "listing custom resources",
            Self::Endpoints => "listing endpoints of its webhooks",
        })
    }
}
