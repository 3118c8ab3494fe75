//! `oxolm bundle show`: what a bundle is, what it installs, what it may do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Context as _;
use clap::Args;
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};

use super::super::Answer;
use super::super::objects::{answer, json_text};
use super::super::source::Sources;
use super::Output;
use crate::bundle::RegistryV1;
use crate::bundle::csv::{WebhookDefinition, WebhookType};
use crate::bundle::dependency::dependencies;
use crate::bundle::requirement::{Requirement, minimum_kubernetes, properties};
use crate::preflight::permissions::{Danger, Power, powers};
use crate::render::examine::Examination;
use crate::render::image::images;
use crate::revision::phase;
use crate::upgradeable::maximum;

/// Show what a bundle is, what it installs, what it may do, what it needs and which images it uses.
///
/// What its accounts may do is said in words, the dangerous first, for the widest install mode that it supports.
///
/// Exit code 0: shown; 1: it is no bundle; 2: SRC cannot be read.
///
/// `-o json` prints {"bundle","package","version","displayName","installModes":[],"suggestedNamespace",
/// "needs":[],"objects":[{"apiVersion","kind","namespace","name"}],
/// "permissions":[{"who","namespace","what","danger"}],"webhooks":[{"type","name","deployment","about":[]}],
/// "images":[{"image","purposes":[]}]}.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Example:\n  oxolm bundle show quay.io/me/my-bundle:v1.0.0"
)]
pub(super) struct Show {
    /// The bundle: a directory, a tar archive, or an image
    #[arg(value_name = "SRC")]
    source: String,
    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    sources: Sources,
}

pub(super) fn run(arguments: &Show) -> anyhow::Result<Answer> {
    answer(arguments.facts(), |facts| {
        let text = match arguments.output {
            Output::Json => json_text(&facts.document())?,
            Output::Text => facts.text(),
        };
        anstream::stdout()
            .write_all(text.as_bytes())
            .context("cannot write to standard output")
    })
}

/// What there is to say.
#[derive(Debug)]
pub(super) struct Facts {
    bundle: RegistryV1,
    needs: Vec<String>,
    objects: Vec<Value>,
    powers: Vec<Power>,
}

impl Show {
    pub(super) fn facts(&self) -> anyhow::Result<Facts> {
        let files = self.sources.bundle_files(&self.source)?;
        let bundle = RegistryV1::load(&files)?;
        let mut needs = needs(&bundle);
        // A file that cannot be read is said by `validate`.
        for property in dependencies(&files).unwrap_or_default() {
            if let Ok(Some(requirement)) = property.requirement() {
                needs.push(explained(&requirement));
            }
        }
        needs.dedup();
        // In order of the modes, the widest comes first.
        let rendered = Examination::of(&files).rendered.into_values().next();
        let mut objects = rendered.unwrap_or_default().objects;
        phase::sort(&mut objects);
        Ok(Facts {
            powers: powers(&objects),
            bundle,
            needs,
            objects,
        })
    }
}

/// What the bundle asks of a cluster, in words.
fn needs(bundle: &RegistryV1) -> Vec<String> {
    let mut needs = Vec::new();
    match minimum_kubernetes(&bundle.csv.spec.min_kube_version) {
        Ok(None) => {}
        Ok(Some(minimum)) => needs.push(format!("Kubernetes {minimum} or newer")),
        Err(error) => needs.push(error.to_string()),
    }
    let text = bundle.properties().unwrap_or("[]");
    match maximum(text) {
        Ok(None) => {}
        Ok(Some(maximum)) => needs.push(format!("OpenShift {maximum} or older")),
        Err(error) => needs.push(error.to_string()),
    }
    for property in properties(text).unwrap_or_default() {
        match property.requirement() {
            Ok(None) => {}
            Ok(Some(requirement)) => needs.push(explained(&requirement)),
            Err(error) => needs.push(error.to_string()),
        }
    }
    let webhooks = bundle.csv.spec.webhook_definitions.len();
    if webhooks > 0 {
        needs.push(format!("certificates for webhooks ({webhooks})"));
    }
    needs
}

/// The requirement, and what its author says of it.
fn explained(requirement: &Requirement) -> String {
    match requirement {
        Requirement::Constraint(constraint) if !constraint.failure_message.is_empty() => {
            format!("{requirement} ({})", constraint.failure_message)
        }
        requirement => requirement.to_string(),
    }
}

