//! What is wrong with a resource, and where.

use crate::preflight::resource::finding::Violation;

/// All that is wrong so far.
#[derive(Default)]
pub(super) struct Found {
    pub(super) violations: Vec<Violation>,
}

impl Found {
    pub(super) fn add(&mut self, path: &str, problem: impl Into<String>) {
        self.violations.push(Violation {
            path: path.trim_start_matches('.').to_owned(),
            problem: problem.into(),
        });
    }
}

/// Runs `then` with a longer path.
pub(super) fn below<T>(path: &mut String, step: &str, then: impl FnOnce(&mut String) -> T) -> T {
    let length = path.len();
    path.push_str(step);
    let result = then(path);
    path.truncate(length);
    result
}
