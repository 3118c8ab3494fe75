//! The status of a `ClusterCatalog`.

use jiff::Timestamp;

use crate::api::cluster_catalog::{
    ClusterCatalog, ClusterCatalogStatus, ClusterCatalogUrls, ResolvedCatalogSource,
    ResolvedImageSource, SourceType,
};
use crate::api::condition::{ConditionStatus, ConditionType, Reason};
use crate::error::{Disposition, Failure};
use crate::status::{Conditions, Kstatus, seconds};

const UNPACKED: &str = "Successfully unpacked and stored content from resolved source";
const SERVING: &str = "Serving desired content from resolved source";
const SET_UNAVAILABLE: &str = "Catalog availability mode is set to Unavailable";

/// How far a pass over one catalog got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The wanted content is served.
    Served(Content),
    /// The content could not be had. What was served before is served still, if there was anything.
    Failed {
        /// Why.
        failure: Failure,
        /// What is served all the same; `None` when nothing is.
        served: Option<Content>,
    },
    /// The administrator does not want it served.
    SetUnavailable,
}

/// Content that is being served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The canonical reference, `name@sha256:…`.
    pub reference: String,
    /// When it was unpacked.
    pub unpacked_at: Timestamp,
    /// `https://…/catalogs/<name>`
    pub base_url: String,
}

/// The status after `outcome`.
pub fn cluster_catalog(
    catalog: &ClusterCatalog,
    outcome: &Outcome,
    now: Timestamp,
) -> ClusterCatalogStatus {
    let generation = catalog.metadata.generation;
    let mut status = catalog.status.clone().unwrap_or_default();
    let mut conditions = Conditions::of(&status.conditions, generation, now);
    status.observed_generation = generation;
    match outcome {
        Outcome::Served(content) => {
            conditions.set(
                ConditionType::Progressing,
                ConditionStatus::True,
                Reason::Succeeded,
                UNPACKED,
            );
            conditions.set(
                ConditionType::Serving,
                ConditionStatus::True,
                Reason::Available,
                SERVING,
            );
            conditions.set_kstatus(Kstatus::Ready, SERVING);
            set_content(&mut status, Some(content));
        }
        Outcome::Failed { failure, served } => {
            conditions.set_progressing_failure(failure);
            let state = match failure.disposition {
                Disposition::Retry => Kstatus::Reconciling,
                Disposition::Terminal(_) => Kstatus::Stalled,
            };
            conditions.set_kstatus(state, &failure.message);
            if served.is_none() && conditions.find(ConditionType::Serving).is_some() {
                // It was served once and no longer is: say so. A catalog that never was has no such condition.
                conditions.set(
                    ConditionType::Serving,
                    ConditionStatus::False,
                    Reason::Unavailable,
                    &failure.message,
                );
            }
            set_content(&mut status, served.as_ref());
        }
        Outcome::SetUnavailable => {
            conditions.set(
                ConditionType::Progressing,
                ConditionStatus::True,
                Reason::Succeeded,
                SET_UNAVAILABLE,
            );
            conditions.set(
                ConditionType::Serving,
                ConditionStatus::False,
                Reason::UserSpecifiedUnavailable,
                SET_UNAVAILABLE,
            );
            conditions.set_kstatus(Kstatus::Ready, SET_UNAVAILABLE);
            set_content(&mut status, None);
        }
    }
    status.conditions = conditions.finish();
    status
}

/// The status while a pass over `catalog` takes long: what it is busy with. `None` where the status already tells how the
/// last pass over this generation ended, which is worth more.
pub fn under_way(catalog: &ClusterCatalog, now: Timestamp) -> Option<ClusterCatalogStatus> {
    let generation = catalog.metadata.generation;
    let mut status = catalog.status.clone().unwrap_or_default();
    if status.observed_generation == generation {
        return None;
    }
    let image = catalog.spec.source.image.as_ref()?;
    let mut conditions = Conditions::of(&status.conditions, generation, now);
    let message = format!("fetching {}", image.reference);
    conditions.set_kstatus(Kstatus::Reconciling, &message);
    status.conditions = conditions.finish();
    Some(status)
}

