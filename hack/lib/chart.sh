# shellcheck shell=bash
# Sourced, in the checkout's folder, with helm in PATH. What is made of the chart: compared with what is committed, or written
# with OXOLM_GENERATE=1.

chart_text() { helm template oxolm charts/oxolm --namespace olmv1-system --kube-version 1.30.0 "$@"; }

# chart_is FILE COMMAND compares what the command prints with the file.
chart_is() {
    local expected=$1 made
    shift
    made=$("$@") || return
    if [[ ${OXOLM_GENERATE:-} == 1 ]]; then
        printf '%s\n' "$made" >"$expected"
    else
        diff --unified "$expected" - <<<"$made"
    fi
}

# golden VALUES is what the chart makes of the values.
golden() { chart_is "${1%.values.yaml}.yaml" chart_text --values "$1"; }

# refused_values looks whether the chart refuses every line of charts/refused.txt, in its words.
refused_values() {
    local values words message status=0
    while IFS='|' read -r values words; do
        [[ $values != '#'* ]] || continue
        if message=$(chart_text --set "${values% }" 2>&1 >/dev/null); then
            printf 'not refused: %s\n' "$values"
            status=1
        elif [[ $message != *"${words# }"* ]]; then
            printf '%s is refused, but not with "%s": %s\n' "$values" "${words# }" "$message"
            status=1
        fi
    done <charts/refused.txt
    return "$status"
}

# plain_manifests is what the chart makes of its defaults, for people without helm: with its namespace, without hooks and without
# what only helm reads.
plain_manifests() { chart_is config/install.yaml plain_text; }

plain_text() {
    cat <<EOT
# oxolm as the chart installs it, for kubectl apply --server-side. Made by hack/generate; edit the chart instead.
# Put your own registry in front of the image first: hack/image makes it, and nobody publishes it for you.
---
apiVersion: v1
kind: Namespace
metadata:
  name: olmv1-system
  labels:
    pod-security.kubernetes.io/enforce: restricted
EOT
    # An annotations block that held nothing but helm's goes, too.
    chart_text --no-hooks |
        sed --regexp-extended '/^ *(helm\.sh\/|app\.kubernetes\.io\/managed-by: Helm|# Source: )/d' |
        awk '/^ *annotations:$/ { held = $0; next }
             held { match(held, /^ */); width = RLENGTH; match($0, /^ */); if (RLENGTH > width) print held; held = "" }
             { print }'
}
