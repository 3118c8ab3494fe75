//! The table of all metrics.

use super::{Kind, Metric, Stability};

/// Declares a constant for each metric, and the list of all.
macro_rules! metrics {
    ($($id:ident $name:literal $kind:ident [$($label:literal),*] $unit:literal $stability:ident $help:literal;)+) => {
        $(
            #[doc = concat!("`", $name, "`")]
            pub const $id: Metric = Metric {
                name: $name,
                kind: Kind::$kind,
                labels: &[$($label),*],
                unit: $unit,
                stability: Stability::$stability,
                help: $help,
            };
        )+

        /// Every metric, in the order of the page.
        pub const ALL: &[Metric] = &[$($id),+];
    };
}

metrics! {
    EXTENSION_INFO "olm_clusterextension_info" Gauge ["bundle", "catalog", "install_namespace", "name", "package", "version"] "" Stable
        "Always 1, for each ClusterExtension; bundle, version and catalog are those that are installed, empty while none is.";
    EXTENSION_CONDITION "olm_clusterextension_condition" Gauge ["name", "reason", "type"] "" Stable
        "Each condition of each ClusterExtension: 1 is True, 0 is False, -1 is Unknown.";
    EXTENSION_UPDATE "olm_clusterextension_available_update" Gauge ["bundle", "name", "version"] "" Stable
        "Always 1, for each ClusterExtension with a newer bundle that its spec or the upgrade edges keep from being installed.";
    EXTENSION_BLOCKS "olm_clusterextension_blocks_cluster_upgrade" Gauge ["name"] "" Stable
        "Whether what is installed keeps OpenShift from its next minor version, 1 or 0; only on OpenShift, and told by the leader.";
    EXTENSION_DELETION "olm_clusterextension_deletion_timestamp_seconds" Gauge ["name"] "seconds" Stable
        "When a ClusterExtension that is being uninstalled was deleted, as a Unix time.";
    CATALOG_INFO "olm_clustercatalog_info" Gauge ["availability", "name"] "" Stable
        "Always 1, for each ClusterCatalog; availability is its availabilityMode.";
    CATALOG_CONDITION "olm_clustercatalog_condition" Gauge ["name", "reason", "type"] "" Stable
        "Each condition of each ClusterCatalog: 1 is True, 0 is False, -1 is Unknown.";
    CATALOG_SERVED "olm_clustercatalog_served" Gauge ["name"] "" Stable
        "Whether this replica serves the content of a ClusterCatalog, 1 or 0.";
    TRANSITIONS "olm_transitions_total" Counter ["kind", "reason"] "" Stable
        "Transitions that were told by an Event, by the kind of the object and the reason of the Event.";
    RESOLUTION_SECONDS "olm_resolution_duration_seconds" Histogram ["outcome"] "seconds" Stable
        "How long it took to choose a bundle, or to find out that there is none.";
    PULL_SECONDS "olm_image_pull_duration_seconds" Histogram ["kind", "outcome"] "seconds" Stable
        "How long it took to pull and unpack an image that was not on disk; kind is catalog or bundle.";
    RENDER_SECONDS "olm_bundle_render_duration_seconds" Histogram ["outcome"] "seconds" Stable
        "How long it took to read and render a bundle that is on disk.";
    APPLY_SECONDS "olm_revision_apply_duration_seconds" Histogram ["outcome"] "seconds" Stable
        "How long a pass over the objects of a revision took that asked the API server.";
    DRIFT_REPAIRS "olm_drift_repairs_total" Counter ["action"] "" Stable
        "Installed objects that somebody had deleted or changed, and that were brought back; action is created or updated.";
    PREFLIGHT_FINDINGS "olm_preflight_findings_total" Counter ["check"] "" Stable
        "Rollouts that a check before the first write refused; each attempt counts.";
    CACHE_BYTES "olm_cache_bytes" Gauge [] "bytes" Stable
        "What catalogs and bundles take on this replica's disk; measured at most once a minute.";
    BUILD_INFO "olm_build_info" Gauge ["version"] "" Stable
        "Always 1; version is oxolm's own.";
    CATALOG_REQUESTS "catalogd_http_request_duration_seconds" Histogram ["code"] "seconds" Theirs
        "How long requests to the catalog content server took, until their last byte.";
    RECONCILES "controller_runtime_reconcile_total" Counter ["controller", "result"] "" Theirs
        "Passes over objects; result is success, requeue_after or error.";
    RECONCILE_ERRORS "controller_runtime_reconcile_errors_total" Counter ["controller"] "" Theirs
        "Passes that failed.";
    TERMINAL_ERRORS "controller_runtime_terminal_reconcile_errors_total" Counter ["controller"] "" Theirs
        "Passes that failed in a way that another attempt would not mend.";
    RECONCILE_PANICS "controller_runtime_reconcile_panics_total" Counter ["controller"] "" Theirs
        "Passes that panicked.";
    RECONCILE_SECONDS "controller_runtime_reconcile_time_seconds" Histogram ["controller"] "seconds" Theirs
        "How long passes took.";
    MAX_CONCURRENT "controller_runtime_max_concurrent_reconciles" Gauge ["controller"] "" Theirs
        "How many passes there may be at the same time.";
    ACTIVE_WORKERS "controller_runtime_active_workers" Gauge ["controller"] "" Theirs
        "Passes under way.";
    QUEUE_DEPTH "workqueue_depth" Gauge ["controller", "name"] "" Theirs
        "Objects that wait for a pass.";
    QUEUE_ADDS "workqueue_adds_total" Counter ["controller", "name"] "" Theirs
        "How often an object began to wait for a pass.";
    QUEUE_SECONDS "workqueue_queue_duration_seconds" Histogram ["controller", "name"] "seconds" Theirs
        "How long objects waited for a pass.";
    WORK_SECONDS "workqueue_work_duration_seconds" Histogram ["controller", "name"] "seconds" Theirs
        "How long passes took, with what comes after them.";
    UNFINISHED_SECONDS "workqueue_unfinished_work_seconds" Gauge ["controller", "name"] "seconds" Theirs
        "How long the passes under way have taken so far, together.";
    LONGEST_SECONDS "workqueue_longest_running_processor_seconds" Gauge ["controller", "name"] "seconds" Theirs
        "How long the longest pass under way has taken so far.";
    QUEUE_RETRIES "workqueue_retries_total" Counter ["controller", "name"] "" Theirs
        "Passes that are to be tried again after a delay that grows.";
    LEADER "leader_election_master_status" Gauge ["name"] "" Theirs
        "Whether this replica leads, 1 or 0; name is that of the lease.";
    REST_REQUESTS "rest_client_requests_total" Counter ["code", "host", "method"] "" Theirs
        "Requests to the API server by status code, or <error> where none came.";
    PROCESS_CPU "process_cpu_seconds_total" Counter [] "seconds" Theirs
        "CPU time of the process, its own and the system's for it.";
    PROCESS_OPEN_FDS "process_open_fds" Gauge [] "" Theirs
        "Open file descriptors.";
    PROCESS_MAX_FDS "process_max_fds" Gauge [] "" Theirs
        "How many file descriptors may be open.";
    PROCESS_VIRTUAL "process_virtual_memory_bytes" Gauge [] "bytes" Theirs
        "Virtual memory.";
    PROCESS_VIRTUAL_MAX "process_virtual_memory_max_bytes" Gauge [] "bytes" Theirs
        "How much virtual memory there may be; -1 if as much as there is.";
    PROCESS_RESIDENT "process_resident_memory_bytes" Gauge [] "bytes" Theirs
        "Resident memory.";
    PROCESS_START "process_start_time_seconds" Gauge [] "seconds" Theirs
        "When the process started, as a Unix time.";
    PROCESS_RECEIVED "process_network_receive_bytes_total" Counter [] "bytes" Theirs
        "Bytes that the Pod received.";
    PROCESS_SENT "process_network_transmit_bytes_total" Counter [] "bytes" Theirs
        "Bytes that the Pod sent.";
}