fn set_content(status: &mut ClusterCatalogStatus, content: Option<&Content>) {
    status.resolved_source = content.map(|content| ResolvedCatalogSource {
        source_type: SourceType::Image,
        image: Some(ResolvedImageSource {
            reference: content.reference.clone(),
        }),
    });
    status.urls = content.map(|content| ClusterCatalogUrls {
        base: content.base_url.clone(),
    });
    status.last_unpacked = content.map(|content| seconds(content.unpacked_at));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::cluster_catalog::{
        AvailabilityMode, CatalogSource, ClusterCatalogSpec, ImageSource,
    };
    use crate::api::condition;
    use crate::error;

    fn catalog() -> ClusterCatalog {
        let mut catalog = ClusterCatalog::new(
            "one",
            ClusterCatalogSpec {
                source: CatalogSource {
                    source_type: SourceType::Image,
                    image: Some(ImageSource {
                        reference: "quay.io/a/b:v1".into(),
                        poll_interval_minutes: None,
                    }),
                },
                priority: 0,
                availability_mode: AvailabilityMode::Available,
            },
        );
        catalog.metadata.generation = Some(3);
        catalog
    }

    fn content() -> Content {
        Content {
            reference: "quay.io/a/b@sha256:0".into(),
            unpacked_at: Timestamp::from_second(50).unwrap(),
            base_url: "https://catalogd-service.olmv1-system.svc/catalogs/one".into(),
        }
    }

    fn failure(disposition: Disposition) -> Failure {
        Failure {
            message: "source catalog content: no".into(),
            disposition,
        }
    }

    fn shape(status: &ClusterCatalogStatus, kind: ConditionType) -> Option<(String, String)> {
        condition::find(&status.conditions, kind).map(|c| (c.status.clone(), c.reason.clone()))
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "what it is compared with is an option"
    )]
    fn pair(status: &str, reason: &str) -> Option<(String, String)> {
        Some((status.into(), reason.into()))
    }

    #[test]
    fn the_transition_table_holds() {
        let now = Timestamp::from_second(100).unwrap();
        let mut object = catalog();
        let retry = Outcome::Failed {
            failure: failure(Disposition::Retry),
            served: None,
        };
        let first = cluster_catalog(&object, &retry, now);
        assert_eq!(
            shape(&first, ConditionType::Progressing),
            pair("True", "Retrying")
        );
        assert_eq!(shape(&first, ConditionType::Serving), None);

        let served = cluster_catalog(&object, &Outcome::Served(content()), now);
        assert_eq!(
            shape(&served, ConditionType::Progressing),
            pair("True", "Succeeded")
        );
        assert_eq!(
            shape(&served, ConditionType::Serving),
            pair("True", "Available")
        );
        assert_eq!(served.last_unpacked.as_ref().unwrap().0.as_second(), 50);
        object.status = Some(served.clone());

        let blocked = failure(Disposition::Terminal(error::Reason::Blocked));
        let again = cluster_catalog(
            &object,
            &Outcome::Failed {
                failure: blocked,
                served: Some(content()),
            },
            now,
        );
        assert_eq!(
            shape(&again, ConditionType::Progressing),
            pair("False", "Blocked")
        );
        assert_eq!(
            shape(&again, ConditionType::Serving),
            pair("True", "Available")
        );
        assert_eq!(again.resolved_source, served.resolved_source);

        let lost = cluster_catalog(&object, &retry, now);
        assert_eq!(
            shape(&lost, ConditionType::Serving),
            pair("False", "Unavailable")
        );
        assert_eq!(lost.urls, None);

        let off = cluster_catalog(&object, &Outcome::SetUnavailable, now);
        assert_eq!(
            shape(&off, ConditionType::Serving),
            pair("False", "UserSpecifiedUnavailable")
        );
        assert_eq!(
            (off.resolved_source, off.urls, off.last_unpacked),
            (None, None, None)
        );
    }

    #[test]
    fn the_same_outcome_gives_the_same_status() {
        let mut object = catalog();
        let outcome = Outcome::Served(content());
        let first = cluster_catalog(&object, &outcome, Timestamp::from_second(100).unwrap());
        object.status = Some(first.clone());
        assert_eq!(
            cluster_catalog(&object, &outcome, Timestamp::from_second(900).unwrap()),
            first
        );
    }
}
