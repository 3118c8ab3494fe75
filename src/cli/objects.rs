#![expect(
    clippy::disallowed_methods,
    reason = "shell: reads the configuration that a command is given"
)]
//! Rendered objects in commands: the flags that rendering takes, how objects are printed, and which failures are an
//! answer.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use serde_saphyr::FlowSeq;

use super::Answer;
use super::catalogs::Unresolved;
use crate::bundle::LoadError;
use crate::error::chain;
use crate::fbc::yaml;
use crate::render::{Provider, RenderError};
use crate::resolve::ResolveError;
use crate::revision::phase::PhaseError;
use crate::store::bundle::ReadBundleError;

/// Who makes the certificates of webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Certificates {
    /// cert-manager
    CertManager,
    #[value(help = "The service CA of OpenShift")]
    ServiceCa,
    /// oxolm
    #[value(name = "self")]
    SelfSigned,
    /// Nobody: a bundle with webhooks is refused
    None,
}

impl From<Certificates> for Provider {
    fn from(certificates: Certificates) -> Self {
        match certificates {
            Certificates::CertManager => Self::CertManager,
            Certificates::ServiceCa => Self::ServiceCa,
            Certificates::SelfSigned => Self::SelfSigned,
            Certificates::None => Self::None,
        }
    }
}

/// Who makes the certificates of webhooks, if that is known before a cluster is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Maker {
    /// Whom oxolm would choose in the cluster that is asked.
    Auto,
    /// This one.
    Known(Certificates),
}

impl ValueEnum for Maker {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Auto,
            Self::Known(Certificates::CertManager),
            Self::Known(Certificates::ServiceCa),
            Self::Known(Certificates::SelfSigned),
            Self::Known(Certificates::None),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Auto => Some(PossibleValue::new("auto").help(
                "Whom oxolm chooses by itself in the cluster that is asked: cert-manager where its API is served, else the \
                 service CA of OpenShift where that is, else oxolm; without a cluster, oxolm",
            )),
            Self::Known(certificates) => certificates.to_possible_value(),
        }
    }
}

/// How objects are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// A stream of documents
    #[default]
    Yaml,
    /// One document
    Json,
}

/// `spec.config.inline` as `path` has it, in YAML or JSON.
///
/// # Errors
/// When the file cannot be read, or is neither.
pub(super) fn configuration(path: &Path) -> anyhow::Result<Value> {
    let shown = path.display();
    let bytes = fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    yaml::value(&bytes).with_context(|| format!("{shown} is neither YAML nor JSON"))
}

/// What the condition of an extension would say, if `error` is the refusal of a bundle or of its configuration.
pub(super) fn refusal(error: &anyhow::Error) -> Option<String> {
    if let Some(error) = error.downcast_ref::<LoadError>() {
        return Some(chain(error));
    }
    if let Some(error) = error.downcast_ref::<RenderError>() {
        return Some(chain(error));
    }
    if let Some(error) = error.downcast_ref::<PhaseError>() {
        return Some(chain(error));
    }
    if let Some(Unresolved { error, .. }) = error.downcast_ref() {
        return match error {
            // The question cannot be asked like this, so there is no answer to it.
            ResolveError::InvalidSelector(_)
            | ResolveError::InvalidVersionRange { .. }
            | ResolveError::CatalogUnavailable { .. } => None,
            ResolveError::InvalidInstalledVersion(_)
            | ResolveError::NoBundles { .. }
            | ResolveError::AmbiguousCatalogs { .. }
            | ResolveError::UnsupportedBundle { .. }
            | ResolveError::UnmetDependency { .. } => Some(chain(error)),
        };
    }
    match error.downcast_ref::<ReadBundleError>()? {
        ReadBundleError::Read { .. } => None,
        error => Some(chain(error)),
    }
}

