{{/* The container of every daemon here: it stands in for the real one and does nothing. */}}
{{- define "stand-in.containers" -}}
- name: stand-in
  image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
  imagePullPolicy: IfNotPresent
  command: [sleep, infinity]
  env:
    - name: AWS_REGION
      value: {{ required "global.region is needed: the real chart would guess us-east-1" .Values.global.region | quote }}
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {cpu: 10m, memory: 16Mi}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    runAsNonRoot: true
    runAsUser: 1000
    capabilities: {drop: [ALL]}
    seccompProfile: {type: RuntimeDefault}
{{- end }}
