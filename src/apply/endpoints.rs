//! Asks whether anybody answers the webhooks of a revision.
//!
//! The controller asks, not the account: what installs a bundle need not be allowed to see endpoints. Where neither may,
//! a configuration counts as the reference has it, available when it is applied.

use serde_json::Value;

use crate::api::object::ObjectKey;
use crate::apply::objects::{ObjectError, Objects, Step, failed};
use crate::identity::request;
use crate::revision::probe::endpoints::{Service, called_services, has_ready_endpoint};

const GROUP: &str = "discovery.k8s.io";
const VERSION: &str = "v1";
const PLURAL: &str = "endpointslices";
/// The label that says whose endpoints a slice holds.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

impl Objects<'_> {
    /// The Services that a webhook configuration names and nobody answers for.
    ///
    /// # Errors
    /// When the API server did not say.
    pub(super) async fn unanswered(
        &self,
        key: &ObjectKey,
        configuration: &Value,
    ) -> Result<Vec<Service>, ObjectError> {
        let mut unanswered = Vec::new();
        for service in called_services(configuration) {
            let path = request::path(GROUP, VERSION, Some(&service.namespace), PLURAL);
            let labels = format!("{SERVICE_NAME}={}", service.name);
            let mut slices = request::select(self.own, &path, &labels).await;
            if matches!(&slices, Err(error) if error.is_forbidden()) {
                slices = request::select(self.client, &path, &labels).await;
            }
            match slices {
                Ok(slices) if has_ready_endpoint(&slices) => {}
                Ok(_) => unanswered.push(service),
                Err(error) if error.is_forbidden() || error.is_not_found() => {}
                Err(source) => {
                    return Err(failed(key, Step::Endpoints, source));
                }
            }
        }
        Ok(unanswered)
    }
}
