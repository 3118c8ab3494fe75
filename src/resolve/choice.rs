//! All catalogs together: which are read, who wins, and whether a catalog that cannot be read matters.

use crate::error::quoted;
use crate::version::range::Range;
use crate::version::release::BundleVersion;

use super::candidate::{Candidate, Exclusion, Filters, Survey, unreadable, version_of};
use super::error::{Asked, EmptiedBy, InstalledVersionError};
use super::selector::Selector;
use super::{
    Availability, AvailableUpdate, Catalog, Content, Query, ResolveError, ResolvedBundle,
    UpgradePolicy, deprecation, successor,
};

/// Types of properties that declare a dependency; none is evaluated yet.
const DEPENDENCIES: &[&str] = &["olm.package.required", "olm.gvk.required", "olm.constraint"];

/// The label that holds a catalog's own name.
const NAME_LABEL: &str = "olm.operatorframework.io/metadata.name";

/// A question, parsed, and what the catalogs hold for it.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) query: &'a Query,
    pub(super) range: Option<Range>,
    pub(super) installed: Option<Result<BundleVersion, InstalledVersionError>>,
    /// Catalogs by name: selected and available.
    pub(super) selected: Vec<&'a Catalog<'a>>,
    /// Catalogs by name: selected, but not available.
    pub(super) unavailable: Vec<&'a Catalog<'a>>,
    /// Catalogs by name: not selected.
    pub(super) left_out: Vec<&'a Catalog<'a>>,
    /// Of the selected: those that were read and have the package.
    pub(super) surveys: Vec<Survey<'a>>,
    /// Of the selected: those that cannot be read, and why.
    pub(super) unreadable: Vec<(&'a Catalog<'a>, String)>,
}

/// The best candidate of a catalog.
#[derive(Debug, Clone, Copy)]
pub(super) struct Winner<'v, 'a> {
    pub(super) survey: &'v Survey<'a>,
    pub(super) candidate: &'v Candidate<'a>,
}

/// What is left across the catalogs.
#[derive(Debug, Clone)]
pub(super) enum Choice<'v, 'a> {
    /// No catalog has a candidate.
    Nothing,
    /// One winner.
    One(Winner<'v, 'a>),
    /// Several of the top priority.
    Tie(Vec<Winner<'v, 'a>>),
}

impl<'v, 'a> Choice<'v, 'a> {
    fn winners(&self) -> &[Winner<'v, 'a>] {
        match self {
            Self::Nothing => &[],
            Self::One(winner) => std::slice::from_ref(winner),
            Self::Tie(winners) => winners,
        }
    }

    /// Whether both are the same bundles of the same catalogs.
    fn is_same(&self, other: &Self) -> bool {
        let key = |winner: &Winner<'_, 'a>| {
            (
                winner.survey.catalog.name.clone(),
                winner.candidate.bundle.name.clone(),
            )
        };
        self.winners()
            .iter()
            .map(key)
            .eq(other.winners().iter().map(key))
    }
}

/// Whether what is installed satisfies the spec, so that nothing lower replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Satisfies {
    Yes,
    No,
}

impl<'a> View<'a> {
    /// Parses the question and puts every catalog through its filters.
    ///
    /// # Errors
    /// When selector or range are wrong.
    pub(super) fn of(query: &'a Query, catalogs: &'a [Catalog<'a>]) -> Result<Self, ResolveError> {
        let selector =
            Selector::parse(query.selector.as_ref()).map_err(ResolveError::InvalidSelector)?;
        let range = if query.version.is_empty() {
            None
        } else {
            let range = Range::parse(&query.version).map_err(|fault| {
                ResolveError::InvalidVersionRange {
                    range: query.version.clone(),
                    fault,
                }
            })?;
            Some(range)
        };
        let mut view = Self {
            query,
            range,
            installed: installed_version(query),
            selected: Vec::new(),
            unavailable: Vec::new(),
            left_out: Vec::new(),
            surveys: Vec::new(),
            unreadable: Vec::new(),
        };
        view.sort_catalogs(&selector, catalogs);
        view.read_packages();
        Ok(view)
    }

    fn sort_catalogs(&mut self, selector: &Selector, catalogs: &'a [Catalog<'a>]) {
        let mut by_name: Vec<&Catalog<'_>> = catalogs.iter().collect();
        by_name.sort_by(|left, right| left.name.cmp(&right.name));
        for catalog in by_name {
            let mut labels = catalog.labels.clone();
            labels.insert(NAME_LABEL.to_owned(), catalog.name.clone());
            if !selector.matches(&labels) {
                self.left_out.push(catalog);
            } else if catalog.availability == Availability::Unavailable {
                self.unavailable.push(catalog);
            } else {
                self.selected.push(catalog);
            }
        }
    }

