//! A printed difference in one line: which fields changed from what to what.

/// How the finding begins.
const PREFIX: &str = "unhandled changes found";

/// What stands for a side that says nothing.
const EMPTY: &str = "<empty>";

/// What stands for a schema inside a schema.
const COMPLEX: &str = "<complex value>";

/// What a removed and an inserted line say about one field.
#[derive(Debug, Default)]
struct Change<'a> {
    before: Option<Said<'a>>,
    after: Option<Said<'a>>,
}

/// One side.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said<'a> {
    raw: &'a str,
    shown: String,
}

/// `unhandled changes found (Field before -> after; …)` of a printed difference.
///
/// Every line that begins with a sign and holds a colon speaks of the field before the colon; the last line of a sign
/// counts. So a field of a nested rule is named without its rule, as in the reference.
pub(super) fn condensed(difference: &str) -> String {
    let mut changes: Vec<(&str, Change<'_>)> = Vec::new();
    for line in difference.lines() {
        let line = line.trim();
        let is_removed = line.starts_with('-');
        let Some(rest) = line.strip_prefix(['-', '+']) else {
            continue;
        };
        let rest = rest.trim();
        let rest = rest.strip_suffix(',').unwrap_or(rest);
        let Some((field, raw)) = rest.split_once(':') else {
            continue;
        };
        let (field, raw) = (field.trim(), raw.trim());
        if field.is_empty() {
            continue;
        }
        let known = changes.iter().position(|(name, _)| *name == field);
        let at = known.unwrap_or_else(|| {
            changes.push((field, Change::default()));
            changes.len() - 1
        });
        let said = Some(Said {
            raw,
            shown: shown(raw),
        });
        if let Some((_, change)) = changes.get_mut(at) {
            if is_removed {
                change.before = said;
            } else {
                change.after = said;
            }
        }
    }
    let details: Vec<String> = changes
        .iter()
        .filter(|(_, change)| change.before != change.after)
        .map(|(field, change)| described(field, change))
        .collect();
    if details.is_empty() {
        return PREFIX.to_owned();
    }
    format!("{PREFIX} ({})", details.join("; "))
}

fn described(field: &str, change: &Change<'_>) -> String {
    let text = |said: &Option<Said<'_>>| {
        said.as_ref()
            .map_or_else(|| EMPTY.to_owned(), |said| said.shown.clone())
    };
    let (before, after) = (text(&change.before), text(&change.after));
    let is_hidden = match (&change.before, &change.after) {
        (Some(before), Some(after)) => before.shown == after.shown,
        _ => false,
    };
    let changed = if is_hidden { " (changed)" } else { "" };
    format!("{field} {before} -> {after}{changed}")
}

fn shown(raw: &str) -> String {
    let value = raw.strip_suffix(',').unwrap_or(raw).trim();
    if value.is_empty() {
        return EMPTY.to_owned();
    }
    let value = value.replace("v1.", "");
    if value.contains("JSONSchemaProps") {
        COMPLEX.to_owned()
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(difference: &str, expected: &str) {
        assert_eq!(condensed(difference), expected);
    }

    #[test]
    fn fields_keep_the_order_of_their_first_line() {
        check("", "unhandled changes found");
        check(
            "  x\n- \tFormat: \"\",\n+ \tFormat: \"email\",\n- \tTitle: nil,\n",
            "unhandled changes found (Format \"\" -> \"email\"; Title nil -> <empty>)",
        );
    }

    #[test]
    fn nested_schemas_are_not_printed() {
        check(
            "- Not: &v1.JSONSchemaProps{}\n+ Not: &v1.JSONSchemaProps{Type: \"string\"}\n",
            "unhandled changes found (Not <complex value> -> <complex value> (changed))",
        );
        check(
            "+ A:\n- B: 1\n+ B: 1\n",
            "unhandled changes found (A <empty> -> <empty>)",
        );
    }
}
