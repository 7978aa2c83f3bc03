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

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/manifests"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/workspace"
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

// declaredRelated returns the kinds of --related.
func (r *rbacRun) declaredRelated(ctx context.Context) ([]object.Resource, error) {
	var all []object.Resource
	for _, word := range r.related {
		kind, err := r.relatedKind(ctx, word)
		if err != nil {
			return nil, err
		}
		all = append(all, kind)
	}
	return all, nil
}

func (r *rbacRun) relatedKind(ctx context.Context, word string) (object.Resource, error) {
	if r.offline == nil {
		kind, err := r.client.Kind(ctx, word)
		return resourceOf(kind), err
	}
	kind, err := r.offline.kinds.Named(ctx, word)
	if err != nil {
		return kind, command.UsageErrorf("--related: %w", err)
	}
	return kind, nil
}

func resourceOf(kind object.Kind) object.Resource {
	return object.Resource{Group: kind.Group, Version: kind.Version, Plural: kind.Plural, Kind: kind.Kind, Namespaced: kind.Namespaced}
}

// relatedSeen adds the kinds that customize hooks have selected in running processes.
type relatedSeen struct {
	*rbacRun
	read    bool
	running []processes.RunningController
	err     error
}

// add returns what a controller needs with the kinds that its customize hook has selected, and
// says in a comment where these are from.
func (s *relatedSeen) add(ctx context.Context, declared *object.Object, needs rbac.Controller, related []object.Resource) (rbac.Controller,
	error) {
	if !s.read {
		s.read = true
		s.running, s.err = s.processes(ctx)
	}
	var kinds, processes []string
	all := slices.Clone(related)
	for _, one := range s.running {
		if one.Name != needs.Name {
			continue
		}
		processes = append(processes, one.Process)
		for _, kind := range one.RelatedKinds {
			all, kinds = append(all, resourceOf(kind)), append(kinds, kind.Resource())
		}
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	s.grant.Comments = append(s.grant.Comments, fmt.Sprintf("%s: its customize hook selects kinds at run time. %s",
		needs.Name, s.source(kinds, processes)))
	needs, _, err := s.needs.Of(ctx, declared, all)
	return needs, err
}

// source says which kinds a customize hook selects, and how that is known.
func (s *relatedSeen) source(kinds, processes []string) string {
	from := "No process that runs it was read."
	switch {
	case s.err != nil:
		from = "No process was read: " + output.Clean(failure.Text(s.err)) + "."
	case len(kinds) > 0:
		from = "Watched by " + strings.Join(processes, ", ") + ": " + strings.Join(kinds, ", ") + "."
	case len(processes) > 0:
		from = "Watched by " + strings.Join(processes, ", ") + ": none yet."
	}
	if len(s.related) > 0 {
		return from + " By --related: " + strings.Join(s.related, ", ") + "."
	}
	return from + " Add others with --related KIND."
}

// processes returns the controllers of running processes.
func (s *relatedSeen) processes(ctx context.Context) ([]processes.RunningController, error) {
	session, err := s.Open(ctx, s.Invocation)
	if err != nil {
		return nil, err
	}
	return session.RunningControllers(ctx)
}

// offline stands for the cluster if there is none.
type offline struct {
	// why is why there is no cluster.
	why   error
	kinds *workspace.Kinds
}

// connect finds the cluster. Controllers in files do not need one: without it, r.offline is set.
func (r *rbacRun) connect(ctx context.Context, in rbacInput) (*rest.Config, error) {
	cluster, err := r.Cluster.Find()
	if err == nil {
		r.client, err = client.New(cluster)
	}
	if r.showUsed || r.everything || len(in.names) > 0 {
		return cluster.Config, err
	}
	if err == nil {
		_, err = r.client.API.Kinds(ctx)
	}
	if !errors.Is(err, manager.ErrNoCluster) && !errors.Is(err, userclient.ErrUnreachable) {
		return cluster.Config, err
	}
	kinds, wrong := workspace.NewKinds(in.definitions)
	r.offline = &offline{why: err, kinds: kinds}
	return &rest.Config{}, wrong
}

// addCRDs says how to assume nothing.
const addCRDs = "Add their CRDs to the files to be sure."

// explain adds what was assumed to an error that may be due to it.
func (o *offline) explain(err error) error {
	if err == nil || o == nil || len(o.kinds.Assumed()) == 0 {
		return err
	}
	return command.WithHint(err, "without a cluster, "+strings.Join(o.kinds.Assumed(), ", ")+" are assumed to be namespaced. "+addCRDs)
}

// comments say what was assumed.
func (o *offline) comments(impersonates bool) []string {
	all := []string{"The cluster was not read: " + output.Clean(failure.Text(o.why)) + "."}
	if assumed := o.kinds.Assumed(); len(assumed) > 0 {
		all = append(all, "Assumed to be namespaced: "+strings.Join(assumed, ", ")+". "+addCRDs)
	}
	if impersonates {
		all = append(all, "Assumed to be older than Kubernetes 1.36: use --impersonation=constrained for a newer one.")
	}
	return all
}
