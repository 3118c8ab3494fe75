//! May this revision write this object? The decision table for an object that exists already.
//!
//! The table is the reference's (boxcutter, `machinery/objects.go`), by the controller that the object names:
//!
//! | the object's controller | `Prevent` | `IfNoController` | `None` |
//! |---|---|---|---|
//! | this revision | maintain | maintain | maintain |
//! | a sibling of a lower number | adopt | adopt | adopt |
//! | a sibling of a higher number | progressed | progressed | progressed |
//! | a sibling of the same number | collision | collision | collision |
//! | somebody else | collision | collision | adopt |
//! | nobody, this revision among the owners | adopt | adopt | adopt |
//! | nobody, with the mark of a revision | collision | collision | collision |
//! | nobody | collision | adopt | adopt |
//!
//! Differs from the reference in four ways. `None` takes an object from another revision once: who lost it to one since
//! meets it as with `IfNoController`, or two would take it from each other for ever. An object without controller that
//! names this revision among its owners is taken back, whoever's marks it carries: who took it has let go of it. So is one
//! that carries the marks of this very extension (owner, package), or of this very revision of nobody (name, account): it
//! was restored from a backup, or orphaned. And CRDs carry no owner reference, so that nothing but our own teardown deletes
//! them; whose they are stands in the annotation [`keys::OWNER`], and that takes the place of the controller in the table.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::{Deserialize, Serialize};

use crate::api::cluster_object_set::CollisionProtection;
use crate::api::keys;
use crate::api::object::Gvk;
use crate::revision::name::label_value;

/// Whose objects these are: what stays the same over all revisions of one extension.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    /// The name of the `ClusterExtension`; empty for a revision that somebody wrote by hand.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub extension: String,
    /// The package; empty when unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub package: String,
    /// The namespace that the extension is installed in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The account that applies, `namespace/name`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub account: String,
}

impl Family {
    /// Whether both are one. A revision without owner knows its extension by a label alone, which holds a hash where the
    /// name is long.
    fn is_same(&self, other: &Self) -> bool {
        let Self {
            extension,
            package,
            namespace,
            account,
        } = self;
        label_value(extension) == label_value(&other.extension)
            && (package, namespace, account) == (&other.package, &other.namespace, &other.account)
    }
}

/// The value of [`keys::OWNER`], on a CRD or an object of a revision by hand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrdOwner {
    /// The family of the revision.
    #[serde(flatten)]
    pub family: Family,
    /// The name of the `ClusterObjectSet` that applied last.
    pub revision: String,
}

impl CrdOwner {
    /// Reads the mark of a CRD; a mark that cannot be read is none.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let text = metadata.annotations.as_ref()?.get(keys::OWNER)?;
        serde_json::from_str(text).ok() // Whoever broke the mark made the CRD nobody's.
    }
}

/// Another active revision of the same extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sibling {
    /// Its UID.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// Its number.
    pub revision: i64,
}

/// The revision that wants to write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claim {
    /// The UID of the `ClusterObjectSet`.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// Its number.
    pub revision: i64,
    /// Whose it is.
    pub family: Family,
    /// The other active revisions of the same extension.
    pub siblings: Vec<Sibling>,
}

/// What may be done to an object that exists.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// It is this revision's: keep it as it should be.
    Own,
    /// It may be taken over.
    Adopt,
    /// A later revision has it: hands off.
    Progressed,
    /// It is somebody else's.
    Collision(Box<Conflict>),
}

/// Whose object it is instead.
#[derive(Debug, Clone, PartialEq)]
pub enum Conflict {
    /// This controller's.
    Controller(OwnerReference),
    /// The owner that a CRD's mark names.
    CrdOwner(CrdOwner),
    /// The same, where that owner is gone: the CRD was kept.
    FormerCrdOwner(CrdOwner),
    /// Nobody's, but the object was not made by this extension either.
    Nobody,
}

