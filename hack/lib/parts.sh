# shellcheck shell=bash disable=SC2034,SC2054,SC2154
# Sourced. The parts of a control plane: which there are, how each is started, and where each says that it is healthy.
# Needs: data (the cluster's folder), hack, tools_bin, node.sh and the ports that `rig ports` chose, as PORT_<PART>.

# choose_parts fake|real sets part_names: the parts of a cluster whose node is of that kind.
choose_parts() {
    node=$1
    part_names=(etcd registry kube-apiserver kube-controller-manager kube-scheduler)
    if [[ $node == real ]]; then
        part_names+=(registry-tls containerd kubelet kube-proxy coredns)
    else
        part_names+=(kwok)
    fi
}
choose_parts fake
# Beside one port for each part.
further_ports=(etcd-peer)
# These are reached from outside the cluster's network namespace.
forwarded_parts=(kube-apiserver registry)

# Addresses of Services; the first is the API server's own.
service_range=10.96.0.0/16
service_address=10.96.0.1
pod_range=10.244.0.0/16

port_of() {
    local variable=PORT_${1//-/_}
    variable=${variable^^}
    printf '%s' "${!variable}"
}

part_address() { printf '127.0.0.1:%s' "$(port_of "$1")"; }

part_health() {
    case $1 in
    etcd) printf 'http://%s/health' "$(part_address "$1")" ;;
    registry) printf 'http://%s/v2/' "$(part_address "$1")" ;;
    kube-apiserver) printf 'https://%s/readyz' "$(part_address "$1")" ;;
    kwok | kubelet | kube-proxy) printf 'http://%s/healthz' "$(part_address "$1")" ;;
    registry-tls) printf 'https://%s/v2/' "$(part_address "$1")" ;;
    containerd) printf 'http://%s/v1/metrics' "$(part_address "$1")" ;;
    coredns) printf 'http://%s/health' "$(part_address "$1")" ;;
    kube-*) printf 'https://%s/healthz' "$(part_address "$1")" ;;
    esac
}

# part_command NAME sets the array `part_command`.
part_command() {
    local pki=$data/pki address
    address=$(part_address "$1")
    part_command=("$tools_bin/$1")
    case $1 in
    etcd)
        part_command+=(--name local --data-dir "$data/etcd" --unsafe-no-fsync --log-level warn
            --listen-client-urls "http://$address" --advertise-client-urls "http://$address"
            --listen-peer-urls "http://$(part_address etcd-peer)" --initial-advertise-peer-urls "http://$(part_address etcd-peer)"
            --initial-cluster "local=http://$(part_address etcd-peer)")
        ;;
    registry | registry-tls) part_command=("$tools_bin/registry" serve "$data/$1.yaml") ;;
    containerd) part_command=(env PATH="$node_bin:$PATH" "$node_bin/containerd" --config "$data/node/containerd.toml") ;;
    kubelet) part_command=(start_kubelet "$node_bin/kubelet" --config "$data/node/kubelet.yaml"
        --kubeconfig "$data/kubeconfigs/kubelet" --hostname-override "$node_name" --node-ip "$node_address") ;;
    kube-proxy) part_command=(env PATH="$node_bin:$PATH" "$node_bin/kube-proxy" --config "$data/node/kube-proxy.yaml") ;;
    coredns) part_command=("$node_bin/coredns" -conf "$data/node/Corefile") ;;
    kube-apiserver)
        part_command+=(
        --secure-port "$(port_of "$1")"
        --etcd-servers "http://$(part_address etcd)"
        --service-cluster-ip-range "$service_range"
        --tls-cert-file "$pki/kube-apiserver.crt" --tls-private-key-file "$pki/kube-apiserver.key" --client-ca-file "$pki/ca.crt"
        --service-account-issuer https://kubernetes.default.svc --api-audiences https://kubernetes.default.svc
        --service-account-key-file "$pki/service-account.pub" --service-account-signing-key-file "$pki/service-account.key"
        --requestheader-client-ca-file "$pki/front-proxy-ca.crt" --requestheader-allowed-names front-proxy-client
        --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group
        --requestheader-extra-headers-prefix X-Remote-Extra-
        --proxy-client-cert-file "$pki/front-proxy-client.crt" --proxy-client-key-file "$pki/front-proxy-client.key"
        --authorization-mode Node,RBAC --allow-privileged
        --enable-admission-plugins OwnerReferencesPermissionEnforcement,NodeRestriction
        # Only the node lifecycle controller, which does not run, would take the taint away again.
        --disable-admission-plugins TaintNodesByCondition
        --audit-policy-file "$hack/control-plane/audit-policy.yaml"
        # Never rotated: tests read one file from its beginning.
        --audit-log-path "$data/audit.log" --audit-log-maxsize 100000)
        if [[ $node == real ]]; then
            part_command+=(
                --bind-address 0.0.0.0 --advertise-address "$node_address"
                --kubelet-preferred-address-types InternalIP --kubelet-certificate-authority "$pki/ca.crt"
                --kubelet-client-certificate "$pki/kube-apiserver-kubelet-client.crt"
                --kubelet-client-key "$pki/kube-apiserver-kubelet-client.key")
        else
            part_command+=(--bind-address 127.0.0.1 --advertise-address 127.0.0.1 --endpoint-reconciler-type none)
        fi
        ;;
    kube-controller-manager) part_command+=(
        --kubeconfig "$data/kubeconfigs/$1" --bind-address 127.0.0.1 --secure-port "$(port_of "$1")"
        --leader-elect=false --kube-api-qps 1000 --kube-api-burst 2000
        --use-service-account-credentials --service-account-private-key-file "$pki/service-account.key" --root-ca-file "$pki/ca.crt"
        --flex-volume-plugin-dir "$data/flex-volumes"
        --controllers "$(controllers)") ;;
    kube-scheduler) part_command+=(
        --kubeconfig "$data/kubeconfigs/$1" --bind-address 127.0.0.1 --secure-port "$(port_of "$1")"
        --leader-elect=false --kube-api-qps 1000 --kube-api-burst 2000) ;;
    kwok) part_command+=(
        --kubeconfig "$data/kubeconfigs/$1" --config "$hack/control-plane/kwok.yaml" --manage-all-nodes
        --cidr "$pod_range" --node-ip 127.0.0.1 --node-lease-duration-seconds 40 --server-address "$address") ;;
    esac
}

# Those that people and operators notice; nothing that needs real nodes, volumes or a cloud.
controllers() {
    local names=(serviceaccount serviceaccount-token root-ca-certificate-publisher garbage-collector namespace deployment
        replicaset statefulset daemonset job disruption endpoints endpointslice clusterrole-aggregation pod-garbage-collector
        persistentvolume-binder validatingadmissionpolicy-status ttl-after-finished)
    local list
    printf -v list '%s-controller,' "${names[@]}"
    printf '%s' "${list%,}"
}
