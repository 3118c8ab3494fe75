//! The range language as one regular expression, for the admission rule of `spec.source.catalog.version`.
//!
//! Admission must accept what parses and refuse what does not, before a controller sees it. The language is regular
//! once a length is given, hyphen ranges and their oddities beside `||` included, so the rule can be exact, with one
//! exception that nobody writes: beside a hyphen, numbers of 20 digits and ignored components that end in a bar are
//! refused. A test holds it against the parser.
//!
//! Differs from the reference, whose pattern refuses hyphen ranges, leading zeros and some wildcards, and accepts texts
//! that never parse.

/// A component that stands for any number.
macro_rules! wild {
    () => {
        "[xX*]"
    };
}

/// A component after a wild one: not read, but of the right characters.
macro_rules! ignored {
    () => {
        r"(?:\|?[\dxX*])+"
    };
}

/// A number up to 18446744073709551615, leading zeros allowed.
macro_rules! number {
    () => {
        concat!(
            r"0*(?:\d{1,19}|1(?:[0-7]\d{18}|8(?:[0-3]\d{17}|4(?:[0-3]\d{16}|4(?:[0-5]\d{15}|6(?:[0-6]\d{14}",
            r"|7(?:[0-3]\d{13}|4(?:[0-3]\d{12}|40(?:[0-6]\d{10}|7(?:[0-2]\d{9}|3(?:[0-6]\d{8}|70(?:[0-8]\d{6}",
            r"|9(?:[0-4]\d{5}|5(?:[0-4]\d{4}|5(?:0\d{3}|1(?:[0-5]\d{2}|6(?:0\d|1[0-5])))))))))))))))))"
        )
    };
}

/// A number of at most 19 digits, leading zeros apart.
macro_rules! short_number {
    () => {
        r"0*\d{1,19}"
    };
}

/// Build metadata.
macro_rules! build {
    () => {
        r"\+[\dA-Za-z-]+(?:\.[\dA-Za-z-]+)*"
    };
}

/// A pre-release, build metadata, or both.
macro_rules! suffix {
    () => {
        concat!(
            r"(?:-(?:0|[1-9]\d*|\d*[A-Za-z-][\dA-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][\dA-Za-z-]*))*",
            "(?:",
            build!(),
            ")?|",
            build!(),
            ")"
        )
    };
}

/// The components of a literal, its numbers being `$number`.
macro_rules! components {
    ($number:ident) => {
        concat!(
            "(?:",
            wild!(),
            r"(?:\.",
            ignored!(),
            "){0,2}|",
            $number!(),
            r"(?:\.(?:",
            wild!(),
            r"(?:\.",
            ignored!(),
            ")?|",
            $number!(),
            r"(?:\.(?:",
            wild!(),
            "|",
            $number!(),
            "))?))?)"
        )
    };
}

/// A literal without its `v`.
macro_rules! literal {
    ($number:ident) => {
        concat!(components!($number), suffix!(), "?")
    };
}

macro_rules! operator {
    () => {
        r"(?:!=|=[<>]?|[<>]=?|~>?|\^)\s*"
    };
}

/// Operator, if any, and literal.
macro_rules! comparator {
    ($number:ident) => {
        concat!("(?:", operator!(), ")?v?", literal!($number))
    };
}

/// A comparator whose last component is ignored and ends in a bar, without its suffix. `||` must not follow it at once.
macro_rules! bar_ended {
    () => {
        concat!(
            "(?:",
            operator!(),
            ")?v?(?:",
            wild!(),
            r"(?:\.(?:(?:\|?[\dxX*])+\|?|\|))?|",
            short_number!(),
            r"\.",
            wild!(),
            r")\.(?:\|?[\dxX*])*\|"
        )
    };
}

/// What may stand between two comparators.
macro_rules! between {
    () => {
        r"(?:\s*(?:,|\|\|)\s*|\s+)"
    };
}

/// One component that is read.
macro_rules! one {
    () => {
        concat!("(?:", wild!(), "|", short_number!(), ")")
    };
}

/// Two components.
macro_rules! two {
    () => {
        concat!(
            "(?:",
            wild!(),
            r"\.",
            ignored!(),
            "|",
            short_number!(),
            r"\.",
            one!(),
            ")"
        )
    };
}

