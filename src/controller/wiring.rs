//! Who is woken by what (D22 of the design: whatever can change an answer triggers it).

use std::sync::Arc;

use kube::Resource;
use kube::ResourceExt;
use serde::Serialize;

use crate::api::{ClusterCatalog, ClusterExtension, ClusterObjectSet, keys};
use crate::controller::cluster_extension::Orphaned;
use crate::controller::cluster_object_set::account::is_orphan;
use crate::controller::informer::{Change, Informer};
use crate::controller::queue::Queue;
use crate::controller::written::Written;
use crate::identity::accounts;
use crate::revision::{Account, has_rolled_out};

/// The queues of the three kinds.
#[derive(Debug, Clone)]
pub struct Queues {
    /// `ClusterCatalog`s.
    pub catalogs: Queue,
    /// `ClusterExtension`s.
    pub extensions: Queue,
    /// `ClusterObjectSet`s.
    pub sets: Queue,
    /// The statuses that come back.
    pub written: Written,
    /// The extensions that were deleted with `--cascade=orphan`.
    pub orphaned: Orphaned,
}

impl Queues {
    /// A catalog changed: it is looked at, and, if anything but its status did, every extension is, for any of them may
    /// select it now. A change of content is told by [`Self::content_changed`].
    pub fn catalog_changed(
        &self,
        change: &Change<ClusterCatalog>,
        extensions: Option<&Informer<ClusterExtension>>,
    ) {
        let (name, concerns_extensions) = match change {
            Change::Applied {
                old: Some(old),
                new,
            } => (new.name_any(), selection_differs(old, new)),
            Change::Applied { old: None, new } => (new.name_any(), true),
            Change::Deleted { old } => (old.name_any(), true),
        };
        self.catalogs.wake(&name);
        if concerns_extensions && let Some(extensions) = extensions {
            self.all_extensions(extensions);
        }
    }

    /// An extension changed: it is looked at, unless that is what we wrote into its status.
    pub fn extension_changed(&self, change: &Change<ClusterExtension>) {
        match change {
            Change::Applied {
                old: Some(old),
                new,
            } if is_all_but_status_same(old, new)
                && self.is_ours(new.as_ref(), new.status.as_ref()) => {}
            Change::Applied { new, .. } => self.extensions.wake(&new.name_any()),
            Change::Deleted { old } => self.written.forget(old.as_ref()),
        }
    }

    fn is_ours<K: Resource>(&self, object: &K, status: Option<&impl Serialize>) -> bool {
        status.is_some_and(|status| self.written.is_ours(object, status))
    }

    /// A revision changed: it is looked at, unless that is what we wrote into its status; and the extension that owns it is.
    pub fn set_changed(&self, change: &Change<ClusterObjectSet>) {
        let set: &Arc<ClusterObjectSet> = match change {
            Change::Applied { new, .. } => new,
            Change::Deleted { old } => old,
        };
        match change {
            Change::Applied {
                old: Some(old),
                new,
            } if is_all_but_set_status_same(old, new) => {
                if !self.is_ours(new.as_ref(), new.status.as_ref()) {
                    self.sets.wake(&new.name_any());
                    if has_rolled_out(old) && !has_rolled_out(new) {
                        // Somebody said that nothing is installed. The extension is told what the revision finds.
                        return;
                    }
                }
            }
            Change::Applied { new, .. } => self.sets.wake(&new.name_any()),
            Change::Deleted { old } => self.written.forget(old.as_ref()),
        }
        for owner in set
            .owner_references()
            .iter()
            .filter(|owner| owner.kind == ClusterExtension::kind(&()))
        {
            self.extensions.wake(&owner.name);
        }
        if let Some(owner) = set.labels().get(keys::OWNER_NAME) {
            self.extensions.wake(owner);
        }
    }

    /// The content of a catalog changed: the extensions whose package did are looked at.
    pub fn content_changed(
        &self,
        extensions: &Informer<ClusterExtension>,
        concerns: impl Fn(&str) -> bool,
    ) {
        for extension in extensions.all() {
            let package = extension
                .spec
                .source
                .catalog
                .as_ref()
                .map(|catalog| catalog.package_name.as_str());
            if package.is_some_and(&concerns) {
                self.extensions.wake(&extension.name_any());
            }
        }
    }

