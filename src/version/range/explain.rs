//! What a range stands for, in words, and what it admits next to its borders.

use std::collections::BTreeSet;

use super::super::skip_range::{self, SkipRange};
use super::super::{Identifier, Version};
use super::{Comparator, Operator, Precision, Range};

/// A range explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// One of these must hold.
    pub groups: Vec<Vec<Words>>,
    /// Versions on and beside the borders, lowest first, and whether each is in the range.
    pub borders: Vec<(Version, bool)>,
}

/// A comparator and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// As written.
    pub written: String,
    /// In words.
    pub meaning: String,
}

/// Explains a range of language M.
pub fn range(range: &Range) -> Explanation {
    let groups = range
        .groups()
        .iter()
        .map(|group| {
            let mut words: Vec<Words> = group.comparators().iter().map(comparator).collect();
            words.push(Words {
                written: String::new(),
                meaning: if group.admits_prereleases() {
                    "pre-releases count, since a literal names one".to_owned()
                } else {
                    "no pre-releases, since no literal names one".to_owned()
                },
            });
            words
        })
        .collect();
    let floors = range
        .groups()
        .iter()
        .flat_map(super::Group::comparators)
        .map(Comparator::floor);
    Explanation {
        groups,
        borders: borders(floors, |version| range.contains(version)),
    }
}

/// Explains a range of language B.
pub fn skip_range(range: &SkipRange) -> Explanation {
    let words = |term: &skip_range::Term| {
        let version = term.version();
        let (symbol, meaning) = match term.comparison() {
            skip_range::Comparison::Equal => ("=", format!("exactly {version}")),
            skip_range::Comparison::NotEqual => ("!=", format!("not {version}")),
            skip_range::Comparison::Greater => (">", format!("above {version}")),
            skip_range::Comparison::GreaterOrEqual => (">=", format!("{version} or above")),
            skip_range::Comparison::Less => ("<", format!("below {version}")),
            skip_range::Comparison::LessOrEqual => ("<=", format!("{version} or below")),
        };
        Words {
            written: format!("{symbol}{version}"),
            meaning,
        }
    };
    let floors = range
        .alternatives()
        .iter()
        .flatten()
        .map(skip_range::Term::version);
    Explanation {
        groups: range
            .alternatives()
            .iter()
            .map(|terms| terms.iter().map(words).collect())
            .collect(),
        borders: borders(floors, |version| range.contains(version)),
    }
}

fn comparator(comparator: &Comparator) -> Words {
    Words {
        written: comparator.written().to_owned(),
        meaning: meaning(
            comparator.operator(),
            comparator.precision(),
            comparator.floor(),
        ),
    }
}

fn meaning(operator: Operator, precision: Precision, floor: &Version) -> String {
    let Version { major, minor, .. } = floor;
    let line = format!("{major}.{minor}");
    let within_line = format!("{floor} or above, within {line}");
    let within_major = format!("{floor} or above, within major {major}");
    match (operator, precision) {
        (Operator::GreaterOrEqual, _) | (Operator::Equal | Operator::Tilde, Precision::Any) => {
            format!("{floor} or above")
        }
        (Operator::Less, _) => format!("below {floor}"),
        (Operator::Greater, Precision::Full | Precision::Any) => format!("above {floor}"),
        (Operator::Greater, Precision::Minor) => format!("above all of {line}"),
        (Operator::Greater, Precision::Major) => format!("above all of major {major}"),
        (Operator::LessOrEqual, Precision::Full) => format!("{floor} or below"),
        (Operator::LessOrEqual, Precision::Minor | Precision::Any) => {
            format!("all of {line} or below")
        }
        (Operator::LessOrEqual, Precision::Major) => format!("all of major {major} or below"),
        (Operator::Equal, Precision::Full) => format!("exactly {floor}"),
        (Operator::Equal | Operator::Tilde | Operator::Caret, Precision::Major) => within_major,
        (Operator::Tilde, Precision::Full) if floor.core() == (0, 0, 0) => {
            format!("{floor} or above, without an upper end (an oddity of ~0.0.0)")
        }
        (Operator::Caret, Precision::Full | Precision::Minor) if *major > 0 => within_major,
        (Operator::Caret, Precision::Full) if *minor > 0 => within_line,
        (Operator::Tilde, Precision::Full)
        | (Operator::Equal | Operator::Tilde | Operator::Caret, Precision::Minor) => within_line,
        (Operator::Caret, Precision::Full | Precision::Any) => {
            let (major, minor, patch) = floor.core();
            format!("{floor} or above, but only {major}.{minor}.{patch} itself")
        }
        (Operator::NotEqual, Precision::Full | Precision::Any) => format!("not {floor}"),
        (Operator::NotEqual, Precision::Major) => format!("not of major {major}"),
        (Operator::NotEqual, Precision::Minor) => format!("not of {line}"),
    }
}

