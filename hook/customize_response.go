package hook

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DecodeCustomizeResponse decodes the response to a CustomizeRequest by the rules of
// DecodeResponse. It rejects a missing list and misspelled selectors, which would
// otherwise select nothing or everything.
func DecodeCustomizeResponse(data []byte, d Decoding) (*CustomizeResponse, error) {
	r := customizeResponseReader{reader: newReader(data, d), rules: requiredList{name: fieldRelated, required: true}, out: &CustomizeResponse{}}
	if err := r.decode(); err != nil {
		return nil, r.malformed(err)
	}
	return r.out, nil
}

const fieldRelated = "relatedResources"

type customizeResponseReader struct {
	reader

	rules requiredList
	out   *CustomizeResponse
}

func (r *customizeResponseReader) decode() error {
	if err := r.document(r.field); err != nil {
		return err
	}
	return r.checkRequired(r.rules, []string{r.rules.name})
}

func (r *customizeResponseReader) field(name []byte) error {
	if string(name) == r.rules.name {
		r.out.Related = nil
		return r.list(&r.rules, r.rule)
	}
	return r.unknownListField(r.rules, name, []string{r.rules.name})
}

func (r *customizeResponseReader) rule() error {
	var rule RelatedRule
	var unknown string
	err := r.members(func(name []byte) error {
		switch string(name) {
		case "apiVersion":
			return r.optionalString(&rule.APIVersion)
		case "resource":
			return r.optionalString(&rule.Resource)
		case "namespace":
			return r.optionalString(&rule.Namespace)
		case "names":
			rule.Names = nil
			return r.stringList(&rule.Names)
		case "labelSelector":
			return r.selector(&rule.LabelSelector)
		case "namespaceSelector":
			return r.selector(&rule.NamespaceSelector)
		}
		unknown = string(name)
		return r.rejectUnknown(name, ruleFields())
	})
	if err != nil {
		return err
	}
	r.out.Related = append(r.out.Related, rule)
	return r.checkRule(rule, unknown)
}

func ruleFields() []string {
	return []string{"apiVersion", "resource", "labelSelector", "namespaceSelector", "namespace", "names"}
}

func (r *customizeResponseReader) checkRule(rule RelatedRule, unknown string) error {
	switch {
	case rule.APIVersion == "":
		return r.errorAt(".apiVersion", "required")
	case rule.Resource == "":
		return r.errorAt(".resource", "required")
	case rule.LabelSelector == nil && rule.NamespaceSelector == nil && rule.Namespace == "" && rule.Names == nil:
		return r.checkMisspelled(unknown, ruleFields())
	}
	return nil
}

// checkMisspelled rejects an unknown field that resembles a selector, if the rule would
// otherwise select everything.
func (r *customizeResponseReader) checkMisspelled(unknown string, fields []string) error {
	if hint := suggestion(unknown, fields); hint != "" {
		return r.errorAt(fieldPath(unknown), "unknown field, and no other field limits the selection%s", hint)
	}
	return nil
}

// stringList reads a list of strings. It keeps an empty list distinct from null.
func (r *customizeResponseReader) stringList(into *[]string) error {
	if r.null() {
		return r.skip()
	}
	*into = []string{}
	return r.elements("a list", func() error {
		var word string
		err := r.string(&word)
		*into = append(*into, word)
		return err
	})
}

func (r *customizeResponseReader) selector(into **metav1.LabelSelector) error {
	*into = nil
	if r.null() {
		return r.skip()
	}
	s := &metav1.LabelSelector{}
	*into = s
	fields := []string{"matchLabels", "matchExpressions"}
	var unknown string
	err := r.members(func(name []byte) error {
		switch string(name) {
		case "matchLabels":
			return r.matchLabels(s)
		case "matchExpressions":
			s.MatchExpressions = nil
			return r.optional(func() error { return r.requirement(s) })
		}
		unknown = string(name)
		return r.rejectUnknown(name, fields)
	})
	if err == nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		err = r.checkMisspelled(unknown, fields)
	}
	return err
}

func (r *customizeResponseReader) matchLabels(s *metav1.LabelSelector) error {
	s.MatchLabels = nil
	if r.null() {
		return r.skip()
	}
	s.MatchLabels = map[string]string{}
	return r.members(func(name []byte) error {
		key := string(name)
		var value string
		err := r.string(&value)
		s.MatchLabels[key] = value
		return err
	})
}

func (r *customizeResponseReader) requirement(s *metav1.LabelSelector) error {
	var q metav1.LabelSelectorRequirement
	var operator string
	err := r.members(func(name []byte) error {
		switch string(name) {
		case "key":
			return r.optionalString(&q.Key)
		case "operator":
			return r.optionalString(&operator)
		case "values":
			q.Values = nil
			return r.stringList(&q.Values)
		}
		return r.rejectUnknown(name, []string{"key", "operator", "values"})
	})
	q.Operator = metav1.LabelSelectorOperator(operator)
	s.MatchExpressions = append(s.MatchExpressions, q)
	return err
}
