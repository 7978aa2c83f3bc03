package guess

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
)

// planted is the secret in all tests. A JSON Web Token and keys have forms of their own.
const planted = "hunter2-planted"

const plantedJWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJpc3MiOiJrdWJlcm5ldGVzIiwic3ViIjoieCJ9.c2lnbmF0dXJlLXBsYW50ZWQ"

func TestSecretsInTextsAreMasked(t *testing.T) {
	for _, text := range []string{
		`Authorization: Bearer ` + planted,
		`authorization="Basic ` + planted + `"`,
		`{"token": "` + planted + `"}`,
		`{"body":"{\"password\":\"` + planted + `\"}"}`,
		`level=INFO msg="hook failed" error="POST http://user:` + planted + `@db.example.com/x: refused"`,
		`GET http://hook/sync?api_key=` + planted + `&x=1: 500`,
		`GET https://x.blob.example.com/a?sv=1&sig=` + planted + `&se=2`,
		`{"url":"https://s3.example.com/a?X-Amz-Date=1\u0026X-Amz-Signature=` + planted + `"}`,
		`http://hook/sync?code=` + planted,
		`--dsn=user:` + planted + `@tcp(db:3306)/x`,
		`curl -s -u bob:` + planted + ` http://x`,
		`dbPassword: ` + planted,
		`const apiKey = "` + planted + `"`,
		`const secret := '` + planted + `'`,
		`--token=` + planted,
		`setpoint run --admission-password ` + planted + ` --workers 1`,
		`DB_PASSWORD=` + planted,
		"-----BEGIN RSA PRIVATE KEY-----\n" + planted + "\n-----END RSA PRIVATE KEY-----",
		`"-----BEGIN PRIVATE KEY-----\n` + planted + `\n-----END PRIVATE KEY-----\n"`,
		"-----BEGIN EC PRIVATE KEY-----\n" + planted + " (cut off)",
		"13:00 " + strings.Repeat("A", 64) + planted + "\n13:00 " + planted + "\n-----END EC PRIVATE KEY-----\nwhat follows",
		"GET /callback?code=" + planted,
		`clientSecret: "` + planted + ` with spaces"`,
		`x-auth-token: ` + planted,
		`Cookie: session=` + planted,
		"password: \"" + planted + "\nnext line",
		`pass: ` + planted,
		`{"db-pass": "` + planted + `"}`,
		`SMTP_PASS=` + planted,
		`PGPASS=` + planted,
		`const dbPass = '` + planted + `'`,
		`setpoint run --db-pass ` + planted,
		`user=web pwd=` + planted + `;`,
		`dbPwd: ` + planted,
	} {
		if got := Text(text); strings.Contains(got, "planted") {
			t.Errorf("%s\nis shown as %s", text, got)
		}
	}
	for _, text := range []string{"the token is " + plantedJWT, plantedJWT, "AKIAIOSFODNN7EXAMPLE", "ghp_" + strings.Repeat("a", 36)} {
		if got := Text(text); got == text || strings.Contains(got, "planted") {
			t.Errorf("%s is shown", text)
		}
	}
}

func TestWhatIsNoSecretStays(t *testing.T) {
	for _, text := range []string{
		`secretName: web-tls`,
		`{"secretKeyRef": {"name": "a", "key": "b"}}`,
		`automountServiceAccountToken: false`,
		`tokenExpirationSeconds: 3600s ago? no: expirationSeconds: 3607`,
		`resources: [secrets, configmaps]`,
		`setpoint_hook_requests_total{controller="x",code="200"} 12`,
		`POST http://hook.example.com:8080/sync: returned 500`,
		`goroutine profile: total 12`,
		`image: registry.example.com/setpoint@sha256:0123`,
		`image: registry.example.com/setpoint:1.2@sha256:0123`,
		`GET http://hook/sync?design=1&assigned=2`,
		`password: ""`,
		`passed: 3`,
		`bypass: never`,
		`compass=north passes=2 passive: yes`,
		`passthrough: yes`,
		`msg="reconcile failed" object="Team shop/red" attempt=3`,
	} {
		if got := Text(text); got != text && !strings.HasPrefix(text, "tokenExp") {
			t.Errorf("%s\nis shown as %s", text, got)
		}
	}
}

func TestSecretsInObjectsAreMasked(t *testing.T) {
	var o map[string]any
	must.Succeed(t, json.Unmarshal([]byte(`{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": {
			"name": "setpoint-0", "managedFields": [{"manager": "planted"}],
			"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "planted", "example.com/token": "planted", "example.com/note": "url=http://a:planted@b/"}
		},
		"spec": {
			"password": "planted with spaces\\nand lines: planted",
			"hooks": {"sync": {"webhook": {"url": "https://u:planted@hook/sync?token=planted"}, "inline": {"source": "const key = 1\nconst password = 'planted'\n"}}},
			"containers": [{
				"command": ["setpoint", "run", "--token", "planted", "--password=planted"], "tokens": ["planted", {"value": "password: planted"}],
				"env": [
					{"name": "ANY", "value": "planted"}, {"name": "GOMEMLIMIT", "value": "100MiB"},
					{"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "kept", "key": "kept-key"}}}
				]
			}]
		},
		"status": {"conditions": [{"message": "Authorization: Bearer planted-token"}]}
	}`), &o))
	JSON("", o)
	shown := must.Get(json.Marshal(o)).In(t)
	if strings.Contains(string(shown), "planted") {
		t.Errorf("a secret is shown: %s", shown)
	}
	for _, text := range []string{"100MiB", "kept", "kept-key", "setpoint-0", "https://", "const key = 1"} {
		if !strings.Contains(string(shown), text) {
			t.Errorf("%s is not shown: %s", text, shown)
		}
	}
}

// TestCopiesInAnnotationsAreMasked shows that annotations have no values of Secrets or variables, whatever tool wrote them.
func TestCopiesInAnnotationsAreMasked(t *testing.T) {
	for _, text := range []string{
		`{"apiVersion": "v1", "kind": "Secret", "data": {"a": "cGxhbnRlZA=="}, "metadata": {"name": "shown", "annotations": {"example.com/note": "copy: planted"}}}`,
		`{"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "planted"}, "metadata": {"name": "shown", "annotations": {"example.com/note": "cGxhbnRlZA=="}}}`,
		`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shown", "annotations": {"metacontroller.k8s.io/last-applied-configuration": "{\"data\":{\"a\":\"planted\"}}"}}}`,
		`{"object": "shown", "children": [{"kind": "Secret", "data": {"a": "planted"}, "metadata": {"annotations": {"example.com/note": "{\"a\":\"planted\"}"}}}]}`,
		`{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shown", "annotations": {"metacontroller.k8s.io/last-applied-configuration": "{\"env\":[{\"name\":\"A\",\"value\":\"planted\"}]}"}}}`,
	} {
		var o map[string]any
		must.Succeed(t, json.Unmarshal([]byte(text), &o))
		JSON("", o)
		shown := must.Get(json.Marshal(o)).In(t)
		if found := string(shown); strings.Contains(found, "planted") || strings.Contains(found, "cGxhbnRlZA") ||
			!strings.Contains(found, "shown") {
			t.Errorf("%s\nis shown as %s", text, found)
		}
	}
}
