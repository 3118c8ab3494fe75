//! What a text in normal form consists of: the members of its objects and arrays, found in one pass over their bytes.
//!
//! The text comes from [`super::normal`], so nothing is checked again; of any other text the parts are arbitrary.

use super::normal::plain_length;

/// Key and value of a member, as written.
pub(crate) type Entry<'a> = (&'a [u8], &'a [u8]);

/// The entries of an object, key and value; none for anything else.
pub(crate) fn entries(object: &[u8]) -> Vec<Entry<'_>> {
    object_at_start(object).0
}

/// The elements of an array; none for anything else.
pub(crate) fn elements(array: &[u8]) -> Vec<&[u8]> {
    let mut elements = Vec::new();
    each_element(array, |rest| {
        let length = value_length(rest);
        elements.push(rest.get(..length).unwrap_or(rest));
        Some(length)
    });
    elements
}

/// The entries of each object in an array; `null` counts as an object without any. `None` when something else is in it.
pub(crate) fn objects(array: &[u8]) -> Option<Vec<Vec<Entry<'_>>>> {
    let mut objects = Vec::new();
    let all = each_element(array, |rest| {
        let (entries, length) = match rest.first() {
            Some(b'{') => object_at_start(rest),
            Some(b'n') => (Vec::new(), value_length(rest)),
            _ => return None,
        };
        objects.push(entries);
        Some(length)
    });
    all.then_some(objects)
}

/// Hands what is left of an array to `take` at each element, which tells how many bytes that takes. False when it does not.
fn each_element<'a>(array: &'a [u8], mut take: impl FnMut(&'a [u8]) -> Option<usize>) -> bool {
    let Some(mut rest) = array.strip_prefix(b"[") else {
        return true;
    };
    while !matches!(rest.first(), None | Some(b'}' | b']')) {
        let Some(length) = take(rest) else {
            return false;
        };
        let after = rest.get(length..).unwrap_or_default();
        rest = match after.strip_prefix(b",") {
            Some(next) => next,
            // Such a text is not in normal form; it must end all the same.
            None if length == 0 => return true,
            None => after,
        };
    }
    true
}

/// The entries of the object that `text` begins with, and how many bytes it takes.
fn object_at_start(text: &[u8]) -> (Vec<Entry<'_>>, usize) {
    let mut entries = Vec::new();
    let Some(mut rest) = text.strip_prefix(b"{") else {
        return (entries, 0);
    };
    while !matches!(rest.first(), None | Some(b'}' | b']')) {
        let Some((key, value)) = rest.split_at_checked(value_length(rest)) else {
            break;
        };
        let value = value.strip_prefix(b":").unwrap_or_default();
        let length = value_length(value);
        let (value, after) = value.split_at_checked(length).unwrap_or((value, &[]));
        entries.push((key, value));
        rest = match after.strip_prefix(b",") {
            Some(next) => next,
            // Such a text is not in normal form; it must end all the same.
            None if after.len() == rest.len() => break,
            None => after,
        };
    }
    (entries, text.len() - rest.len() + 1)
}

/// How many bytes the value at the start of `text` takes.
fn value_length(text: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at += string_length(text.get(at..).unwrap_or_default());
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' | b':' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// How many bytes the string at the start of `text` takes, with its quotes.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(rest) = text.get(at..) {
        let plain = plain_length::<b'"'>(rest);
        match rest.get(plain) {
            None => break,
            Some(b'"') => return at + plain + 1,
            Some(_) => at += plain + 2,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn parsed(text: &[u8]) -> Value {
        serde_json::from_slice(text).unwrap()
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a\"\\\\{}:,\\[\\]\n ]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-c\"\\\\:]{0,3}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_parts_are_those_of_the_value(value in any_json()) {
            let text = serde_json::to_vec(&value).unwrap();
            let found: Vec<Value> = elements(&text).into_iter().map(parsed).collect();
            prop_assert_eq!(&found, &value.as_array().cloned().unwrap_or_default());
            let found: Vec<_> = entries(&text).into_iter().map(|(k, v)| (parsed(k), parsed(v))).collect();
            let expected: Vec<_> = value.as_object().into_iter().flatten()
                .map(|(key, value)| (Value::from(key.as_str()), value.clone())).collect();
            prop_assert_eq!(found, expected);
            let rows = objects(&text);
            let all = value.as_array().into_iter().flatten().all(|one| one.is_object() || one.is_null());
            prop_assert_eq!(rows.is_some(), all);
            let expected: Vec<_> = elements(&text).into_iter().map(entries).collect();
            prop_assert_eq!(rows.unwrap_or(expected.clone()), expected);
        }

        #[test]
        fn any_bytes_have_parts(text in prop::collection::vec(prop::sample::select(b"{}[]:,\"\\n1a".to_vec()), 0..30)) {
            // Only that it ends, and within the text, matters here.
            _ = (entries(&text), elements(&text), objects(&text));
        }
    }
}
