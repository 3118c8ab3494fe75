# shellcheck shell=bash disable=SC2154
# Sourced. Builds the programs of the local control plane from the modules in hack/tools, or finds them, in a cache outside the
# checkout. `tools_bin` is the folder that holds them and `rig` our own helper; build_tools makes both complete.
#
# Safe against a second builder (a lock), against being killed (temporary name, then rename), and against the machine's Go settings.
# Needs: hack (this repository's hack folder), progress.sh.

tools_cache=${XDG_CACHE_HOME:-$HOME/.cache}/oxolm/tools
tool_names=(etcd kube-apiserver kube-controller-manager kube-scheduler kwok registry kubectl helm)

pinned_version() { awk -v module="$2" '$1 == "require" { sub("require ", "") } $1 == module { print $2; exit }' "$hack/tools/$1/go.mod"; }
kube_version=$(pinned_version kubernetes k8s.io/kubernetes)

# tool_recipe NAME sets: module (folder), package, stamp (linker flags beside the usual), fits (what --version must say to be used as found).
tool_recipe() {
    local minor=${kube_version#v1.}
    minor=${minor%%.*}
    module=$1 stamp=
    case $1 in
    etcd) package=go.etcd.io/etcd/server/v3 fits='etcd Version: 3\.6\.' ;;
    kwok) package=sigs.k8s.io/kwok/cmd/kwok fits='v0\.8\.' ;;
    registry) package=github.com/distribution/distribution/v3/cmd/registry fits=' v?3\.' ;;
    helm) package=helm.sh/helm/v3/cmd/helm fits='v3\.' ;;
    kube*)
        module=kubernetes package=k8s.io/kubernetes/cmd/$1 fits="v1\\.$minor\\."
        local version=k8s.io/component-base/version
        stamp="-X $version.gitVersion=$kube_version -X $version.gitMajor=1 -X $version.gitMinor=$minor"
        ;;
    esac
}

# What is built, and how, names the folder: a change of a pin or of the recipe gives another one.
short_hash() { sha256sum | cut -c1-16; }
tools_bin=$tools_cache/$({
    cat "$hack"/tools/{etcd,helm,kubernetes,kwok,registry}/{go.mod,go.sum,tools.go}
    declare -f tool_recipe
    uname -m
} | short_hash)/bin
rig=$tools_cache/rig-$(cat "$hack"/tools/rig/{*.go,go.mod} | short_hash)/rig

# build_tools makes every program available; it says nothing when nothing is to be done.
build_tools() {
    [[ -n $(missing_tools) ]] || return 0
    mkdir -p "$tools_bin" "$(dirname "$rig")"
    (
        if ! flock --nonblock 8; then
            say "another process is building the tools: waiting for it"
            flock 8
        fi
        local missing
        mapfile -t missing < <(missing_tools)
        ((${#missing[@]} == 0)) || provide_tools "${missing[@]}"
    ) 8>"$tools_cache/lock"
}

missing_tools() {
    local name
    [[ -x $rig ]] || printf 'rig\n'
    for name in "${tool_names[@]}"; do
        [[ -x $tools_bin/$name ]] || printf '%s\n' "$name"
    done
}

provide_tools() {
    local name found number=0 total=$#
    say "tools of the control plane: $total to provide in $tools_bin (everything from source: about 15 minutes on two cores)"
    for name in "$@"; do
        step $((++number)) "$total" "$name"
        if [[ $name == rig ]]; then
            go_build rig . '-s -w' "$rig"
            step_end built
            continue
        fi
        local module package stamp fits
        tool_recipe "$name"
        if found=$(find_tool "$name" "$fits"); then
            ln -sfn "$found" "$tools_bin/$name"
            step_end "found as $found"
        else
            go_build "$module" "$package" "-s -w${stamp:+ $stamp}" "$tools_bin/$name"
            step_end built
        fi
    done
}

# find_tool NAME PATTERN prints a program of a fitting version from KUBEBUILDER_ASSETS or PATH, but none of another cache folder of ours.
find_tool() {
    local folder folders
    IFS=: read -ra folders <<<"${KUBEBUILDER_ASSETS:-}:$PATH"
    for folder in "${folders[@]}"; do
        [[ -n $folder && $folder != "$tools_cache"/* && -x $folder/$1 ]] || continue
        if tool_version "$1" "$folder/$1" | grep -Eq "$2"; then
            realpath "$folder/$1"
            return
        fi
    done
    return 1
}

tool_version() {
    local arguments=(--version)
    case $1 in
    kubectl) arguments=(version --client) ;;
    helm) arguments=(version --short) ;;
    esac
    timeout 10 "$2" "${arguments[@]}" 2>&1 || true
}

# go_build MODULE PACKAGE LDFLAGS TARGET builds in the module's folder and renames into place. With TAGS, and with C if CGO is 1.
go_build() {
    local temporary log
    command -v go >/dev/null || { say; die "go is needed to build the control plane: install Go $(go_needed) or newer (https://go.dev/dl/)"; }
    log=$tools_cache/build.log
    temporary=$(dirname "$4")/.$(basename "$4").tmp
    if ! (
        cd "$hack/tools/$1"
        unset GOOS GOARCH GOEXPERIMENT GOWORK
        GOWORK=off CGO_ENABLED=${CGO:-0} GOFLAGS='-mod=readonly -buildvcs=false' \
            go build -trimpath -tags "${TAGS:-}" -ldflags "$3" -o "$temporary" "$2"
    ) >"$log" 2>&1; then
        say failed
        tail -n 15 "$log" >&2
        if grep -q 'requires go' "$log"; then
            die "$(go version) is too old: install Go $(go_needed) or newer (https://go.dev/dl/)"
        fi
        die "cannot build $2 (whole log: $log)"
    fi
    mv "$temporary" "$4"
}

go_needed() { awk '$1 == "go" { print $2 }' "$hack/tools/kubernetes/go.mod"; }

# fetch_packages FOLDER PACKAGE... takes the files of Debian packages, of the version that this machine would install, into a folder.
fetch_packages() {
    local folder=$1 temporary package
    shift
    [[ ! -e $folder ]] || return 0
    temporary=$(mktemp -d)
    if ! (cd "$temporary" && chmod 755 . && apt-get download --quiet "$@") >"$tools_cache/build.log" 2>&1; then
        rm -rf "$temporary"
        say failed
        tail -n 5 "$tools_cache/build.log" >&2
        die "cannot fetch Debian packages ($*): try apt-get update"
    fi
    mkdir "$temporary/files"
    for package in "$temporary"/*.deb; do dpkg-deb --extract "$package" "$temporary/files"; done
    mkdir -p "$(dirname "$folder")"
    mv "$temporary/files" "$folder"
    rm -rf "$temporary"
}