    fn read_packages(&mut self) {
        for catalog in self.selected.clone() {
            if let Some(why) = unreadable(catalog, &self.query.package) {
                self.unreadable.push((catalog, why));
            } else if let Content::Package(contents) = &catalog.content {
                let survey = Survey::new(&self.filters(), catalog, contents);
                self.surveys.push(survey);
            }
        }
    }

    fn filters(&self) -> Filters<'_> {
        Filters {
            query: self.query,
            range: self.range.as_ref(),
            installed: self.query.installed.as_ref().zip(self.installed_version()),
        }
    }

    /// The version that is installed, if there is one and it can be read.
    pub(super) fn installed_version(&self) -> Option<&BundleVersion> {
        self.installed.as_ref()?.as_ref().ok()
    }

    fn is_installed_in_range(&self) -> bool {
        self.installed_version().is_some_and(|installed| {
            self.range
                .as_ref()
                .is_none_or(|range| range.contains(&installed.version))
        })
    }

    /// Whether a catalog that was read has an entry of the installed bundle in a channel asked for.
    fn is_installed_in_channels(&self) -> bool {
        let Some(installed) = &self.query.installed else {
            return false;
        };
        self.surveys.iter().any(|survey| {
            successor::entries(survey.contents, &self.query.channels)
                .any(|entry| entry.name == installed.name)
        })
    }

    /// Whether a catalog that was read has a bundle or an entry of the installed bundle's name.
    fn is_installed_known(&self) -> bool {
        let Some(installed) = &self.query.installed else {
            return false;
        };
        self.surveys.iter().any(|survey| {
            let contents = survey.contents;
            contents
                .bundles
                .iter()
                .any(|bundle| bundle.name == installed.name)
                || successor::entries(contents, &[]).any(|entry| entry.name == installed.name)
        })
    }

    pub(super) fn satisfies(&self) -> Satisfies {
        let satisfies = self.is_installed_in_range()
            && (self.query.channels.is_empty()
                || self.is_installed_in_channels()
                || !self.is_installed_known());
        if satisfies {
            Satisfies::Yes
        } else {
            Satisfies::No
        }
    }

    /// What nothing may be lower than.
    pub(super) fn floor(&self) -> Option<&BundleVersion> {
        match self.satisfies() {
            Satisfies::Yes => self.installed_version(),
            Satisfies::No => None,
        }
    }

    /// Chooses among the catalogs that were read.
    pub(super) fn choose(&self, satisfies: Satisfies) -> Choice<'_, 'a> {
        let installed = self.query.installed.as_ref();
        let floor = match satisfies {
            Satisfies::Yes => self.installed_version(),
            Satisfies::No => None,
        };
        let mut winners: Vec<Winner<'_, 'a>> = self
            .surveys
            .iter()
            .filter_map(|survey| {
                let candidate = survey.best(installed, floor)?;
                Some(Winner { survey, candidate })
            })
            .collect();
        if winners.iter().any(|winner| !winner.candidate.is_deprecated) {
            winners.retain(|winner| !winner.candidate.is_deprecated);
        }
        let Some(top) = winners.iter().map(Winner::priority).max() else {
            return Choice::Nothing;
        };
        winners.retain(|winner| winner.priority() == top);
        let origin = installed.and_then(|installed| installed.catalog.as_ref());
        let own = winners
            .iter()
            .find(|winner| Some(&winner.survey.catalog.name) == origin);
        match (winners.as_slice(), own) {
            ([winner], _) | (_, Some(winner)) => Choice::One(*winner),
            (_, None) => Choice::Tie(winners),
        }
    }

    /// The answer, and the choice that it came from.
    pub(super) fn outcome(&self) -> (Result<ResolvedBundle, ResolveError>, Choice<'_, 'a>) {
        let choice = self.choose(self.satisfies());
        (self.outcome_of(&choice), choice)
    }

    fn outcome_of(&self, choice: &Choice<'_, 'a>) -> Result<ResolvedBundle, ResolveError> {
        if let Some(Err(error)) = &self.installed
            && self.query.policy == UpgradePolicy::CatalogProvided
            && !self.surveys.is_empty()
        {
            return Err(ResolveError::InvalidInstalledVersion(error.clone()));
        }
        if let Some((catalog, why)) = self.blocking(choice) {
            return Err(ResolveError::CatalogUnavailable {
                package: self.query.package.clone(),
                catalog: catalog.name.clone(),
                why: why.to_owned(),
            });
        }
        match choice {
            Choice::Nothing => Err(ResolveError::NoBundles {
                asked: Asked::of(self.query),
                emptied_by: self.emptied_by(),
            }),
            Choice::Tie(winners) => Err(ResolveError::AmbiguousCatalogs {
                asked: Asked::of(self.query),
                catalogs: winners
                    .iter()
                    .map(|winner| winner.survey.catalog.name.clone())
                    .collect(),
            }),
            Choice::One(winner) => self.resolved(winner),
        }
    }

    /// The first catalog by name that cannot be read and whose content could change the answer.
    fn blocking(&self, choice: &Choice<'_, 'a>) -> Option<(&'a Catalog<'a>, &str)> {
        let may_ignore = |catalog: &Catalog<'_>| {
            let Some(first) = choice.winners().first() else {
                return false;
            };
            let origin = self
                .query
                .installed
                .as_ref()
                .and_then(|installed| installed.catalog.as_ref());
            let gives_way = match choice {
                Choice::Nothing => false,
                Choice::One(winner) => origin == Some(&winner.survey.catalog.name),
                Choice::Tie(_) => origin != Some(&catalog.name),
            };
            let priority_decides = catalog.priority < first.priority()
                || (catalog.priority == first.priority() && gives_way);
            !first.candidate.is_deprecated
                && priority_decides
                && self.is_satisfaction_settled(choice)
        };
        self.unreadable
            .iter()
            .find(|(catalog, _)| !may_ignore(catalog))
            .map(|(catalog, why)| (*catalog, why.as_str()))
    }

    /// Whether no further catalog could change the answer by telling whether the installed bundle satisfies the spec.
    fn is_satisfaction_settled(&self, choice: &Choice<'_, 'a>) -> bool {
        self.query.channels.is_empty()
            || !self.is_installed_in_range()
            || self.is_installed_in_channels()
            || [Satisfies::Yes, Satisfies::No]
                .into_iter()
                .all(|satisfies| self.choose(satisfies).is_same(choice))
    }

    /// Which filter left nothing.
    fn emptied_by(&self) -> EmptiedBy {
        if self.selected.is_empty() {
            return EmptiedBy::Selection;
        }
        let furthest = self
            .surveys
            .iter()
            .flat_map(|survey| &survey.candidates)
            .map(|candidate| candidate.excluded.unwrap_or(Exclusion::LowerThanInstalled))
            .max();
        match furthest {
            None => EmptiedBy::Package,
            Some(Exclusion::NotInChannel) => EmptiedBy::Channels,
            Some(Exclusion::OutsideRange) => EmptiedBy::Range,
            Some(
                Exclusion::NotASuccessor | Exclusion::HigherMajor | Exclusion::LowerThanInstalled,
            ) => EmptiedBy::Edges,
        }
    }

    fn resolved(&self, winner: &Winner<'_, 'a>) -> Result<ResolvedBundle, ResolveError> {
        let bundle = winner.candidate.bundle;
        let version =
            winner
                .candidate
                .version
                .as_ref()
                .map_err(|fault| ResolveError::UnsupportedBundle {
                    bundle: bundle.name.clone(),
                    fault: fault.clone(),
                })?;
        if let Some(property) = bundle
            .property_types
            .iter()
            .find(|property| DEPENDENCIES.contains(&property.as_str()))
        {
            return Err(ResolveError::UnmetDependency {
                bundle: bundle.name.clone(),
                property: property.clone(),
            });
        }
        let installed = self.query.installed.as_ref();
        // An installed bundle that stays is described by the catalog that it came from, if that still lists it.
        let own = self.own_listing(winner);
        let (contents, image) = own.unwrap_or((winner.survey.contents, &bundle.image));
        Ok(ResolvedBundle {
            name: bundle.name.clone(),
            package: self.query.package.clone(),
            version: version.version.clone(),
            release: version.release.clone(),
            image: image.to_owned(),
            catalog: winner.survey.catalog.name.clone(),
            deprecations: deprecation::kept(
                contents,
                &bundle.name,
                installed.map(|installed| installed.name.as_str()),
            ),
            leaves_major: self
                .installed_version()
                .filter(|installed| {
                    self.query.policy == UpgradePolicy::CatalogProvided
                        && version.version.major > installed.version.major
                })
                .map(|installed| installed.version.major),
        })
    }

    /// If the winner is what is installed: package and image reference in the catalog that it came from.
    fn own_listing(
        &self,
        winner: &Winner<'_, 'a>,
    ) -> Option<(&'a crate::fbc::package::PackageContents, &'a str)> {
        let installed = self.query.installed.as_ref()?;
        let installed_version = self.installed_version()?;
        let is_installed = installed.name == winner.candidate.bundle.name
            && winner.candidate.version.as_ref() == Ok(installed_version);
        let origin = installed.catalog.as_ref().filter(|_| is_installed)?;
        let survey = self
            .surveys
            .iter()
            .find(|survey| survey.catalog.name == *origin)?;
        let listed = survey.contents.bundles.iter().find(|bundle| {
            bundle.name == installed.name && version_of(bundle).as_ref() == Ok(installed_version)
        })?;
        Some((survey.contents, &listed.image))
    }

    /// Whether an installed bundle may stay without an error although nothing was chosen.
    pub(super) fn may_stay(&self) -> bool {
        let Some(installed) = &self.query.installed else {
            return false;
        };
        let asks_for_nothing_else =
            self.query.version.is_empty() || self.query.version == installed.version;
        asks_for_nothing_else && self.selected.is_empty() && self.unavailable.is_empty()
    }

    /// The best bundle that the range alone keeps away, if it is higher than both what was chosen and what is installed;
    /// of the catalog that was chosen from, if one was.
    pub(super) fn available_update(&self, choice: &Choice<'_, 'a>) -> Option<AvailableUpdate> {
        self.range.as_ref()?;
        let installed = self.installed_version()?;
        let unbound = Query {
            version: String::new(),
            ..self.query.clone()
        };
        let filters = Filters {
            query: &unbound,
            range: None,
            installed: self.query.installed.as_ref().zip(Some(installed)),
        };
        let (chosen, catalog) = match choice {
            Choice::One(winner) => (
                winner.candidate.version.as_ref().ok(),
                Some(&winner.survey.catalog.name),
            ),
            Choice::Nothing | Choice::Tie(_) => (None, None),
        };
        let surveys: Vec<_> = self
            .surveys
            .iter()
            .filter(|survey| catalog.is_none_or(|name| survey.catalog.name == *name))
            .map(|survey| Survey::new(&filters, survey.catalog, survey.contents))
            .collect();
        let better = surveys
            .iter()
            .filter_map(|survey| survey.best(self.query.installed.as_ref(), Some(installed)))
            .filter(|candidate| !candidate.is_deprecated)
            .filter_map(|candidate| Some((candidate.version.as_ref().ok()?, candidate)))
            .filter(|(version, _)| *version > installed && Some(*version) > chosen)
            .max_by(|left, right| left.0.cmp(right.0))?;
        Some(AvailableUpdate {
            bundle: better.1.bundle.name.clone(),
            version: better.0.version.clone(),
        })
    }

    /// The sentences about catalogs that could not be read, but did not matter.
    pub(super) fn ignored(&self) -> impl Iterator<Item = String> {
        self.unreadable.iter().map(|(catalog, why)| {
            format!(
                "catalog {} could not be read ({why}), which cannot change the answer",
                quoted(&catalog.name)
            )
        })
    }
}

impl Winner<'_, '_> {
    pub(super) fn priority(&self) -> i32 {
        self.survey.catalog.priority
    }
}

fn installed_version(query: &Query) -> Option<Result<BundleVersion, InstalledVersionError>> {
    let installed = query.installed.as_ref()?;
    let release = installed.release.as_deref();
    Some(
        BundleVersion::parse(&installed.version, release).map_err(|fault| match release {
            Some(_) => InstalledVersionError::Explicit(fault),
            None => InstalledVersionError::Legacy(fault),
        }),
    )
}