/// What a webhook is asked about: its rules, or the definitions that it converts.
fn about(webhook: &WebhookDefinition) -> Vec<String> {
    if webhook.r#type == WebhookType::Conversion {
        return webhook
            .conversion_crds
            .iter()
            .map(|crd| format!("conversion of {crd}"))
            .collect();
    }
    let list = |rule: &Value, member: &str| {
        let items = rule.get(member).and_then(Value::as_array);
        let texts = items.into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect::<Vec<_>>()
    };
    webhook
        .rules
        .iter()
        .map(|rule| {
            let groups: Vec<String> = list(rule, "apiGroups")
                .into_iter()
                .map(|group| match group.as_str() {
                    "" => "the core group".to_owned(),
                    _ => group,
                })
                .collect();
            format!(
                "{} of {} in {}",
                list(rule, "operations").join(", "),
                list(rule, "resources").join(", "),
                groups.join(", ")
            )
        })
        .collect()
}

impl Facts {
    fn modes(&self) -> Vec<String> {
        let modes = self.bundle.csv.supported_modes();
        modes.iter().map(ToString::to_string).collect()
    }

    pub(super) fn document(&self) -> Value {
        let spec = &self.bundle.csv.spec;
        let identity = |object: &Value| {
            let at = |pointer: &str| object.pointer(pointer).cloned().unwrap_or_default();
            json!({
                "apiVersion": at("/apiVersion"), "kind": at("/kind"),
                "namespace": at("/metadata/namespace"), "name": at("/metadata/name"),
            })
        };
        let power = |power: &Power| json!({"who": power.who, "namespace": power.namespace, "what": power.what, "danger": power.danger.map(Danger::why)});
        let webhook = |webhook: &WebhookDefinition| {
            json!({
                "type": webhook.r#type.as_str(), "name": webhook.generate_name, "deployment": webhook.deployment_name,
                "about": about(webhook),
            })
        };
        let images = images(&self.bundle).into_iter();
        let images = images.map(|(image, purposes)| json!({"image": image, "purposes": purposes}));
        json!({
            "bundle": self.bundle.csv.metadata.name,
            "package": self.bundle.package,
            "version": spec.version,
            "displayName": spec.display_name,
            "installModes": self.modes(),
            "suggestedNamespace": self.bundle.suggested_namespace(),
            "needs": self.needs,
            "objects": self.objects.iter().map(identity).collect::<Vec<_>>(),
            "permissions": self.powers.iter().map(power).collect::<Vec<_>>(),
            "webhooks": spec.webhook_definitions.iter().map(webhook).collect::<Vec<_>>(),
            "images": images.collect::<Vec<_>>(),
        })
    }

    pub(super) fn text(&self) -> String {
        let spec = &self.bundle.csv.spec;
        let mut out = String::new();
        // Writing to a text cannot fail.
        _ = writeln!(out, "{}", self.bundle.csv.metadata.name.bold());
        let suggested = self.bundle.suggested_namespace().unwrap_or_default();
        for (what, text) in [
            ("name", spec.display_name.as_str()),
            ("package", &self.bundle.package),
            ("version", &spec.version),
            ("install modes", &self.modes().join(", ")),
            ("suggested namespace", &suggested),
        ] {
            if !text.is_empty() {
                _ = writeln!(out, "  {what}: {text}");
            }
        }
        section(&mut out, "needs", self.needs.iter().cloned());
        section(&mut out, "installs", self.installs());
        section(&mut out, "may", self.may());
        let webhooks = spec.webhook_definitions.iter().map(|webhook| {
            let about = about(webhook).join("; ");
            format!(
                "{} {}: {about}",
                webhook.r#type.as_str(),
                webhook.generate_name
            )
        });
        section(&mut out, "is asked about", webhooks);
        let images = images(&self.bundle).into_iter().map(|(image, purposes)| {
            let purposes: Vec<String> = purposes.into_iter().collect();
            format!("{image} ({})", purposes.join("; "))
        });
        section(&mut out, "images", images);
        out
    }

    /// The kinds in order of application, each with its names.
    fn installs(&self) -> Vec<String> {
        let mut kinds: Vec<&str> = Vec::new();
        let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for object in &self.objects {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
            let kind = text("/kind").unwrap_or_default();
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
            let named = names.entry(kind).or_default();
            named.push(text("/metadata/name").unwrap_or_default());
        }
        let line = |kind: &str| {
            format!(
                "{kind}: {}",
                names
                    .get(kind)
                    .map_or(String::new(), |names| names.join(", "))
            )
        };
        kinds.into_iter().map(line).collect()
    }

    /// A line for each danger with who has it, then the harmless rest.
    fn may(&self) -> Vec<String> {
        self.powers
            .iter()
            .map(|power| match power.danger {
                Some(danger) => format!("{} {power} ({})", "!".red(), danger.why()),
                None => power.to_string(),
            })
            .collect()
    }
}

fn section(out: &mut String, title: &str, lines: impl IntoIterator<Item = String>) {
    let mut lines = lines.into_iter().peekable();
    if lines.peek().is_none() {
        return;
    }
    _ = writeln!(out, "\n{}", title.bold());
    for line in lines {
        _ = writeln!(out, "  {line}");
    }
}
