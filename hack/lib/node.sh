# shellcheck shell=bash disable=SC2034,SC2154
# Sourced. A real node for the local control plane: kubelet, containerd, runc, CNI, kube-proxy and DNS, in the namespaces of the
# cluster. Whether it can be had here, how its programs are made, and the files that they read.
#
# Needs: hack, progress.sh, tools.sh (for the first two), parts.sh and data.

node_name=local
# The node's own address, with the size of its network; inside the cluster's network namespace only.
node_address=10.97.0.2
node_network=$node_address/24
dns_address=10.96.0.10
cgroups=/sys/fs/cgroup
pod_cidr_of_node=10.244.0.0/24

node_programs=(containerd containerd-shim-runc-v2 runc bridge host-local loopback kubelet kube-proxy coredns nft)
# Debian packages of which files are taken, without installing them: the program nft with its libraries, and what runc is linked with.
nft_packages=(nftables libnftables1 libnftnl11 libmnl0 libjansson4 libgmp10 libedit2 libbsd0 libmd0 libtinfo6 libxtables12)
seccomp_packages=(libseccomp-dev)

# why_no_real_node prints what is missing for a real node; nothing if it can be had.
why_no_real_node() {
    if [[ $(uname -s) != Linux ]]; then
        printf 'it needs Linux'
    elif [[ $(id -u) != 0 ]]; then
        printf 'it needs root'
    elif [[ ${OXOLM_CLUSTER_ISOLATION:-auto} == none ]] || ! unshare --net --mount --pid --ipc --uts --fork --mount-proc true 2>/dev/null; then
        printf 'it needs namespaces of its own, and they cannot be made here'
    elif [[ -z $(cgroup_hierarchies) ]]; then
        printf 'it needs cgroups, and %s has none that can be written' "$cgroups"
    elif ! unshare --net "$rig" node-network "$node_network" "$service_range" 2>/dev/null; then
        printf 'it needs a kernel with network bridges'
    elif [[ -n $(missing_node_programs) ]] && ! command -v apt-get >/dev/null; then
        printf 'it needs files of Debian packages, and there is no apt-get'
    elif [[ -n $(missing_node_programs) ]] && ! command -v gcc >/dev/null; then
        printf 'it needs gcc, to build runc'
    fi
}

# cgroup_hierarchies prints the folder of each hierarchy: one of version 2, or several of version 1.
cgroup_hierarchies() {
    if [[ -e $cgroups/cgroup.controllers ]]; then
        [[ ! -w $cgroups/cgroup.procs ]] || printf '%s\n' "$cgroups"
        return
    fi
    local folder
    for folder in "$cgroups"/*/; do
        [[ ! -w $folder/cgroup.procs || -L ${folder%/} ]] || printf '%s\n' "${folder%/}"
    done
}

is_cgroup_v2() { [[ -e $cgroups/cgroup.controllers ]]; }

# The name of the cgroup of a cluster: it is the machine's, so it tells clusters apart.
node_cgroup() { printf 'oxolm-%s' "$(short_hash <<<"$data")"; }

make_node_cgroups() {
    local folder file
    while read -r folder; do
        mkdir -p "$folder/$(node_cgroup)"
        if is_cgroup_v2; then
            sed 's/[a-z]*/+&/g' "$folder/cgroup.controllers" >"$folder/cgroup.subtree_control"
            continue
        fi
        # A new group of this hierarchy has no processor and no memory, and so takes no process.
        for file in cpuset.cpus cpuset.mems; do
            [[ ! -e $folder/$file ]] || cat "$folder/$file" >"$folder/$(node_cgroup)/$file"
        done
    done < <(cgroup_hierarchies)
}

# remove_node_cgroups leaves nothing of them; their processes have ended before.
remove_node_cgroups() {
    local folder
    while read -r folder; do
        [[ ! -d $folder/$(node_cgroup) ]] || find "$folder/$(node_cgroup)" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done < <(cgroup_hierarchies)
}

node_bin=$tools_cache/node-$({
    cat "$hack"/tools/{cni,containerd,coredns,kubernetes,runc}/{go.mod,go.sum,tools.go}
    declare -f node_recipe build_node_program fetch_packages
    printf '%s\n' "${nft_packages[@]}" "${seccomp_packages[@]}"
    uname -m
} 2>/dev/null | short_hash)/bin

