# shellcheck shell=bash disable=SC2034
# Sourced. Whether a real node can be had here, for scripts that only want to know.
#
# Needs: hack, progress.sh.

# why_no_real_node_here prints what is missing; nothing if it can be had. Builds the control plane's programs, if need be.
why_no_real_node_here() {
    (
        data=/nonexistent
        # shellcheck source=hack/lib/tools.sh
        . "$hack/lib/tools.sh"
        # shellcheck source=hack/lib/node.sh
        . "$hack/lib/node.sh"
        # shellcheck source=hack/lib/parts.sh
        . "$hack/lib/parts.sh"
        build_tools && why_no_real_node
    )
}
