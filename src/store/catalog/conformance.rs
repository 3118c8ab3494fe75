//! Catalogs as the reference stores them.

use std::path::Path;

use super::*;
use crate::fbc::document::DOCUMENT_LIMIT_BYTES;
use crate::fbc::package::Packages;
use crate::testing::conformance::{Row, Score, Set};

/// What would be served of `root`, blob by blob with its file, as far as it can be read.
fn stored(root: &Path) -> (Vec<(String, String)>, Option<String>) {
    let mut blobs = Vec::new();
    let result = read_directory_or_file(root, &mut |file, located| {
        let blob = String::from_utf8(located.meta.blob).unwrap();
        blobs.push((file.to_owned(), format!("{blob}\n")));
    });
    (blobs, result.err().map(|error| crate::error::chain(&error)))
}

/// Integers beyond 2^53 as the reference leaves them: decision D31 keeps their digits.
pub(crate) fn without_precision(blob: &str) -> String {
    let mut text = String::new();
    let mut number = String::new();
    let mut in_string = false;
    let mut is_escaped = false;
    for c in blob.chars() {
        if !in_string
            && (c.is_ascii_digit() || "+-.eE".contains(c) && !number.is_empty() || c == '-')
        {
            number.push(c);
            continue;
        }
        if !number.is_empty() {
            text.push_str(&crate::fbc::scalar::format_float(number.parse().unwrap()));
            number.clear();
        }
        match c {
            '"' if !is_escaped => in_string = !in_string,
            _ => {}
        }
        is_escaped = in_string && c == '\\' && !is_escaped;
        text.push(c);
    }
    text
}

pub(crate) fn lay_out(row: &Row, root: &Path) {
    let write = |path: &str, bytes: &[u8]| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    for (path, text) in row.value["files"].as_object().into_iter().flatten() {
        write(path, text.as_str().unwrap().as_bytes());
    }
    for (path, text) in row.value["files_b64"].as_object().into_iter().flatten() {
        use base64::Engine as _;
        let engine = base64::engine::general_purpose::STANDARD;
        write(path, &engine.decode(text.as_str().unwrap()).unwrap());
    }
    for directory in row.value["dirs"].as_array().into_iter().flatten() {
        fs::create_dir_all(root.join(directory.as_str().unwrap())).unwrap();
    }
}

fn judge(row: &Row) -> Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    lay_out(row, directory.path());
    let (blobs, error) = stored(directory.path());
    let expected_error = row.value["walk"]["error"].as_str();
    if error.is_some() != expected_error.is_some() {
        return Err(format!("expected error {expected_error:?}, got {error:?}"));
    }
    let expected: Vec<(String, String)> = row.value["walk"]["meta_list"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|meta| {
            let text = |name: &str| meta[name].as_str().unwrap().to_owned();
            (text("path"), text("blob"))
        })
        .filter(|(_, blob)| !blob.is_empty())
        .collect();
    let reduced: Vec<(String, String)> = blobs
        .iter()
        .map(|(file, blob)| (file.clone(), without_precision(blob)))
        .collect();
    if blobs == expected || reduced == expected {
        Ok(())
    } else {
        Err(format!("expected {expected:?}, got {blobs:?}"))
    }
}

/// Whether the packages can be read must agree, too, where all metas could be.
fn judge_load(row: &Row) -> Option<Result<(), String>> {
    let value = &row.value;
    // A document without content is no blob here; the reference's loader takes it for one without schema.
    let has_empty = value["walk"]["meta_list"]
        .as_array()
        .is_some_and(|metas| metas.iter().any(|meta| meta["blob"] == ""));
    let all_in_packages = value["walk"]["meta_list"].as_array().is_some_and(|metas| {
        metas
            .iter()
            .all(|meta| meta["package"] != "" || meta["schema"] == "olm.package")
    });
    if value["walk"]["error"].is_string() || has_empty || !all_in_packages {
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    lay_out(row, directory.path());
    let mut packages = Packages::default();
    let read = read_directory_or_file(directory.path(), &mut |_, located| {
        packages.add(&located.meta);
    });
    let problem = read.err().map(|error| error.to_string()).or_else(|| {
        let mut packages = packages.finish().into_values();
        packages.find_map(|package| package.err().map(|error| error.to_string()))
    });
    let expected = value["load_error"].as_str();
    Some(if problem.is_some() == expected.is_some() {
        Ok(())
    } else {
        Err(format!("expected load error {expected:?}, got {problem:?}"))
    })
}

#[test]
fn catalogs_are_stored_as_the_reference_stores_them() {
    let Some(set) = Set::open("oracle/fbc") else {
        return;
    };
    let mut stored = Score::new("oracle/fbc blobs", &set);
    let mut loaded = Score::new("oracle/fbc loads", &set);
    for row in &set.rows {
        stored.count(row.id(), judge(row));
        if let Some(verdict) = judge_load(row) {
            loaded.count(row.id(), verdict);
        }
    }
    stored.finish();
    loaded.finish();
}

/// The README beside the archives says what the reference makes of them: bytes and SHA-256 of `catalog.jsonl`.
#[test]
fn real_catalogs_are_stored_byte_for_byte() {
    let Some(set) = Set::open("catalogs") else {
        return;
    };
    let readme = std::env::var_os("OXOLM_CONFORMANCE")
        .and_then(|root| fs::read_to_string(Path::new(&root).join("catalogs/README.md")).ok())
        .unwrap_or_default();
    let mut score = Score::new("catalogs sums", &set);
    for archive in &set.archives {
        let directory = tempfile::tempdir().unwrap();
        archive.extract("", directory.path());
        let target = directory.path().join("published");
        let content = directory.path().join("content");
        fs::create_dir(&content).unwrap();
        archive.extract("", &content);
        let digest = Digest::of(archive.name.as_bytes());
        let source = publish::Source {
            content: &content,
            document_limit_bytes: DOCUMENT_LIMIT_BYTES,
            room_bytes: u64::MAX,
        };
        let written = publish::write(&target, &source, &digest, Timestamp::UNIX_EPOCH);
        assert_eq!(written.unwrap(), Some(()));
        let sum = Digest::of(&fs::read(target.join(BLOBS)).unwrap());
        let hex = sum.hex();
        score.count(
            &archive.name,
            if readme.contains(hex) {
                Ok(())
            } else {
                Err(format!("{hex} is not in the README"))
            },
        );
    }
    score.finish();
}
