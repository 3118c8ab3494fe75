//! What values of known types must look like, as Go's decoders take them: names match whatever their case, `null` is as
//! good as absent, unknown fields are passed over.

use std::fmt::Write as _;

use crate::fbc::normal;
use crate::fbc::parts;
use crate::fbc::typed::Object;

/// The form of a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    Text,
    Truth,
    /// An integer of 32 bits.
    Whole,
    Anything,
    List(&'static Self),
    /// An object of any keys.
    Map(&'static Self),
    Object(&'static [(&'static str, Self)]),
}

use Shape::{Anything, List, Map, Object as Fields, Text, Truth, Whole};

const TEXTS: Shape = List(&Text);
const LINK: Shape = Fields(&[("name", Text), ("url", Text)]);
const GVK: Shape = Fields(&[("group", Text), ("version", Text), ("kind", Text)]);
const DESCRIPTOR: Shape = Fields(&[
    ("path", Text),
    ("displayName", Text),
    ("description", Text),
    ("x-descriptors", TEXTS),
    ("value", Anything),
]);
const RESOURCE: Shape = Fields(&[("name", Text), ("kind", Text), ("version", Text)]);
const CRD: Shape = Fields(&[
    ("name", Text),
    ("version", Text),
    ("kind", Text),
    ("displayName", Text),
    ("description", Text),
    ("resources", List(&RESOURCE)),
    ("statusDescriptors", List(&DESCRIPTOR)),
    ("specDescriptors", List(&DESCRIPTOR)),
    ("actionDescriptors", List(&DESCRIPTOR)),
]);
const API_SERVICE: Shape = Fields(&[
    ("name", Text),
    ("group", Text),
    ("version", Text),
    ("kind", Text),
    ("deploymentName", Text),
    ("containerPort", Whole),
    ("displayName", Text),
    ("description", Text),
    ("resources", List(&RESOURCE)),
    ("statusDescriptors", List(&DESCRIPTOR)),
    ("specDescriptors", List(&DESCRIPTOR)),
    ("actionDescriptors", List(&DESCRIPTOR)),
]);
const CSV_METADATA: Shape = Fields(&[
    ("annotations", Map(&Text)),
    (
        "apiServiceDefinitions",
        Fields(&[
            ("owned", List(&API_SERVICE)),
            ("required", List(&API_SERVICE)),
        ]),
    ),
    (
        "crdDescriptions",
        Fields(&[("owned", List(&CRD)), ("required", List(&CRD))]),
    ),
    ("description", Text),
    ("displayName", Text),
    (
        "installModes",
        List(&Fields(&[("type", Text), ("supported", Truth)])),
    ),
    ("keywords", TEXTS),
    ("labels", Map(&Text)),
    ("links", List(&LINK)),
    (
        "maintainers",
        List(&Fields(&[("name", Text), ("email", Text)])),
    ),
    ("maturity", Text),
    ("minKubeVersion", Text),
    ("nativeAPIs", List(&GVK)),
    ("provider", LINK),
]);

/// The form of a property's value.
pub(super) fn of_property(kind: &str) -> Shape {
    match kind {
        "olm.package" => Fields(&[("packageName", Text), ("version", Text), ("release", Text)]),
        "olm.package.required" => Fields(&[("packageName", Text), ("versionRange", Text)]),
        "olm.gvk" | "olm.gvk.required" => GVK,
        "olm.bundle.object" => Fields(&[("data", Text)]),
        "olm.csv.metadata" => CSV_METADATA,
        "olm.channel" => Fields(&[("channelName", Text)]),
        _ => Anything,
    }
}

/// Compares a value in normal form with its shape.
///
/// # Errors
/// Says which part of `place` must be what.
pub(super) fn check(value: &[u8], shape: &Shape, place: &str) -> Result<(), String> {
    if value.starts_with(b"n") {
        return Ok(());
    }
    let first = value.first().copied().unwrap_or_default();
    let is_it = match shape {
        Text => first == b'"',
        Truth => matches!(first, b't' | b'f'),
        Whole => std::str::from_utf8(value).is_ok_and(|text| text.parse::<i32>().is_ok()),
        Anything => true,
        List(_) => first == b'[',
        Map(_) | Fields(_) => first == b'{',
    };
    if !is_it {
        return Err(format!("`{place}` must be {}", name(shape)));
    }
    match shape {
        Text | Truth | Whole | Anything => Ok(()),
        List(element) => {
            let mut all = parts::elements(value).into_iter().enumerate();
            all.try_for_each(|(index, one)| check(one, element, &format!("{place}[{index}]")))
        }
        Map(element) => {
            let mut all = parts::entries(value).into_iter();
            all.try_for_each(|(key, one)| {
                let mut below = place.to_owned();
                // Writing to a text cannot fail.
                _ = write!(below, "[{:?}]", normal::decode_string(key));
                check(one, element, &below)
            })
        }
        Fields(fields) => {
            let Ok(object) = Object::of(value, "value") else {
                return Ok(());
            };
            fields.iter().try_for_each(|(field, shape)| {
                let Some(one) = object.value(field) else {
                    return Ok(());
                };
                check(one, shape, &format!("{place}.{field}"))
            })
        }
    }
}

fn name(shape: &Shape) -> &'static str {
    match shape {
        Text => "a string",
        Truth => "true or false",
        Whole => "a whole number",
        Anything => "any value",
        List(_) => "a list",
        Map(_) | Fields(_) => "an object",
    }
}