/// Decides what `claim` may do to an existing object of kind `gvk` with `metadata`.
///
/// `lives` tells whether the owner that a CRD's mark names still exists: a CRD that was kept when its extension
/// was uninstalled is nobody's.
pub fn decide(
    claim: &Claim,
    gvk: &Gvk,
    metadata: &ObjectMeta,
    protection: CollisionProtection,
    lives: &dyn Fn(&CrdOwner) -> bool,
) -> Standing {
    if let Some(controller) = controller_of(metadata) {
        return by_controller(claim, controller, protection);
    }
    if gvk.is_crd()
        && let Some(owner) = CrdOwner::of(metadata)
    {
        return by_mark(claim, owner, protection, lives);
    }
    if claim.recognizes(metadata) {
        let number = revision_of(metadata);
        let is_later_siblings = |sibling: &Sibling| {
            sibling.revision > claim.revision && Some(sibling.revision) == number
        };
        return if claim.siblings.iter().any(is_later_siblings) {
            Standing::Progressed
        } else {
            Standing::Adopt
        };
    }
    if is_owned(claim, metadata) {
        return Standing::Adopt;
    }
    let is_marked = annotation(metadata, keys::REVISION).is_some();
    match protection {
        CollisionProtection::IfNoController | CollisionProtection::None if !is_marked => {
            Standing::Adopt
        }
        CollisionProtection::Prevent
        | CollisionProtection::IfNoController
        | CollisionProtection::None => collision(Conflict::Nobody),
    }
}

/// The controlling owner reference.
pub fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true))
}

/// The number of the revision that applied an object last.
pub fn revision_of(metadata: &ObjectMeta) -> Option<i64> {
    annotation(metadata, keys::REVISION)?.parse().ok() // Not a number: not ours.
}

/// Whether the revision is among the owners of an object, its controller or not.
pub fn is_owned(claim: &Claim, metadata: &ObjectMeta) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.uid == claim.uid)
}

/// Whether a CRD is that of any revision of this extension.
pub fn is_family_crd(claim: &Claim, gvk: &Gvk, metadata: &ObjectMeta) -> bool {
    family_mark(claim, gvk, metadata).is_some()
}

/// The mark of a CRD, if it is this extension's.
fn family_mark(claim: &Claim, gvk: &Gvk, metadata: &ObjectMeta) -> Option<CrdOwner> {
    let owner = gvk.is_crd().then(|| CrdOwner::of(metadata)).flatten();
    owner.filter(|owner| owner.family.is_same(&claim.family))
}

/// Whether nobody controls an object that carries the marks of one of these revisions of the extension.
pub fn is_let_go(claim: &Claim, revisions: &[i64], metadata: &ObjectMeta) -> bool {
    let is_one = || revision_of(metadata).is_some_and(|number| revisions.contains(&number));
    controller_of(metadata).is_none() && claim.recognizes(metadata) && is_one()
}

/// Whether `claim` is who controls an existing object: by owner reference, of a CRD by its mark; or its owner, where nobody
/// controls it any more.
pub fn is_own(claim: &Claim, gvk: &Gvk, metadata: &ObjectMeta) -> bool {
    if let Some(controller) = controller_of(metadata) {
        return controller.uid == claim.uid;
    }
    let is_this = |owner: CrdOwner| owner.revision == claim.name;
    is_owned(claim, metadata) || family_mark(claim, gvk, metadata).is_some_and(is_this)
}

/// The revision that an existing object of the extension is of instead, by what it says: the UID, which a CRD does not tell,
/// and the name.
pub fn other_revision(
    claim: &Claim,
    gvk: &Gvk,
    metadata: &ObjectMeta,
) -> Option<(Option<String>, String)> {
    if let Some(controller) = controller_of(metadata) {
        let is_revision = controller.kind == "ClusterObjectSet";
        return is_revision.then(|| (Some(controller.uid.clone()), controller.name.clone()));
    }
    Some((None, family_mark(claim, gvk, metadata)?.revision))
}

fn by_controller(
    claim: &Claim,
    controller: &OwnerReference,
    protection: CollisionProtection,
) -> Standing {
    if controller.uid == claim.uid {
        return Standing::Own;
    }
    let sibling = claim
        .siblings
        .iter()
        .find(|sibling| sibling.uid == controller.uid);
    match sibling.map(|sibling| sibling.revision.cmp(&claim.revision)) {
        Some(std::cmp::Ordering::Less) => Standing::Adopt,
        Some(std::cmp::Ordering::Greater) => Standing::Progressed,
        Some(std::cmp::Ordering::Equal) => collision(Conflict::Controller(controller.clone())),
        None => match protection {
            CollisionProtection::None => Standing::Adopt,
            CollisionProtection::Prevent | CollisionProtection::IfNoController => {
                collision(Conflict::Controller(controller.clone()))
            }
        },
    }
}