missing_node_programs() {
    local name
    for name in "${node_programs[@]}"; do
        [[ -x $node_bin/$name ]] || printf '%s\n' "$name"
    done
}

build_node_tools() {
    [[ -n $(missing_node_programs) ]] || return 0
    mkdir -p "$node_bin"
    (
        if ! flock --nonblock 8; then
            say "another process is building the tools: waiting for it"
            flock 8
        fi
        local missing name number=0
        mapfile -t missing < <(missing_node_programs)
        ((${#missing[@]} == 0)) || say "programs of a real node: ${#missing[@]} to provide in $node_bin (everything from source: about 10 minutes on two cores)"
        for name in "${missing[@]}"; do
            step $((++number)) ${#missing[@]} "$name"
            build_node_program "$name"
            step_end built
        done
    ) 8>"$tools_cache/lock"
}

# node_recipe NAME sets: module (folder), package, tags.
node_recipe() {
    tags=
    case $1 in
    containerd*) module=containerd package=github.com/containerd/containerd/v2/cmd/$1 tags=no_btrfs,no_devmapper,no_zfs ;;
    runc) module=runc package=github.com/opencontainers/runc tags=seccomp,netgo,osusergo ;;
    bridge | loopback) module=cni package=github.com/containernetworking/plugins/plugins/main/$1 ;;
    host-local) module=cni package=github.com/containernetworking/plugins/plugins/ipam/$1 ;;
    coredns) module=coredns package=github.com/coredns/coredns ;;
    esac
}

build_node_program() {
    local module package tags stamp fits found
    case $1 in
    kube*)
        tool_recipe "$1"
        go_build "$module" "$package" "-s -w $stamp" "$node_bin/$1"
        ;;
    nft)
        if found=$(command -v nft); then
            ln -sfn "$found" "$node_bin/nft"
            return
        fi
        fetch_packages "$node_bin/../nft" "${nft_packages[@]}"
        write_program "$node_bin/nft" "folder=\$(cd \"\$(dirname \"\$0\")/../nft\" && pwd)
LD_LIBRARY_PATH=\$(echo \"\$folder\"/usr/lib/*-linux-gnu):\$(echo \"\$folder\"/lib/*-linux-gnu) exec \"\$folder/usr/sbin/nft\" \"\$@\""
        ;;
    runc)
        fetch_packages "$node_bin/../seccomp" "${seccomp_packages[@]}"
        local root library
        root=$(realpath "$node_bin/../seccomp/usr")
        library=$(dirname "$(find "$root/lib" -name libseccomp.a)")
        # What pkg-config would say of files that are installed nowhere.
        write_program "$node_bin/../pkg-config" "case \"\$*\" in *--cflags*) echo '-I$root/include' ;; *) echo '-L$library -lseccomp' ;; esac"
        node_recipe runc
        PKG_CONFIG=$(realpath "$node_bin/..")/pkg-config CGO=1 TAGS=$tags \
            go_build "$module" "$package" '-s -w -linkmode external -extldflags -static' "$node_bin/runc"
        ;;
    *)
        node_recipe "$1"
        TAGS=$tags go_build "$module" "$package" '-s -w' "$node_bin/$1"
        ;;
    esac
}

write_program() {
    printf '#!/bin/sh\n%s\n' "$2" >"$1"
    chmod +x "$1"
}

# furnish_node makes the network, mounts and names of a machine of its own. Runs as process 1 of the namespaces.
furnish_node() {
    "$rig" node-network "$node_network" "$service_range"
    hostname "$node_name" 2>/dev/null || printf '%s' "$node_name" >/proc/sys/kernel/hostname
    # Mounts of the kubelet must be seen by containerd, and none of them by the machine.
    mount --make-rprivate /
    mount --make-rshared /
    local folder
    for folder in /var/lib/kubelet /var/lib/cni /var/lib/containerd /var/log/pods /var/log/containers; do
        mkdir -p "$data/node$folder"
    done
    # Paths that programs insist on: of this node's own files, not the machine's.
    mount --bind "$data/node/var/lib" /var/lib
    mount --bind "$data/node/var/log" /var/log
    mount -t tmpfs -o mode=755 tmpfs /run
    : >"$data/node/resolv.conf"
    mount --bind "$data/node/resolv.conf" /etc/resolv.conf
    make_node_cgroups
}

