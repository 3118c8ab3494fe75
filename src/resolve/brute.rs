//! A second opinion: the choice of a bundle by brute force over small graphs, written from the behaviour's description
//! and the decisions, and knowing nothing of versions but a table.
//!
//! Every case is made of a string of bytes, so that a failing one shrinks.

use proptest::prelude::*;

use super::*;
use crate::fbc::package::{Bundle, Channel, ChannelEntry};

/// Version texts, lowest first; `bad` has no rank. Those with build metadata are releases of one version.
const VERSIONS: &[&str] = &[
    "bad",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.0+1",
    "1.0.0+2",
    "1.1.0",
    "2.0.0-rc.1",
    "2.0.0",
    "3.0.0",
];

/// Ranges and the positions in [`VERSIONS`] that they take.
const RANGES: &[(&str, &[usize])] = &[
    ("", &[0, 1, 2, 3, 4, 5, 6, 7, 8]),
    ("1.x", &[2, 3, 4, 5]),
    (">=1.1.0", &[5, 7, 8]),
    (">=2.0.0-0", &[6, 7, 8]),
    ("1.0.0", &[2, 3, 4]),
    ("*", &[2, 3, 4, 5, 7, 8]),
    ("<1.0.0", &[]),
    ("1.0.0-rc.1 || 3.0.0", &[1, 8]),
];

/// Skip ranges and the positions that they take.
const SKIP_RANGES: &[(&str, &[usize])] = &[
    ("", &[]),
    ("garbage", &[]),
    (">=1.0.0 <2.0.0", &[2, 3, 4, 5, 6]),
    ("<1.1.0", &[1, 2, 3, 4]),
    (">=2.0.0", &[7, 8]),
];

const CATALOGS: &[&str] = &["a", "b", "c"];
const CHANNELS: &[&str] = &["x", "y", "z"];

/// Takes small numbers from bytes; zeros when they are used up.
struct Dice<'a>(std::slice::Iter<'a, u8>);

impl Dice<'_> {
    fn below(&mut self, end: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or_default()) % end
    }

    /// True once in `n` times.
    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }
}

/// A bundle of the table: its position in [`VERSIONS`], and which of the bundles of that version it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    version: usize,
    twin: usize,
}

impl Key {
    fn any(dice: &mut Dice<'_>) -> Self {
        Self {
            version: dice.below(VERSIONS.len()),
            twin: usize::from(dice.once_in(4)),
        }
    }

    fn name(self) -> String {
        format!("p{}{}", self.version, ["", "-twin"][self.twin])
    }
}

#[derive(Debug, Clone)]
struct Edge {
    to: Key,
    channel: usize,
    replaces: Option<Key>,
    skips: Vec<Key>,
    skip_range: usize,
}

#[derive(Debug, Clone)]
struct Graph {
    bundles: Vec<Key>,
    edges: Vec<Edge>,
    deprecated: Vec<Key>,
    /// Bundles with a dependency.
    dependent: Vec<Key>,
}

#[derive(Debug, Clone)]
struct Shop {
    name: &'static str,
    priority: i32,
    available: bool,
    selected: bool,
    readable: bool,
    graph: Option<Graph>,
}