    /// Other credentials are in use: whoever pulls images may succeed now.
    pub fn credentials_changed(
        &self,
        catalogs: &Informer<ClusterCatalog>,
        extensions: Option<&Informer<ClusterExtension>>,
    ) {
        for catalog in catalogs.all() {
            self.catalogs.wake(&catalog.name_any());
        }
        if let Some(extensions) = extensions {
            self.all_extensions(extensions);
        }
    }

    /// An account appeared or went, or rights changed.
    pub fn account_changed(
        &self,
        change: &accounts::Change,
        extensions: &Informer<ClusterExtension>,
        sets: &Informer<ClusterObjectSet>,
    ) {
        // `Rights` is told beside it, to those that wait.
        if let accounts::Change::RightsOf(subject) = change {
            self.wake_sets(sets, |account| subject.contains(account));
            return;
        }
        let concerns = |account: Option<Account>| match (change, account) {
            (accounts::Change::Account(changed), Some(account)) => *changed == account,
            _ => true,
        };
        for extension in extensions
            .all()
            .iter()
            .filter(|extension| is_waiting(extension))
        {
            let account = extension.spec.service_account_name().map(|name| Account {
                namespace: extension.spec.namespace.clone(),
                name: name.to_owned(),
            });
            if concerns(account) {
                self.extensions.wake(&extension.name_any());
            }
        }
        for set in sets.all().iter().filter(|set| is_set_waiting(set)) {
            if concerns(Account::of(&set.metadata)) {
                self.sets.wake(&set.name_any());
            }
        }
        // What is installed notices that its account went.
        if let accounts::Change::Account(changed) = change {
            self.wake_sets(sets, |account| account == changed);
        }
    }

    /// The revisions of some accounts.
    fn wake_sets(&self, sets: &Informer<ClusterObjectSet>, concerns: impl Fn(&Account) -> bool) {
        for set in sets.all() {
            if Account::of(&set.metadata).is_some_and(|account| concerns(&account)) {
                self.sets.wake(&set.name_any());
            }
        }
    }

    /// Every extension.
    pub fn all_extensions(&self, extensions: &Informer<ClusterExtension>) {
        for extension in extensions.all() {
            self.extensions.wake(&extension.name_any());
        }
    }
}

/// Only what is not as it should be waits for an account or a right.
fn is_waiting(extension: &ClusterExtension) -> bool {
    use crate::api::condition::{ConditionType, is_true};
    extension
        .status
        .as_ref()
        .is_none_or(|status| !is_true(&status.conditions, ConditionType::Ready))
}

fn is_set_waiting(set: &ClusterObjectSet) -> bool {
    use crate::api::condition::{ConditionType, is_true};
    set.status
        .as_ref()
        .is_none_or(|status| !is_true(&status.conditions, ConditionType::Available))
        // Nobody else notices that its account is gone.
        || is_orphan(set)
}

fn selection_differs(old: &ClusterCatalog, new: &ClusterCatalog) -> bool {
    old.spec.priority != new.spec.priority
        || old.spec.availability_mode != new.spec.availability_mode
        || old.labels() != new.labels()
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
}

fn is_all_but_status_same(old: &ClusterExtension, new: &ClusterExtension) -> bool {
    metadata_is_same(old, new) && old.spec == new.spec
}

fn is_all_but_set_status_same(old: &ClusterObjectSet, new: &ClusterObjectSet) -> bool {
    metadata_is_same(old, new) && old.spec == new.spec
}

pub(super) fn metadata_is_same<K: Resource>(old: &K, new: &K) -> bool {
    let (old, new) = (old.meta(), new.meta());
    old.uid == new.uid
        && old.labels == new.labels
        && old.annotations == new.annotations
        && old.finalizers == new.finalizers
        && old.owner_references == new.owner_references
        && old.deletion_timestamp == new.deletion_timestamp
}