fn by_mark(
    claim: &Claim,
    owner: CrdOwner,
    protection: CollisionProtection,
    lives: &dyn Fn(&CrdOwner) -> bool,
) -> Standing {
    let is_family = owner.family.is_same(&claim.family);
    if is_family && owner.revision == claim.name {
        return Standing::Own;
    }
    let mut siblings = claim.siblings.iter();
    let sibling = siblings.find(|sibling| sibling.name == owner.revision);
    if is_family && (sibling.is_some() || !claim.is_by_hand()) {
        return match sibling.map(|sibling| sibling.revision.cmp(&claim.revision)) {
            Some(std::cmp::Ordering::Greater) => Standing::Progressed,
            Some(std::cmp::Ordering::Equal) => collision(Conflict::CrdOwner(owner)),
            Some(std::cmp::Ordering::Less) | None => Standing::Adopt,
        };
    }
    match protection {
        CollisionProtection::None => Standing::Adopt,
        CollisionProtection::IfNoController if !lives(&owner) => Standing::Adopt,
        CollisionProtection::Prevent if !lives(&owner) => {
            collision(Conflict::FormerCrdOwner(owner))
        }
        CollisionProtection::Prevent | CollisionProtection::IfNoController => {
            collision(Conflict::CrdOwner(owner))
        }
    }
}

impl Claim {
    /// Whether somebody wrote the revision by hand: it belongs to no extension.
    pub fn is_by_hand(&self) -> bool {
        self.family.extension.is_empty()
    }