#[derive(Debug, Clone)]
struct Case {
    shops: Vec<Shop>,
    range: usize,
    channels: Vec<usize>,
    self_certified: bool,
    forced_majors: bool,
    installed: Option<(Key, Option<&'static str>)>,
}

impl Graph {
    fn any(dice: &mut Dice<'_>) -> Self {
        let mut bundles: Vec<Key> = Vec::new();
        for _ in 0..dice.below(6) {
            let key = Key::any(dice);
            if !bundles.contains(&key) {
                bundles.push(key);
            }
        }
        let edges = (0..dice.below(8))
            .map(|_| Edge {
                to: match bundles.get(dice.below(7)) {
                    Some(key) => *key,
                    None => Key::any(dice),
                },
                channel: dice.below(CHANNELS.len()),
                replaces: dice.once_in(2).then(|| Key::any(dice)),
                skips: (0..dice.below(3)).map(|_| Key::any(dice)).collect(),
                skip_range: dice.below(SKIP_RANGES.len()),
            })
            .collect();
        let mut some = |n| -> Vec<Key> {
            bundles
                .iter()
                .copied()
                .filter(|_| dice.once_in(n))
                .collect()
        };
        Self {
            edges,
            deprecated: some(4),
            dependent: some(16),
            bundles,
        }
    }
}

impl Case {
    fn of(bytes: &[u8]) -> Self {
        let dice = &mut Dice(bytes.iter());
        let shops: Vec<Shop> = CATALOGS[..=dice.below(3)]
            .iter()
            .map(|name| Shop {
                name,
                priority: [0, 0, 1, -1][dice.below(4)],
                available: !dice.once_in(12),
                selected: !dice.once_in(12),
                readable: !dice.once_in(6),
                graph: (!dice.once_in(8)).then(|| Graph::any(dice)),
            })
            .collect();
        let known: Vec<Key> = shops
            .iter()
            .filter_map(|shop| shop.graph.as_ref())
            .flat_map(|graph| graph.bundles.iter().copied())
            .collect();
        let installed = (!dice.once_in(3)).then(|| {
            let key = match known.get(dice.below(8)) {
                Some(key) => *key,
                None => Key::any(dice),
            };
            (key, dice.once_in(2).then(|| CATALOGS[dice.below(3)]))
        });
        let channels = (0..CHANNELS.len()).filter(|_| dice.once_in(4)).collect();
        Self {
            range: if dice.once_in(2) {
                dice.below(RANGES.len())
            } else {
                0
            },
            channels,
            self_certified: dice.once_in(4),
            forced_majors: dice.once_in(8),
            installed,
            shops,
        }
    }

