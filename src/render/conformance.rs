//! Rendering against what the reference rendered (`oracle/render`).

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::bundle::{Files, RegistryV1};
use crate::error::chain;
use crate::testing::conformance::{Row, Score, Set};

use super::{Provider, RenderOptions, render};

/// The canonical text of objects, as the set's description defines it.
fn canonical(objects: &[Value]) -> String {
    let mut texts: Vec<([String; 4], String)> = objects
        .iter()
        .map(|object| {
            let mut object = object.clone();
            object.as_object_mut().unwrap().remove("status");
            drop_nulls(&mut object);
            let mut text = String::new();
            write(&object, &mut text);
            (identity(&object), text)
        })
        .collect();
    texts.sort();
    let texts: Vec<String> = texts.into_iter().map(|(_, text)| text).collect();
    format!("[{}]", texts.join(","))
}

/// apiVersion, kind, namespace, name.
fn identity(object: &Value) -> [String; 4] {
    [
        "/apiVersion",
        "/kind",
        "/metadata/namespace",
        "/metadata/name",
    ]
    .map(|path| {
        let text = object.pointer(path).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    })
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            out.push('{');
            for (index, (key, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(&Value::from(key.as_str()), out);
                out.push(':');
                write(member, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::String(_) => out.push_str(
            &value
                .to_string()
                .replace('\u{2028}', "\\u2028")
                .replace('\u{2029}', "\\u2029"),
        ),
        Value::Number(number) => out.push_str(&go_number(number)),
        other => out.push_str(&other.to_string()),
    }
}

/// A number as Go's `encoding/json` prints it.
fn go_number(number: &serde_json::Number) -> String {
    if number.is_i64() || number.is_u64() {
        return number.to_string();
    }
    let float = number.as_f64().unwrap();
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{float:e}");
        return match text.split_once("e-") {
            Some(_) => text,
            None => text.replace('e', "e+"),
        };
    }
    format!("{float}")
}

/// Where our decisions differ from a recorded case: the table of all differences.
enum Decided {
    /// Feature gates are always on (D4): the gate's words cannot come.
    GateIsOn,
    /// An unset port means 443 where the reference writes 0, and a name that is one character too long is cut (D36).
    Defects,
}

fn decided(row: &Row, expected: &str) -> Option<Decided> {
    let gates = &row.value["gates"];
    let is_off = |gate: &str| gates[gate] == Value::Bool(false);
    let config = &row.value["config"];
    let names_deployment_config = config.get("deploymentConfig").is_some();
    let text = row.text("error");
    if is_off("DeploymentConfig") && names_deployment_config && text.contains("deploymentConfig") {
        return Some(Decided::GateIsOn);
    }
    if is_off("SingleOwnNamespaceInstallSupport")
        && text.ends_with("bundle does not support AllNamespaces install mode")
    {
        return Some(Decided::GateIsOn);
    }
    if expected.contains("\"port\":0") || !too_long(expected).is_empty() {
        return Some(Decided::Defects);
    }
    None
}

/// The names of 64 characters that the reference makes of two parts that have 63 together, and what we make of them.
fn too_long(expected: &str) -> Vec<(String, String)> {
    let objects: Vec<Value> = serde_json::from_str(expected).unwrap_or_default();
    objects
        .iter()
        .filter_map(|object| {
            let name = object["metadata"]["name"].as_str()?;
            let suffix = ["-service", "-cert", "-selfsigned-issuer"]
                .into_iter()
                .find(|suffix| name.ends_with(suffix))
                .or_else(|| name.get(name.rfind('-')?..))?;
            let base = name.strip_suffix(suffix).filter(|_| name.len() == 64)?;
            let shorter = format!("{}{suffix}", base.get(..base.len() - 1)?);
            Some((name.to_owned(), shorter))
        })
        .collect()
}

/// What was recorded, with the reference's defects mended.
fn mended(expected: &str) -> String {
    let mut text = expected.replace("\"port\":0", "\"port\":443");
    for (name, shorter) in too_long(expected) {
        text = text.replace(&name, &shorter);
    }
    let objects: Vec<Value> = serde_json::from_str(&text).unwrap();
    canonical(&objects)
}

/// The error's text without the mark that the reference puts before those that end a rollout.
fn unmarked(text: &str) -> &str {
    text.strip_prefix("terminal error: ").unwrap_or(text)
}

/// Renders the bundle of a row; an error is its text.
pub(crate) type Renderer<'a> = &'a dyn Fn(&Row, &Files) -> Result<Vec<Value>, String>;

fn judge(
    row: &Row,
    files: &Files,
    expected: Option<&str>,
    rendered: Renderer<'_>,
) -> Result<Option<Vec<Value>>, String> {
    let result = rendered(row, files);
    let decided = decided(row, expected.unwrap_or_default());
    let errors: Vec<&str> = match &row.value["error_alternatives"] {
        Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect(),
        _ => row.value["error"].as_str().into_iter().collect(),
    };
    match (result, decided) {
        (result, Some(Decided::GateIsOn)) => gate_is_on(row, result).map(|()| None),
        (Err(error), _) if errors.iter().any(|text| unmarked(text) == error) => Ok(None),
        (Err(error), _) => Err(format!("wanted {errors:?}, got error {error}")),
        (Ok(_), _) if !errors.is_empty() => Err(format!("wanted {errors:?}, got objects")),
        (Ok(objects), decided) => {
            let mut text = canonical(&objects);
            if let Some(Decided::Defects) = decided {
                same_text(&text, &mended(expected.unwrap_or_default()))?;
                return Ok(None);
            }
            if let Some(expected) = expected {
                same_text(&text, expected)?;
            }
            text = hex::encode(Sha256::digest(&text));
            if text != row.text("sha256") {
                return Err(format!("objects differ: {text}"));
            }
            Ok(Some(objects))
        }
    }
}

/// With the gate on, the gate's words cannot come; what comes instead is judged by the cases with the gate on.
fn gate_is_on(row: &Row, result: Result<Vec<Value>, String>) -> Result<(), String> {
    match result {
        Err(error) if error == unmarked(row.text("error")) => {
            Err(format!("the gate is not on: {error}"))
        }
        Err(error) if error.contains("does not support AllNamespaces") => {
            Err(format!("the gate is not on: {error}"))
        }
        _ => Ok(()),
    }
}

fn same_text(ours: &str, expected: &str) -> Result<(), String> {
    let expected = expected.trim_end();
    if ours == expected {
        return Ok(());
    }
    let at = ours
        .bytes()
        .zip(expected.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let around = |text: &str| {
        let bytes = &text.as_bytes()[at.saturating_sub(60).min(text.len())..];
        String::from_utf8_lossy(&bytes[..bytes.len().min(160)]).into_owned()
    };
    Err(format!(
        "differs at {at}:\n    ours     {}\n    expected {}",
        around(ours),
        around(expected)
    ))
}

/// The order of generation, where the reference has one.
fn same_order(row: &Row, objects: &[Value]) -> Result<(), String> {
    let ours: Vec<String> = objects
        .iter()
        .map(|object| identity(object).join("|"))
        .collect();
    if let Value::Array(order) = &row.value["order"] {
        let order: Vec<&str> = order.iter().filter_map(Value::as_str).collect();
        if order != ours && row.value["unstable_order"] != Value::Bool(true) {
            return Err(format!("order differs: {ours:?}"));
        }
    }
    if let Some(expected) = row.value["order_sha256"].as_str()
        && hex::encode(Sha256::digest(ours.join("\n"))) != expected
    {
        return Err(format!("order differs: {ours:?}"));
    }
    Ok(())
}

/// The cases of the set's archives: each with the files of its bundle, and the objects in canonical form if there are any.
pub(crate) fn real_cases(set: &Set) -> impl Iterator<Item = (Row, Files, Option<String>)> {
    set.archives.iter().flat_map(move |archive| {
        archive.rows("cases.jsonl").into_iter().map(move |row| {
            let part = row.place.split('/').next().unwrap_or_default().to_owned();
            let root = format!(
                "{part}/bundles/{}/{}/",
                row.text("package"),
                row.text("version")
            );
            let files: Files = archive
                .files
                .iter()
                .filter_map(|(path, bytes)| {
                    Some((path.strip_prefix(&root)?.to_owned(), bytes.clone()))
                })
                .collect();
            let expected = row.value["expected_file"].as_str().map(|file| {
                String::from_utf8(archive.files[&format!("{part}/{file}")].clone()).unwrap()
            });
            (row, files, expected)
        })
    })
}

/// Scores every case, `real` those of archives and `synthetic` those of lines; `and` judges the objects that are right.
pub(crate) fn score(
    [real, synthetic]: [&str; 2],
    rendered: Renderer<'_>,
    and: fn(&Row, &[Value]) -> Result<(), String>,
) {
    let Some(set) = Set::open("oracle/render") else {
        return;
    };
    let verdict = |row: &Row, files: &Files, expected: Option<&str>| match judge(
        row, files, expected, rendered,
    )? {
        Some(objects) => and(row, &objects),
        None => Ok(()),
    };
    let mut score = Score::new(real, &set);
    for (row, files, expected) in real_cases(&set) {
        score.count(row.id(), verdict(&row, &files, expected.as_deref()));
    }
    score.finish();

    let mut score = Score::new(synthetic, &set);
    for row in &set.rows {
        let files: BTreeMap<String, Vec<u8>> = row.value["files"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(path, text)| (path.clone(), text.as_str().unwrap().as_bytes().to_vec()))
            .collect();
        let expected = match &row.value["objects"] {
            Value::Array(objects) => Some(canonical(objects)),
            _ => None,
        };
        score.count(row.id(), verdict(row, &files, expected.as_deref()));
    }
    score.finish();
}

fn by_library(row: &Row, files: &Files) -> Result<Vec<Value>, String> {
    let bundle = RegistryV1::load(files).map_err(|error| chain(&error))?;
    let config = Some(&row.value["config"]).filter(|config| !config.is_null());
    let options = RenderOptions {
        install_namespace: row.text("install_namespace"),
        config,
        certificates: match row.text("cert_provider") {
            "cert-manager" => Provider::CertManager,
            "service-ca" => Provider::ServiceCa,
            _ => Provider::None,
        },
    };
    render(&bundle, &options)
        .map(|manifests| manifests.objects)
        .map_err(|error| chain(&error))
}

#[test]
fn every_bundle_renders_as_the_reference_renders_it() {
    let names = ["oracle/render real", "oracle/render synthetic"];
    score(names, &by_library, same_order);
}