    /// Whether an object without controller carries the marks of this extension, owner and package; or the mark of this
    /// very revision, where it belongs to none.
    pub fn recognizes(&self, metadata: &ObjectMeta) -> bool {
        if self.is_by_hand() {
            let is_this = |owner: &CrdOwner| {
                owner.revision == self.name && owner.family.is_same(&self.family)
            };
            return CrdOwner::of(metadata).as_ref().is_some_and(is_this);
        }
        let label = |key| {
            metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(key))
                .map(String::as_str)
        };
        !self.family.package.is_empty()
            && label(keys::MANAGED_BY) == Some(keys::MANAGED_BY_OLM)
            && label(keys::OWNER_KIND) == Some(keys::OWNER_KIND_CLUSTER_EXTENSION)
            && label(keys::OWNER_NAME) == Some(label_value(&self.family.extension).as_str())
            && annotation(metadata, keys::PACKAGE_NAME) == Some(self.family.package.as_str())
            && annotation(metadata, keys::REVISION).is_some()
    }
}

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn collision(conflict: Conflict) -> Standing {
    Standing::Collision(Box::new(conflict))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use CollisionProtection::{IfNoController, None as Any, Prevent};

    fn claim() -> Claim {
        Claim {
            uid: "u3".into(),
            name: "e-3".into(),
            revision: 3,
            family: Family {
                extension: "e".into(),
                package: "p".into(),
                namespace: "n".into(),
                account: "n/a".into(),
            },
            siblings: [("u2", "e-2", 2), ("u4", "e-4", 4), ("same", "e-x", 3)]
                .map(|(uid, name, revision)| Sibling {
                    uid: uid.into(),
                    name: name.into(),
                    revision,
                })
                .into(),
        }
    }

    fn metadata(value: serde_json::Value) -> ObjectMeta {
        serde_json::from_value(value).unwrap()
    }

    fn controlled_by(uid: &str) -> ObjectMeta {
        metadata(json!({"ownerReferences": [
            {"apiVersion": "v1", "kind": "Old", "name": "old", "uid": "u3", "controller": false},
            {"apiVersion": "v1", "kind": "K", "name": "k", "uid": uid, "controller": true},
        ]}))
    }

    fn word(standing: &Standing) -> &'static str {
        match standing {
            Standing::Own => "own",
            Standing::Adopt => "adopt",
            Standing::Progressed => "progressed",
            Standing::Collision(_) => "collision",
        }
    }

    #[track_caller]
    fn check(kind: &Gvk, metadata: &ObjectMeta, expected: [&str; 3], lives: bool) {
        let decided = [Prevent, IfNoController, Any]
            .map(|protection| word(&decide(&claim(), kind, metadata, protection, &|_| lives)));
        assert_eq!(decided, expected, "{metadata:?}");
    }

    #[test]
    fn the_controller_decides() {
        let kind = Gvk::new("v1", "ConfigMap");
        check(&kind, &controlled_by("u3"), ["own"; 3], true);
        check(&kind, &controlled_by("u2"), ["adopt"; 3], true);
        check(&kind, &controlled_by("u4"), ["progressed"; 3], true);
        check(&kind, &controlled_by("same"), ["collision"; 3], true);
        check(
            &kind,
            &controlled_by("other"),
            ["collision", "collision", "adopt"],
            true,
        );
        check(
            &kind,
            &ObjectMeta::default(),
            ["collision", "adopt", "adopt"],
            true,
        );
        let orphan = metadata(json!({"annotations": {keys::REVISION: "1"}}));
        check(&kind, &orphan, ["collision"; 3], true);
    }

    #[test]
    fn what_carries_the_marks_of_this_extension_is_taken_back() {
        let kind = Gvk::new("v1", "ConfigMap");
        let restored = |name: &str, package: &str, revision: &str| {
            metadata(json!({
                "labels": {keys::MANAGED_BY: keys::MANAGED_BY_OLM, keys::OWNER_KIND: "ClusterExtension", keys::OWNER_NAME: name},
                "annotations": {keys::PACKAGE_NAME: package, keys::REVISION: revision},
            }))
        };
        check(&kind, &restored("e", "p", "3"), ["adopt"; 3], true);
        check(&kind, &restored("e", "p", "9"), ["adopt"; 3], true);
        check(&kind, &restored("e", "p", "4"), ["progressed"; 3], true);
        check(&kind, &restored("other", "p", "3"), ["collision"; 3], true);
        check(&kind, &restored("e", "other", "3"), ["collision"; 3], true);
        // Who took it from us let go of it.
        let mut let_go = restored("other", "p", "3");
        let_go.owner_references = Some(vec![OwnerReference {
            uid: "u3".to_owned(),
            controller: Some(false),
            ..OwnerReference::default()
        }]);
        check(&kind, &let_go, ["adopt"; 3], true);
        assert!(is_own(&claim(), &kind, &let_go));
    }

    #[test]
    fn the_mark_of_a_crd_stands_for_its_controller() {
        let kind = Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        let marked = |extension: &str, account: &str, revision: &str| {
            let mark = json!({"extension": extension, "package": "p", "namespace": "n", "account": account, "revision": revision});
            metadata(json!({"annotations": {keys::OWNER: mark.to_string(), keys::REVISION: "1"}}))
        };
        check(&kind, &marked("e", "n/a", "e-3"), ["own"; 3], true);
        check(&kind, &marked("e", "n/a", "e-2"), ["adopt"; 3], true);
        check(&kind, &marked("e", "n/a", "gone"), ["adopt"; 3], true);
        check(&kind, &marked("e", "n/a", "e-4"), ["progressed"; 3], true);
        check(
            &kind,
            &marked("e", "n/b", "e-3"),
            ["collision", "collision", "adopt"],
            true,
        );
        check(
            &kind,
            &marked("other", "n/a", "o-1"),
            ["collision", "collision", "adopt"],
            true,
        );
        check(
            &kind,
            &marked("other", "n/a", "o-1"),
            ["collision", "adopt", "adopt"],
            false,
        );
        // On any other kind the mark says nothing.
        let config_map = Gvk::new("v1", "ConfigMap");
        check(
            &config_map,
            &marked("e", "n/a", "e-3"),
            ["collision"; 3],
            true,
        );
    }

    #[test]
    fn a_revision_by_hand_takes_back_what_names_it_and_its_account() {
        let kind = Gvk::new("v1", "ConfigMap");
        let mut claim = claim();
        claim.siblings.clear();
        claim.family = Family {
            account: "n/a".into(),
            ..Family::default()
        };
        let marked = |account: &str, revision: &str| {
            let mark = json!({"account": account, "revision": revision}).to_string();
            metadata(json!({"annotations": {keys::OWNER: mark, keys::REVISION: "3"}}))
        };
        for (account, revision, expected) in [
            ("n/a", "e-3", "adopt"),
            ("n/b", "e-3", "collision"),
            ("n/a", "other", "collision"),
        ] {
            let found = marked(account, revision);
            let standing = decide(&claim, &kind, &found, Prevent, &|_| true);
            assert_eq!(word(&standing), expected, "{account} {revision}");
        }
    }

    /// The label of a revision without owner holds a hash of such a name.
    #[test]
    fn a_long_name_is_the_same_by_its_label() {
        let kind = Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        let name = "x".repeat(100);
        for (by_mark, by_claim) in [
            (name.clone(), label_value(&name)),
            (label_value(&name), name),
        ] {
            let mut claim = claim();
            claim.family.extension = by_claim;
            let mark = json!({"extension": by_mark, "package": "p", "namespace": "n", "account": "n/a", "revision": "e-3"});
            let crd = metadata(json!({"annotations": {keys::OWNER: mark.to_string()}}));
            assert_eq!(
                decide(&claim, &kind, &crd, Prevent, &|_| true),
                Standing::Own
            );
            assert!(is_own(&claim, &kind, &crd));
        }
    }

    #[test]
    fn a_broken_mark_makes_a_crd_nobodys() {
        let kind = Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        let broken = metadata(json!({"annotations": {keys::OWNER: "{"}}));
        check(&kind, &broken, ["collision", "adopt", "adopt"], true);
        assert!(!is_own(&claim(), &kind, &broken));
    }
}
