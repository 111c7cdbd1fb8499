{{- define "llmvitals.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The release's own name where it holds the chart's, so that `helm install llmvitals` makes objects named llmvitals. */}}
{{- define "llmvitals.fullname" -}}
{{- $name := include "llmvitals.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | trunc 45 | trimSuffix "-" -}}
{{- end -}}

{{/* Call with (list $ "exporter"), or an empty component for what belongs to both. */}}
{{- define "llmvitals.labels" -}}
{{- $root := first . -}}
{{ include "llmvitals.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: llmvitals
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name ($root.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "llmvitals.selector" -}}
{{- $root := first . -}}
app.kubernetes.io/name: {{ include "llmvitals.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- with index . 1 }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{/* A pod's: what selects it, then yours. None of these changes with the chart's version, which would restart pods for nothing. */}}
{{- define "llmvitals.podLabels" -}}
{{- $fixed := fromYaml (include "llmvitals.selector" .) -}}
{{- merge $fixed (dict "app.kubernetes.io/part-of" "llmvitals") (last .) | toYaml -}}
{{- end -}}

{{- define "llmvitals.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "llmvitals.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* Call with (list $ .Values.image). */}}
{{- define "llmvitals.image" -}}
{{- $root := first . -}}
{{- $image := last . -}}
{{- $repository := $image.repository | default $root.Values.image.repository -}}
{{- $tag := $image.tag | default $root.Values.image.tag | default $root.Chart.AppVersion -}}
{{- printf "%s%s%s" $repository (ternary "@" ":" (hasPrefix "sha256:" $tag)) $tag -}}
{{- end -}}

{{/* A settings file. Readers of YAML take 1e-09 for text and 1.0e-09 for a number. */}}
{{- define "llmvitals.yaml" -}}
{{- regexReplaceAll "(?m)( -?[0-9]+)(e[-+][0-9]+)$" (toYaml .) "${1}.0${2}" -}}
{{- end -}}

{{- define "llmvitals.appSettings" -}}
{{- include "llmvitals.yaml" .Values.app.settings -}}
{{- end -}}

{{/* The exporters' settings: what the other values decide, and `settings` over it. */}}
{{- define "llmvitals.settings" -}}
{{- $kubernetes := dict "enabled" "on" -}}
{{- if .Values.rbac.namespaces }}{{ $_ := set $kubernetes "namespaces" .Values.rbac.namespaces }}{{ end -}}
{{- if not .Values.hostPaths.podResources }}{{ $_ := set $kubernetes "pod_resources" "" }}{{ end -}}
{{- $node := dict "kubernetes" $kubernetes -}}
{{- if .Values.hostPaths.proc }}{{ $_ := set $node "procfs" "/host/proc" }}{{ else }}{{ $_ := set $node "processes" "off" }}{{ end -}}
{{- if .Values.hostPaths.cgroup }}{{ $_ := set $node "cgroups" "/host/sys/fs/cgroup" }}{{ end -}}
{{- $exporter := dict "listen" (printf "0.0.0.0:%v" .Values.port) -}}
{{- if .Values.webConfig.existingSecret }}{{ $_ := set $exporter "web_config" "/etc/llmvitals-web/web-config.yaml" }}{{ end -}}
{{- range $key, $value := dict "listen" "port" "web_config" "webConfig.existingSecret" -}}
{{- if hasKey (dig "exporter" dict $.Values.settings) $key }}{{ fail (printf "settings.exporter.%s is made of the value %s: set that, and leave this one out" $key $value) }}{{ end -}}
{{- end -}}
{{- $made := dict "node" $node "exporter" $exporter -}}
{{- include "llmvitals.yaml" (mergeOverwrite $made (deepCopy .Values.settings)) -}}
{{- end -}}

{{/* Whether objects of the Prometheus operator are made: `auto` asks the cluster. Call with (list $ .Values.rules.enabled). */}}
{{- define "llmvitals.operator" -}}
{{- $asked := last . | toString -}}
{{- if or (eq $asked "true") (and (eq $asked "auto") ((first .).Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) }}true{{ end -}}
{{- end -}}

{{/* A probe asks the exporter about itself, never about engines. Call with (list $ "/healthz"). */}}
{{- define "llmvitals.probe" -}}
{{- $web := (first .).Values.webConfig -}}
{{- if and $web.existingSecret (eq $web.probe "tcp") -}}
tcpSocket:
  port: metrics
{{- else -}}
httpGet:
  path: {{ last . }}
  port: metrics
  {{- if and $web.existingSecret (eq $web.probe "https") }}
  scheme: HTTPS
  {{- end }}
{{- end -}}
{{- end -}}

{{/* What both PodMonitors say of an endpoint, and more. Call with (list $ map). */}}
{{- define "llmvitals.endpoint" -}}
{{- $asked := (first .).Values.monitoring -}}
{{- $endpoint := dict "port" "metrics" "path" "/metrics" "interval" $asked.interval "scrapeTimeout" $asked.scrapeTimeout "honorLabels" true -}}
{{- mergeOverwrite $endpoint (deepCopy (last .)) | toYaml -}}
{{- end -}}
