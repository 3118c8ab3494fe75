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
mod chart;
mod crd_resources;
mod crd_upgrades;
mod events;
mod faults;
mod harness;
mod install;
mod lifecycle;
mod measure;
mod metrics;
mod node;
mod openshift;
mod recover;
mod rendering;
mod resolution;
mod restart;
mod restore;
mod revision;
mod rivals;
mod rollout;
mod seeds;
mod tenants;
mod uninstall;
mod update;
mod webhooks;

use std::process::ExitCode;

use crate::harness::{Cluster, Story, one_by_one, side_by_side, story};

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
    // The first one waits longest.
    story!(
        "revision::a_late_rollout_is_archived_or_recovers",
        revision::a_late_rollout_is_archived_or_recovers
    ),
    story!(
        "revision::a_pending_claim_halts_the_phases",
        revision::a_pending_claim_halts_the_phases
    ),
    story!(
        "revision::a_revision_by_hand_is_taken_back",
        revision::a_revision_by_hand_is_taken_back
    ),
    story!(
        "revision::probes_of_users_halt_and_pass",
        revision::probes_of_users_halt_and_pass
    ),
    story!(
        "revision::objects_stand_in_secrets",
        revision::objects_stand_in_secrets
    ),
    story!(
        "revision::a_mutable_secret_blocks",
        revision::a_mutable_secret_blocks
    ),
    story!(
        "revision::changed_content_blocks_until_it_is_restored",
        revision::changed_content_blocks_until_it_is_restored
    ),
    story!(
        "rendering::every_object_is_taken",
        rendering::every_object_is_taken
    ),
    story!("install::single_namespace", install::single_namespace),
    story!("install::own_namespace", install::own_namespace),
    story!("install::all_namespaces", install::all_namespaces),
    story!(
        "install::the_documented_rules_are_enough",
        install::the_documented_rules_are_enough
    ),
    story!(
        "install::a_node_selector_reaches_the_operator",
        install::a_node_selector_reaches_the_operator
    ),
    story!(
        "events::every_transition_is_told_once",
        events::every_transition_is_told_once
    ),
    story!(
        "metrics::for_whoever_may_get_them",
        metrics::for_whoever_may_get_them
    ),
    story!(
        "install::revisions_tell_what_they_hold",
        install::revisions_tell_what_they_hold
    ),
    story!(
        "install::a_large_definition_installs",
        install::a_large_definition_installs
    ),
    story!(
        "update::identical_content_is_a_new_revision",
        update::identical_content_is_a_new_revision
    ),
    story!(
        "update::a_second_extension_collides",
        update::a_second_extension_collides
    ),
    story!("update::what_is_dropped_goes", update::what_is_dropped_goes),
    story!(
        "update::both_revisions_are_told",
        update::both_revisions_are_told
    ),
    story!(
        "recover::an_unready_operator_is_told",
        recover::an_unready_operator_is_told
    ),
    story!(
        "recover::an_extension_waits_for_its_namespace",
        recover::an_extension_waits_for_its_namespace
    ),
    story!(
        "recover::what_comes_beside_the_operator_is_kept_up",
        recover::what_comes_beside_the_operator_is_kept_up
    ),
    story!(
        "recover::an_object_in_the_way_is_removed",
        recover::an_object_in_the_way_is_removed
    ),
    story!(
        "recover::without_its_catalog_content_is_kept_up",
        recover::without_its_catalog_content_is_kept_up
    ),
    story!(
        "recover::what_oxolm_may_not_watch_is_kept_up",
        recover::what_oxolm_may_not_watch_is_kept_up
    ),
    story!(
        "recover::what_somebody_else_wrote_is_put_right",
        recover::what_somebody_else_wrote_is_put_right
    ),
    story!(
        "recover::what_the_server_does_not_know_is_left_out",
        recover::what_the_server_does_not_know_is_left_out
    ),
    story!(
        "recover::what_users_add_stays",
        recover::what_users_add_stays
    ),
    story!(
        "rollout::adoption_is_asked_for",
        rollout::adoption_is_asked_for
    ),
    story!("rollout::a_forced_way_back", rollout::a_forced_way_back),
    story!(
        "rollout::a_way_back_that_loses_data",
        rollout::a_way_back_that_loses_data
    ),
    story!(
        "rollout::what_moves_stays_and_what_changes_kind_is_made_anew",
        rollout::what_moves_stays_and_what_changes_kind_is_made_anew
    ),
    story!(
        "rollout::what_is_made_anew_is_let_in_first",
        rollout::what_is_made_anew_is_let_in_first
    ),
    story!(
        "rollout::rights_that_are_gained_are_told",
        rollout::rights_that_are_gained_are_told
    ),
    story!(
        "rollout::rights_to_take_down_the_old_version_are_asked_for",
        rollout::rights_to_take_down_the_old_version_are_asked_for
    ),
    story!(
        "rollout::a_label_of_somebody_else_means_nothing",
        rollout::a_label_of_somebody_else_means_nothing
    ),
    story!(
        "uninstall::everything_is_deleted_in_one_command",
        uninstall::everything_is_deleted_in_one_command
    ),
    story!(
        "uninstall::resources_that_leave_are_waited_for",
        uninstall::resources_that_leave_are_waited_for
    ),
    story!(
        "uninstall::what_is_orphaned_stays_and_is_taken_back",
        uninstall::what_is_orphaned_stays_and_is_taken_back
    ),
    story!(
        "uninstall::without_its_account_everything_goes",
        uninstall::without_its_account_everything_goes
    ),
    story!(
        "tenants::a_policy_decides_what_is_installed",
        tenants::a_policy_decides_what_is_installed
    ),
    story!(
        "lifecycle::install_upgrade_rollback_uninstall",
        lifecycle::install_upgrade_rollback_uninstall
    ),
    story!(
        "revision::drift_that_excludes_ours_is_repaired",
        revision::drift_that_excludes_ours_is_repaired
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
        "catalogs::one_catalog_by_every_way",
        catalogs::one_catalog_by_every_way
    ),
    story!(
        "crd_resources::generated_schemas",
        crd_resources::generated_schemas
    ),
    story!("crd_resources::edges", crd_resources::edges),
    story!("crd_resources::real_crds", crd_resources::real_crds),
    story!(
        "crd_resources::formats_and_functions",
        crd_resources::formats_and_functions
    ),
    story!(
        "crd_upgrades::a_breaking_change_is_refused",
        crd_upgrades::a_breaking_change_is_refused
    ),
    story!(
        "crd_upgrades::stored_resources_decide",
        crd_upgrades::stored_resources_decide
    ),
    story!(
        "crd_upgrades::a_dead_conversion_webhook_leaves_the_verdict",
        crd_upgrades::a_dead_conversion_webhook_leaves_the_verdict
    ),
    story!(
        "crd_upgrades::a_webhook_that_is_still_needed_is_reported",
        crd_upgrades::a_webhook_that_is_still_needed_is_reported
    ),
    story!(
        "crd_upgrades::resources_that_may_not_be_listed",
        crd_upgrades::resources_that_may_not_be_listed
    ),
    story!(
        "crd_upgrades::a_version_with_resources_stays_served",
        crd_upgrades::a_version_with_resources_stays_served
    ),
    story!(
        "crd_upgrades::a_dropped_definition_is_kept_with_its_resources",
        crd_upgrades::a_dropped_definition_is_kept_with_its_resources
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
        "openshift::an_installed_bundle_blocks_the_update",
        openshift::an_installed_bundle_blocks_the_update
    ),
    story!(
        "openshift::both_revisions_count",
        openshift::both_revisions_count
    ),
    story!(
        "webhooks::a_certificate_is_rotated_under_calls",
        webhooks::a_certificate_is_rotated_under_calls
    ),
    story!(
        "webhooks::a_foreign_secret_is_a_collision",
        webhooks::a_foreign_secret_is_a_collision
    ),
    story!(
        "webhooks::a_webhook_that_nobody_answers_is_told",
        webhooks::a_webhook_that_nobody_answers_is_told
    ),
    story!(
        "seeds::examples_of_the_documentation",
        seeds::examples_of_the_documentation
    ),
];