    fn query(&self) -> Query {
        Query {
            package: "p".into(),
            version: RANGES[self.range].0.into(),
            channels: self.channels.iter().map(|c| CHANNELS[*c].into()).collect(),
            selector: Some(selector::parse_text("wanted=yes").unwrap()),
            policy: if self.self_certified {
                UpgradePolicy::SelfCertified
            } else {
                UpgradePolicy::CatalogProvided
            },
            installed: self.installed.map(|(key, catalog)| Installed {
                name: key.name(),
                version: VERSIONS[key.version].into(),
                catalog: catalog.map(str::to_owned),
                ..Installed::default()
            }),
            major_upgrades: if self.forced_majors {
                MajorUpgrades::Forced
            } else {
                MajorUpgrades::Edges
            },
        }
    }
}

fn contents(graph: &Graph) -> PackageContents {
    PackageContents {
        name: "p".into(),
        default_channel: None,
        channels: CHANNELS
            .iter()
            .enumerate()
            .map(|(index, name)| Channel {
                name: (*name).into(),
                entries: graph
                    .edges
                    .iter()
                    .filter(|edge| edge.channel == index)
                    .map(|edge| ChannelEntry {
                        name: edge.to.name(),
                        replaces: edge.replaces.map(Key::name).unwrap_or_default(),
                        skips: edge.skips.iter().map(|key| key.name()).collect(),
                        skip_range: SKIP_RANGES[edge.skip_range].0.into(),
                    })
                    .collect(),
            })
            .collect(),
        bundles: graph
            .bundles
            .iter()
            .map(|key| Bundle {
                name: key.name(),
                image: format!("registry.example/{}", key.name()),
                package_property: Some(serde_json::json!({
                    "packageName": "p", "version": VERSIONS[key.version],
                })),
                property_types: if graph.dependent.contains(key) {
                    vec!["olm.package".into(), "olm.gvk.required".into()]
                } else {
                    vec!["olm.package".into()]
                },
            })
            .collect(),
        deprecations: graph
            .deprecated
            .iter()
            .map(|key| Deprecation {
                schema: "olm.bundle".into(),
                name: key.name(),
                message: "old".into(),
            })
            .collect(),
    }
}

/// An answer in the terms of the table.
#[derive(Debug, Clone, PartialEq)]
enum Verdict {
    Chosen(String, String),
    Refused(String),
    Tie(Vec<String>),
    Nothing,
    Blocked(String),
    BadInstalled,
}

fn verdict_of(resolution: &Resolution) -> Verdict {
    match &resolution.outcome {
        Ok(bundle) => Verdict::Chosen(bundle.catalog.clone(), bundle.name.clone()),
        Err(
            ResolveError::UnsupportedBundle { bundle, .. }
            | ResolveError::UnmetDependency { bundle, .. },
        ) => Verdict::Refused(bundle.clone()),
        Err(ResolveError::AmbiguousCatalogs { catalogs, .. }) => Verdict::Tie(catalogs.clone()),
        Err(ResolveError::NoBundles { .. }) => Verdict::Nothing,
        Err(ResolveError::CatalogUnavailable { catalog, .. }) => Verdict::Blocked(catalog.clone()),
        Err(ResolveError::InvalidInstalledVersion(_)) => Verdict::BadInstalled,
        Err(error) => panic!("not generated: {error}"),
    }
}

/// The best of one shop: every pair of candidates is compared, the one that loses to none is taken.
fn best_of(case: &Case, graph: &Graph, satisfied: bool) -> Option<Key> {
    let in_range = |key: &Key| RANGES[case.range].1.contains(&key.version);
    let counts = |edge: &&Edge| case.channels.is_empty() || case.channels.contains(&edge.channel);
    let in_channel = |key: &Key| {
        case.channels.is_empty() || graph.edges.iter().filter(counts).any(|e| e.to == *key)
    };
    let installed = case.installed.map(|(key, _)| key);
    let reachable = |key: &Key| match installed {
        Some(from) if !case.self_certified => {
            let stays = key.version == from.version;
            let by_edge = graph.edges.iter().filter(counts).any(|edge| {
                edge.to == *key
                    && (edge.replaces == Some(from)
                        || edge.skips.contains(&from)
                        || SKIP_RANGES[edge.skip_range].1.contains(&from.version))
            });
            let major = |key: &Key| VERSIONS[key.version].as_bytes()[0];
            let forbidden = case.forced_majors && key.version > 0 && major(key) > major(&from);
            (stays || by_edge) && !forbidden
        }
        _ => true,
    };
    let not_lower = |key: &Key| match installed {
        Some(from) if satisfied => key.version == 0 || key.version >= from.version,
        _ => true,
    };
    let candidates: Vec<Key> = graph
        .bundles
        .iter()
        .copied()
        .filter(|key| in_channel(key) && in_range(key) && reachable(key) && not_lower(key))
        .collect();
    let beats = |left: &Key, right: &Key| {
        let old = |key: &Key| graph.deprecated.contains(key);
        if old(left) != old(right) {
            return !old(left);
        }
        if left.version != right.version {
            return left.version > right.version;
        }
        if Some(*left) == installed || Some(*right) == installed {
            return Some(*left) == installed;
        }
        left.name() < right.name()
    };
    candidates.iter().copied().find(|key| {
        candidates
            .iter()
            .all(|other| other == key || beats(key, other))
    })
}

/// What is left over all readable shops, and whether it is deprecated.
fn choose(
    case: &Case,
    read: &[(&Shop, &Graph)],
    satisfied: bool,
) -> (Vec<(String, Key, i32)>, bool) {
    let winners: Vec<(&Shop, Key, bool)> = read
        .iter()
        .filter_map(|(shop, graph)| {
            let key = best_of(case, graph, satisfied)?;
            Some((*shop, key, graph.deprecated.contains(&key)))
        })
        .collect();
    let all_old = winners.iter().all(|(_, _, old)| *old);
    let kept: Vec<_> = winners
        .into_iter()
        .filter(|(_, _, old)| *old == all_old)
        .collect();
    let top = kept
        .iter()
        .map(|(shop, _, _)| shop.priority)
        .max()
        .unwrap_or_default();
    let mut left: Vec<(String, Key, i32)> = kept
        .into_iter()
        .filter(|(shop, _, _)| shop.priority == top)
        .map(|(shop, key, _)| (shop.name.to_owned(), key, top))
        .collect();
    if let Some((_, Some(origin))) = case.installed
        && left.iter().any(|(name, _, _)| name == origin)
    {
        left.retain(|(name, _, _)| name == origin);
    }
    left.sort_by(|a, b| a.0.cmp(&b.0));
    (left, all_old)
}

fn expected(case: &Case) -> Verdict {
    let taking_part: Vec<&Shop> = case
        .shops
        .iter()
        .filter(|s| s.selected && s.available)
        .collect();
    let read: Vec<(&Shop, &Graph)> = taking_part
        .iter()
        .filter(|shop| shop.readable)
        .filter_map(|shop| Some((*shop, shop.graph.as_ref()?)))
        .collect();
    let installed = case.installed.map(|(key, _)| key);
    if installed.is_some_and(|key| key.version == 0) && !case.self_certified && !read.is_empty() {
        return Verdict::BadInstalled;
    }
    let in_range =
        installed.is_some_and(|key| key.version > 0 && RANGES[case.range].1.contains(&key.version));
    let listed = installed.is_some_and(|key| {
        read.iter().any(|(_, graph)| {
            graph
                .edges
                .iter()
                .any(|edge| edge.to == key && case.channels.contains(&edge.channel))
        })
    });
    let known = installed.is_some_and(|key| {
        read.iter().any(|(_, graph)| {
            graph.bundles.contains(&key) || graph.edges.iter().any(|edge| edge.to == key)
        })
    });
    let satisfied = in_range && (case.channels.is_empty() || listed || !known);
    let (left, old) = choose(case, &read, satisfied);
    let origin = case.installed.and_then(|(_, catalog)| catalog);
    let open = !case.channels.is_empty()
        && in_range
        && !listed
        && choose(case, &read, true).0 != choose(case, &read, false).0;
    let mut blind: Vec<&Shop> = taking_part
        .into_iter()
        .filter(|shop| !shop.readable)
        .collect();
    blind.sort_by_key(|shop| shop.name);
    for shop in blind {
        let harmless = match left.as_slice() {
            [] => false,
            [(catalog, _, priority)] => {
                shop.priority < *priority
                    || shop.priority == *priority && origin == Some(catalog.as_str())
            }
            [(_, _, priority), ..] => {
                shop.priority < *priority || shop.priority == *priority && origin != Some(shop.name)
            }
        };
        if !harmless || old || open {
            return Verdict::Blocked(shop.name.to_owned());
        }
    }
    match left.as_slice() {
        [] => Verdict::Nothing,
        [(catalog, key, _)] => {
            let refused = key.version == 0
                || read
                    .iter()
                    .any(|(shop, graph)| shop.name == catalog && graph.dependent.contains(key));
            if refused {
                Verdict::Refused(key.name())
            } else {
                Verdict::Chosen(catalog.clone(), key.name())
            }
        }
        several => Verdict::Tie(several.iter().map(|(name, _, _)| name.clone()).collect()),
    }
}

/// What every catalog holds, in their order.
fn shelves(case: &Case) -> Vec<Option<PackageContents>> {
    case.shops
        .iter()
        .map(|shop| shop.graph.as_ref().map(contents))
        .collect()
}

fn catalogs<'a>(case: &Case, shelves: &'a [Option<PackageContents>]) -> Vec<Catalog<'a>> {
    case.shops
        .iter()
        .zip(shelves)
        .map(|(shop, contents)| Catalog {
            name: shop.name.into(),
            labels: if shop.selected {
                [("wanted".to_owned(), "yes".to_owned())].into()
            } else {
                BTreeMap::new()
            },
            priority: shop.priority,
            availability: if shop.available {
                Availability::Available
            } else {
                Availability::Unavailable
            },
            serving: true,
            content: match contents {
                _ if !shop.readable => Content::Unreadable("torn".into()),
                Some(contents) => Content::Package(contents),
                None => Content::NoSuchPackage,
            },
        })
        .collect()
}

