{{- define "oxolm.fullname" -}}
{{- if contains "oxolm" .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-oxolm" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "oxolm.selectorLabels" -}}
app.kubernetes.io/name: oxolm
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- /* The labels of an object: those of all, and those of this one (a map). Nobody changes the ones that select. */ -}}
{{- define "oxolm.labelsWith" -}}
{{- $root := index . 0 -}}
{{- $own := index . 1 | default dict -}}
{{- $chart := dict
      "app.kubernetes.io/version" $root.Chart.AppVersion
      "app.kubernetes.io/part-of" "olm"
      "app.kubernetes.io/managed-by" $root.Release.Service
      "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
{{- toYaml (merge (include "oxolm.selectorLabels" $root | fromYaml) $own $root.Values.commonLabels $chart) -}}
{{- end -}}

{{- define "oxolm.labels" -}}
{{- include "oxolm.labelsWith" (list . nil) -}}
{{- end -}}

{{- /* The annotations of an object: those of all, and those of this one (a map). Nothing when there are none. */ -}}
{{- define "oxolm.annotations" -}}
{{- $root := index . 0 -}}
{{- $own := index . 1 | default dict -}}
{{- with merge (deepCopy $own) $root.Values.commonAnnotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* The Secret with the certificate of the content server; nothing when oxolm makes its own. */ -}}
{{- define "oxolm.tlsSecret" -}}
{{- $source := .Values.tls.source -}}
{{- if eq $source "secret" -}}
{{- required "tls.secretName: tls.source secret needs the name of the Secret" .Values.tls.secretName -}}
{{- else if or (eq $source "cert-manager") (eq $source "service-ca") -}}
{{- include "oxolm.fullname" . }}-catalogs-tls
{{- else if ne $source "self" -}}
{{- fail (printf "tls.source: expected self, cert-manager, service-ca or secret, got %s" $source) -}}
{{- end -}}
{{- end -}}

{{- /* The Secret in which oxolm keeps a certificate of its own making. */ -}}
{{- define "oxolm.selfTlsSecret" -}}
{{- include "oxolm.fullname" . }}-catalogs-self-tls
{{- end -}}

{{- /* The account of extensions that name none. */ -}}
{{- define "oxolm.defaultServiceAccount" -}}
{{- if and .Values.defaultInstaller.create .Values.defaultServiceAccount -}}
{{- fail "defaultInstaller.create and defaultServiceAccount: set only one of them" -}}
{{- end -}}
{{- if .Values.defaultInstaller.create -}}
{{- include "oxolm.refuseExcluded" (list . .Release.Namespace "defaultInstaller") -}}
{{ .Release.Namespace }}/{{ .Values.defaultInstaller.name }}
{{- else -}}
{{- if contains "/" .Values.defaultServiceAccount -}}
{{- include "oxolm.refuseExcluded" (list . (first (splitList "/" .Values.defaultServiceAccount)) "defaultServiceAccount") -}}
{{- end -}}
{{ .Values.defaultServiceAccount }}
{{- end -}}
{{- end -}}

{{- /* Refuses a namespace whose accounts nobody may name: a list of the root context, the namespace, and the value that has it. */ -}}
{{- define "oxolm.refuseExcluded" -}}
{{- $namespace := index . 1 -}}
{{- $value := index . 2 -}}
{{- range (index . 0).Values.impersonation.excludedNamespaces -}}
{{- if or (eq . $namespace) (and (hasSuffix "*" .) (hasPrefix (trimSuffix "*" .) $namespace)) -}}
{{- fail (printf "%s: accounts in namespace %s are excluded by impersonation.excludedNamespaces (%s)" $value $namespace .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "oxolm.serviceAccountName" -}}
{{- default (include "oxolm.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- /* The user that oxolm is to the API server. */ -}}
{{- define "oxolm.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "oxolm.serviceAccountName" . }}
{{- end -}}

{{- /*
The group that a volume is made writable for: a new one belongs to root, whom oxolm is not. OpenShift gives a namespace a
group of its own, and refuses every other.
*/ -}}
{{- define "oxolm.volumeGroup" -}}
{{- if and .Values.cache.persistence.enabled (not (.Capabilities.APIVersions.Has "security.openshift.io/v1")) -}}
65532
{{- end -}}
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

{{- /* The labels of Pods that run once: not those by which the Deployment, the Service and the policies select. */ -}}
{{- define "oxolm.onceLabels" -}}
{{- $own := dict
      "app.kubernetes.io/name" "oxolm-once"
      "app.kubernetes.io/instance" .Release.Name
      "app.kubernetes.io/part-of" "olm" -}}
{{- toYaml (merge $own .Values.commonLabels) -}}
{{- end -}}

{{- /* The Pod of something that runs once: a list of the root context, its name, its account, and its arguments. */ -}}
{{- define "oxolm.oncePod" -}}
{{- $root := index . 0 -}}
serviceAccountName: {{ index . 2 }}
restartPolicy: Never
securityContext:
  runAsNonRoot: true
  seccompProfile:
    type: RuntimeDefault
containers:
  - name: {{ index . 1 }}
    image: "{{ $root.Values.image.repository }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}"
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    args:
      {{- toYaml (index . 3) | nindent 6 }}
    {{- with $root.Values.extraEnv }}
    env:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    terminationMessagePolicy: FallbackToLogsOnError
    resources:
      requests:
        cpu: 10m
        memory: 32Mi
      limits:
        memory: 128Mi
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: [ALL]
{{- with $root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
