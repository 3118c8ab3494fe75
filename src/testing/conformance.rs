//! Conformance data: sets of cases recorded from the reference, and the numbers that were reached on them.
//!
//! The environment variable `OXOLM_CONFORMANCE` names a folder; a *set* is a folder below it (`vectors`,
//! `oracle/resolve`, …). Every `*.jsonl` and every `*.tar.gz` of a set is read, whatever its name, so that another
//! folder of the same layout can take its place. Tell rows apart by their fields, never by the file that they are in.
//! Where variable or set is absent, `skipped` is printed and the test passes.
//!
//! ```text
//! let Some(set) = Set::open("oracle/resolve") else { return };
//! let mut score = Score::new("oracle/resolve bundles", &set);
//! for row in &set.rows {
//!     score.count(row.id(), judge(row));      // Result<(), String>: what was expected and what came
//! }
//! score.finish();
//! ```
//!
//! [`Score::finish`] compares `N of M` with `hack/conformance.jsonl`, one line per score, sorted by name:
//!
//! * the same data as recorded (by digest): N must not be lower than recorded;
//! * other data: a score that is recorded as full must be full here, too; any other is only reported;
//! * not recorded yet: only reported.
//!
//! `OXOLM_CONFORMANCE_RECORD=1` writes the numbers reached into that file; it never writes a lower N for the same data.
//! A score that reads rows of a second, differently named score shares the digest of the set: that is on purpose.

#![expect(
    clippy::disallowed_methods,
    reason = "reads the conformance data that the environment names"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Where the data is: the folder that holds `vectors/` and `oracle/`.
const DATA: &str = "OXOLM_CONFORMANCE";

/// Set to `1` to write the numbers reached.
const RECORD: &str = "OXOLM_CONFORMANCE_RECORD";

/// How many failures a score prints.
const SHOWN_FAILURES: usize = 20;

/// The tests of one process that record take turns.
static RECORDING: Mutex<()> = Mutex::new(());

/// One set of cases.
#[derive(Debug)]
pub(crate) struct Set {
    /// The folder below the data folder, for instance `oracle/resolve`.
    pub(crate) name: &'static str,
    /// The lines of every `*.jsonl`, files by name.
    pub(crate) rows: Vec<Row>,
    /// Every `*.tar.gz`, by name.
    pub(crate) archives: Vec<Archive>,
    digest: String,
}

/// One line of a `*.jsonl`.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The file and the line, for messages.
    pub(crate) place: String,
    /// The line.
    pub(crate) value: Value,
}

impl Row {
    /// The row's `id`, or its place when it has none.
    pub(crate) fn id(&self) -> &str {
        self.value["id"].as_str().unwrap_or(&self.place)
    }

    /// The string member `name`, or `""`.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.value[name].as_str().unwrap_or_default()
    }
}

/// The files of one `*.tar.gz`, in memory.
#[derive(Debug)]
pub(crate) struct Archive {
    /// The archive's file name.
    pub(crate) name: String,
    /// Regular files by their path in the archive.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

impl Archive {
    /// The lines of every `*.jsonl` file of the archive whose path ends with `suffix`.
    pub(crate) fn rows(&self, suffix: &str) -> Vec<Row> {
        self.files
            .iter()
            .filter(|(path, _)| path.ends_with(suffix))
            .flat_map(|(path, bytes)| rows_of(path, bytes))
            .collect()
    }

    /// Writes the files below `prefix` into `directory`, their paths relative to `prefix`.
    pub(crate) fn extract(&self, prefix: &str, directory: &Path) {
        for (path, bytes) in &self.files {
            let Some(relative) = path.strip_prefix(prefix) else {
                continue;
            };
            let target = directory.join(relative.trim_start_matches('/'));
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::write(target, bytes).unwrap();
        }
    }
}

impl Set {
    /// Reads the set `name`; prints `skipped` and gives `None` when there is no such data.
    pub(crate) fn open(name: &'static str) -> Option<Self> {
        let set = std::env::var_os(DATA)
            .and_then(|root| Self::read(name, &PathBuf::from(root).join(name)));
        if set.is_none() {
            say(&format!(
                "conformance {name}: skipped ({DATA} does not hold it)"
            ));
        }
        set
    }

