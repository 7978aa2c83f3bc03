package hook

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Customizer selects the related objects that a hook receives along with a parent and
// its children. The response must depend on the request alone: Setpoint caches it until
// the parent's visible state changes.
//
// Customize obeys the rules of Hook.Call.
type Customizer interface {
	Customize(ctx context.Context, req *CustomizeRequest) (*CustomizeResponse, error)
}

// CustomizerFunc adapts a function to a Customizer.
type CustomizerFunc func(ctx context.Context, req *CustomizeRequest) (*CustomizeResponse, error)

// Customize calls f.
func (f CustomizerFunc) Customize(ctx context.Context, req *CustomizeRequest) (*CustomizeResponse, error) {
	return f(ctx, req)
}

// CustomizeRequest asks for the rules that select a parent's related objects. Both
// fields are read-only.
type CustomizeRequest struct {
	Controller json.RawMessage
	Parent     json.RawMessage
}

// CustomizeResponse selects related objects. An empty list selects none.
type CustomizeResponse struct {
	Related []RelatedRule `json:"relatedResources"`
}

// RelatedRule selects objects of one kind: by names in a namespace, or by labels in one
// namespace, in all namespaces, or in namespaces with matching labels. A rule with only
// APIVersion and Resource selects all objects of the kind.
type RelatedRule struct {
	APIVersion        string                `json:"apiVersion"`
	Resource          string                `json:"resource"`
	LabelSelector     *metav1.LabelSelector `json:"labelSelector,omitempty"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	Namespace         string                `json:"namespace,omitempty"`
	Names             []string              `json:"names,omitempty"`
}

// DecodeCustomizeResponse decodes the response to a CustomizeRequest by the rules of
// DecodeResponse. It rejects a missing list and misspelled selectors, which would
// otherwise select nothing or everything.
func DecodeCustomizeResponse(data []byte, d Decoding) (*CustomizeResponse, error) {
	r, out := customizeReader{newReader(data, d)}, &CustomizeResponse{}
	rules := requiredList{name: "relatedResources", required: true}
	if err := r.documentWithList(&rules, []field{{rules.name, required(r.reader, &rules, &out.Related, r.relatedRule)}}); err != nil {
		return nil, r.malformed(err)
	}
	return out, nil
}

// customizeReader reads rules.
type customizeReader struct{ *reader }

func (r customizeReader) relatedRule() (RelatedRule, error) {
	var rule RelatedRule
	fields := []field{
		{"apiVersion", r.text(&rule.APIVersion)},
		{"resource", r.text(&rule.Resource)},
		{"labelSelector", r.selector(&rule.LabelSelector)},
		{"namespaceSelector", r.selector(&rule.NamespaceSelector)},
		{"namespace", r.text(&rule.Namespace)},
		{"names", r.stringList(&rule.Names)},
	}
	unknown, err := r.fieldsAndUnknown(fields)
	if err == nil {
		err = r.require(given{".apiVersion", rule.APIVersion}, given{".resource", rule.Resource})
	}
	switch {
	case err != nil:
		return rule, err
	case rule.LabelSelector == nil && rule.NamespaceSelector == nil && rule.Namespace == "" && rule.Names == nil:
		return rule, r.checkMisspelled(unknown, fields)
	}
	return rule, nil
}

// checkMisspelled rejects an unknown field that resembles a selector, if the rule would
// otherwise select everything.
func (r customizeReader) checkMisspelled(unknown string, fields []field) error {
	if hint := suggestion(unknown, namesOf(fields)); hint != "" {
		return r.errorAt(fieldPath(unknown), "unknown field, and no other field limits the selection%s", hint)
	}
	return nil
}

// stringList reads a list of strings. It keeps an empty list distinct from null.
func (r customizeReader) stringList(into *[]string) func() error {
	read := list(r.reader, into, r.string)
	return func() error {
		isNull := r.null()
		err := read()
		if *into == nil && !isNull {
			*into = []string{}
		}
		return err
	}
}

func (r customizeReader) selector(into **metav1.LabelSelector) func() error {
	return optional(r.reader, into, func() error {
		s := &metav1.LabelSelector{}
		*into = s
		fields := []field{
			{"matchLabels", r.matchLabels(&s.MatchLabels)},
			{"matchExpressions", list(r.reader, &s.MatchExpressions, r.requirement)},
		}
		unknown, err := r.fieldsAndUnknown(fields)
		if err == nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
			err = r.checkMisspelled(unknown, fields)
		}
		return err
	})
}

func (r customizeReader) matchLabels(into *map[string]string) func() error { //nolint:gocritic // the reader sets it
	return optional(r.reader, into, func() error {
		*into = map[string]string{}
		return r.members(func(name []byte) (err error) {
			key := string(name)
			(*into)[key], err = r.string()
			return err
		})
	})
}

func (r customizeReader) requirement() (metav1.LabelSelectorRequirement, error) {
	var q metav1.LabelSelectorRequirement
	err := r.fields(
		field{"key", r.text(&q.Key)},
		field{"operator", r.text((*string)(&q.Operator))},
		field{"values", r.stringList(&q.Values)},
	)
	return q, err
}
