package manager

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
)

// ProgramManifests returns what a program with these controllers needs in the namespace of the
// options, as YAML: a ServiceAccount, the Secrets that the program fills, roles and bindings.
// Adjust may add rules.
func ProgramManifests(all []*compile.Compiled, o Options, serviceAccount string,
	adjust func([]rbac.NamespaceRules) []rbac.NamespaceRules) ([]byte, error) {
	required, err := RequiredPermissions(all, o)
	if err != nil {
		return nil, err
	}
	objects := []any{&corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{Name: serviceAccount, Namespace: o.Namespace},
	}}
	for _, secret := range EmptySecrets(all, o) {
		objects = append(objects, secret)
	}
	var text []byte
	for i, object := range objects {
		document, err := yaml.Marshal(object)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, "---\n"...)
		}
		text = append(text, document...)
	}
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: serviceAccount, Namespace: o.Namespace}
	roles, err := rbac.YAML(rbac.Roles(o.Name, subject, adjust(required.RulesByNamespace())))
	if len(roles) > 0 {
		text = slices.Concat(text, []byte("---\n"), roles)
	}
	return text, err
}
