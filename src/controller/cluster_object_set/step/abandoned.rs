//! The end of a revision that nobody can take back: everything around it was deleted with `--cascade=orphan`.

use serde_json::Value;

use super::{Note, Step, StepError, Work};
use crate::api::{EXTENSIONS, GROUP, VERSION};
use crate::apply::revisions::RevisionError;
use crate::controller::cluster_object_set::account::is_orphan;
use crate::identity::IdentityError;
use crate::identity::request::{self, RequestError, path};
use crate::revision::name::label_value;
use crate::revision::rollout::Rollout;
use crate::revision::{Extension, revisions_of};
use crate::status::news::News;

impl Work<'_> {
    /// Whether this is an orphan whose account is gone: then it is not at peace, although all its objects may be. No
    /// extension is left that would tell.
    pub(super) async fn is_orphan_without_account(&self) -> bool {
        let check = async || self.ctx.identity.check_exists(&self.account).await;
        is_orphan(self.set) && matches!(check().await, Err(IdentityError::Missing { .. }))
    }

    /// The step of a revision that failed: as it is, unless the revision is abandoned. Then it is deleted, with all
    /// revisions of the same extension, and so taken down as far as its account still may.
    pub(super) async fn unless_abandoned(&self, step: Step) -> Step {
        let is_suspect = is_orphan(self.set) && self.has_acted();
        if !is_suspect || !matches!(step.pass.rollout, Rollout::Failed(_)) {
            return step;
        }
        match self.is_abandoned().await {
            Ok(true) => {}
            // What failed is told, and tried again.
            Ok(false) | Err(_) => return step,
        }
        match self.take_leave().await {
            Ok(()) => Step {
                notes: vec![self.abandoned()],
                ..Step::gone()
            },
            Err(error) => Step::failed(&StepError::Abandoned(error)),
        }
    }

    /// Whether the revision was applied since it was created here. One that a backup brought waits for its namespace,
    /// its account and its extension, in whatever order they come: it has no status.
    fn has_acted(&self) -> bool {
        let status = self.set.status.as_ref();
        status.is_some_and(|status| !status.observed_phases.is_empty())
    }

    /// Whether its extension is gone, and the namespace that it was installed in as well, or about to be.
    async fn is_abandoned(&self) -> Result<bool, RequestError> {
        let client = &self.ctx.client;
        let namespaces = path("", "v1", None, "namespaces");
        let namespace = request::get(client, &namespaces, &self.claim.family.namespace).await?;
        let stays = |namespace: &Value| namespace.pointer("/metadata/deletionTimestamp").is_none();
        if self.claim.family.namespace.is_empty() || namespace.as_ref().is_some_and(stays) {
            return Ok(false);
        }
        // By the label, because it holds a hash where the name is long.
        let url = path(GROUP, VERSION, None, EXTENSIONS);
        let extensions = request::metadata(client, &url, None).await?;
        let is_owner = |extension: &Value| {
            let name = extension.pointer("/metadata/name");
            let name = name.and_then(Value::as_str).unwrap_or_default();
            label_value(name) == self.claim.family.extension
        };
        Ok(!extensions.iter().any(is_owner))
    }

    /// Deletes all revisions of the extension that was.
    async fn take_leave(&self) -> Result<(), RevisionError> {
        let extension = Extension {
            name: self.claim.family.extension.clone(),
            uid: String::new(),
            account: Some(self.account.clone()),
        };
        let family = revisions_of(self.all.iter().map(AsRef::as_ref), &extension);
        self.ctx.revisions().abandon(&family).await
    }

    fn abandoned(&self) -> Note {
        let family = &self.claim.family;
        Note {
            news: News::Abandoned,
            text: format!(
                "ClusterExtension {} and namespace {} are gone: the revision is taken down",
                family.extension, family.namespace
            ),
            is_warning: false,
            is_state: false,
        }
    }
}
