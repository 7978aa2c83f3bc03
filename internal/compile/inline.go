package compile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/configmap"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// inlineCode is the compiled code of the inline hooks of a controller.
type inlineCode struct {
	of map[*code]call.Program
	// configMaps are the files of the code that is in ConfigMaps.
	configMaps map[object.Ref]map[string]string
	// digest identifies the code.
	digest string
	// outdated is why older code of a ConfigMap is in use; nil if it is not.
	outdated *Refusal
}

// readConfigMap returns a ConfigMap; nil if it does not exist.
type readConfigMap func(ref object.Ref) (*object.Object, error)

// compileCode compiles the code of inline hooks. If that of a ConfigMap cannot be used any more, it
// compiles the one before.
func (c *connection) compileCode(ctx context.Context, configs hookConfigs) (*inlineCode, error) {
	if err := c.checkInline(configs); err != nil || c.env.Store == nil {
		return nil, err
	}
	reader := c.env.Sources
	if reader == nil {
		reader = configmap.NewDryRunReader(c.env.Store)
		defer reader.Close()
	}
	user := c.account.UserFor("")
	reader.Begin()
	read := func(ref object.Ref) (*object.Object, error) { return reader.Read(ctx, user, ref) }
	compiled, failed, err := c.compileFrom(ctx, configs, read)
	if err == nil {
		reader.Accept()
		return compiled, nil
	}
	refusal, refused := errors.AsType[*Refusal](err)
	if !refused || !failed.inConfigMap() {
		return nil, err
	}
	readAccepted := func(ref object.Ref) (*object.Object, error) { return reader.Accepted(user, ref), nil }
	compiled, _, older := c.compileFrom(ctx, configs, readAccepted)
	if older != nil {
		return nil, err
	}
	compiled.outdated = refusal
	return compiled, nil
}

// checkInline returns an error if inline hooks cannot be called.
func (c *connection) checkInline(configs hookConfigs) error {
	for _, one := range configs.withCode() {
		if one.inline.code.inConfigMap() && c.account.PerNamespace() {
			return c.perNamespaceError(one.field)
		}
		if c.env.Store != nil && c.env.Inline == nil {
			return invalid("%s: this program does not run inline hooks; setpoint run does", one.field)
		}
	}
	return nil
}

// compileFrom compiles code with the ConfigMaps that read returns. With an error it returns the code
// that failed.
func (c *connection) compileFrom(ctx context.Context, configs hookConfigs, read readConfigMap) (compiled *inlineCode, failed *code,
	err error) {
	compiled = &inlineCode{of: map[*code]call.Program{}, configMaps: map[object.Ref]map[string]string{}}
	defer func() {
		if err != nil {
			compiled.close()
		}
	}()
	sum := sha256.New()
	for _, one := range configs.codes() {
		script, err := c.scriptOf(one, read)
		if err != nil {
			return compiled, one, err
		}
		program, err := c.env.Inline(ctx, script)
		if err != nil {
			err = one.explain(err)
			return compiled, one, err
		}
		compiled.of[one] = program
		if one.inConfigMap() {
			compiled.configMaps[one.configMap] = script.Sources
		}
		sum.Write(encode(script))
	}
	for _, one := range configs.withCode() {
		if err := compiled.checkFunction(one); err != nil {
			return compiled, one.inline.code, err
		}
	}
	compiled.digest = hex.EncodeToString(sum.Sum(nil))
	return compiled, nil, nil
}

// scriptOf returns the files to compile.
func (c *connection) scriptOf(of *code, read readConfigMap) (call.Script, error) {
	script := call.Script{Controller: c.name, Share: c.share(), Language: of.language, Entry: of.entry, Sources: of.sources,
		Holder: c.object, Place: of.place}
	if !of.inConfigMap() {
		return script, nil
	}
	configMap, err := read(of.configMap)
	switch {
	case apierrors.IsForbidden(err):
		return script, of.refuseConfigMap(api.ReasonForbidden,
			fmt.Sprintf("cannot be read: %v; `setpoint rbac` prints the roles that the controller needs", err))
	case err != nil:
		return script, fmt.Errorf("%s: %w", of.place(""), err)
	}
	script.Holder = of.configMap
	script.Sources, err = of.readFrom(configMap)
	return script, err
}

// explain returns an error of compiling with the place in the spec.
func (c *code) explain(err error) error {
	if wrong, is := errors.AsType[*call.SourceError](err); is {
		return refuse(api.ReasonInvalidSource, "%s%s: %s", c.place(wrong.File), wrong.Position(), wrong.Message)
	}
	return fmt.Errorf("compile %s: %w", c.place(""), err)
}

// checkFunction returns an error if the code has no function for a hook.
func (p *inlineCode) checkFunction(of *hookConfig) error {
	functions := p.of[of.inline.code].Functions()
	if slices.Contains(functions, of.inline.function) {
		return nil
	}
	has := "it has: " + strings.Join(functions, ", ")
	if len(functions) == 0 {
		has = "it has no functions that can be called"
	}
	return of.inline.code.refuse(api.ReasonInvalidSource, of.inline.code.entry,
		fmt.Sprintf("has no function %s for %s.function; %s", of.inline.function, of.field, has))
}

// transport returns what calls the function of a hook. A nil p is that of a controller that never runs.
func (p *inlineCode) transport(of *hookConfig) call.Transport {
	if p == nil {
		return neverCalled{}
	}
	return p.of[of.inline.code].Function(of.inline.function, of.timeout)
}

func (p *inlineCode) close() {
	if p == nil {
		return
	}
	for _, program := range p.of {
		program.Close()
	}
}