/// Three components.
macro_rules! three {
    () => {
        concat!(
            "(?:",
            wild!(),
            r"(?:\.",
            ignored!(),
            "){2}|",
            short_number!(),
            r"\.",
            two!(),
            ")"
        )
    };
}

/// The components of an end of a hyphen range. A bar belongs to their characters, so `1||2` is one end at first, of at
/// most three components in all, and two alternatives afterwards.
macro_rules! end_components {
    () => {
        concat!(
            "(?:",
            one!(),
            r"\|\|)*(?:",
            one!(),
            "|",
            three!(),
            "|",
            two!(),
            r"(?:(?:\|\|",
            one!(),
            r")*\|\|",
            two!(),
            r")?)(?:\|\|",
            one!(),
            ")*"
        )
    };
}

/// A hyphen range without the `v` of its lower and the suffix of its upper end.
macro_rules! hyphen {
    () => {
        concat!(
            end_components!(),
            suffix!(),
            r"?\s+-\s+v?",
            end_components!()
        )
    };
}

/// What may stand between a comparator and a hyphen range: the blanks before a range are its own.
macro_rules! before_hyphen {
    () => {
        r"\s*(?:(?:,\s*|\|\|\s+)v?|\|\|v)"
    };
}

/// What may stand between two hyphen ranges.
macro_rules! between_hyphens {
    () => {
        concat!(
            "(?:",
            suffix!(),
            r"?(?:\s*,\s*|\s+(?:\|\|\s+)?|\|\|\s+)v?|(?:",
            suffix!(),
            r"?\s*\|\|)?v)"
        )
    };
}

/// What may stand between a hyphen range and a comparator, the latter's operator included.
macro_rules! after_hyphen {
    () => {
        concat!(
            "(?:",
            suffix!(),
            r"?(?:\s*,\s*|\s+(?:\|\|\s*)?|\|\|\s+)(?:",
            operator!(),
            ")?v?|",
            suffix!(),
            r"\|\|(?:",
            operator!(),
            r")?v?|(?:\|\|)?(?:",
            operator!(),
            "v?|v)|",
            suffix!(),
            operator!(),
            "v?)"
        )
    };
}

/// A literal that follows the suffix of a hyphen range without anything between: only a star cannot be part of a suffix.
macro_rules! star_after_suffix {
    () => {
        concat!(suffix!(), r"\*(?:\.", ignored!(), "){0,2}", suffix!(), "?")
    };
}

/// Matches the ranges that parse, in [RE2 syntax](https://github.com/google/re2/wiki/Syntax), anchored at both ends.
///
/// It holds no quote, so a CEL rule writes it as a raw string: `self.matches(r'…')`.
pub const ADMISSION_PATTERN: &str = concat!(
    r"^\s*(?:(?:",
    comparator!(number),
    between!(),
    "|",
    bar_ended!(),
    r"(?:\s+(?:(?:,|\|\|)\s*)?|,\s*|",
    build!(),
    between!(),
    "))*(?:",
    bar_ended!(),
    "(?:",
    build!(),
    r")?\s*$|",
    comparator!(number),
    r"(?:\s*$|",
    before_hyphen!(),
    hyphen!(),
    "))|v?",
    hyphen!(),
    ")(?:",
    between_hyphens!(),
    hyphen!(),
    "|",
    "(?:",
    after_hyphen!(),
    literal!(short_number),
    "|",
    star_after_suffix!(),
    ")(?:",
    between!(),
    comparator!(short_number),
    ")*(?:",
    before_hyphen!(),
    hyphen!(),
    r"|\s*$))*",
    suffix!(),
    r"?\s*$"
);

/// The longest range that admission takes, in characters (the schema's `maxLength`).
pub const MAX_ADMITTED_CHARACTERS: usize = 64;

