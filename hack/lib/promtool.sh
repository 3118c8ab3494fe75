# shellcheck shell=bash disable=SC2154
# Sourced. promtool, which checks and tests the rules of the chart: from PATH, or of Debian's package, without installing it.
#
# Needs: hack, progress.sh.

# find_promtool prints where promtool is, and fetches it if need be. If it cannot be had it prints why, and fails.
find_promtool() {
    (
        command -v promtool && return
        # shellcheck source=hack/lib/tools.sh
        . "$hack/lib/tools.sh"
        local folder=$tools_cache/prometheus
        if [[ ! -x $folder/usr/bin/promtool ]]; then
            command -v apt-get >/dev/null || { printf 'it is in the package prometheus, which is not installed, and there is no apt-get' && return 1; }
            mkdir -p "$tools_cache"
            if ! said=$(fetch_packages "$folder" prometheus 2>&1); then
                printf 'it is in the package prometheus, which is not installed: %s' "${said##*$'\n'}"
                return 1
            fi
        fi
        printf '%s\n' "$folder/usr/bin/promtool"
    )
}
