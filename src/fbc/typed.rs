//! The fields of a blob as Go's typed readers see them: names match whatever their case, `null` is as good
//! as absent, unknown fields are passed over, a value of the wrong type is an error.
//!
//! It works on text in normal form and copies only what is asked for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::meta::{Meta, fold};
use super::normal;
use super::parts::{self, Entry};

/// Why a field cannot be read: its name and what it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` must be {wanted}")]
pub(crate) struct Mistyped {
    pub(crate) field: &'static str,
    pub(crate) wanted: &'static str,
}

/// An object, in normal form.
#[derive(Debug, Clone)]
pub(crate) struct Object<'a> {
    entries: Vec<Entry<'a>>,
}

impl<'a> Object<'a> {
    /// The object that a blob is.
    pub(crate) fn of_blob(meta: &'a Meta) -> Self {
        Self {
            entries: meta.entries(),
        }
    }

    /// The object that `value` is; `null` is an empty one. `field` names it in errors.
    pub(crate) fn of(value: &'a [u8], field: &'static str) -> Result<Self, Mistyped> {
        match value.first() {
            Some(b'{' | b'n') => Ok(Self {
                entries: parts::entries(value),
            }),
            _ => Err(Mistyped {
                field,
                wanted: "an object",
            }),
        }
    }

    /// The value of `field`, as written. Of several spellings the last one counts.
    pub(crate) fn value(&self, field: &str) -> Option<&'a [u8]> {
        let folded = fold(field);
        self.entries
            .iter()
            .rev()
            .find(|(key, _)| {
                let bare = key.get(1..key.len().saturating_sub(1)).unwrap_or_default();
                bare.eq_ignore_ascii_case(field.as_bytes())
                    || !bare.is_ascii() && fold(&normal::decode_string(key)) == folded
            })
            .map(|(_, value)| *value)
    }

    /// The text of `field`, empty when it is absent.
    pub(crate) fn text(&self, field: &'static str) -> Result<String, Mistyped> {
        match self.value(field) {
            None => Ok(String::new()),
            Some(value) => text(value, field),
        }
    }

    /// The elements of `field`, none when it is absent.
    pub(crate) fn list(&self, field: &'static str) -> Result<Vec<&'a [u8]>, Mistyped> {
        match self.value(field) {
            None => Ok(Vec::new()),
            Some(value) => match value.first() {
                Some(b'[' | b'n') => Ok(parts::elements(value)),
                _ => Err(Mistyped {
                    field,
                    wanted: "a list",
                }),
            },
        }
    }

    /// The objects in the list `field`.
    pub(crate) fn objects(&self, field: &'static str) -> Result<Vec<Self>, Mistyped> {
        let objects = match self.value(field).map(|value| (value, value.first())) {
            None | Some((_, Some(b'n'))) => Vec::new(),
            Some((value, Some(b'['))) => parts::objects(value).ok_or(Mistyped {
                field,
                wanted: "an object",
            })?,
            Some(_) => {
                return Err(Mistyped {
                    field,
                    wanted: "a list",
                });
            }
        };
        let object = |entries| Self { entries };
        Ok(objects.into_iter().map(object).collect())
    }

    /// The texts in the list `field`.
    pub(crate) fn texts(&self, field: &'static str) -> Result<Vec<String>, Mistyped> {
        self.list(field)?
            .into_iter()
            .map(|element| text(element, field))
            .collect()
    }

    /// Whether `field` is absent or holds base64.
    pub(crate) fn check_base64(&self, field: &'static str) -> Result<(), Mistyped> {
        let mut packed = self.text(field)?;
        if memchr::memchr2(b'\n', b'\r', packed.as_bytes()).is_some() {
            packed.retain(|character| !matches!(character, '\n' | '\r'));
        }
        let decoded = STANDARD.decode(packed);
        decoded.map(drop).map_err(|_not_base64| Mistyped {
            field,
            wanted: "base64",
        })
    }
}

fn text(value: &[u8], field: &'static str) -> Result<String, Mistyped> {
    match value.first() {
        Some(b'"') => Ok(normal::decode_string(value)),
        Some(b'n') => Ok(String::new()),
        _ => Err(Mistyped {
            field,
            wanted: "a string",
        }),
    }
}

/// A value of any type.
pub(crate) fn any(value: &[u8]) -> Result<Value, Mistyped> {
    normal::decode(value).map_err(|_too_deep| Mistyped {
        field: "value",
        wanted: "nested less deeply",
    })
}
