{{/* The name all objects begin with: at most 52 characters, so that "-scheduler" still fits a label. */}}
{{- define "foresail.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that never change: Deployments, Services and policies select by them. Takes (list $ component). */}}
{{- define "foresail.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of every object, none of which says Helm: the same text is applied without it. Takes (list $ component). */}}
{{- define "foresail.labels" -}}
{{- $root := index . 0 -}}
{{ include "foresail.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
{{- end -}}

{{- define "foresail.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}