/// Whether the admission rule takes `text`.
///
/// The rule itself is evaluated by the API server; this says what it says, by the same pattern.
pub fn is_admitted(text: &str) -> bool {
    static PATTERN: std::sync::LazyLock<regex::Regex> = std::sync::LazyLock::new(|| {
        // RE2's classes are ASCII, and its \s does not hold the vertical tab.
        let pattern = ADMISSION_PATTERN
            .replace(r"\s", r"[\t\n\f\r ]")
            .replace(r"[\d", "[0-9")
            .replace(r"\d", "[0-9]");
        regex::RegexBuilder::new(&pattern)
            .size_limit(64 << 20)
            .build()
            .expect("a constant pattern")
    });
    text.chars().count() <= MAX_ADMITTED_CHARACTERS && PATTERN.is_match(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::conformance::{Score, Set};
    use crate::version::range::Range;

    #[test]
    fn admission_takes_what_parses() {
        let cases = [
            ("1.2.3", true),
            (">=1.0.0 || *", true),
            (">=1.0 <1.2.*", true),
            ("1.2 - 1.4", true),
            ("1 - 2 || 3 - 4", true),
            ("1 - 2||3 - 4", false),
            ("1.0||2 - 3", true),
            ("<5 1 - 2", false),
            ("1 - 2 <5", true),
            ("01.2.3", true),
            ("18446744073709551615", true),
            ("18446744073709551616", false),
            ("1.x.99999999999999999999", true),
            ("1.2.3-01", false),
            ("|", false),
            (">=|", false),
            ("1.*]", false),
            ("", false),
            (" ", false),
            ("1\u{b}2", false),
            ("1 2\u{a0}", false),
        ];
        for (text, admitted) in cases {
            assert_eq!(is_admitted(text), admitted, "{text:?}");
            assert_eq!(Range::parse(text).is_ok(), admitted, "{text:?} parses");
        }
        assert!(!is_admitted(&format!(">={}", "1".repeat(64))));
    }

    #[test]
    fn the_pattern_is_sound_for_a_rule() {
        assert!(!ADMISSION_PATTERN.contains(['\'', '"', '\n']));
        assert!(
            ADMISSION_PATTERN.len() < 9216,
            "{}",
            ADMISSION_PATTERN.len()
        );
    }

    #[test]
    fn conformance_of_admission() {
        let Some(set) = Set::open("vectors") else {
            return;
        };
        let mut score = Score::new("vectors admission", &set);
        for row in &set.rows {
            let text = row.text("constraint");
            let parses = match ["masterminds_valid", "valid"]
                .iter()
                .find_map(|name| row.value[*name].as_bool())
            {
                Some(valid) => valid,
                None => Range::parse(text).is_ok(),
            };
            let of_language = ["admitted", "crd_admitted"]
                .iter()
                .any(|name| row.value.get(*name).is_some());
            if of_language {
                let expected = parses && text.chars().count() <= MAX_ADMITTED_CHARACTERS;
                let came = is_admitted(text);
                score.count(
                    row.id(),
                    (came == expected)
                        .then_some(())
                        .ok_or_else(|| format!("{text:?}: expected {expected}, came {came}")),
                );
            }
        }
        score.finish();
    }

    /// Texts that look like ranges.
    fn text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            4 => prop::sample::select(vec!["1", "2", "0", "10", "01", "x", "X", "*", "v"]),
            3 => Just("."),
            3 => Just(" "),
            2 => Just(" - "),
            2 => Just("||"),
            1 => prop::sample::select(vec!["||", " || ", "|", ",", ", ", "-", "+", "\t"]),
            2 => prop::sample::select(vec!["=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^", "!"]),
            1 => prop::sample::select(vec!["-rc", "-0", "-01", "-a.1", "+b", "+01", "a"]),
        ];
        prop::collection::vec(piece, 1..14).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(
            // More by PROPTEST_CASES.
            ProptestConfig::default().cases.max(4096)
        ))]

        #[test]
        fn admission_agrees_with_the_parser(text in text()) {
            prop_assume!(text.chars().count() <= MAX_ADMITTED_CHARACTERS);
            // The documented exception.
            let has_lone_bar = text.replace("||", "  ").contains('|') || text.contains("|||");
            if !(has_lone_bar && text.contains('-')) {
                prop_assert_eq!(is_admitted(&text), Range::parse(&text).is_ok());
            }
        }
    }
}
