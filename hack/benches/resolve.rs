//! Choosing a bundle of the largest packages of the real catalog, in memory.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use criterion::Criterion;
use oxolm::fbc::package::PackageContents;
use oxolm::resolve::{Availability, Catalog, Content, Installed, Query, resolve};
use oxolm::store::catalog;

use crate::{figure, support};

/// A resolution, at most, in milliseconds.
const GOAL_MILLISECONDS: f64 = 0.2;
const ROUNDS: usize = 5_000;

/// The packages of the catalog, each with the bytes of its blobs.
fn packages(folder: &Path) -> BTreeMap<String, (PackageContents, usize)> {
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    catalog::read_directory_or_file(folder, &mut |_, located| {
        let package = located.meta.package_name().to_owned();
        *sizes.entry(package).or_default() += located.meta.blob.len();
    })
    .expect("the real catalog can be read");
    let read = catalog::packages(folder).expect("the real catalog can be read");
    read.into_iter()
        .filter_map(|(name, package)| {
            let size = sizes.get(&name).copied().unwrap_or_default();
            Some((name, (package.ok()?, size)))
        })
        .collect()
}

/// A first installation of the package, and an upgrade from its lowest entry inside a range.
fn questions(package: &PackageContents) -> Vec<(&'static str, Query)> {
    let first = Query {
        package: package.name.clone(),
        ..Query::default()
    };
    let mut upgrade = first.clone();
    ">=0.0.0".clone_into(&mut upgrade.version);
    upgrade.installed = package.bundles.iter().find_map(|bundle| {
        let version = bundle.package_property.as_ref()?.get("version")?.as_str()?;
        Some(Installed {
            name: bundle.name.clone(),
            version: version.to_owned(),
            ..Installed::default()
        })
    });
    vec![("install", first), ("upgrade", upgrade)]
}

fn catalogs(package: &PackageContents) -> [Catalog<'_>; 1] {
    [Catalog {
        name: "real".to_owned(),
        labels: BTreeMap::new(),
        priority: 0,
        availability: Availability::Available,
        serving: true,
        content: Content::Package(package),
    }]
}

pub(crate) fn resolution(criterion: &mut Criterion) {
    let Some(folder) = support::real_catalog() else {
        return;
    };
    command_line(folder.path());
    let packages = packages(folder.path());
    let by_bundles = packages
        .values()
        .max_by_key(|(package, _)| package.bundles.len());
    let by_bytes = packages.values().max_by_key(|(_, bytes)| *bytes);
    for (what, package) in [("most bundles", by_bundles), ("most bytes", by_bytes)] {
        let Some((package, bytes)) = package else {
            return;
        };
        let catalogs = catalogs(package);
        for (kind, query) in questions(package) {
            let name = format!(
                "resolve {kind}, {what} ({}: {} bundles, {bytes} bytes)",
                package.name,
                package.bundles.len()
            );
            let mut times: Vec<_> = (0..ROUNDS)
                .map(|_| {
                    let started = Instant::now();
                    black_box(resolve(black_box(&query), black_box(&catalogs)));
                    started.elapsed()
                })
                .collect();
            let p99 = support::percentile(&mut times, 99);
            figure::figure(&format!("{name} p99"), p99, "ms", Some(GOAL_MILLISECONDS));
            criterion.bench_function(&name, |bencher| bencher.iter(|| resolve(&query, &catalogs)));
        }
    }
}

/// From the start of `oxolm resolve` to its answer: the whole catalog is read from YAML.
fn command_line(folder: &Path) {
    let mut times: Vec<_> = (0..5)
        .map(|_| {
            let started = Instant::now();
            let status = Command::new(env!("CARGO_BIN_EXE_oxolm"))
                .args(["resolve", "project-quay", "--catalog"])
                .arg(folder)
                .stdout(Stdio::null())
                .status();
            assert!(status.is_ok_and(|status| status.success()));
            started.elapsed()
        })
        .collect();
    let median = support::percentile(&mut times, 50);
    figure::figure("oxolm resolve, 15 MB of YAML", median, "ms", Some(300.0));
}
