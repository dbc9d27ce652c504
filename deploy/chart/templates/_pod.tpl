{{/*
A pod of any component: what runs differs, how it is locked in does not. Takes a dict: root, component, settings
(.Values.scheduler, .Values.extender or .Values.control), arguments (a list), alive and ready (probes), callers (the
Secret that tells whom to answer: volume, secretName, key, file), and where there are any telemetry (see foresail.telemetry)
and withoutProfile.
*/}}
{{- define "foresail.pod" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
metadata:
  labels:
    {{- include "foresail.labels" (list $root .component) | nindent 4 }}
    {{- with $values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if or (not .withoutProfile) $values.podAnnotations }}
  annotations:
    {{- if not .withoutProfile }}
    # Pods read the profile when they start: another one makes other pods.
    foresail.dev/profile-sha256: {{ $values.profile | sha256sum }}
    {{- end }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
spec:
  serviceAccountName: {{ include "foresail.name" $root }}-{{ .component }}
  automountServiceAccountToken: true
  # kube-scheduler places these pods: a scheduler that is not there yet cannot place itself.
  schedulerName: default-scheduler
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  # Replicas that fall with one node or zone are none. Preferred only: a cluster of one node is a cluster too.
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "foresail.selector" (list $root .component) | nindent 16 }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "foresail.selector" (list $root .component) | nindent 10 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    # Keys and tokens are readable by this group.
    fsGroup: 65532
    {{- with (.telemetry).groups }}
    supplementalGroups:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: {{ .component }}
      image: {{ include "foresail.image" $root | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      args:
        {{- range .arguments }}
        - {{ . | quote }}
        {{- end }}
      env:
        - name: HOME
          value: /tmp
        # Numeric kernels are compiled on the node they run on, once a container.
        - name: NUMBA_CACHE_DIR
          value: /var/cache/foresail/numba
        - name: XDG_CACHE_HOME
          value: /var/cache/foresail
        - name: PYTHONDONTWRITEBYTECODE
          value: "1"
        - name: PYTHONUNBUFFERED
          value: "1"
      ports:
        - name: https
          containerPort: {{ .settings.port }}
          protocol: TCP
        {{- with (.telemetry).ports }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        privileged: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      resources:
        {{- toYaml .settings.resources | nindent 8 }}
      # Reading a large cluster and compiling take their time; five minutes are enough for both.
      startupProbe:
        {{- .alive | nindent 8 }}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 60
      livenessProbe:
        {{- .alive | nindent 8 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        {{- .ready | nindent 8 }}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 3
      volumeMounts:
        {{- if not .withoutProfile }}
        - name: profile
          mountPath: /etc/foresail
          readOnly: true
        {{- end }}
        - name: tls
          mountPath: /run/secrets/foresail/tls
          readOnly: true
        - name: {{ .callers.volume }}
          mountPath: /run/secrets/foresail/{{ .callers.volume }}
          readOnly: true
        - name: cache
          mountPath: /var/cache/foresail
        - name: tmp
          mountPath: /tmp
        {{- with (.telemetry).mounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    {{- if not .withoutProfile }}
    - name: profile
      configMap:
        name: {{ include "foresail.name" $root }}-profile
    {{- end }}
    - name: tls
      secret:
        secretName: {{ $values.tls.secretName }}
        defaultMode: 0440
    - name: {{ .callers.volume }}
      secret:
        secretName: {{ .callers.secretName }}
        defaultMode: 0440
        items:
          - key: {{ .callers.key }}
            path: {{ .callers.file }}
    - name: cache
      emptyDir:
        sizeLimit: 256Mi
    - name: tmp
      emptyDir:
        sizeLimit: 64Mi
    {{- with (.telemetry).volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* Arguments that all verbs take, as a JSON list. */}}
{{- define "foresail.serving" -}}
{{- $tls := "/run/secrets/foresail/tls" -}}
{{- list (printf "--address=0.0.0.0:%v" .port) (printf "--tls-cert=%s/tls.crt" $tls) (printf "--tls-key=%s/tls.key" $tls) | toJson -}}
{{- end -}}