fn reversed(contents: &PackageContents) -> PackageContents {
    let mut contents = contents.clone();
    contents.bundles.reverse();
    contents.channels.reverse();
    for channel in &mut contents.channels {
        channel.entries.reverse();
        for entry in &mut channel.entries {
            entry.skips.reverse();
        }
    }
    contents
}

/// A string of bytes that is enough for most cases.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..220)
}

/// The opinions agree, and no order changes the answer.
fn agree(bytes: &[u8]) -> Result<(), TestCaseError> {
    let case = Case::of(bytes);
    let query = case.query();
    let shelves = shelves(&case);
    let forward = resolve(&query, &catalogs(&case, &shelves));
    prop_assert_eq!(verdict_of(&forward), expected(&case), "{:#?}", case);
    let turned: Vec<_> = shelves.iter().map(|c| c.as_ref().map(reversed)).collect();
    let mut backward = catalogs(&case, &turned);
    backward.reverse();
    prop_assert_eq!(&resolve(&query, &backward), &forward, "{:#?}", case);
    let mut channels_turned = query;
    channels_turned.channels.reverse();
    let verdict = verdict_of(&resolve(&channels_turned, &backward));
    prop_assert_eq!(verdict, verdict_of(&forward), "{:#?}", case);
    Ok(())
}

