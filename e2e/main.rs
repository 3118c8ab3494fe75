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
mod accounts;
mod api_rules;
mod audit;
mod bad_content;
mod catalogs;
mod crd_upgrades;
mod harness;
mod lifecycle;
mod openshift;
mod resolution;
mod restart;
mod seeds;

use std::process::ExitCode;

use crate::harness::{Story, story};

/// Told before oxolm runs, for it would answer to the objects of these stories.
const FIRST: &[Story] = &[
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

/// Told side by side, with oxolm running.
const STORIES: &[Story] = &[
    story!(
        "lifecycle::install_upgrade_rollback_uninstall",
        lifecycle::install_upgrade_rollback_uninstall
    ),
    story!("lifecycle::drift_is_repaired", lifecycle::drift_is_repaired),
    story!("accounts::missing_account", accounts::missing_account),
    story!("accounts::missing_permission", accounts::missing_permission),
    story!(
        "accounts::account_that_the_requester_may_not_impersonate",
        accounts::account_that_the_requester_may_not_impersonate
    ),
    story!("bad_content::bad_catalog", bad_content::bad_catalog),
    story!("bad_content::bad_bundle", bad_content::bad_bundle),
    story!(
        "bad_content::a_stuck_rollout_is_superseded",
        bad_content::a_stuck_rollout_is_superseded
    ),
    story!(
        "catalogs::a_moved_tag_is_served_and_asked",
        catalogs::a_moved_tag_is_served_and_asked
    ),
    story!(
        "crd_upgrades::a_breaking_change_is_refused",
        crd_upgrades::a_breaking_change_is_refused
    ),
    story!(
        "resolution::deprecated_content_is_said",
        resolution::deprecated_content_is_said
    ),
    story!(
        "resolution::catalogs_of_equal_priority",
        resolution::catalogs_of_equal_priority
    ),
    story!(
        "resolution::other_content_under_the_same_version",
        resolution::other_content_under_the_same_version
    ),
    story!(
        "restart::killed_in_an_upgrade",
        restart::killed_in_an_upgrade
    ),
    story!(
        "openshift::an_installed_bundle_blocks_the_update",
        openshift::an_installed_bundle_blocks_the_update
    ),
    story!(
        "seeds::examples_of_the_documentation",
        seeds::examples_of_the_documentation
    ),
];

/// Told when all others are over: it reads what they left in the audit log.
const LAST: &[Story] = &[story!("audit::who_wrote_what", audit::who_wrote_what)];

#[tokio::main]
async fn main() -> ExitCode {
    harness::run(&[FIRST, STORIES, LAST], std::env::args().skip(1).collect()).await
}