/// Gives `found` to `print`; a refusal is printed on standard error and means no.
///
/// # Errors
/// When it cannot be printed; what is no refusal.
pub(super) fn answer<T>(
    found: anyhow::Result<T>,
    print: impl FnOnce(T) -> anyhow::Result<()>,
) -> anyhow::Result<Answer> {
    match found {
        Ok(found) => {
            print(found)?;
            Ok(Answer::Yes)
        }
        Err(error) if refusal(&error).is_some() => {
            writeln!(anstream::stderr(), "oxolm: {}", chain(error.as_ref()))
                .context("cannot write to standard error")?;
            Ok(Answer::No)
        }
        Err(error) => Err(error),
    }
}

/// `objects` as one `List`, for kubectl.
///
/// # Errors
/// When an object cannot be said in JSON.
pub(super) fn json_list(objects: &[Value]) -> anyhow::Result<String> {
    json_text(&json!({"apiVersion": "v1", "kind": "List", "items": objects}))
}

/// `value` as JSON for people, with a line break at the end.
///
/// # Errors
/// When it cannot be said in JSON.
pub(super) fn json_text(value: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(value).context("cannot write an object as JSON")?;
    Ok(text + "\n")
}

/// `objects` as a stream of YAML documents, each begun by a separator. Lists of texts take one line each.
///
/// # Errors
/// When an object cannot be said in YAML.
pub(super) fn yaml_stream<'a>(
    objects: impl IntoIterator<Item = &'a Value>,
) -> anyhow::Result<String> {
    let mut text = String::new();
    for object in objects {
        let document =
            serde_saphyr::to_string(&Compact(object)).context("cannot write an object as YAML")?;
        write!(text, "---\n{document}").context("cannot write an object as YAML")?;
    }
    Ok(text)
}

/// A value of which lists of text take one line each.
struct Compact<'a>(&'a Value);

impl Serialize for Compact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) if items.iter().all(Value::is_string) => {
                FlowSeq(items).serialize(serializer)
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Compact)),
            Value::Object(members) => {
                serializer.collect_map(members.iter().map(|(key, value)| (key, Compact(value))))
            }
            scalar => scalar.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fbc::stream;
    use proptest::prelude::*;

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ -~\n\t\u{0}\u{7f}\u{85}\u{2028}é]{0,12}",
            "(y|n|yes|No|on|OFF|true|null|~|0644|0x1f|1_000|1e3|\\.inf|\\.5|12:30|2001-01-01|<<|=|-|\\?|: |# |---|a: b|\\{\\}|\\[)( ?)",
            "[ ]{0,2}[a-z:#\n ]{0,20}\n{0,3}",
        ]
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any_text().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            // A whole number is one, however it is written.
            (-1_000_000..1_000_000).prop_map(|number| Value::from(f64::from(number) + 0.25)),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((any_text(), inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// kubectl reads the YAML as it would read the JSON.
        #[test]
        fn what_is_printed_is_read_as_it_was(value in any_value()) {
            let object = json!({"a": value});
            let text = yaml_stream([&object]).unwrap();
            let read: Vec<_> = stream::documents(text.as_bytes()).map(Result::ok).collect();
            prop_assert_eq!(read, vec![Some(object)], "{}", text);
        }
    }

    #[test]
    fn a_configuration_that_cannot_be_read_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "[").unwrap();
        let shown = file.path().display();
        let text = format!("{:#}", configuration(file.path()).unwrap_err());
        assert!(
            text.starts_with(&format!("{shown} is neither YAML nor JSON: ")),
            "{text}"
        );
        let text = format!("{:#}", configuration(Path::new("/no/where")).unwrap_err());
        assert!(text.starts_with("cannot read /no/where: "), "{text}");
        for (written, expected) in [
            ("{}", json!({})),
            ("watchNamespace: a\n", json!({"watchNamespace": "a"})),
            ("[1]", json!([1])),
            ("", Value::Null),
        ] {
            fs::write(file.path(), written).unwrap();
            assert_eq!(configuration(file.path()).unwrap(), expected);
        }
    }
}