/// A catalog that was ignored because it cannot be read could not have changed the answer.
fn ignored_does_not_matter(bytes: &[u8], other: &[u8]) -> Result<(), TestCaseError> {
    let case = Case::of(bytes);
    let before = verdict_of(&resolve(&case.query(), &catalogs(&case, &shelves(&case))));
    if matches!(before, Verdict::Blocked(_)) {
        return Ok(());
    }
    let mut told = case.clone();
    let dice = &mut Dice(other.iter());
    for shop in told.shops.iter_mut().filter(|shop| !shop.readable) {
        shop.readable = true;
        shop.graph = (!dice.once_in(8)).then(|| Graph::any(dice));
    }
    let after = verdict_of(&resolve(&told.query(), &catalogs(&told, &shelves(&told))));
    if let (Verdict::Tie(before), Verdict::Tie(after)) = (&before, &after) {
        // Further catalogs may join a tie.
        prop_assert!(before.iter().all(|name| after.contains(name)), "{case:#?}");
    } else {
        prop_assert_eq!(&after, &before, "{:#?}\n{:#?}", case, told);
    }
    Ok(())
}

/// 100,000 graphs in all, in parts that run side by side; `PROPTEST_CASES` makes it more.
macro_rules! parts {
    ($($name:ident)*) => {
        proptest! {
            #![proptest_config(ProptestConfig {
                cases: ProptestConfig::default().cases.max(25_000),
                failure_persistence: None,
                ..ProptestConfig::default()
            })]

            $(#[test]
            fn $name(bytes in bytes()) {
                agree(&bytes)?;
            })*

            #[test]
            fn an_ignored_catalog_could_not_have_changed_the_answer(bytes in bytes(), other in bytes()) {
                ignored_does_not_matter(&bytes, &other)?;
            }
        }
    };
}

parts! {
    brute_force_agrees_part_1
    brute_force_agrees_part_2
    brute_force_agrees_part_3
    brute_force_agrees_part_4
}
