//! One bundle: its properties, version and images.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Place, Severity, shape};
use crate::fbc::meta::Meta;
use crate::fbc::package;
use crate::fbc::stream;
use crate::fbc::typed::{Mistyped, Object};
use crate::oci::reference;
use crate::version::Version;
use crate::version::release::Release;
use crate::version::skip_range::SkipRange;

/// What other blobs are compared with.
#[derive(Debug)]
pub(super) struct BundleFacts {
    pub(super) place: Place,
    /// Version and release as one text; `None` when there is no sound one.
    pub(super) version: Option<String>,
}

impl BundleFacts {
    /// Package and name.
    pub(super) fn key(&self) -> (&str, &str) {
        (&self.place.package, &self.place.name)
    }
}

/// What is to be said about a bundle on its own.
type Notes = Vec<(Severity, String)>;

/// Reads a bundle's blob.
///
/// # Errors
/// When a field does not have the type that the schema demands.
pub(super) fn read(place: &Place, meta: &Meta) -> Result<(BundleFacts, Notes), Mistyped> {
    let typed = package::bundle(meta)?;
    let object = Object::of_blob(meta);
    let mut notes = Notes::new();
    if meta.name.is_empty() {
        error(&mut notes, "the bundle has no name");
    }
    let mut packages = Vec::new();
    let mut has_objects = false;
    for (index, (kind, value)) in package::properties(&object)?.into_iter().enumerate() {
        let at = format!("properties[{index}].value");
        if let Err(problem) = shape::check(value, &shape::of_property(&kind), &at) {
            error(&mut notes, format!("property {kind:?}: {problem}"));
            continue;
        }
        match kind.as_str() {
            "" => warning(&mut notes, format!("properties[{index}] has no `type`")),
            Meta::PACKAGE => packages.push(value),
            "olm.bundle.object" => {
                has_objects = true;
                if let Some(problem) = object_problem(value) {
                    error(&mut notes, format!("`{at}.data`: {problem}"));
                }
            }
            "olm.gvk" | "olm.gvk.required" => notes.extend(kind_note(value, &at)),
            "olm.package.required" => notes.extend(requirement_note(value, &at)),
            _ => {}
        }
    }
    if has_objects {
        warning(
            &mut notes,
            "property olm.bundle.object makes catalogs large: use olm.csv.metadata",
        );
    }
    let version = match packages.as_slice() {
        [one] => package_property(place, one, &mut notes),
        several => {
            error(
                &mut notes,
                format!(
                    "the bundle must have one property olm.package, and has {}",
                    several.len()
                ),
            );
            None
        }
    };
    if typed.image.is_empty() && !has_objects {
        error(&mut notes, "the bundle has no `image`");
    }
    image_notes(&object, &typed.image, &mut notes)?;
    let facts = BundleFacts {
        place: place.clone(),
        version,
    };
    Ok((facts, notes))
}

/// Checks property `olm.package`; version and release as one text.
fn package_property(place: &Place, value: &[u8], notes: &mut Notes) -> Option<String> {
    let text = |field: &'static str| {
        let object = Object::of(value, "value").ok()?;
        object.text(field).ok()
    };
    let name = text("packageName").unwrap_or_default();
    if name != place.package {
        error(
            notes,
            format!("property olm.package is of package {name:?}"),
        );
    }
    let version_text = text("version").unwrap_or_default();
    let version = match Version::parse(&version_text) {
        Ok(version) => version,
        Err(problem) => {
            error(notes, format!("version {version_text:?}: {problem}"));
            return None;
        }
    };
    let release = text("release").filter(|release| !release.is_empty());
    let Some(release) = release else {
        return Some(version_text);
    };
    if let Err(problem) = Release::parse(&release) {
        error(notes, format!("release {release:?}: {problem}"));
        return None;
    }
    let normal = format!("{}-v{version_text}-{release}", place.package);
    if place.name != normal {
        error(
            notes,
            format!("a bundle with a release must be called {normal:?}"),
        );
    }
    if version.without_build().to_string() != version_text {
        error(
            notes,
            "a version with a release must have no build metadata",
        );
    }
    Some(format!("{version_text}-{release}"))
}

fn image_notes(object: &Object<'_>, image: &str, notes: &mut Notes) -> Result<(), Mistyped> {
    let mut seen = BTreeSet::new();
    let mut check = |place: &str, image: &str, notes: &mut Notes| {
        if image.is_empty() {
            return;
        }
        if let Err(problem) = reference::check_pull_spec(image) {
            // One image is often named in several places.
            if seen.insert(image.to_owned()) {
                error(notes, format!("`{place}` {image:?}: {problem}"));
            }
        }
    };
    check("image", image, notes);
    for (index, related) in object.objects("relatedImages")?.into_iter().enumerate() {
        let related = related.text("image")?;
        let place = format!("relatedImages[{index}].image");
        if related.is_empty() {
            warning(notes, format!("`{place}` is empty"));
        }
        check(&place, &related, notes);
    }
    Ok(())
}

/// What is wrong with an embedded object; it must be base64 of JSON or YAML.
fn object_problem(value: &[u8]) -> Option<String> {
    let object = Object::of(value, "value").ok()?;
    let packed: String = object
        .text("data")
        .ok()?
        .chars()
        .filter(|character| !matches!(character, '\n' | '\r'))
        .collect();
    let Ok(bytes) = STANDARD.decode(packed) else {
        return Some("must be base64".to_owned());
    };
    match stream::documents(&bytes).next() {
        Some(Err(problem)) => Some(format!("must hold JSON or YAML: {problem}")),
        Some(Ok(_)) | None => None,
    }
}

fn kind_note(value: &[u8], at: &str) -> Option<(Severity, String)> {
    let object = Object::of(value, "value").ok()?;
    let is_missing = |field| object.text(field).is_ok_and(|text| text.is_empty());
    (is_missing("kind") || is_missing("version")).then(|| {
        (
            Severity::Warning,
            format!("`{at}` must have `kind` and `version`"),
        )
    })
}

fn requirement_note(value: &[u8], at: &str) -> Option<(Severity, String)> {
    let object = Object::of(value, "value").ok()?;
    let range = object.text("versionRange").ok()?;
    let problem = range_problem(&range)?;
    Some((
        Severity::Warning,
        format!("`{at}.versionRange` {range:?}: {problem}"),
    ))
}

/// What is wrong with a range in language B; nothing with an empty one.
pub(super) fn range_problem(range: &str) -> Option<String> {
    if range.is_empty() {
        return None;
    }
    SkipRange::parse(range).err().map(|error| error.to_string())
}

fn error(notes: &mut Notes, message: impl Into<String>) {
    notes.push((Severity::Error, message.into()));
}

fn warning(notes: &mut Notes, message: impl Into<String>) {
    notes.push((Severity::Warning, message.into()));
}