/// Told one by one: they stop oxolm, or install what others install, too.
const STOPPING: &[Story] = &[
    story!(
        "install::generated_rules_are_enough_and_none_can_go",
        install::generated_rules_are_enough_and_none_can_go
    ),
    story!(
        "restart::killed_in_an_upgrade",
        restart::killed_in_an_upgrade
    ),
    story!(
        "catalogs::pull_secrets_are_used_as_they_change",
        catalogs::pull_secrets_are_used_as_they_change
    ),
    story!(
        "catalogs::a_full_disk_is_survived",
        catalogs::a_full_disk_is_survived
    ),
    story!(
        "restore::what_is_installed_is_known_after_a_restore",
        restore::what_is_installed_is_known_after_a_restore
    ),
    story!(
        "restore::a_backup_is_applied_again",
        restore::a_backup_is_applied_again
    ),
    story!(
        "restore::nothing_goes_with_the_kinds_of_the_api",
        restore::nothing_goes_with_the_kinds_of_the_api
    ),
    story!(
        "rivals::somebody_elses_lease_holds_oxolm_back",
        rivals::somebody_elses_lease_holds_oxolm_back
    ),
    story!("rivals::replicas_stay_ready", rivals::replicas_stay_ready),
    story!(
        "chart::installed_upgraded_rolled_back_and_uninstalled",
        chart::installed_upgraded_rolled_back_and_uninstalled
    ),
];

/// Told when all others are over: it reads what they left in the audit log.
const LAST: &[Story] = &[
    story!("audit::who_wrote_what", audit::who_wrote_what),
    story!(
        "audit::rights_are_used_and_enough",
        audit::rights_are_used_and_enough
    ),
];

/// What stories cannot wait ten minutes for.
const ARGUMENTS: &[&str] = &["--reread-period", "20s"];

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "measure") {
        return measure::run(&arguments[1..]).await;
    }
    if arguments.first().is_some_and(|first| first == "webhook") {
        return webhooks::run_server(&arguments[1..]).await;
    }
    if arguments.first().is_some_and(|first| first == "faults") {
        return faults::run(&arguments[1..]).await;
    }
    if arguments.first().is_some_and(|first| first == "node") {
        return node::run(arguments[1..].to_vec()).await;
    }
    if arguments.first().is_some_and(|first| first == "reader") {
        return node::run_reader(&arguments[1..]).await;
    }
    let chapters = [
        side_by_side(FIRST),
        side_by_side(STORIES),
        one_by_one(STOPPING),
        one_by_one(LAST),
    ];
    let prepare = async || Cluster::prepare(ARGUMENTS).await;
    harness::run(&chapters, arguments, prepare).await
}