write_node_files() {
    local folder=$data/node
    cat >"$folder/containerd.toml" <<END
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "/run/containerd/containerd.sock"
[metrics]
  address = "$(part_address containerd)"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "$(snapshotter)"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "$(part_address registry)/oxolm-local/pause:1"
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "$folder/registries"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  disable_hugetlb_controller = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "$node_bin/runc"
      SystemdCgroup = false
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["$node_bin"]
    conf_dir = "$folder/cni"
END
    mkdir -p "$folder/registries/$(part_address registry)" "$folder/cni" "$folder/flex-volumes" "$folder/sysctl"
    printf 'server = "http://%s"\n' "$(part_address registry)" >"$folder/registries/$(part_address registry)/hosts.toml"
    cat >"$folder/cni/10-pods.conflist" <<END
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{
  "type": "bridge", "bridge": "pods0", "isGateway": true, "hairpinMode": true, "ipMasq": false,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "$pod_cidr_of_node"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/cni"}
}]}
END
    cat >"$folder/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: "$data/pki/ca.crt"}}
authorization: {mode: Webhook}
tlsCertFile: "$data/pki/kubelet.crt"
tlsPrivateKeyFile: "$data/pki/kubelet.key"
address: $node_address
healthzBindAddress: 127.0.0.1
healthzPort: $(port_of kubelet)
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /$(node_cgroup)
$(is_cgroup_v2 || printf 'failCgroupV1: false')
failSwapOn: false
clusterDomain: cluster.local
clusterDNS: [$dns_address]
resolvConf: ""
maxOpenFiles: 20000
volumePluginDir: "$folder/flex-volumes"
# Pods follow each other at once in stories, and nobody waits for images that are here already.
syncFrequency: 10s
nodeStatusUpdateFrequency: 5s
registryPullQPS: 0
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
END
    cat >"$folder/kube-proxy.yaml" <<END
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: "$data/kubeconfigs/kube-proxy"}
mode: nftables
hostnameOverride: $node_name
bindAddress: $node_address
healthzBindAddress: 127.0.0.1:$(port_of kube-proxy)
metricsBindAddress: ""
clusterCIDR: $pod_range
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
END
    cat >"$folder/Corefile" <<END
.:53 {
    bind $node_address
    errors
    health 127.0.0.1:$(port_of coredns)
    kubernetes cluster.local in-addr.arpa {
        kubeconfig $data/kubeconfigs/coredns
    }
}
END
}

# overlayfs cannot lie on another overlay.
snapshotter() {
    case $(stat --file-system --format %T "$data") in
    overlay*) printf native ;;
    *) printf overlayfs ;;
    esac
}

# start_kubelet becomes the kubelet, in a mount namespace where the three settings of the whole machine that it writes are files.
start_kubelet() {
    # shellcheck disable=SC2016
    exec unshare --mount --propagation unchanged -- bash -c '
        mount --make-private /proc
        for setting in vm/overcommit_memory kernel/panic kernel/panic_on_oops; do
            cat "/proc/sys/$setting" >"$1/${setting//\//_}"
            mount --bind "$1/${setting//\//_}" "/proc/sys/$setting"
        done
        shift
        exec "$@"' kubelet "$data/node/sysctl" "$@"
}

# node_objects prints what a node's DNS and the registry's name need in the cluster.
node_objects() {
    cat <<END
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: $dns_address
  ports: [{name: dns, protocol: UDP, port: 53}, {name: dns-tcp, protocol: TCP, port: 53}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns-node, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
endpoints: [{addresses: [$node_address]}]
ports: [{name: dns, protocol: UDP, port: 53}, {name: dns-tcp, protocol: TCP, port: 53}]
---
apiVersion: v1
kind: Service
metadata: {name: registry, namespace: kube-system}
spec:
  ports: [{name: https, protocol: TCP, port: 443}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: registry-node, namespace: kube-system, labels: {kubernetes.io/service-name: registry}}
addressType: IPv4
endpoints: [{addresses: [$node_address]}]
ports: [{name: https, protocol: TCP, port: $(port_of registry-tls)}]
END
}
