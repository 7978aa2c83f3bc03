package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/manager"
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
		if isFile(arg) {
			files = append(files, arg)
			continue
		}
		in.names = append(in.names, arg)
	}
	switch {
	case r.showUsed && (r.everything || len(files)+len(in.names) > 0):
		return in, usageError{errors.New("--used takes no files and no controllers")}
	case r.showUsed:
		return in, nil
	case r.everything && len(files)+len(in.names) > 0:
		return in, usageError{errors.New("-A is all controllers of the cluster; give either that, or files and controllers")}
	case !r.everything && len(files)+len(in.names) == 0:
		return in, usageError{errors.New("no controllers given; give files, compositecontroller.setpoint.dev/NAME, or -A")}
	}
	objects, err := readObjects(r.stdin, files)
	for _, o := range objects {
		if _, is := manager.KindOf(o); is {
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

// stdinArg is standard input as a file.
const stdinArg = "-"

// isFile reports whether an argument is a file or folder, not a controller.
func isFile(arg string) bool {
	if arg == stdinArg || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(arg)) {
		return true
	}
	_, err := os.Stat(arg)
	return err == nil
}

// readObjects reads files and folders, and standard input where one is "-".
func readObjects(stdin io.Reader, files []string) ([]*object.Object, error) {
	var documents []manifest.Document
	for _, file := range files {
		var some []manifest.Document
		var err error
		if file == stdinArg {
			some, err = manifest.ReadFrom("standard input", stdin)
		} else {
			some, err = manifest.Read([]string{file})
		}
		if err != nil {
			return nil, err
		}
		documents = append(documents, some...)
	}
	return parseDocuments(documents)
}

// controllers returns the controllers of files and of the cluster.
func (r *rbacRun) controllers(ctx context.Context, in rbacInput) ([]*object.Object, error) {
	all := in.controllers
	for _, name := range in.names {
		kind, name, is, err := r.perms.controllerArg(ctx, name)
		if err == nil && !is {
			err = usageError{fmt.Errorf("%q is neither a file nor a controller such as compositecontroller.setpoint.dev/NAME", name)}
		}
		if err != nil {
			return nil, err
		}
		stored, err := r.needs.StoredNamed(ctx, kind, name)
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
		for _, rule := range rules {
			if len(rule.Verbs) == 0 {
				return nil, fmt.Errorf("%s: a rule has no verbs", file)
			}
			all = append(all, rbac.Rule{PolicyRule: rule, Comment: "from " + filepath.Base(file)})
		}
	}
	return all, nil
}

func readRuleFile(file string) (rules []rbacv1.PolicyRule, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if yaml.UnmarshalStrict(text, &rules) == nil {
		return rules, nil
	}
	documents, err := manifest.Read([]string{file})
	if err != nil {
		return nil, fmt.Errorf("%w; want a list of rules, or roles", err)
	}
	for _, document := range documents {
		var role rbacv1.ClusterRole
		data, err := document.Object.MarshalJSON()
		if err == nil {
			err = yaml.UnmarshalStrict(data, &role)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", document, err)
		}
		if role.Kind != "Role" && role.Kind != "ClusterRole" {
			return nil, fmt.Errorf("%s: %s is no Role or ClusterRole", document, role.Kind)
		}
		rules = append(rules, role.Rules...)
	}
	return rules, nil
}
