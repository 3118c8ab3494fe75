//! What is fast, and how fast: one subject per file. `hack/bench` runs it and makes a table of the figures.
//!
//! Arguments choose subjects by parts of their names, as for criterion.

#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "benches measure time, read files and print; JSON is built from values, and indexed by key"
)]

mod catalog;
mod crd;
mod figure;
mod render;
mod resolve;
mod support;

use criterion::Criterion;

/// A subject: its name, and what measures it.
type Subject = (&'static str, fn(&mut Criterion));

const SUBJECTS: &[Subject] = &[
    ("catalog", catalog::catalog),
    ("crd", crd::crd_upgrades),
    ("render", render::rendering),
    ("resolve", resolve::resolution),
];

fn main() {
    if let Ok(what) = std::env::var(support::MEMORY) {
        if crd::write(&what).is_none() {
            let peak = crd::memory(&what).expect("somebody measures it");
            println!("{peak}");
        }
        return;
    }
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let mut criterion = Criterion::default().configure_from_args();
    figure::calibrate();
    for (name, measure) in SUBJECTS {
        if wanted.is_empty()
            || wanted
                .iter()
                .any(|part| name.contains(part.as_str()) || part.contains(name))
        {
            measure(&mut criterion);
        }
    }
    criterion.final_summary();
}
