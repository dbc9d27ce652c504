{{/*
Where the program that runs controllers reads CPU and progress from, as a JSON object: its arguments, and the pod's ports,
mounts and volumes for them.
*/}}
{{- define "foresail.telemetry" -}}
{{- $cpu := .Values.telemetry.cpu -}}
{{- $progress := .Values.telemetry.progress -}}
{{- $secrets := "/run/secrets/foresail" -}}
{{- $arguments := list -}}
{{- $ports := list -}}
{{- $mounts := list -}}
{{- $volumes := list -}}
{{- range $cpu.sources -}}
{{- $arguments = append $arguments (printf "--cpu-source=%s" .) -}}
{{- end -}}
{{- if has "prometheus" $cpu.sources -}}
{{- $url := required "telemetry.cpu.sources has prometheus; give its URL in telemetry.cpu.prometheus.url" $cpu.prometheus.url -}}
{{- $arguments = append $arguments (printf "--prometheus=%s" $url) -}}
{{- with $cpu.prometheus.tokenSecret -}}
{{- if .name -}}
{{- $arguments = append $arguments (printf "--prometheus-token-file=%s/prometheus/token" $secrets) -}}
{{- $mounts = append $mounts (dict "name" "prometheus" "mountPath" (printf "%s/prometheus" $secrets) "readOnly" true) -}}
{{- $items := list (dict "key" .key "path" "token") -}}
{{- $volumes = append $volumes (dict "name" "prometheus" "secret" (dict "secretName" .name "defaultMode" 0440 "items" $items)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* Progress is written to as well: checkpoints are asked for beside the rows. */ -}}
{{- range $kind, $claims := dict "progress" $progress.claims "tensorboard" $progress.tensorboardClaims -}}
{{- range $at, $one := $claims -}}
{{- $name := printf "%s-%d" $kind $at -}}
{{- $of := empty $one.namespace | ternary "" (printf "%s=" $one.namespace) -}}
{{- $arguments = append $arguments (printf "--%s-dir=%s/shared/%s" $kind $of $name) -}}
{{- $mount := dict "name" $name "mountPath" (printf "/shared/%s" $name) "readOnly" (eq $kind "tensorboard") -}}
{{- if $one.subPath -}}
{{- $_ := set $mount "subPath" $one.subPath -}}
{{- end -}}
{{- $mounts = append $mounts $mount -}}
{{- $volumes = append $volumes (dict "name" $name "persistentVolumeClaim" (dict "claimName" $one.claimName)) -}}
{{- end -}}
{{- end -}}
{{- if $progress.logs -}}
{{- $arguments = append $arguments "--progress-logs" -}}
{{- end -}}
{{- if $progress.http.enabled -}}
{{- $arguments = append $arguments (printf "--progress-address=0.0.0.0:%v" $progress.http.port) -}}
{{- $ports = append $ports (dict "name" "progress" "containerPort" $progress.http.port "protocol" "TCP") -}}
{{- with $progress.http.tokenSecret -}}
{{- if .name -}}
{{- $arguments = append $arguments (printf "--progress-token-file=%s/progress/tokens" $secrets) -}}
{{- $mounts = append $mounts (dict "name" "progress-tokens" "mountPath" (printf "%s/progress" $secrets) "readOnly" true) -}}
{{- $items := list (dict "key" .key "path" "tokens") -}}
{{- $volumes = append $volumes (dict "name" "progress-tokens" "secret" (dict "secretName" .name "defaultMode" 0440 "items" $items)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "arguments" $arguments "ports" $ports "mounts" $mounts "volumes" $volumes "groups" .Values.telemetry.supplementalGroups | toJson -}}
{{- end -}}

{{/* The rights that these sources need: each its own. */}}
{{- define "foresail.telemetry.rules" -}}
{{- $cpu := .Values.telemetry.cpu -}}
{{- $progress := .Values.telemetry.progress -}}
{{- if has "metrics-api" $cpu.sources }}
# The CPU that pods use, by the metrics API.
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [list]
{{- end }}
{{- if has "kubelet" $cpu.sources }}
# The CPU that pods use, by their kubelets. It is much: through it more than figures can be read.
- apiGroups: [""]
  resources: [nodes/proxy]
  verbs: [get]
{{- end }}
{{- if $progress.logs }}
# Progress in pods' logs.
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
{{- end }}
{{- if and $progress.http.enabled (not $progress.http.tokenSecret.name) }}
# Whose token it is that a report over HTTP shows.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
{{- end }}
{{- end -}}