/// The versions around `floors`, and whether each is in the range.
fn borders<'a>(
    floors: impl Iterator<Item = &'a Version>,
    contains: impl Fn(&Version) -> bool,
) -> Vec<(Version, bool)> {
    let mut versions = BTreeSet::new();
    for floor in floors {
        let (major, minor, patch) = floor.core();
        versions.insert(floor.clone());
        let starts = [
            Some(Version::new(major, minor, patch)),
            patch
                .checked_sub(1)
                .map(|patch| Version::new(major, minor, patch)),
            patch
                .checked_add(1)
                .map(|patch| Version::new(major, minor, patch)),
            minor
                .checked_add(1)
                .map(|minor| Version::new(major, minor, 0)),
            major.checked_add(1).map(|major| Version::new(major, 0, 0)),
        ];
        for start in starts.into_iter().flatten() {
            versions.insert(Version {
                prerelease: vec![Identifier::Text("rc".to_owned())],
                ..start.clone()
            });
            versions.insert(start);
        }
    }
    versions
        .into_iter()
        .map(|version| {
            let is_in = contains(&version);
            (version, is_in)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::range::Range;

    #[track_caller]
    fn check(text: &str, meaning: &str) {
        let explained = range(&Range::parse(text).unwrap());
        assert_eq!(explained.groups[0][0].meaning, meaning, "{text}");
    }

    #[test]
    fn comparators_read_as_words() {
        check("1.2.3", "exactly 1.2.3");
        check("1.2", "1.2.0 or above, within 1.2");
        check("1.x", "1.0.0 or above, within major 1");
        check("*", "0.0.0 or above");
        check("~1.2.3", "1.2.3 or above, within 1.2");
        check(
            "~0.0.0",
            "0.0.0 or above, without an upper end (an oddity of ~0.0.0)",
        );
        check("^1.2.3", "1.2.3 or above, within major 1");
        check("^0.2.3", "0.2.3 or above, within 0.2");
        check("^0.0.3", "0.0.3 or above, but only 0.0.3 itself");
        check("^*", "0.0.0 or above, but only 0.0.0 itself");
        check(">1.2", "above all of 1.2");
        check(">1", "above all of major 1");
        check("<=1", "all of major 1 or below");
        check("<=1.2.3", "1.2.3 or below");
        check("<=*", "all of 0.0 or below");
        check("<2.0.0", "below 2.0.0");
        check("!=1.2", "not of 1.2");
        check("!=1", "not of major 1");
        check("!=1.2.3", "not 1.2.3");
    }

    #[test]
    fn the_words_agree_with_the_borders() {
        let explained = range(&Range::parse(">=1.2.0 <2.0.0-0 || 3.x").unwrap());
        let state = |text: &str| {
            let version = Version::parse(text).unwrap();
            explained
                .borders
                .iter()
                .find(|(border, _)| *border == version)
                .map(|(_, is_in)| *is_in)
        };
        assert_eq!(state("1.2.0"), Some(true));
        assert_eq!(state("1.2.0-rc"), Some(false));
        assert_eq!(state("1.3.0-rc"), Some(true));
        assert_eq!(state("2.0.0"), Some(false));
        assert_eq!(state("3.0.0"), Some(true));
        assert_eq!(state("4.0.0"), Some(false));
        assert!(explained.borders.is_sorted_by(|a, b| a.0 < b.0));
        let skipped = skip_range(&SkipRange::parse(">=1.0.0 <1.2.x").unwrap());
        assert_eq!(skipped.groups[0][1].meaning, "below 1.2.0");
    }
}
