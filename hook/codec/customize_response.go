package codec

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
)

// DecodeCustomizeResponse decodes the response to a hook.CustomizeRequest by the rules of
// DecodeSyncResponse. It rejects a missing list and misspelled selectors, which would
// otherwise select nothing or everything.
func DecodeCustomizeResponse(data []byte, d Decoding) (*hook.CustomizeResponse, error) {
	r, out := customizeReader{newReader(data, d)}, &hook.CustomizeResponse{}
	rules := requiredList{name: "relatedResources", required: true}
	if err := r.documentWithList(&rules, []field{{rules.name, required(r.reader, &rules, &out.Related, r.relatedRule)}}); err != nil {
		return nil, r.malformed(err)
	}
	return out, nil
}

// customizeReader reads rules.
type customizeReader struct{ *reader }

func (r customizeReader) relatedRule(rule *hook.RelatedRule) error {
	fields := []field{
		{"apiVersion", nonEmpty{&rule.APIVersion}},
		{"resource", nonEmpty{&rule.Resource}},
		{"labelSelector", r.selector(&rule.LabelSelector)},
		{"namespaceSelector", r.selector(&rule.NamespaceSelector)},
		{"namespace", &rule.Namespace},
		{"names", r.stringList(&rule.Names)},
	}
	unknown, err := r.fieldsAndUnknown(fields)
	switch {
	case err != nil:
		return err
	case rule.LabelSelector == nil && rule.NamespaceSelector == nil && rule.Namespace == "" && rule.Names == nil:
		return r.checkMisspelled(unknown, fields)
	}
	return nil
}

// checkMisspelled rejects an unknown field that resembles a selector, if the rule would
// otherwise select everything.
func (r customizeReader) checkMisspelled(unknown []string, fields []field) error {
	for _, name := range unknown {
		if hint := suggestion(name, fields); hint != "" {
			return r.errorAt(fieldPath(name), "unknown field, and no other field limits the selection%s", hint)
		}
	}
	return nil
}

// stringList reads a list of strings. It keeps an empty list distinct from null.
func (r customizeReader) stringList(into *[]string) func() error {
	return optional(r.reader, into, func() error {
		*into = []string{}
		return elements(r.reader, "a list", into, r.nonNullText)
	})
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
		return r.members(func(name []byte) error {
			key, value := string(name), ""
			err := r.nonNullText(&value)
			(*into)[key] = value
			return err
		})
	})
}

func (r customizeReader) requirement(q *metav1.LabelSelectorRequirement) error {
	return r.fields(
		field{"key", &q.Key},
		field{"operator", (*string)(&q.Operator)},
		field{"values", r.stringList(&q.Values)},
	)
}