    /// Archives of the default data folder (`../shared` beside the data folder or beside the checkout) followed by the
    /// set's own: what a set lacks comes from there. Of files with equal paths the last one counts.
    pub(crate) fn with_default_archives(&self) -> Vec<Archive> {
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
        let beside = std::env::var_os(DATA).map(|root| PathBuf::from(root).join("../shared"));
        let mut archives: Vec<Archive> = beside
            .into_iter()
            .chain([checkout])
            .map(|root| root.join(self.name))
            .find(|folder| folder.is_dir())
            .map(|folder| files_of(&folder))
            .unwrap_or_default()
            .iter()
            .filter(|path| is_archive(path))
            .map(|path| archive_of(path, &fs::read(path).unwrap()))
            .collect();
        archives.extend(self.archives.iter().map(|archive| Archive {
            name: archive.name.clone(),
            files: archive.files.clone(),
        }));
        archives
    }

    fn read(name: &'static str, folder: &Path) -> Option<Self> {
        if !folder.is_dir() {
            return None;
        }
        let mut set = Self {
            name,
            rows: Vec::new(),
            archives: Vec::new(),
            digest: String::new(),
        };
        let mut hash = Sha256::new();
        for path in files_of(folder) {
            let is_rows = path.extension().is_some_and(|e| e == "jsonl");
            if !is_rows && !is_archive(&path) {
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            hash.update(Sha256::digest(&bytes));
            if is_rows {
                set.rows.extend(rows_of(&file_name(&path), &bytes));
            } else {
                set.archives.push(archive_of(&path, &bytes));
            }
        }
        set.digest = hex::encode(hash.finalize());
        Some(set)
    }
}

/// The texts of `folder` below the data folder whose names begin with one of `beginnings`, files by name; prints
/// `skipped` and gives `None` when there are none.
pub(crate) fn documents(folder: &str, beginnings: &[&str]) -> Option<Vec<String>> {
    let is_wanted = |path: &PathBuf| {
        let name = file_name(path);
        beginnings.iter().any(|start| name.starts_with(start))
    };
    let found: Vec<String> = std::env::var_os(DATA)
        .map(|root| PathBuf::from(root).join(folder))
        .filter(|folder| folder.is_dir())
        .map(|folder| files_of(&folder))
        .unwrap_or_default()
        .iter()
        .filter(|path| is_wanted(path))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    if found.is_empty() {
        say(&format!(
            "{folder} {beginnings:?}: skipped ({DATA} does not hold them)"
        ));
        return None;
    }
    Some(found)
}

/// The files of a folder, by name.
fn files_of(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn is_archive(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".tar.gz")
}

fn rows_of(file: &str, bytes: &[u8]) -> Vec<Row> {
    bytes
        .split(|byte| *byte == b'\n')
        .enumerate()
        .filter(|(_, line)| !line.trim_ascii().is_empty())
        .map(|(index, line)| {
            let place = format!("{file}:{}", index + 1);
            let value = serde_json::from_slice(line)
                .unwrap_or_else(|error| panic!("cannot read {place}: {error}"));
            Row { place, value }
        })
        .collect()
}

fn archive_of(path: &Path, bytes: &[u8]) -> Archive {
    let mut files = BTreeMap::new();
    let mut archive = tar::Archive::new(flate2::read::MultiGzDecoder::new(bytes));
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let inner = entry.path().unwrap().to_string_lossy().into_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        files.insert(inner.trim_start_matches("./").to_owned(), content);
    }
    Archive {
        name: file_name(path),
        files,
    }
}

/// What is kept of a score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Recorded {
    score: String,
    reached: usize,
    of: usize,
    data: String,
}

/// How many rows of a set (or of a family of its rows) come out as recorded.
#[derive(Debug)]
pub(crate) struct Score {
    name: String,
    data: String,
    reached: usize,
    of: usize,
    failures: Vec<String>,
}

impl Score {
    /// A score over rows of `set`; its name begins with the set's and is unique among all tests.
    pub(crate) fn new(name: &str, set: &Set) -> Self {
        assert!(name.starts_with(set.name), "{name} is not of {}", set.name);
        Self {
            name: name.to_owned(),
            data: set.digest.clone(),
            reached: 0,
            of: 0,
            failures: Vec::new(),
        }
    }

    /// Counts one row; the error says what was expected and what came.
    pub(crate) fn count(&mut self, id: &str, verdict: Result<(), String>) {
        self.of += 1;
        match verdict {
            Ok(()) => self.reached += 1,
            Err(why) => {
                if self.failures.len() < SHOWN_FAILURES {
                    self.failures.push(format!("  {id}: {why}"));
                }
            }
        }
    }

