{{- define "oxolm.fullname" -}}
{{- if contains "oxolm" .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-oxolm" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "oxolm.selectorLabels" -}}
app.kubernetes.io/name: oxolm
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "oxolm.labels" -}}
{{ include "oxolm.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: olm
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "oxolm.serviceAccountName" -}}
{{- default (include "oxolm.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- /* The user that oxolm is to the API server. */ -}}
{{- define "oxolm.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "oxolm.serviceAccountName" . }}
{{- end -}}

{{- define "oxolm.excludedNamespaces" -}}
{{- join "," .Values.impersonation.excludedNamespaces -}}
{{- end -}}

{{- /*
Whether the definition of that name is to be part of this release: always, never, or (auto) unless somebody else
owns the one that exists. Takes a list of the root context and the name.
*/ -}}
{{- define "oxolm.ownsCrd" -}}
{{- $root := index . 0 -}}
{{- $enabled := toString $root.Values.crds.enabled -}}
{{- if eq $enabled "auto" -}}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" (index . 1) -}}
{{- $annotations := dig "metadata" "annotations" (dict) ($found | default dict) -}}
{{- $isOurs := and
      (eq (get $annotations "meta.helm.sh/release-name") $root.Release.Name)
      (eq (get $annotations "meta.helm.sh/release-namespace") $root.Release.Namespace) -}}
{{- if or (not $found) $isOurs -}}true{{- end -}}
{{- else if eq $enabled "true" -}}true
{{- else if ne $enabled "false" -}}
{{- fail (printf "crds.enabled: expected auto, true or false, got %s" $enabled) -}}
{{- end -}}
{{- end -}}
