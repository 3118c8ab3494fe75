//! The stories on a real control plane: one file per story.
//!
//! They need the environment that `hack/cluster env` prints; `hack/test e2e` brings a cluster up and runs them.
//! Arguments choose stories by parts of their names; `--list` prints the names.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    clippy::print_stdout,
    reason = "stories read the environment, talk to the API server and print what happened; JSON is built from values, and indexed by key, which gives null for what is not there"
)]

mod account_policy;
mod api_rules;
mod harness;

use std::process::ExitCode;

use crate::harness::{Story, story};

/// Every story.
const STORIES: &[Story] = &[
    story!("api_rules::catalog_creation", api_rules::catalog_creation),
    story!("api_rules::catalog_status", api_rules::catalog_status),
    story!(
        "api_rules::extension_creation",
        api_rules::extension_creation
    ),
    story!("api_rules::extension_update", api_rules::extension_update),
    story!("api_rules::extension_status", api_rules::extension_status),
    story!("api_rules::revision_creation", api_rules::revision_creation),
    story!("api_rules::revision_update", api_rules::revision_update),
    story!("api_rules::revision_status", api_rules::revision_status),
    story!(
        "api_rules::defaults_and_columns",
        api_rules::defaults_and_columns
    ),
    story!(
        "account_policy::who_may_name_an_account",
        account_policy::who_may_name_an_account
    ),
];

#[tokio::main]
async fn main() -> ExitCode {
    harness::run(STORIES, std::env::args().skip(1).collect()).await
}