    /// Prints `N of M` and the first failures, and holds them against what was reached before.
    ///
    /// # Panics
    /// When a number that was reached has fallen.
    pub(crate) fn finish(self) {
        let mut text = format!("conformance {}: {} of {}", self.name, self.reached, self.of);
        for failure in &self.failures {
            _ = write!(text, "\n{failure}");
        }
        say(&text);
        let now = Recorded {
            score: self.name,
            reached: self.reached,
            of: self.of,
            data: self.data,
        };
        let _turn = RECORDING
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("hack/conformance.jsonl");
        let before = recorded_in(&fs::read_to_string(&file).unwrap_or_default());
        if let Err(fall) = compare(before.get(&now.score), &now) {
            panic!("{fall}\n{text}");
        }
        if std::env::var(RECORD).is_ok_and(|value| value == "1") && now.of > 0 {
            let mut all = before;
            all.insert(now.score.clone(), now);
            fs::write(&file, printed(&all)).unwrap();
        }
    }
}

/// Whether `now` is at least what was recorded `before`.
fn compare(before: Option<&Recorded>, now: &Recorded) -> Result<(), String> {
    let Some(before) = before else {
        return Ok(());
    };
    let fell = if before.data == now.data {
        now.reached < before.reached
    } else {
        before.reached == before.of && now.reached < now.of
    };
    if fell {
        Err(format!(
            "conformance {} has fallen: {} of {}, recorded {} of {}",
            now.score, now.reached, now.of, before.reached, before.of
        ))
    } else {
        Ok(())
    }
}

fn recorded_in(text: &str) -> BTreeMap<String, Recorded> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let recorded: Recorded = serde_json::from_str(line).unwrap();
            (recorded.score.clone(), recorded)
        })
        .collect()
}

fn printed(all: &BTreeMap<String, Recorded>) -> String {
    all.values()
        .map(|recorded| serde_json::to_string(recorded).unwrap() + "\n")
        .collect()
}

/// Prints past the test harness, which swallows the output of tests that pass.
fn say(text: &str) {
    _ = writeln!(std::io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(data: &str, reached: usize, of: usize) -> Recorded {
        Recorded {
            score: "vectors/x".into(),
            reached,
            of,
            data: data.into(),
        }
    }

    #[test]
    fn a_number_that_was_reached_never_falls() {
        let cases = [
            (("a", 5, 10), ("a", 5, 10), true),
            (("a", 5, 10), ("a", 4, 10), false),
            (("a", 5, 10), ("a", 6, 10), true),
            (("a", 10, 10), ("b", 3, 3), true),
            (("a", 10, 10), ("b", 12, 13), false),
            (("a", 5, 10), ("b", 0, 3), true),
        ];
        for ((data, reached, of), (now_data, now_reached, now_of), holds) in cases {
            let before = recorded(data, reached, of);
            let now = recorded(now_data, now_reached, now_of);
            assert_eq!(
                compare(Some(&before), &now).is_ok(),
                holds,
                "{before:?} {now:?}"
            );
        }
        assert!(compare(None, &recorded("a", 0, 1)).is_ok());
    }

    #[test]
    fn the_kept_numbers_read_back_sorted() {
        let mut all = BTreeMap::new();
        for score in ["vectors/b", "oracle/a"] {
            let mut one = recorded("d", 1, 2);
            one.score = score.into();
            all.insert(score.to_owned(), one);
        }
        let text = printed(&all);
        assert!(text.starts_with(r#"{"score":"oracle/a","reached":1,"of":2,"data":"d"}"#));
        assert_eq!(recorded_in(&text), all);
    }

    #[test]
    fn a_set_reads_every_file_whatever_its_name() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("any.jsonl"),
            "{\"id\":\"1\"}\n\n{\"n\":2}\n",
        )
        .unwrap();
        fs::write(folder.path().join("README.md"), "not data").unwrap();
        let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(
            Vec::new(),
            flate2::Compression::fast(),
        ));
        let content = b"{\"id\":\"c\"}\n";
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, "part/cases.jsonl", &content[..])
            .unwrap();
        let bytes = tar.into_inner().unwrap().finish().unwrap();
        fs::write(folder.path().join("some.tar.gz"), bytes).unwrap();

        let set = Set::read("vectors", folder.path()).unwrap();
        let ids: Vec<_> = set.rows.iter().map(Row::id).collect();
        assert_eq!(ids, ["1", "any.jsonl:3"]);
        assert_eq!(set.archives[0].rows("cases.jsonl")[0].text("id"), "c");
        let target = tempfile::tempdir().unwrap();
        set.archives[0].extract("part/", target.path());
        assert!(target.path().join("cases.jsonl").is_file());
        assert!(Set::read("vectors", &folder.path().join("absent")).is_none());
    }
}
