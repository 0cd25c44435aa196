{{- define "tachograph.name" -}}
{{- if contains "tachograph" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-tachograph" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tachograph.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "tachograph.selector" -}}
app.kubernetes.io/name: tachograph
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "tachograph.labels" -}}
{{ include "tachograph.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{- define "tachograph.locked" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 64900
runAsGroup: 64900
capabilities:
  drop: ["ALL"]
{{- end }}

{{- define "tachograph.databaseUrl" -}}
- name: TACHOGRAPH_DATABASE_URL
{{- if .Values.database.urlSecret }}
  valueFrom:
    secretKeyRef:
      name: {{ .Values.database.urlSecret | quote }}
      key: url
{{- else }}
  value: sqlite:////var/lib/tachograph/tachograph.db
{{- end }}
{{- end }}

{{- define "tachograph.address" -}}
{{- if .Values.publicUrl }}{{ .Values.publicUrl }}{{ else }}http://{{ include "tachograph.name" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}{{ end }}
{{- end }}
