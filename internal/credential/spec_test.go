package credential_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/credential"
)

func TestValidate(t *testing.T) {
	text, good := "none", types.NamespacedName{Namespace: "ops", Name: "hook"}
	ca := newTestCA(t).pem
	for _, c := range []struct {
		spec credential.Spec
		want string
	}{
		{credential.Spec{}, "<nil>"},
		{credential.Spec{CABundle: &credential.CABundle{Inline: &ca}, ClientTLS: &credential.ClientTLS{SecretRef: good}}, "<nil>"},
		{credential.Spec{CABundle: &credential.CABundle{ConfigMapRef: &credential.KeyRef{NamespacedName: good}}, BasicAuth: &credential.BasicAuth{SecretRef: good}}, "<nil>"},
		{credential.Spec{Authorization: &credential.Authorization{SecretRef: credential.KeyRef{NamespacedName: good, Key: "token"}}}, "<nil>"},
		{credential.Spec{Authorization: &credential.Authorization{Type: "Token", SecretRef: credential.KeyRef{NamespacedName: good, Key: "token"}}}, "<nil>"},
		{credential.Spec{CABundle: &credential.CABundle{}}, "caBundle: set exactly one of inline, secretRef and configMapRef"},
		{credential.Spec{CABundle: &credential.CABundle{Inline: &ca, SecretRef: &credential.KeyRef{NamespacedName: good}}}, "caBundle: set exactly one of inline, secretRef and configMapRef"},
		{credential.Spec{CABundle: &credential.CABundle{Inline: &text}}, "caBundle.inline: no PEM certificates"},
		{credential.Spec{CABundle: &credential.CABundle{SecretRef: &credential.KeyRef{}}}, "caBundle.secretRef.name: required"},
		{credential.Spec{CABundle: &credential.CABundle{ConfigMapRef: &credential.KeyRef{NamespacedName: types.NamespacedName{Name: "x"}}}}, "caBundle.configMapRef.namespace: required"},
		{credential.Spec{ClientTLS: &credential.ClientTLS{}}, "clientTLS.secretRef.name: required"},
		{credential.Spec{BasicAuth: &credential.BasicAuth{}}, "basicAuth.secretRef.name: required"},
		{credential.Spec{Authorization: &credential.Authorization{Type: "BASIC"}}, "authorization.type: BASIC use basicAuth"},
		{credential.Spec{Authorization: &credential.Authorization{Type: "a b"}}, "authorization.type: must be one word, such as Bearer"},
		{credential.Spec{Authorization: &credential.Authorization{SecretRef: credential.KeyRef{NamespacedName: good}}}, "authorization.secretRef.key: required"},
		{credential.Spec{Authorization: &credential.Authorization{}, BasicAuth: &credential.BasicAuth{}}, "authorization: cannot be set together with basicAuth"},
	} {
		if got := fmt.Sprint(c.spec.Validate()); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
