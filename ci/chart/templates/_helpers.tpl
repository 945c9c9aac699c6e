{{- define "cilium-ipam.labels" -}}
app.kubernetes.io/name: cilium-ipam
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "cilium-ipam.selector" -}}
app.kubernetes.io/name: cilium-ipam
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "cilium-ipam.subject" -}}
- kind: ServiceAccount
  name: cilium-ipam
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- define "cilium-ipam.node-selector" -}}
app.kubernetes.io/name: cilium-ipam-neutron-node
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "cilium-ipam.node-labels" -}}
{{ include "cilium-ipam.node-selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
