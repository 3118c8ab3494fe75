//! The way out of a block: the lowest bundle of the catalogs that the next minor version admits, and how to get there.

use crate::resolve::candidate::Exclusion;
use crate::resolve::report::{CandidateReport, Verdict, explain};
use crate::resolve::{Catalog, Query, UpgradePolicy};
use crate::upgradeable::{InvalidProperty, Minor};
use crate::version::release::BundleVersion;

/// A bundle that would not block.
#[derive(Debug, Clone, PartialEq)]
pub struct Way {
    /// Its name.
    pub bundle: String,
    /// Its version.
    pub version: BundleVersion,
    /// The catalog that has it.
    pub catalog: String,
    /// The channels that it is in, by name.
    pub channels: Vec<String>,
    /// The number of upgrades to it; `None` where no edges lead, so that it must be forced.
    pub hops: Option<usize>,
    /// Its own maximum, if it has one.
    pub maximum: Option<Minor>,
}

/// The maximum of a bundle, by catalog and name.
pub type MaximumOf<'a> = dyn Fn(&str, &str) -> Result<Option<Minor>, InvalidProperty> + 'a;

/// The lowest bundle above the installed one that a cluster at `current` could have and still be updated to its next
/// minor version. Bundles that edges lead to come before those that would have to be forced. The range and the channels of
/// `query` do not count: who is blocked may change them.
///
/// `maximum_of` tells the maximum of a bundle in a catalog; one that cannot be read is no way out.
pub fn way(
    current: Minor,
    query: &Query,
    catalogs: &[Catalog<'_>],
    maximum_of: &MaximumOf<'_>,
) -> Option<Way> {
    let query = Query {
        version: String::new(),
        channels: Vec::new(),
        policy: UpgradePolicy::CatalogProvided,
        ..query.clone()
    };
    let installed = query.installed.as_ref()?;
    let from = BundleVersion::parse(&installed.version, installed.release.as_deref()).ok()?; // Nothing is above it.
    let candidates = explain(&query, catalogs).candidates;
    let ways = candidates.into_iter().filter_map(|candidate| {
        let hops = match reach(&candidate) {
            Reach::Hops(hops) => Some(hops),
            Reach::Forced => None,
            Reach::Never => return None,
        };
        let maximum = maximum_of(&candidate.catalog, &candidate.bundle).ok()?; // It would block again.
        let version = candidate.version.ok()?; // It cannot be installed.
        let survives = maximum.is_none_or(|maximum| maximum > current);
        (survives && version > from).then_some(Way {
            bundle: candidate.bundle,
            version,
            catalog: candidate.catalog,
            channels: candidate.channels,
            hops,
            maximum,
        })
    });
    ways.min_by(|a, b| {
        let rank = |way: &Way| way.hops.is_none();
        (rank(a), &a.version, &a.catalog).cmp(&(rank(b), &b.version, &b.catalog))
    })
}

/// How a candidate can be had.
enum Reach {
    /// By so many upgrades.
    Hops(usize),
    /// By no edges.
    Forced,
    /// It cannot be installed.
    Never,
}

fn reach(candidate: &CandidateReport) -> Reach {
    match &candidate.verdict {
        Verdict::Chosen
        | Verdict::Tied
        | Verdict::Deprecated
        | Verdict::NotHighest
        | Verdict::CatalogNotPreferred => Reach::Hops(1),
        Verdict::Excluded(Exclusion::NotASuccessor) if !candidate.path.is_empty() => {
            Reach::Hops(candidate.path.len())
        }
        Verdict::Excluded(_) => Reach::Forced,
        Verdict::Refused(_) => Reach::Never,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fbc::package::{Bundle, Channel, ChannelEntry, PackageContents};
    use crate::resolve::{Availability, Content, Installed};

    /// 1 → 2 → 3, and 4 beside them.
    fn contents() -> PackageContents {
        let entry = |name: &str, replaces: &str| ChannelEntry {
            name: name.to_owned(),
            replaces: replaces.to_owned(),
            ..ChannelEntry::default()
        };
        let bundle = |major: u32| Bundle {
            name: format!("p.v{major}"),
            image: format!("r/p:{major}"),
            package_property: Some(json!({"packageName": "p", "version": format!("{major}.0.0")})),
            property_types: vec!["olm.package".to_owned()],
        };
        PackageContents {
            name: "p".to_owned(),
            channels: vec![Channel {
                name: "stable".to_owned(),
                entries: vec![
                    entry("p.v1", ""),
                    entry("p.v2", "p.v1"),
                    entry("p.v3", "p.v2"),
                    entry("p.v4", ""),
                ],
            }],
            bundles: (1..=4).map(bundle).collect(),
            ..PackageContents::default()
        }
    }

    fn found(maxima: [&str; 4]) -> Option<(String, Option<usize>)> {
        let contents = contents();
        let catalogs = [Catalog {
            name: "c".to_owned(),
            labels: std::collections::BTreeMap::new(),
            priority: 0,
            availability: Availability::Available,
            serving: true,
            content: Content::Package(&contents),
        }];
        let query = Query {
            package: "p".to_owned(),
            version: "1.x".to_owned(),
            channels: vec!["other".to_owned()],
            installed: Some(Installed {
                name: "p.v1".to_owned(),
                version: "1.0.0".to_owned(),
                ..Installed::default()
            }),
            ..Query::default()
        };
        let maximum_of = |_: &str, bundle: &str| {
            let text = maxima[bundle.trim_start_matches("p.v").parse::<usize>().unwrap() - 1];
            match text {
                "" => Ok(None),
                "?" => Err(InvalidProperty::Value(text.to_owned())),
                text => Ok(Minor::of_cluster_version(text)),
            }
        };
        let current = Minor::of_cluster_version("4.18.3").unwrap();
        let way = way(current, &query, &catalogs, &maximum_of)?;
        Some((way.bundle, way.hops))
    }

    #[test]
    fn the_lowest_bundle_that_survives_is_the_way() {
        let way = |bundle: &str, hops| Some((bundle.to_owned(), hops));
        assert_eq!(found(["4.18", "4.19", "", ""]), way("p.v2", Some(1)));
        assert_eq!(found(["4.18", "4.18", "4.19", ""]), way("p.v3", Some(2)));
        assert_eq!(found(["4.18", "?", "", ""]), way("p.v3", Some(2)));
        assert_eq!(found(["4.18", "4.18", "4.18", ""]), way("p.v4", None));
        assert_eq!(found(["4.18", "4.18", "4.18", "4.18"]), None);
    }
}
