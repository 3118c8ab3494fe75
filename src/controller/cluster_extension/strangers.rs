//! CRDs that are not the extension's, which it must not replace.

use std::collections::BTreeSet;

use super::Context;
use super::roll_out::{Wish, collision_protection};
use crate::api::object::{Gvk, ObjectKey};
use crate::apply::crd_upgrade::Live;
use crate::controller::cluster_object_set::account::has_revision;
use crate::revision::collision::{Claim, CrdOwner, Family, Sibling, Standing, decide, revision_of};
use crate::revision::remedy::Remedy;
use crate::revision::rollout::Collision;

impl Wish {
    /// What is to be said of live CRDs that are not this extension's to replace.
    pub(super) fn strangers(&self, ctx: &Context, live: &[Live]) -> Option<String> {
        let collisions: Vec<Collision> = live
            .iter()
            .filter_map(|crd| self.collision(ctx, crd))
            .collect();
        let remedies: BTreeSet<Remedy> = collisions.iter().map(Remedy::of).collect();
        let name = &self.identity.name;
        let remedies: Vec<String> = remedies.iter().map(|it| it.told(name)).collect();
        let blocks: Vec<String> = collisions.iter().map(Collision::block).collect();
        (!blocks.is_empty()).then(|| {
            format!(
                "CRDs are there already and somebody else's: {}\n{}",
                remedies.join("; "),
                blocks.join("\n\n")
            )
        })
    }

    /// Whose a CRD is, if the next revision could not take it over.
    fn collision(&self, ctx: &Context, crd: &Live) -> Option<Collision> {
        let siblings = self.revisions.iter().filter(|one| one.is_active());
        let claim = Claim {
            uid: String::new(),
            name: String::new(),
            revision: i64::MAX,
            family: Family {
                extension: self.identity.name.clone(),
                package: self.bundle.package.clone(),
                namespace: self.extension.spec.namespace.clone(),
                account: self.account.to_string(),
            },
            siblings: siblings
                .map(|one| Sibling {
                    uid: one.uid.clone(),
                    name: one.name.clone(),
                    revision: one.number,
                })
                .collect(),
        };
        let key = ObjectKey {
            gvk: Gvk::crd(),
            namespace: String::new(),
            name: crd.name.clone(),
        };
        let protection = collision_protection(&self.extension);
        let all = ctx.sets.all();
        let lives = |owner: &CrdOwner| has_revision(owner, &all);
        let Standing::Collision(conflict) =
            decide(&claim, &key.gvk, &crd.metadata, protection, &lives)
        else {
            return None;
        };
        Some(Collision {
            phase: 0,
            is_marked: revision_of(&crd.metadata).is_some(),
            key,
            conflict: *conflict,
            protection,
        })
    }
}
