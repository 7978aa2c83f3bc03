package rbac

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/manifests"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// rbacInput are the objects in files, and the names of stored controllers.
type rbacInput struct {
	controllers, definitions []*object.Object
	names                    []string
}

// input reads the files of the arguments.
func (r *rbacRun) input(args []string) (in rbacInput, err error) {
	files := slices.Clone(r.files)
	for _, arg := range args {
		if manifests.IsFile(arg) {
			files = append(files, arg)
			continue
		}
		in.names = append(in.names, arg)
	}
	switch {
	case r.showUsed && (r.everything || len(files)+len(in.names) > 0):
		return in, command.UsageErrorf("--used takes no files and no controllers")
	case r.showUsed:
		return in, nil
	case r.everything && len(files)+len(in.names) > 0:
		return in, command.UsageErrorf("-A is all controllers of the cluster; give either that, or files and controllers")
	case !r.everything && len(files)+len(in.names) == 0:
		return in, command.UsageErrorf("no controllers given; give files, compositecontroller.setpoint.dev/NAME, or -A")
	}
	objects, err := manifests.ReadObjects(r.Stdin, files)
	for _, o := range objects {
		if _, is := compile.KindOf(o); is {
			in.controllers = append(in.controllers, o)
		}
		if o.Kind() == "CustomResourceDefinition" {
			in.definitions = append(in.definitions, o)
		}
	}
	if err == nil && len(files) > 0 && len(in.controllers) == 0 {
		err = fmt.Errorf("no controller in %s", strings.Join(files, ", "))
	}
	return in, err
}

// controllers returns the controllers of files and of the cluster.
func (r *rbacRun) controllers(ctx context.Context, in rbacInput) ([]*object.Object, error) {
	all := in.controllers
	for _, name := range in.names {
		stored, err := r.client.StoredController(ctx, name, "neither a file nor a controller", r.needs.StoredNamed)
		if err != nil {
			return nil, err
		}
		all = append(all, stored)
	}
	if !r.everything {
		return all, nil
	}
	all, err := r.needs.Stored(ctx)
	if err == nil && len(all) == 0 {
		err = errors.New("the cluster has no controllers")
	}
	return all, err
}

// parseRoleRefs parses KIND/NAME of roles.
func parseRoleRefs(all []string) ([]rbac.RoleRef, error) {
	var refs []rbac.RoleRef
	for _, text := range all {
		kind, name, _ := strings.Cut(text, "/")
		kinds := map[string]string{"role": "Role", "roles": "Role", "clusterrole": "ClusterRole", "clusterroles": "ClusterRole"}
		if kinds[strings.ToLower(kind)] == "" || name == "" {
			return nil, fmt.Errorf("%q: want clusterrole/NAME or role/NAME", text)
		}
		refs = append(refs, rbac.RoleRef{Kind: kinds[strings.ToLower(kind)], Name: name})
	}
	return refs, nil
}

// readRules reads rules from files that have a list of them, or roles.
func readRules(files []string) ([]rbac.Rule, error) {
	var all []rbac.Rule
	for _, file := range files {
		rules, err := readRuleFile(file)
		if err != nil {
			return nil, err
		}
		for i, rule := range rules {
			if len(rule.Verbs) == 0 {
				return nil, fmt.Errorf("%s: rules[%d].verbs: required", file, i)
			}
			all = append(all, rbac.Rule{PolicyRule: rule, Comment: "from " + filepath.Base(file)})
		}
	}
	return all, nil
}

// readRuleFile reads a file with a list of rules, or with roles.
func readRuleFile(file string) (rules []rbacv1.PolicyRule, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if list, err := yaml.YAMLToJSON(text); err == nil && bytes.HasPrefix(list, []byte("[")) {
		role := fmt.Sprintf(`{"apiVersion": %q, "kind": "ClusterRole", "rules": %s}`, rbacv1.SchemeGroupVersion, list)
		if rules, err = rulesOf([]byte(role)); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return rules, nil
	}
	documents, err := manifest.Read([]string{file})
	if err != nil {
		return nil, fmt.Errorf("%w; want a list of rules, or roles", err)
	}
	for _, document := range documents {
		data, err := document.Object.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", document, err)
		}
		some, err := rulesOf(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", document, err)
		}
		rules = append(rules, some...)
	}
	return rules, nil
}

// ruleFields are the fields of a rule, for messages.
const ruleFields = "a rule has apiGroups, resources, resourceNames and nonResourceURLs, and verbs, each a list"

// rulesOf returns the rules of a Role or ClusterRole. Its errors name the field.
func rulesOf(role []byte) ([]rbacv1.PolicyRule, error) {
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Strict: true})
	decoded, kind, err := decoder.Decode(role, nil, nil)
	if wrong, is := errors.AsType[*stdjson.UnmarshalTypeError](err); is {
		return nil, fmt.Errorf("%s: cannot be a JSON %s; %s", wrong.Field, wrong.Value, ruleFields)
	}
	if runtime.IsStrictDecodingError(err) {
		return nil, fmt.Errorf("%w; %s", err, ruleFields)
	}
	switch role := decoded.(type) {
	case *rbacv1.Role:
		return role.Rules, nil
	case *rbacv1.ClusterRole:
		return role.Rules, nil
	}
	if kind != nil {
		return nil, fmt.Errorf("%s is no Role or ClusterRole of %s", kind.Kind, rbacv1.SchemeGroupVersion)
	}
	return nil, err
}

// completeRBAC completes controllers of the cluster.
func completeRBAC(ctx context.Context, by client.Completer, args []string, word string) ([]string, cobra.ShellCompDirective) {
	words := slices.DeleteFunc(by.Controllers(ctx, word, ""), func(w string) bool { return slices.Contains(args, w) })
	return command.WithPrefix(word, words), cobra.ShellCompDirectiveDefault
}

// orFiles completes files if a function completes nothing.
func orFiles(find cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		words, directive := find(c, args, word)
		if len(words) == 0 {
			directive &^= cobra.ShellCompDirectiveNoFileComp
		}
		return words, directive
	}
}
