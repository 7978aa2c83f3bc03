package compile

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/configmap"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// VersionData is what a ControllerRevision stores of a version: what a change of the logic changes.
type VersionData struct {
	Hooks           json.RawMessage `json:"hooks"`
	EndpointConfigs json.RawMessage `json:"endpointConfigs,omitempty"`
	// ConfigMaps have the code of inline hooks at that time.
	ConfigMaps []CodeConfigMap `json:"configMaps,omitempty"`
}

// CodeConfigMap has the files of a ConfigMap with code.
type CodeConfigMap struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Data      map[string]string `json:"data"`
}

// formerLogic is the version that reconciles the parents which have not moved.
type formerLogic struct {
	logic controller.Logic
	hooks hooks
}

// compileRollout compiles how parents move to the hooks of a controller, and the version before; nil if all parents
// have moved.
func (k Kind) compileRollout(ctx context.Context, o *object.Object, d *neutralSpec, c *connection) (*Rollout, *formerLogic, error) {
	if d.rollout == nil {
		return nil, nil, nil
	}
	r := &Rollout{Spec: d.rollout}
	var err error
	if when := d.rollout.Rollback.When; when != "" {
		r.When, err = c.env.parentExpression("spec.rollout.rollback.when", when)
	}
	if err != nil || c.env.Store == nil || c.env.checksCode {
		return r, nil, err // It never runs.
	}
	if r.Data, err = c.versionOf(o); err != nil {
		return nil, nil, err
	}
	if r.Version = k.revisionName(o, r.Data); c.env.FormerLogic == nil {
		return r, nil, nil
	}
	name, stored, err := c.env.FormerLogic(ctx, o, r.Version)
	if err != nil || name == "" {
		return r, nil, err
	}
	former, err := c.connectFormer(ctx, name, stored)
	if err != nil {
		return nil, nil, refuseFormer(err)
	}
	if now, then := d.hooks.customize, former.hooks.customize; now != nil && then != nil && now.wire.Version != then.wire.Version {
		return nil, nil, invalid("spec.hooks.customize.version: cannot change from %s to %s in a rollout; remove spec.rollout for this "+
			"change", then.wire.Version, now.wire.Version)
	}
	return r, former, nil
}

// refuseFormer says that the version before cannot be called.
func refuseFormer(err error) error {
	if refusal, is := errors.AsType[*Refusal](err); is {
		return refuse(refusal.Reason,
			"the version before, which parents that have not moved need: %w; without spec.rollout all parents move at once", refusal.Err)
	}
	return fmt.Errorf("the version before: %w", err)
}

// versionOf returns what identifies the logic of a controller, in one form for equal ones.
func (c *connection) versionOf(o *object.Object) (json.RawMessage, error) {
	version := VersionData{Hooks: o.Field("spec", "hooks"), EndpointConfigs: o.Field("spec", "endpointConfigs")}
	for ref, files := range c.inline.configMaps {
		version.ConfigMaps = append(version.ConfigMaps, CodeConfigMap{ref.Namespace, ref.Name, files})
	}
	slices.SortFunc(version.ConfigMaps, func(a, b CodeConfigMap) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return version.canonical()
}

// canonical returns the version in one form for equal ones.
func (v *VersionData) canonical() (json.RawMessage, error) {
	sorted, err := object.DecodeExact(encode(v))
	if err != nil {
		return nil, fmt.Errorf("read spec.hooks: %w", err)
	}
	return json.Marshal(sorted)
}

// Equal reports whether two versions are the same one.
func (v *VersionData) Equal(other *VersionData) (bool, error) {
	a, err := v.canonical()
	if err != nil {
		return false, err
	}
	b, err := other.canonical()
	return bytes.Equal(a, b), err
}

// versionDigits is how many hex digits of its digest the name of a version has.
const versionDigits = 10

// revisionName returns text such as "compositecontroller-teams-5f2b…". It differs between versions, and
// between controllers of one name.
func (k Kind) revisionName(o *object.Object, data []byte) string {
	sum := sha256.Sum256(append([]byte(o.UID()+"\n"), data...))
	prefix := strings.ToLower(k.Resource.Kind) + "-" + o.Name()
	prefix = prefix[:min(len(prefix), validation.DNS1123SubdomainMaxLength-versionDigits-1)]
	return strings.TrimRight(prefix, ".-") + "-" + hex.EncodeToString(sum[:])[:versionDigits]
}

// connectFormer returns what calls the hooks of a stored version.
func (c *connection) connectFormer(ctx context.Context, name string, stored json.RawMessage) (*formerLogic, error) {
	var declared struct {
		Hooks           api.Hooks
		EndpointConfigs []api.EndpointConfig
		ConfigMaps      []CodeConfigMap
	}
	if err := json.Unmarshal(stored, &declared); err != nil {
		return nil, invalid("read its ControllerRevision: %w", err)
	}
	var files []*object.Object
	for _, one := range declared.ConfigMaps {
		file, err := one.asObject()
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	var f formerLogic
	var err error
	if f.hooks, err = readSetpointHooks(declared.Hooks, declared.EndpointConfigs); err != nil {
		return nil, err
	}
	then := *c
	then.inline, then.closers = nil, nil
	then.env.Sources = configmap.NewDryRunReader(c.env.Store, files...)
	defer then.env.Sources.Close()
	f.logic, err = then.connect(ctx, &f.hooks)
	f.logic.Version = name
	c.closers = append(c.closers, then.closers...)
	return &f, err
}

// asObject returns the ConfigMap as it was.
func (m CodeConfigMap) asObject() (*object.Object, error) {
	return object.Encode(map[string]any{
		"apiVersion": object.ConfigMaps.APIVersion(), "kind": object.ConfigMaps.Kind,
		"metadata": map[string]any{"namespace": m.Namespace, "name": m.Name}, "data": m.Data,
	})
}

// setLogic sets the hooks of a program, and those of parents that have not moved.
func setLogic(p *composite.Program, logic controller.Logic, of *hooks, r *Rollout, former *formerLogic) {
	p.Sync, p.Finalize, p.Customize = logic.Sync, logic.Finalize, logic.Customize
	if of.customize != nil {
		p.Scope.Version = of.customize.wire.Version
	}
	if r != nil {
		p.Version = r.Version
	}
	if former == nil {
		return
	}
	p.Previous = &former.logic
	if then := former.hooks.customize; of.customize == nil && then != nil {
		p.Scope.Version = then.wire.Version
	}
}
